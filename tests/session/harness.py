# SPDX-License-Identifier: Apache-2.0
"""Starts servers and clients of a build tree for the session tests. FARCALL_BUILD names the tree; servers and pools come
from FARCALL_SERVER_BUILD where that names another one, made with a sanitizer."""

import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import link_proxy  # noqa: E402,F401

BUILD = pathlib.Path(os.environ["FARCALL_BUILD"])
SANITIZER = (
    "LD_PRELOAD",
    "ASAN_OPTIONS",
)  # what a program without instrumentation needs to load our libraries with it
KEPT = {name: os.environ[name] for name in SANITIZER if name in os.environ}
FARCALL = BUILD / "bin/farcall"
SERVER_BUILD = pathlib.Path(
    os.environ.get("FARCALL_SERVER_BUILD", BUILD)
)  # whose devices a worker may load
SERVE = SERVER_BUILD / "bin/farcall"
# Servers and pools hold a sanitizer's runtime: what it takes of memory is no figure of theirs.
INSTRUMENTED = SERVER_BUILD != BUILD or "ASAN_OPTIONS" in os.environ
# ThreadSanitizer leaves a server only low addresses. A client with this little room (RLIMIT_AS) takes windows there too, so
# that both have mapped and shared memory at the same addresses.
CLIENT_ROOM = 250 << 30 if SERVER_BUILD != BUILD else None
REPORT = re.compile(
    r"WARNING: ThreadSanitizer|ERROR: AddressSanitizer|ERROR: LeakSanitizer|: runtime error: "
)
PROGRAMS = BUILD / "tests/session"
# FARCALL_TEST_SCHEME=shm, ucx: clients that are not led through a proxy use shared memory, or UCX.
SCHEME = os.environ.get("FARCALL_TEST_SCHEME", "tcp")
LIMIT_S = float(os.environ.get("FARCALL_TEST_LIMIT_S", "240"))  # only ends a test that has failed


def until(condition, limit_s=20.0, what="condition"):
    """Waits for something to become true; the limit only ends a test that has failed. Instrumented
    servers take several times as long.
    WHAT: the text of the failure, or a function that returns it."""
    end = time.monotonic() + limit_s * (6 if INSTRUMENTED else 1)
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"not within {limit_s} s: {what() if callable(what) else what}")


def check_reports(log):
    """A sanitizer's report in the log of a server, its workers or a pool fails the test, whatever else went well."""
    if REPORT.search(log):
        raise AssertionError(f"a sanitizer reports:\n{log[REPORT.search(log).start():][:8000]}")


def stat_fields(pid):
    """(pid, state, parent); None: it is gone."""
    try:
        state, parent = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
    except OSError:
        return None
    return int(pid), state, int(parent)


def switches_of(pid):
    """How often the threads of a process have gone to sleep, or were made to."""
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/status")
    lines = [line for status in tasks for line in status.read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches:" in line)


def memory_of(pid):
    """(RSS, PSS) in MiB"""
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines[1:]}
    return sizes["Rss"], sizes["Pss"]


def name_of(pid):
    """The process's name; "": it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def command_of(pid):
    """The words of its command line; []: it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


class Server:
    def __init__(
        self,
        *flags,
        token=None,
        listen="tcp://127.0.0.1:0",
        environment=None,
        device="cpu",
        popen=None,
    ):
        command = [
            str(SERVE),
            "serve",
            "--listen",
            listen,
            "--device",
            str(device),
            *map(str, flags),
        ]
        over_shm = SCHEME == "shm" and "--shm" not in command
        if over_shm:
            self.folder = tempfile.TemporaryDirectory()
            command += ["--shm", f"{self.folder.name}/farcall.shm"]
        over_ucx = SCHEME == "ucx" and "--ucx" not in command
        if over_ucx:
            command.append("--ucx")
        if token:
            command += ["--token", token]
        env = dict(os.environ, **(environment or {}))
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=env, **(popen or {})
        )
        self.line = line = self.process.stdout.readline()
        found = re.search(r"serving (\d+) device\(s\) on ((?:tcp|tls)://\S+?:(\d+))\b", line)
        assert found, f"no ready line but {line!r}; log: {self.log_text()}"
        self.url, self.port = found.group(2).rstrip(","), int(found.group(3))
        if over_shm:
            self.url = f"shm://{self.folder.name}/farcall.shm"
        if over_ucx and self.url.startswith("tcp://"):
            self.url = "ucx" + self.url[3:]

    def log_text(self):
        return pathlib.Path(self.log.name).read_text()

    def workers(self):
        """Its processes, but for those that wait for a session."""
        return [pid for pid, is_warm in self._children() if not is_warm]

    def warm_workers(self):
        """Workers that were started before their sessions."""
        return [pid for pid, is_warm in self._children() if is_warm]

    def _children(self):
        """(pid, whether it waits for a session), but for those that have not begun to be what they will be."""
        own = command_of(self.process.pid)
        # Not by ps: a sanitizer's runtime that is preloaded hangs it.
        rows = [
            stat_fields(entry.name)
            for entry in pathlib.Path("/proc").iterdir()
            if entry.name.isdigit()
        ]
        found = []
        for pid in sorted(
            pid for pid, _, parent in filter(None, rows) if parent == self.process.pid
        ):
            # Once for each: a sanitizer's runtime may execute the program again, which has no
            # command line meanwhile.
            command, name = command_of(pid), name_of(pid)
            if any(command) and command != own:
                found.append((pid, b"warm" in command[:3] and name != "farcall-worker"))
            elif not any(command) and name not in ("", "farcall", "farcall-warm"):
                found.append((pid, False))  # it is ending: the server has not reaped it yet
        return found

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        check_reports(self.log_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def proxy_of(server, **options):
    """A proxy before the server, always on the same port: clients keep answers by endpoint."""
    port = getattr(server, "proxy_port", 0)
    proxy = link_proxy.LinkProxy(("127.0.0.1", server.port), listen=("127.0.0.1", port), **options)
    server.proxy_port = int(proxy.url.rsplit(":", 1)[1])
    return proxy


def waits_but_for_memory(stats):
    """Round trips less those of cuMemAlloc, which waits or not by what has been granted ahead so far: that is timing."""
    return stats["round_trips"] - stats["calls"].get("cuMemAlloc_v2", {}).get("waited", 0)


class Client:
    """A running program against an endpoint, its lines collected."""

    def __init__(self, endpoint, *command, token=None, environment=None, stdin=subprocess.DEVNULL):
        self.stats_path = tempfile.mktemp(suffix=".json")
        env = {
            "PATH": "/usr/bin:/bin",
            "HOME": os.environ.get("HOME", "/tmp"),
            "FARCALL_ENDPOINT": endpoint,
            "LD_LIBRARY_PATH": str(BUILD / "lib/farcall"),
            "FARCALL_STATS": self.stats_path,
        }
        if token:
            env["FARCALL_TOKEN"] = token
        env.update(KEPT)
        env.update(environment or {})
        program = str(PROGRAMS / command[0]) if "/" not in str(command[0]) else str(command[0])
        self.process = subprocess.Popen(
            [program, *map(str, command[1:])],
            env=env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=self._bound if CLIENT_ROOM else None,
        )
        self.out, self.err = [], []
        self._readers = [
            threading.Thread(target=self._read, args=pair, daemon=True)
            for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _bound():
        resource.setrlimit(resource.RLIMIT_AS, (CLIENT_ROOM, CLIENT_ROOM))

    @staticmethod
    def _read(pipe, lines):
        for line in pipe:
            lines.append(line.rstrip("\n"))

    def wait_line(self, text, limit_s=LIMIT_S):
        return until(
            lambda: any(text in line for line in self.out) or self.process.poll() is not None,
            limit_s,
            f"line {text!r}",
        )

    def wait(self, limit_s=LIMIT_S):
        """Exit code; a program that hangs fails the test."""
        code = self.process.wait(timeout=limit_s)
        for reader in self._readers:
            reader.join(timeout=5)
        return code

    def stats(self):
        return json.loads(pathlib.Path(self.stats_path).read_text())

    def kill(self):
        self.process.kill()
        self.process.wait()


class Teller:
    """A client that takes and gives back device memory as it is told."""

    def __init__(self, server, **environment):
        self.client = Client(
            server.url,
            sys.executable,
            HERE / "programs/teller.py",
            stdin=subprocess.PIPE,
            environment=environment,
        )
        self.client.wait_line("ready")

    def say(self, line):
        told = len(self.client.out)
        self.client.process.stdin.write(line + "\n")
        self.client.process.stdin.flush()
        until(
            lambda: len(self.client.out) > told or self.client.process.poll() is not None, what=line
        )
        return self.client.out[-1]

    def end(self):
        self.client.process.stdin.close()
        self.client.wait()


def run(endpoint, *command, **options):
    client = Client(endpoint, *command, **options)
    client.wait()
    return client
