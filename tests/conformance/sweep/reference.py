# SPDX-License-Identifier: Apache-2.0
"""cuda.h as a reference: each function's parameters, its exported name, and the codes that its comment documents."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

DECLARATION = re.compile(
    r"/\*\*((?:(?!\*/).)*)\*/\s*(?:__CUDA_DEPRECATED\s+)?CUresult\s+CUDAAPI\s+(\w+)\s*\(([^;]*?)\)\s*;",
    re.S,
)
CODE = re.compile(r"CUDA_(?:SUCCESS|ERROR_\w+)")


@dataclass
class Function:
    name: str  # as a program writes it
    symbol: str  # as the library exports it
    parameters: list[tuple[str, str]]  # (type, name)
    codes: set[str] = field(default_factory=set)


def parameters_of(text: str) -> list[tuple[str, str]]:
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    text = re.sub(r"\b__dv\([^)]*\)", "", text)
    found = []
    for part in filter(None, (" ".join(part.split()) for part in text.split(","))):
        if part == "void":
            continue
        match = re.fullmatch(r"(.*?[\s*])(\w+)\s*(\[\w*\])?", part)
        if match is None:
            raise ValueError(f"parameter '{part}'")
        kind = match.group(1).replace(" *", "*").strip() + ("*" if match.group(3) else "")
        found.append((kind, match.group(2)))
    return found


def returns_of(comment: str) -> set[str]:
    part = re.split(r"[\\@]returns?\b", comment, maxsplit=1)
    return (
        set(CODE.findall(re.split(r"[\\@](?:note|sa|ref)", part[1], maxsplit=1)[0]))
        if len(part) == 2
        else set()
    )


def codes_by_name(header: str) -> dict[int, str]:
    return {
        int(value): name
        for name, value in re.findall(r"^\s*(CUDA_(?:SUCCESS|ERROR_\w+))\s*=\s*(\d+)", header, re.M)
    }


def read(path: Path) -> tuple[dict[str, Function], dict[int, str]]:
    header = path.read_text(errors="replace")
    macros = dict(re.findall(r"^\s*#\s*define\s+(cu\w+)\s+(cu\w+)\s*$", header, re.M))
    per_thread = re.findall(
        r"^\s*#\s*define\s+(cu\w+)\s+__CUDA_API_PT[SD]Z\((cu\w+)\)", header, re.M
    )
    macros.update({name: symbol for name, symbol in per_thread if symbol != name})
    functions = {}
    for comment, name, parameters in DECLARATION.findall(header):
        if name not in functions:
            functions[name] = Function(
                name, macros.get(name, name), parameters_of(parameters), returns_of(comment)
            )
    return functions, codes_by_name(header)
