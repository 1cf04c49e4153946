#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the documentation: links and their anchors resolve, text has at most 100 columns (code and
tables may have more), docs/README.md names every page, and docs/reference/environment.md names every
environment variable of Farcall that the code reads, once, and no other.

    scripts/check_docs.py          prints each finding; exit 1 if there is one
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]\[]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
VARIABLE = re.compile(r"\bFARCALL_[A-Z][A-Z_0-9]*\b")
COLUMNS = 100
READ = re.compile(
    r'"(FARCALL_[A-Z_0-9]+)"'
)  # as the products name a variable that they read or set
CODE = (
    "cli",
    "client-shim",
    "cpu-device",
    "cuda-abi",
    "pool",
    "proto",
    "quota",
    "server",
    "toolkit",
    "transport",
)


def tracked(*patterns):
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        ROOT / name for name in sorted(set(listed.stdout.splitlines())) if (ROOT / name).is_file()
    ]


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    found, seen = set(), {}
    for heading in re.findall(r"^#+ +(.*)$", FENCE.sub("", page.read_text()), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.add(f"{name}-{count}" if count else name)
    return found


def check_links(page):
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))
    for match in LINK.finditer(text):
        target = match.group(1) or match.group(2)
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"{page.relative_to(ROOT)}: the link to {target} leads nowhere"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            yield f"{page.relative_to(ROOT)}: {file.name} has no heading #{anchor}"


def check_columns(page):
    in_fence = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        in_fence ^= line.lstrip().startswith("```")
        is_text = not in_fence and not re.match(r"\s*\||    |#|<", line)
        if is_text and len(line) > COLUMNS and " " in line.strip():
            yield f"{page.relative_to(ROOT)}:{number}: {len(line)} columns; at most {COLUMNS}"


def check_index():
    index = ROOT / "docs/README.md"
    linked = {
        (index.parent / (match.group(1) or "").partition("#")[0]).resolve()
        for match in LINK.finditer(index.read_text())
    }
    for page in tracked("docs/guide/*.md", "docs/reference/*.md", "docs/internals/*.md"):
        if page not in linked:
            yield f"docs/README.md: no link to {page.relative_to(ROOT / 'docs')}"


def check_variables():
    page = ROOT / "docs/reference/environment.md"
    rows = [
        line.split("|")[1]
        for line in page.read_text().splitlines()
        if line.startswith("| `FARCALL_")
    ]
    listed = [name for row in rows for name in VARIABLE.findall(row)]
    sources = tracked(*(f"{folder}/*.{kind}" for folder in CODE for kind in ("cc", "h")))
    read = {name for source in sources for name in READ.findall(source.read_text(errors="replace"))}
    # A client's settings are variables too: FARCALL_ and the key in capitals.
    keys = re.search(
        r"vector<std::string_view>\{(.*?)\}",
        (ROOT / "client-shim/core/settings/settings.cc").read_text(),
        re.S,
    )
    read |= {f"FARCALL_{key.upper()}" for key in re.findall(r'"([a-z_]+)"', keys.group(1))}
    for name in sorted(read - set(listed)):
        yield f"docs/reference/environment.md: lacks {name}, which the code reads"
    for name in sorted(set(listed) - read):
        yield f"docs/reference/environment.md: nothing reads {name}"
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield f"docs/reference/environment.md: {name} stands there twice"


def main():
    pages = tracked("*.md")
    findings = [
        finding
        for page in pages
        for check in (check_links, check_columns)
        for finding in check(page)
    ]
    findings += [*check_index(), *check_variables()]
    print(
        "\n".join(f"  {finding}" for finding in findings),
        end="\n" if findings else "",
        file=sys.stderr,
    )
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
