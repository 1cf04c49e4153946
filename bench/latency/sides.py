# SPDX-License-Identifier: Apache-2.0
"""Who is measured: this build, and a peer beside it. Each serves the same CPU device and runs the
same program."""

import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time

BUILD = pathlib.Path(os.environ["FARCALL_BUILD"])
PROGRAM = BUILD / "bench/latency/driver_latency"
DEVICE = BUILD / "lib/farcall/device"


class Failed(Exception):
    pass


class Side:
    """A server, and programs that run against it. `pins`: processors of both, or None."""

    def __init__(self, pins):
        self.pins = pins

    def _pinned(self, which, command):
        return ["taskset", "-c", str(self.pins[which]), *command] if self.pins else list(command)

    def environment(self, port):
        raise NotImplementedError

    def _environment(self, port, extra=None):
        home = os.environ.get("HOME", "/tmp")
        return {"PATH": "/usr/bin:/bin", "HOME": home, **self.environment(port), **(extra or {})}

    def _command(self, what):
        return self._pinned(1, [str(PROGRAM), *map(str, what)])

    def run(self, *what, port=None, extra=None):
        """The program's figures; `stats` among them where the side counts."""
        done = subprocess.run(
            self._command(what),
            capture_output=True,
            text=True,
            timeout=600,
            env=self._environment(port or self.port, extra),
        )
        if done.returncode != 0:
            asked = " ".join(map(str, what))
            raise Failed(f"{self.name}: driver_latency {asked}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def start_program(self, *what):
        process = subprocess.Popen(
            self._command(what), env=self._environment(self.port), stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        return process

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Ours(Side):
    name = "farcall"

    def __init__(self, pins=None):
        super().__init__(pins)
        command = [
            str(BUILD / "bin/farcall"),
            "serve",
            "--listen",
            "tcp://127.0.0.1:0",
            "--device",
            "cpu",
        ]
        self.process = subprocess.Popen(
            self._pinned(0, command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        ready = re.search(r"tcp://\S+:(\d+)", self.process.stdout.readline())
        if ready is None:
            raise Failed("farcall serve did not start")
        self.port = int(ready.group(1))

    def environment(self, port):
        return {
            "LD_LIBRARY_PATH": str(BUILD / "lib/farcall"),
            "FARCALL_ENDPOINT": f"tcp://127.0.0.1:{port}",
        }

    def counted(self, *what):
        """The round trips of a whole run."""
        with tempfile.NamedTemporaryFile(suffix=".json") as stats:
            self.run(*what, extra={"FARCALL_STATS": stats.name})
            return json.loads(pathlib.Path(stats.name).read_text())  # it is put in place anew


class Lupine(Side):
    """github.com/lupinemachines/lupine, from a folder with its source: built here, kept nowhere."""

    name = "peer"

    def __init__(self, built, pins=None):
        super().__init__(pins)
        self.built = built
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        environment = dict(
            os.environ,
            LUPINE_PORT=str(self.port),
            LD_LIBRARY_PATH=str(DEVICE),
            LUPINE_LOG_LEVEL="error",
        )
        self.process = subprocess.Popen(
            self._pinned(0, [str(built / "lupine_driver_server")]),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._await_port()

    def _await_port(self):
        end = time.monotonic() + 20
        while time.monotonic() < end and self.process.poll() is None:
            try:
                return socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
        raise Failed("the peer's server did not start")

    def environment(self, port):
        return {
            "LD_LIBRARY_PATH": str(self.built),
            "LUPINE_SERVER": f"127.0.0.1:{port}",
            "LUPINE_LOG_LEVEL": "error",
        }

    @staticmethod
    def build(source, into):
        """Configures and builds it; the folder with its libraries and its server."""
        if not (source / "CMakeLists.txt").is_file() or not (source / "cuda_client.cpp").is_file():
            raise Failed(f"{source} holds no source of LUPINE (github.com/lupinemachines/lupine)")
        cuda = os.environ["CUDA_HOME"]
        configure = [
            "cmake",
            "-S",
            source,
            "-B",
            into,
            "-G",
            "Ninja",
            "-DCMAKE_BUILD_TYPE=Release",
            "-DBUILD_TESTING=OFF",
            "-DLUPINE_BUILD_NVML=OFF",
            f"-DCUDAToolkit_ROOT={cuda}",
        ]
        compile_it = [
            "cmake",
            "--build",
            into,
            "--target",
            "lupine_cuda_client",
            "lupine_driver_server",
        ]
        for command in (configure, compile_it):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
            if done.returncode != 0:
                said = (done.stdout + done.stderr)[-800:]
                raise Failed(f"the peer does not build (it needs libnghttp2-dev): {said}")
        return into
