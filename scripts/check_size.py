#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no hand-written file has more than 500 lines, and no function more than 80.

One that reads better whole says why: a comment `Long: ...` just above the function, or among the
first ten lines of the file. Functions of C++ are found by their indentation, which clang-format
keeps: those of namespaces and of classes, not those within functions.
"""

import ast
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAX_FILE, MAX_FUNCTION = 500, 80
CODE = re.compile(r"\.(cc|h|c|cu|cuh|py|sh)$")
GENERATED = ("codegen/golden/", "tests/fuzz/corpus/")
REASON = re.compile(r"^\s*(//|#) Long: \S")
# What opens a block but is no function; a function's first line has a parenthesis.
BLOCK = re.compile(r"\s*(namespace|class|struct|enum|union|extern|if|for|while|switch|do|#)\b")
LABEL = re.compile(r"\s*(public|private|protected):")


def cpp_functions(lines):
    """(number of its first line, lines) of each function, by the brace that ends it."""
    for indent in (0, 2):
        end = re.compile(rf" {{{indent}}}\}}(\s*//.*)?$")
        deeper = re.compile(rf" {{{indent + 1},}}|#|$")
        for last, line in enumerate(lines):
            if not end.match(line):
                continue
            first = last - 1
            while first >= 0 and (deeper.match(lines[first]) or LABEL.match(lines[first])):
                first -= 1
            if first >= 0 and "(" in lines[first] and not BLOCK.match(lines[first]):
                yield first + 1, last - first + 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            yield first, node.end_lineno - first + 1


def functions(path, text):
    if path.endswith(".py"):
        return python_functions(text)
    return () if path.endswith(".sh") else cpp_functions(text.split("\n"))


def is_explained(lines, number):
    """Whether a reason is in the comment just above that line."""
    at = number - 2
    while at >= 0 and re.match(r"\s*(//|#|template\b)", lines[at]):
        if REASON.match(lines[at]):
            return True
        at -= 1
    return False


def findings(path, text):
    lines = text.split("\n")
    count = len(lines) - (not lines[-1])
    if count > MAX_FILE and not any(REASON.match(line) for line in lines[:10]):
        yield f"{path}: {count} lines, {MAX_FILE} at most: split it by subject"
    for number, length in functions(path, text):
        if length > MAX_FUNCTION and not is_explained(lines, number):
            yield (
                f"{path}:{number}: a function of {length} lines, {MAX_FUNCTION} at most: "
                "split it, or say above it why not (Long: ...)"
            )


def main():
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = False
    for path in listed.stdout.splitlines():
        full = os.path.join(ROOT, path)
        if path.startswith(GENERATED) or not CODE.search(path) or not os.path.isfile(full):
            continue
        with open(full, errors="replace") as source:
            for finding in findings(path, source.read()):
                found = True
                print("  " + finding, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
