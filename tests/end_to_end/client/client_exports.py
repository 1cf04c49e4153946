# SPDX-License-Identifier: Apache-2.0
"""client_exports.py LIBRARY NAMES: the shim exports the API's names and no other, and needs no new glibc if built portably."""
import pathlib
import re
import subprocess
import sys

PORTABLE_FLOOR = (2, 28)


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def glibc_needed(library):
    text = subprocess.run(["readelf", "-V", library], capture_output=True, text=True, check=True).stdout
    return max(tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", text))


def main():
    library, names_file = sys.argv[1:3]
    names = set(pathlib.Path(names_file).read_text(encoding="utf-8").split())
    found = exported(library)
    assert found == names, f"missing {sorted(names - found)[:5]}, foreign {sorted(found - names)[:5]}"
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"NEEDED.*(stdc\+\+|sodium|gcc_s)", needed), needed
    if "--portable" in sys.argv:
        assert glibc_needed(library) <= PORTABLE_FLOOR, glibc_needed(library)


main()
