#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wraps the text of Markdown pages at 100 columns. Code, tables, headings and HTML stay as they are.

    codegen/wrap_markdown.py PAGE...      rewrites pages in place

A paragraph or item of a list is touched only if one of its lines is longer.
"""

import pathlib
import re
import sys

COLUMNS = 100
FENCE = re.compile(r"^\s*(```+|~~~+)")
ITEM = re.compile(r"^(\s*)((?:[-*+]|\d+[.)])\s+)?")
BEGINS_BLOCK = re.compile(r"^\s*(#+ |\||<|```|~~~|([-*+]|\d+[.)])\s)")
VERBATIM = re.compile(r"^\s*(#|\||<|---)")
MARK_ONLY_AT_START = re.compile(
    r"^([-*+]$|>|#+$|\||=|\d+[.)]$)"
)  # what would begin a block at a line's start
CODE = re.compile(r"(`+)(.+?)\1")
LONGEST_CODE = 70  # columns; longer spans may be split


def _fill(text: str, first: str, rest: str) -> list[str]:
    def keep_together(span: re.Match) -> str:
        return (
            span.group(0).replace(" ", "\0")
            if len(span.group(0)) <= LONGEST_CODE
            else span.group(0)
        )

    lines, line = [], first
    is_empty = True
    for word in CODE.sub(keep_together, text).split():
        if not is_empty and len(line) + 1 + len(word) > COLUMNS:
            head, _, last = line.rpartition(" ")
            if MARK_ONLY_AT_START.match(word) and head.strip():
                lines.append(head)
                line = rest + last + " " + word
            else:
                lines.append(line)
                line = rest + word
        else:
            line += word if is_empty else " " + word
        is_empty = False
    return [line.replace("\0", " ") for line in [*lines, line]]


def _block_end(lines: list[str], begin: int) -> int:
    """Behind the last line of the paragraph or item that begins there."""
    end = begin + 1
    while end < len(lines) and not lines[end - 1].endswith("  "):
        if not lines[end].strip() or BEGINS_BLOCK.match(lines[end]):
            break
        end += 1
    return end


def _verbatim_end(lines: list[str], begin: int) -> int:
    """Behind what is kept as it is there; `begin` if that is text."""
    line = lines[begin]
    fence = FENCE.match(line)
    if fence:
        end = begin + 1
        while end < len(lines) and not lines[end].strip().startswith(fence.group(1)):
            end += 1
        return min(end + 1, len(lines))
    if line.strip().startswith("<!--"):
        end = begin
        while end < len(lines) and "-->" not in lines[end]:
            end += 1
        return min(end + 1, len(lines))
    is_code = line.startswith("    ") and not ITEM.match(line).group(2)
    return begin + 1 if not line.strip() or VERBATIM.match(line) or is_code else begin


def wrap(page: str) -> str:
    lines, wrapped, at = page.split("\n"), [], 0
    while at < len(lines):
        end = _verbatim_end(lines, at)
        if end > at:
            wrapped += lines[at:end]
            at = end
            continue
        end = _block_end(lines, at)
        block = lines[at:end]
        if max(map(len, block)) > COLUMNS:
            indent, mark = ITEM.match(block[0]).groups(default="")
            text = " ".join([block[0][len(indent + mark) :], *block[1:]])
            block = _fill(text, indent + mark, indent + " " * len(mark))
            block[-1] += "  " if lines[end - 1].endswith("  ") else ""
        wrapped += block
        at = end
    return "\n".join(wrapped)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        path.write_text(wrap(path.read_text()))
