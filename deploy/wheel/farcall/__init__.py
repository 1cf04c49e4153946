# SPDX-License-Identifier: Apache-2.0
"""Where pip put Farcall's client: the `farcall` program and the folder of its drop-in libraries.

`python -m farcall ...` is `farcall ...`. Importing changes nothing: LD_LIBRARY_PATH counts when a process starts, so a program
is started by `farcall run -- CMD`, or with library_folder() first in LD_LIBRARY_PATH."""

import os
import sys
import sysconfig

from .version import VERSION as __version__  # noqa: F401


def _schemes():
    """The prefixes that pip may have installed into: this environment's, the user's."""
    yield sysconfig.get_path("scripts"), sysconfig.get_path("data")
    user = f"{os.name}_user"
    if user in sysconfig.get_scheme_names():
        yield sysconfig.get_path("scripts", user), sysconfig.get_path("data", user)


def executable() -> str:
    """The path of `farcall`.   Errors  FileNotFoundError: the package was installed without its scripts."""
    for scripts, _ in _schemes():
        path = os.path.join(scripts, "farcall")
        if os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(
        "bin/farcall is not beside this Python: install the wheel with pip, without --target"
    )


def library_folder() -> str:
    """The folder for LD_LIBRARY_PATH.   Errors  FileNotFoundError, as executable()."""
    for _, data in _schemes():
        path = os.path.join(data, "lib", "farcall")
        if os.path.exists(os.path.join(path, "libcuda.so.1")):
            return path
    raise FileNotFoundError(
        "lib/farcall is not beside this Python: install the wheel with pip, without --target"
    )


def main() -> None:
    os.execv(executable(), ["farcall", *sys.argv[1:]])
