# SPDX-License-Identifier: Apache-2.0
"""client_case.py PROGRAM CASE: one case of client_checks, also with every call waiting."""

import sys

from client_server import Server, run

SYNC_TOO = {
    "launch-limits",
    "rectangles",
    "overwritten-source",
    "host-functions",
    "pointer-questions",
    "graph-nodes",
    "graph-copies",
    "graph-clones",
    "graph-errors",
    "graph-conditionals",
}


def main():
    program, case = sys.argv[1:]
    with Server() as server:
        for sync in ["0", "1"] if case in SYNC_TOO else ["0"]:
            done = run(server.url, program, case, FARCALL_SYNC=sync)
            print(done.stdout + done.stderr, end="")
            assert done.returncode == 0, f"FARCALL_SYNC={sync}: exit code {done.returncode}"
            assert f"ok {case}" in done.stdout


main()
