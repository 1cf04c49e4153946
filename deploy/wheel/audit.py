#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless auditwheel finds that a wheel keeps what its tag promises of symbol versions and
libraries."""

import re
import subprocess
import sys


def main() -> int:
    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", sys.argv[1]], capture_output=True, text=True
    )
    found = re.search(
        r'consistent\s+with\s+the\s+following\s+platform\s+tag:\s+"manylinux_(\d+)_(\d+)_x86_64"',
        shown.stdout,
    )
    if not found:
        print(
            f"auditwheel named no manylinux tag: {(shown.stdout + shown.stderr).strip()}",
            file=sys.stderr,
        )
        return 1
    floor = tuple(map(int, found.groups()))
    promised = tuple(map(int, re.search(r"manylinux_(\d+)_(\d+)_", sys.argv[1]).groups()))
    if floor > promised:
        print(
            f"needs manylinux_{floor[0]}_{floor[1]}, the tag says {promised[0]}_{promised[1]}",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
