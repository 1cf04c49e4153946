#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs an installed tree into a wheel: `farcall` goes into the environment's bin/, the drop-in libraries into its lib/farcall, side by side as in any other tree.

The CPU device stays behind: it belongs to servers, and needs LLVM and a newer glibc."""
import argparse
import os
import re
import shutil
import tempfile
from pathlib import Path

from wheel.wheelfile import WheelFile

ROOT = Path(__file__).resolve().parent.parent.parent
TAG = "py3-none-manylinux_2_28_x86_64"

METADATA = """\
Metadata-Version: 2.1
Name: farcall
Version: {version}
Summary: Makes a GPU on another machine look local: the client of Farcall
License: Apache-2.0
Requires-Python: >=3.8
Classifier: Operating System :: POSIX :: Linux
Classifier: Environment :: GPU :: NVIDIA CUDA
Description-Content-Type: text/markdown

The client: `farcall run --endpoint tcp://gpu-host:7717 -- python train.py` runs an unmodified CUDA program on
the GPU of another machine, where `farcall serve` listens. `farcall doctor` says what stands in the way.
The server and the CPU device are not in this package.
"""
WHEEL = f"Wheel-Version: 1.0\nGenerator: farcall\nRoot-Is-Purelib: false\nTag: {TAG}\n"


def version() -> str:
    return re.search(r"project\(farcall VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def copy_real(source: Path, target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    os.chmod(target, mode)


def lay_out(stage: Path, tree: Path) -> None:
    """The wheel's folders: <name>.data/scripts becomes bin/, <name>.data/data the prefix itself."""
    base = f"farcall-{version()}"
    data, info = tree / f"{base}.data", tree / f"{base}.dist-info"
    copy_real(stage / "bin/farcall", data / "scripts/farcall", 0o755)
    for folder in ("lib/farcall", "lib/farcall/thin"):
        for library in sorted((stage / folder).glob("*.so*")):
            if not library.is_symlink():
                copy_real(library, data / "data" / folder / library.name, 0o755)
    for source in sorted((Path(__file__).parent / "farcall").glob("*.py")):
        copy_real(source, tree / "farcall" / source.name, 0o644)
    (tree / "farcall/version.py").write_text(
        f'# SPDX-License-Identifier: Apache-2.0\nVERSION = "{version()}"\n')
    info.mkdir()
    (info / "METADATA").write_text(METADATA.format(version=version()))
    (info / "WHEEL").write_text(WHEEL)
    copy_real(ROOT / "LICENSE", info / "LICENSE", 0o644)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", type=Path, required=True, help="what `cmake --install` wrote")
    parser.add_argument("--target", type=Path, required=True, help="folder for the wheel")
    arguments = parser.parse_args()
    target = arguments.target / f"farcall-{version()}-{TAG}.whl"
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        lay_out(arguments.stage, Path(folder))
        with WheelFile(target, "w") as wheel:
            wheel.write_files(folder)
    print(target)


if __name__ == "__main__":
    main()
