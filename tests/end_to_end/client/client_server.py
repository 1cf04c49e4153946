# SPDX-License-Identifier: Apache-2.0
"""A server on the CPU device for one test, and programs run against it."""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "session"))
import harness  # noqa: E402


class Server(harness.Server):
    def __init__(self, token=None):
        super().__init__("--log-level", "warn", token=token)


def run(endpoint, *command, **variables):
    """Runs a program with nothing of this environment but what it needs."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(harness.BUILD / "lib/farcall"),
            "FARCALL_CACHE_DIR": cache,
        }
        environment.update(harness.KEPT)
        if endpoint:
            environment["FARCALL_ENDPOINT"] = endpoint
        environment.update(variables)
        return subprocess.run(
            [str(word) for word in command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=harness.LIMIT_S,
            check=False,
        )
