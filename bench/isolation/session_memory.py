# SPDX-License-Identifier: Apache-2.0
"""Host memory that idle sessions take of a server: RSS and PSS of the supervisor and of the workers, in MiB.

FARCALL_BUILD=$PWD/build/release PYTHONPATH=tests/session python3 bench/isolation/session_memory.py [SESSIONS...]
"""

import subprocess
import sys

from harness import Client, Server, memory_of, until

for sessions in map(int, sys.argv[1:] or ("1", "20")):
    with Server("--mem", "64MiB") as server:
        clients = [Client(server.url, "hold", 1, stdin=subprocess.PIPE) for _ in range(sessions)]
        for client in clients:
            client.wait_line("held")
        until(lambda: len(server.workers()) >= sessions, 60, "a worker each")
        workers = [memory_of(pid) for pid in server.workers()]
        own = memory_of(server.process.pid)
        mean = [sum(column) / len(workers) for column in zip(*workers)]
        print(
            f"{sessions} sessions: supervisor RSS {own[0]:.1f} PSS {own[1]:.1f}; "
            f"a worker RSS {mean[0]:.1f} PSS {mean[1]:.1f}"
        )
        for client in clients:
            client.kill()
