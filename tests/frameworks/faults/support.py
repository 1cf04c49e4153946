# SPDX-License-Identifier: Apache-2.0
"""What the fault tests share: the environment, clients that pause where a fault is wanted, servers of either device.

FARCALL_BUILD names the build tree, FARCALL_VENV the environment (default torch-2.15-cu13).
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "session"))
from harness import BUILD, FARCALL, Client, Server, link_proxy, run, until  # noqa: E402,F401

PROGRAMS = HERE / "programs"
SKIPPED = 77
# How long the link stays away; FARCALL_TEST_CUT_S=30 for the long form (./scripts/test --all).
CUT_S = float(os.environ.get("FARCALL_TEST_CUT_S", "3"))
VENV = os.environ.get("FARCALL_VENV", "torch-2.15-cu13")


def environment_folder(name):
    """Where this environment lies; None if it has not been made."""
    found = subprocess.run([HERE.parent / "venv", "--path", name], capture_output=True, text=True)
    return pathlib.Path(found.stdout.strip()) if found.returncode == 0 else None


def python():
    return environment_folder(VENV) / "bin/python"


def settings(**more):
    auditor = BUILD / "lib/farcall/libfarcall_audit.so"
    env = {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "FARCALL_CACHE_DIR": cache_folder(),
        "LD_AUDIT": str(auditor),
        "FARCALL_VGPU": f"faults-{os.getpid()}",
    }  # as `farcall run` sets them
    return {**env, **more}


_cache = None


def cache_folder():
    global _cache
    _cache = _cache or tempfile.TemporaryDirectory()
    return _cache.name


def start(url, program, *arguments, **more):
    """A program of this folder in the environment's Python; it may `pause` (programs/pause.py)."""
    return Client(
        url,
        python(),
        PROGRAMS / program,
        *arguments,
        environment=settings(**more),
        stdin=subprocess.PIPE,
    )


def go_on(client):
    client.process.stdin.write("\n")
    client.process.stdin.flush()


def told(client):
    """Both outputs' ends, for the message of a failure."""
    return "\n".join(["", *client.out[-10:], "--", *client.err[-25:]])


class FaultTest(unittest.TestCase):
    def through_proxy(self, server):
        proxy = link_proxy.LinkProxy(("127.0.0.1", server.port))
        self.addCleanup(proxy.close)
        return proxy

    def ends_right(self, client):
        self.assertEqual(client.wait(), 0, told(client))
        self.assertEqual(client.out[-1], "right", told(client))


def main(environment=None):
    if environment_folder(environment or VENV) is None:
        print(
            f"skipped: {environment or VENV} is not made; make it with: tests/frameworks/venv {environment or VENV}"
        )
        sys.exit(SKIPPED)
    unittest.main(verbosity=2, warnings="ignore")
