#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs an installed tree into two wheels.

`farcall`: the farcall command goes into the environment's bin/, the drop-in libraries into its
lib/farcall, side by side as in any other tree. It runs on glibc 2.28.
`farcall-cpu-device`, which `pip install 'farcall[cpu]'` brings too: the software devices, beside
the libraries. They hold LLVM and want a newer glibc.
"""

import argparse
import os
import re
import shutil
import tempfile
from pathlib import Path

from wheel.wheelfile import WheelFile

ROOT = Path(__file__).resolve().parent.parent.parent
TAG = "py3-none-manylinux_{glibc}_x86_64"
GLIBC, DEVICE_GLIBC = "2_28", "2_36"

METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: {summary}
License: Apache-2.0
Requires-Python: >=3.8
{more}Classifier: Operating System :: POSIX :: Linux
Classifier: Environment :: GPU :: NVIDIA CUDA
Description-Content-Type: text/markdown

{text}
"""
CLIENT = {
    "name": "farcall",
    "summary": "Makes a GPU on another machine look local: the client of Farcall",
    "more": "Provides-Extra: cpu\nRequires-Dist: farcall-cpu-device == {version}; extra == 'cpu'\n",
    "text": """\
The client: `farcall run --endpoint tls://gpu-host:7717 -- python train.py` runs an unmodified CUDA program on
the GPU of another machine, where `farcall serve` listens. `farcall doctor` says what stands in the way.
`pip install 'farcall[cpu]'` adds a software CUDA device: `farcall run -- ./program` then needs no GPU.""",
}
DEVICE = {
    "name": "farcall-cpu-device",
    "summary": "A software CUDA device for Farcall, for development and tests without a GPU",
    "more": "Requires-Dist: farcall == {version}\n",
    "text": """\
The CPU device executes PTX on the processor, the dry device counts what a program sends and executes
nothing. `farcall run -- ./program` and `farcall run --device dry -- ./program` use them.""",
}
WHEEL = "Wheel-Version: 1.0\nGenerator: farcall\nRoot-Is-Purelib: false\nTag: {tag}\n"


def version() -> str:
    return re.search(
        r"project\(farcall VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()
    ).group(1)


def copy_real(source: Path, target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    os.chmod(target, mode)


def describe(wheel: dict[str, str], tag: str, tree: Path) -> None:
    info = tree / f"{base_name(wheel)}.dist-info"
    info.mkdir()
    fields = {key: text.replace("{version}", version()) for key, text in wheel.items()}
    (info / "METADATA").write_text(METADATA.format(version=version(), **fields))
    (info / "WHEEL").write_text(WHEEL.format(tag=tag))
    copy_real(ROOT / "LICENSE", info / "LICENSE", 0o644)


def base_name(wheel: dict[str, str]) -> str:
    return f"{wheel['name'].replace('-', '_')}-{version()}"


def lay_out_client(stage: Path, tree: Path) -> None:
    """The wheel's folders: <name>.data/scripts becomes bin/, <name>.data/data the prefix itself."""
    data = tree / f"{base_name(CLIENT)}.data"
    copy_real(stage / "bin/farcall", data / "scripts/farcall", 0o755)
    for folder in ("lib/farcall", "lib/farcall/thin"):
        for library in sorted((stage / folder).glob("*.so*")):
            if not library.is_symlink():
                copy_real(library, data / "data" / folder / library.name, 0o755)
    for source in sorted((Path(__file__).parent / "farcall").glob("*.py")):
        copy_real(source, tree / "farcall" / source.name, 0o644)
    (tree / "farcall/version.py").write_text(
        f'# SPDX-License-Identifier: Apache-2.0\nVERSION = "{version()}"\n'
    )


def lay_out_device(stage: Path, tree: Path) -> None:
    data = tree / f"{base_name(DEVICE)}.data/data"
    files = [
        *(stage / "lib/farcall/device").rglob("*"),
        stage / "libexec/farcall/farcall-ptxas",
        *(stage / "libexec/farcall/ptx-only").rglob("*"),
    ]
    for file in sorted(files):
        # A name that only linkers want is left out; links that programs load by are files in a wheel.
        if file.is_file() and not (file.is_symlink() and file.name.endswith(".so")):
            copy_real(
                file, data / file.relative_to(stage), 0o755 if os.access(file, os.X_OK) else 0o644
            )


def pack(wheel: dict[str, str], glibc: str, lay_out, stage: Path, folder: Path) -> Path:
    tag = TAG.format(glibc=glibc)
    target = folder / f"{base_name(wheel)}-{tag}.whl"
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as made:
        lay_out(stage, Path(made))
        describe(wheel, tag, Path(made))
        with WheelFile(target, "w") as file:
            file.write_files(made)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stage", type=Path, required=True, help="what `cmake --install` wrote")
    parser.add_argument(
        "--target", type=Path, required=True, help="folder for the wheels, whose paths are printed"
    )
    arguments = parser.parse_args()
    print(pack(CLIENT, GLIBC, lay_out_client, arguments.stage, arguments.target))
    if (arguments.stage / "lib/farcall/device/libcuda.so.1").exists():
        print(pack(DEVICE, DEVICE_GLIBC, lay_out_device, arguments.stage, arguments.target))


if __name__ == "__main__":
    main()
