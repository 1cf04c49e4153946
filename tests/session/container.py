# SPDX-License-Identifier: Apache-2.0
"""Runs a program as a container would that has less than a machine: bubblewrap's namespaces, without Docker.

Container("no-shm").run(url, "/path/of/a.out")
"""

import os
import pathlib
import resource
import shutil
import subprocess
import sys

from harness import BUILD

HERE = pathlib.Path(__file__).resolve().parent
NODES = ("null", "zero", "full", "random", "urandom")  # and no /dev/nvidia*, no /dev/shm
LIMIT_S = float(os.environ.get("FARCALL_TEST_LIMIT_S", "240"))  # only ends a test that has failed


def available():
    """Why not, or nothing."""
    if not shutil.which("bwrap"):
        return "no bwrap: apt-get install bubblewrap"
    done = subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"], capture_output=True, text=True)
    return (
        "" if done.returncode == 0 else f"bwrap cannot make namespaces here: {done.stderr.strip()}"
    )


def _bare_devices():
    flags = ["--tmpfs", "/dev"]
    for node in NODES:
        flags += ["--dev-bind", f"/dev/{node}", f"/dev/{node}"]
    return flags


def _shown(folder):
    """Bound at its own place, and each folder above it open to all, as on a machine."""
    flags = []
    for above in reversed(pathlib.Path(folder).parents):
        if len(above.parts) > 2:
            flags += ["--perms", "0755", "--dir", str(above)]
    return [*flags, "--ro-bind", str(folder), str(folder)]


def _nobody():
    """The user's folders that programs are read from are there, his own is not: root's is closed to others."""
    flags = []
    if os.getuid() == 0:
        home = pathlib.Path.home()
        flags += ["--tmpfs", str(home)]
        for folder in (home / ".pyenv", home / ".cache/farcall/venvs"):
            if folder.exists():
                flags += _shown(folder)
        flags += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return flags


class Container:
    KINDS = ("no-devices", "read-only", "nobody", "few-files", "small-stack", "no-proc")

    def __init__(self, kind, stack_kib=256):
        self.kind = kind
        self.flags = ["--ro-bind", "/", "/", "--perms", "1777", "--tmpfs", "/tmp"]
        if "/tmp" in (str(BUILD.parents[-2]), str(HERE.parents[-2])):
            self.flags += [*_shown(HERE.parents[1]), *_shown(BUILD)]
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}
        for name in (
            "LD_PRELOAD",
            "ASAN_OPTIONS",
        ):  # a sanitizer's runtime, for what runs inside alone
            if name in os.environ:
                self.flags += ["--setenv", name, os.environ[name]]
        self.before, self.limits = [], {}
        self.flags += ["--tmpfs", "/proc"] if kind == "no-proc" else ["--proc", "/proc"]
        self.flags += _bare_devices()
        if kind == "read-only":
            self.flags += ["--remount-ro", "/tmp", "--remount-ro", "/dev"]
            self.environment["HOME"] = (
                "/"  # root's own may hold a cache that nothing is left to write to
            )
        elif kind == "nobody":
            self.flags += _nobody()
            self.environment["HOME"] = "/nonexistent"
            if os.getuid() == 0:
                self.before = [
                    "setpriv",
                    "--reuid=65534",
                    "--regid=65534",
                    "--clear-groups",
                    "--no-new-privs",
                    "--",
                ]
        elif kind == "few-files":
            self.limits[resource.RLIMIT_NOFILE] = 64
        elif kind == "small-stack":
            self.limits[resource.RLIMIT_STACK] = stack_kib << 10

    def run(self, *command, **environment):
        def limit():
            for which, value in self.limits.items():
                resource.setrlimit(which, (value, value))

        env = dict(self.environment, **environment)
        return subprocess.run(
            [
                "bwrap",
                *self.flags,
                "--die-with-parent",
                "--chdir",
                "/",
                *self.before,
                *map(str, command),
            ],
            env=env,
            preexec_fn=limit,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )


def reach(url):
    return {"FARCALL_ENDPOINT": url, "LD_LIBRARY_PATH": str(BUILD / "lib/farcall")}


if __name__ == "__main__":
    print(available() or "bwrap works", file=sys.stderr)
