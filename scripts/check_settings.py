#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that packaging/server.toml, which the Debian package installs, names every setting of the server once, and no other.

scripts/check_settings.py          prints each finding; exit 1 if there is one
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = "server/supervisor/options/serve_settings.cc"
FILE = "packaging/server.toml"


def main():
    known = set(re.findall(r'\{\.name = "([a-z_]+)"', (ROOT / CODE).read_text())) | {
        "config_version"
    }
    if len(known) < 2:
        sys.exit(f"  {CODE}: no table there: scripts/check_settings.py has to look elsewhere")
    named = collections.Counter(re.findall(r"^#?([a-z_]+) = ", (ROOT / FILE).read_text(), re.M))
    findings = [f"{FILE}: lacks {name}" for name in sorted(known - set(named))]
    findings += [f"{FILE}: the server knows no {name}" for name in sorted(set(named) - known)]
    findings += [
        f"{FILE}: {name} stands there {count} times"
        for name, count in sorted(named.items())
        if count > 1
    ]
    print("".join(f"  {finding}\n" for finding in findings), end="", file=sys.stderr)
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
