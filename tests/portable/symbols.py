# SPDX-License-Identifier: Apache-2.0
"""symbols.py FILE|FOLDER...: each, or each library right in the folder, runs on glibc 2.28 or newer and brings no other library."""

import pathlib
import re
import subprocess
import sys

FLOOR = (2, 28)
GLIBC_2_28 = {
    "libc.so.6",
    "libm.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
}


def output(*command):
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=True
    ).stdout


def versions(text):
    return [tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_(\d[\d.]*)", text)]


def files(arguments):
    for path in map(pathlib.Path, arguments):
        yield from (
            [path]
            if path.is_file()
            else [p for p in sorted(path.glob("*.so*")) if not p.is_symlink()]
        )


def main():
    for file in files(sys.argv[1:]):
        needed = versions(output("readelf", "-V", file))
        assert needed, f"{file}: readelf -V shows no version of glibc"
        newer = [
            line.split()[-1] + "@" + re.search(r"GLIBC_[\d.]+", line)[0]
            for line in output("objdump", "-T", file).splitlines()
            if any(found > FLOOR for found in versions(line))
        ]
        assert (
            max(needed) <= FLOOR
        ), f"{file}: newer than glibc {FLOOR[0]}.{FLOOR[1]}: {' '.join(newer)}"
        dynamic = output("readelf", "-d", file)
        assert not re.search(
            r"RUNPATH|RPATH", dynamic
        ), f"{file}: has a run path"  # would find the stand-ins
        libraries = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        assert libraries <= GLIBC_2_28, f"{file}: brings {sorted(libraries - GLIBC_2_28)}"
        print(f"{file}: glibc {'.'.join(map(str, max(needed)))}, {' '.join(sorted(libraries))}")


main()
