# SPDX-License-Identifier: Apache-2.0
"""Where the threads of a process stand: for the report of a test that waited for it in vain."""

import pathlib
import shutil
import subprocess


def stacks_of(pid):
    """Of each thread the name, state and system call, and its stack where `eu-stack` (elfutils) or `gdb` is there."""
    lines = [f"threads of process {pid}:"]
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
        try:
            state = (task / "stat").read_text().rsplit(")", 1)[1].split()[0]
            call = (task / "syscall").read_text().strip()
            kernel = (task / "stack").read_text().split("\n")[:3]
            lines.append(f"  {task.name} {(task / 'comm').read_text().strip()} {state} {call}")
            lines += [f"    kernel {line}" for line in kernel if line]
        except OSError as error:  # it ended, or belongs to another user
            lines.append(f"  {task.name}: {error}")
    for command in (
        ["eu-stack", "-p", str(pid)],
        ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace"],
    ):
        if shutil.which(command[0]):
            told = subprocess.run(command, capture_output=True, text=True, timeout=60)
            return "\n".join(lines) + "\n" + told.stdout + told.stderr
    return "\n".join(lines) + "\n(install elfutils for the stacks)"
