# SPDX-License-Identifier: Apache-2.0
"""client_exports.py LIBRARY NAMES: the shim exports the API's names and no other, brings no library, and can be loaded late."""

import pathlib
import re
import subprocess
import sys

STATIC_TLS_LIMIT = (
    256  # bytes; glibc keeps a little over 1 KiB for all libraries that are loaded late
)


def exported(library):
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def static_tls(library):
    text = subprocess.run(
        ["readelf", "-lW", library], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"^ +TLS +(?:0x\w+ +){4}(0x\w+)", text, re.M)
    return int(found.group(1), 16) if found else 0


def main():
    library, names_file = sys.argv[1:3]
    names = set(pathlib.Path(names_file).read_text(encoding="utf-8").split())
    found = exported(library)
    assert (
        found == names
    ), f"missing {sorted(names - found)[:5]}, foreign {sorted(found - names)[:5]}"
    needed = subprocess.run(
        ["readelf", "-d", library], capture_output=True, text=True, check=True
    ).stdout
    assert not re.search(r"NEEDED.*(stdc\+\+|sodium|gcc_s)", needed), needed
    assert static_tls(library) <= STATIC_TLS_LIMIT, static_tls(library)


main()
