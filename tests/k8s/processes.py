# SPDX-License-Identifier: Apache-2.0
"""The cluster's processes: started, found again by what they recorded, and stopped."""

import os
import pathlib
import signal
import subprocess
import time


def start(run, name, command, environment):
    with open(run / f"log/{name}.log", "ab") as log:
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(os.environ, **environment),
            start_new_session=True,
        )
    (run / f"{name}.pid").write_text(f"{process.pid} {_started(process.pid)}")


def _started(pid):
    """When a process started, which tells it from a later one of its number."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return None


def running(run, name):
    """Its process's number; None: there is none."""
    try:
        pid, started = (run / f"{name}.pid").read_text().split()
    except (OSError, ValueError):
        return None
    state = pathlib.Path(f"/proc/{pid}/stat")
    if _started(pid) != started or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
        return None
    return int(pid)


def stop(run, name, force=False):
    pid = running(run, name)
    if not pid:
        return
    os.kill(pid, signal.SIGKILL if force else signal.SIGTERM)
    end = time.monotonic() + 10
    while running(run, name):
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def end_containers(cache, run):
    """Kills the pods' processes, and the shims that containerd started for them."""
    if running(run, "containerd"):
        ctr = [cache / "root/usr/bin/ctr", "-a", run / "containerd.sock", "-n", "k8s.io"]
        told = subprocess.run([*ctr, "tasks", "ls", "-q"], capture_output=True, text=True)
        for task in told.stdout.split():
            subprocess.run([*ctr, "tasks", "kill", "-s", "KILL", task], capture_output=True)
        time.sleep(0.5)
        for task in told.stdout.split():
            subprocess.run([*ctr, "tasks", "rm", "-f", task], capture_output=True)
    address = str(run / "containerd.sock").encode()
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"containerd-shim" in words[0] and address in words:
                os.kill(int(entry.name), signal.SIGKILL)


def unmount_below(*places):
    """Unmounts what lies there, the innermost first."""
    for line in reversed(pathlib.Path("/proc/mounts").read_text().splitlines()):
        where = line.split()[1].encode().decode("unicode_escape")
        if any(where == place or where.startswith(place) for place in places):
            subprocess.run(["umount", "-l", where], capture_output=True)
    for name in pathlib.Path("/run/netns").glob("cni-*"):
        name.unlink(missing_ok=True)
