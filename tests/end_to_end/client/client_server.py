# SPDX-License-Identifier: Apache-2.0
"""A server on the CPU device for one test, and programs run against it."""

import os
import pathlib
import re
import subprocess
import tempfile

BUILD = pathlib.Path(os.environ["FARCALL_BUILD"])
SANITIZER = (
    "LD_PRELOAD",
    "ASAN_OPTIONS",
)  # what a program without instrumentation needs to load our libraries with it
LIMIT_S = 240


class Server:
    def __init__(self, token=None):
        self.token_file = tempfile.NamedTemporaryFile("w")
        self.token_file.write((token or "") + "\n")
        self.token_file.flush()
        command = [
            str(BUILD / "bin/farcall"),
            "serve",
            "--listen",
            "tcp://127.0.0.1:0",
            "--device",
            "cpu",
            "--log-level",
            "warn",
        ]
        command += ["--token-file", self.token_file.name] if token else []
        self.folder = tempfile.TemporaryDirectory()
        over_shm = os.environ.get("FARCALL_TEST_SCHEME") == "shm"
        command += ["--shm", f"{self.folder.name}/farcall.shm"] if over_shm else []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.search(r" on (tcp://[^\s,]+)", line)
        assert found, f"no ready line but {line!r}"
        self.url = f"shm://{self.folder.name}/farcall.shm" if over_shm else found.group(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.token_file.close()


def run(endpoint, *command, **variables):
    """Runs a program with nothing of this environment but what it needs."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(BUILD / "lib/farcall"),
            "FARCALL_CACHE_DIR": cache,
        }
        environment.update({name: os.environ[name] for name in SANITIZER if name in os.environ})
        if endpoint:
            environment["FARCALL_ENDPOINT"] = endpoint
        environment.update(variables)
        return subprocess.run(
            [str(word) for word in command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
