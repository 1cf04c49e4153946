# SPDX-License-Identifier: Apache-2.0
"""A library's first API (cublas.h) as calls of its second: how each parameter becomes one of the function with a suffix."""

from __future__ import annotations

from dataclasses import dataclass

import outputs
from model import ApiModel, Function

SUFFIX = "_v2"
LETTERS = {
    "cublasOperation_t": "Operation",
    "cublasFillMode_t": "Fill",
    "cublasSideMode_t": "Side",
    "cublasDiagType_t": "Diagonal",
}


class FirstApiError(Exception):
    pass


@dataclass(frozen=True)
class Row:
    declaration: str
    second: str
    returns: str
    result: bool
    letters: list[tuple[str, str, int]]  # parameter, what it is, its position
    arguments: list[str]


def _argument(first, second, letters: list[tuple[str, str, int]], name: str, position: int) -> str:
    if first.type == "char":
        if second.type not in LETTERS:
            raise FirstApiError(
                f"{name}: a letter for {second.type}: first_api.py knows {', '.join(LETTERS)}"
            )
        letters.append((first.name, LETTERS[second.type], position))
        return f"{first.name}_"
    if "*" in second.type and "*" not in first.type:
        return f"&{first.name}"
    if ("*" in first.type) != ("*" in second.type):
        raise FirstApiError(f"{name}: {first.type} {first.name} is no {second.type}")
    return first.name


def _row(function: Function, second: Function) -> Row:
    letters: list[tuple[str, str, int]] = []
    theirs = list(second.params[1:])
    arguments = [
        _argument(param, theirs[i], letters, function.name, i + 1)
        for i, param in enumerate(function.params)
    ]
    result = function.returns != "void"
    if result:
        arguments.append("&result")
    elif len(theirs) == len(function.params) + 2:  # in place: what is read is also written
        arguments += arguments[-2:]
    if len(arguments) != len(theirs):
        raise FirstApiError(
            f"{function.name} has {len(function.params)} parameters, {second.name} {len(theirs)}"
        )
    params = [f"{param.type.replace(' *', '*')} {param.name}" for param in function.params]
    declaration = outputs.wrap(f"FIRST_ENTRY {function.returns} {function.name}(", params, ") {")
    return Row(declaration, second.name, function.returns, result, letters, arguments)


def rows(first: ApiModel, second: ApiModel) -> list[Row]:
    """Of the functions that have a second form; the others are written by hand."""
    return [
        _row(function, second.functions[function.name + SUFFIX])
        for function in first.functions.values()
        if function.returns != "cublasStatus_t" and function.name + SUFFIX in second.functions
    ]
