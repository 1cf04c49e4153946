#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tables/*.yaml to C++: one function per row, and the table of them.

    generate.py OUT TABLE...

A table is a list of rules. A rule quotes CUDA's documentation (`rule`) and says where it stands (`source`); its
`cases` have a `name` and either

    call, returns     an expression of a CUDA call, made while earlier work of its stream runs, and whether it returns
                      `early` (before that work is complete), `late` or `either`; `stream` (default 0), `at_return` and
                      `at_end` (conditions on the buffers `at`)
    code, call        the code that the call returns; `given`: statements ahead of it
    do                statements
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

RETURNS = {"early": "kEarly", "late": "kLate", "either": "kEither"}
KEYS = {"name", "call", "returns", "stream", "at_return", "at_end", "code", "given", "do"}


class TableError(Exception):
    """A row that says too little, or nothing this generator knows."""


def quoted(text: str) -> str:
    return '"' + " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"') + '"'


def condition(text: str | None) -> str:
    return f"[&](Buffers& at) -> bool {{ (void)at; return {text}; }}" if text else "nullptr"


def body(case: dict, where: str) -> str:
    unknown = sorted(set(case) - KEYS)
    if unknown:
        raise TableError(f"{where}: unknown key '{unknown[0]}'")
    if "do" in case:
        return case["do"]
    if "returns" in case:
        if case["returns"] not in RETURNS:
            raise TableError(f"{where}: returns '{case['returns']}', one of {', '.join(RETURNS)}")
        return (
            f"CheckReturn(Returns::{RETURNS[case['returns']]}, {case.get('stream', 0)},\n"
            f"            [&](Buffers& at) {{ (void)at; return AsRuntime({case['call']}); }},\n"
            f"            {condition(case.get('at_return'))}, {condition(case.get('at_end'))});"
        )
    if "code" in case:
        return f"{case.get('given', '')}\nEXPECT_CODE({case['code']}, {case['call']});\ncudaGetLastError();"
    raise TableError(f"{where}: neither `do`, nor `returns`, nor `code`")


def generate(tables: list[Path]) -> str:
    functions, rows = [], []
    for path in tables:
        for rule in yaml.safe_load(path.read_text()):
            for case in rule["cases"]:
                where = f"{path.name}: {case.get('name', rule['rule'])}"
                number = len(rows)
                functions.append(f"void Row{number}() {{\n{body(case, where)}\n}}\n")
                rows.append(
                    f"    {{{quoted(path.stem)}, {quoted(rule['rule'])}, {quoted(rule['source'])}, "
                    f"{quoted(case['name'])}, Row{number}}},"
                )
    return "\n".join(
        [
            "// Generated from tests/conformance/tables.",
            '#include "case.h"',
            "",
            "namespace conformance {",
            "namespace {",
            *functions,
            "}  // namespace",
            "const Case kCases[] = {",
            *rows,
            "};",
            f"const size_t kCaseCount = {len(rows)};",
            "}  // namespace conformance",
            "",
        ]
    )


if __name__ == "__main__":
    try:
        Path(sys.argv[1]).write_text(generate([Path(name) for name in sys.argv[2:]]))
    except TableError as error:
        sys.exit(f"generate.py: {error}")
