# SPDX-License-Identifier: Apache-2.0
"""Hooks of mkdocs: ARCHITECTURE.md and a list of the results join the site; links to files of the
source tree become plain text, because the site has no sources."""

import os
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
ARCHITECTURE, RESULTS = "internals/architecture.md", "internals/results.md"
LINK = re.compile(r"(?<!!)\[([^\]\[]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```)", re.M | re.S)


def _title(page):
    return next(
        (line[2:] for line in page.read_text().splitlines() if line.startswith("# ")), page.stem
    )


def _results():
    pages = sorted((DOCS / "results").rglob("*.md"), reverse=True)
    lines = [f"- [{_title(page)}](../{page.relative_to(DOCS)})" for page in pages]
    return (
        "# Results\n\nMeasurements, with command, machine and date.\n\n" + "\n".join(lines) + "\n"
    )


def on_files(files, config):
    files.append(File.generated(config, ARCHITECTURE, abs_src_path=str(ROOT / "ARCHITECTURE.md")))
    files.append(File.generated(config, RESULTS, content=_results()))
    return files


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    source = ROOT / "ARCHITECTURE.md" if here == ARCHITECTURE else DOCS / here

    def link(match):
        text, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        if re.match(r"[a-z]+:", target):
            return match.group(0)
        file = pathlib.Path(os.path.normpath(source.parent / target))
        if file == ROOT / "ARCHITECTURE.md":
            uri = ARCHITECTURE
        elif file == DOCS / "results":
            uri = RESULTS
        elif DOCS in file.parents and file.is_file():
            uri = file.relative_to(DOCS).as_posix()
        elif file.exists() and here != RESULTS:
            return text
        else:
            return match.group(0)
        return f"[{text}]({os.path.relpath(uri, os.path.dirname(here) or '.')}{anchor})"

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)
