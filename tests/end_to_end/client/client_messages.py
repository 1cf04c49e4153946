# SPDX-License-Identifier: Apache-2.0
"""client_messages.py PROGRAM: what cannot connect says so in one line; statistics have their keys."""

import json
import os
import socket
import sys
import tempfile

from client_server import Server, run

PROGRAM = sys.argv[1]


def complaint(endpoint, **variables):
    done = run(endpoint, PROGRAM, "pointer-questions", **variables)
    assert done.returncode == 1, done
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and " error farcall-client: " in lines[0], done.stderr
    return lines[0]


def closed_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def without_a_server():
    assert "FARCALL_ENDPOINT" in complaint(None)
    url = f"tcp://127.0.0.1:{closed_port()}"
    line = complaint(url)
    assert url in line and "farcall serve" in line, line
    assert "carrier-pigeon" in complaint("carrier-pigeon://x")
    assert "FARCALL_SYNC=maybe" in complaint(url, FARCALL_SYNC="maybe")
    assert "FARCALL_MEM=lots" in complaint(url, FARCALL_MEM="lots")


def with_a_token():
    with Server(token="right-horse") as server:
        assert "token" in complaint(server.url)
        line = complaint(server.url, FARCALL_TOKEN="wrong-horse")
        assert "token" in line and "horse" not in line, line
        done = run(server.url, PROGRAM, "pointer-questions", FARCALL_TOKEN="right-horse")
        assert done.returncode == 0, done
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("right-horse\n")
            file.flush()
            done = run(server.url, PROGRAM, "pointer-questions", FARCALL_TOKEN_FILE=file.name)
        assert done.returncode == 0, done


def statistics():
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "stats.json")
        done = run(server.url, PROGRAM, "rectangles", FARCALL_STATS=path)
        assert done.returncode == 0, done
        with open(path, encoding="utf-8") as file:
            stats = json.load(file)
    for key in [
        "round_trips",
        "posted",
        "local",
        "bytes_out",
        "bytes_in",
        "batches",
        "wall_ns",
        "wait_ns",
    ]:
        assert isinstance(stats[key], int), key
    upload = stats["calls"][
        "cuMemcpy2D_v2" if "cuMemcpy2D_v2" in stats["calls"] else "cuMemcpy2DUnaligned_v2"
    ]
    assert set(upload) == {"calls", "posted", "waited", "local", "wait_ns"}
    assert upload["calls"] == 3 and upload["waited"] == 2, upload
    assert stats["bytes_out"] > 300 * 200 * 4


without_a_server()
with_a_token()
statistics()
