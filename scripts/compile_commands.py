#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the compile commands of a build folder, a row a source, for editors and clang-tidy.

    scripts/compile_commands.py BUILD FILE      FILE is what compile_commands.json is for one source each

In a unity build CMake's compile_commands.json names files that include several sources. Here each
such source has a row of its own, with the command of the file that includes it.
"""

import json
import pathlib
import re
import sys

INCLUDED = re.compile(r'^#include "([^"]+\.(?:cc|c))"$', re.M)


def units_of(build):
    """(FILE, SOURCES) of each unity file of BUILD."""
    for row in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        file = pathlib.Path(row["file"])
        if file.parent.name == "Unity" and file.exists():
            yield row["file"], INCLUDED.findall(file.read_text())


def rows_of(build):
    """The rows of BUILD/compile_commands.json, each unity file replaced by the sources in it."""
    for row in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        file = pathlib.Path(row["file"])
        if file.parent.name != "Unity" or not file.exists():
            yield row
            continue
        for source in INCLUDED.findall(file.read_text()):
            command = row["command"].replace(f" -c {row['file']}", f" -c {source}")
            yield {**row, "file": source, "command": command}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, target = map(pathlib.Path, sys.argv[1:])
    text = json.dumps(list(rows_of(build)), indent=0)
    if target.is_symlink() or (target.exists() and target.read_text() != text):
        target.unlink()
    if not target.exists():
        target.write_text(text)


if __name__ == "__main__":
    main()
