# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that holds every byte for half a round trip, whatever else is on its way."""

import collections
import socket
import statistics
import subprocess
import sys
import threading
import time

ECHO = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
peer = listener.accept()[0]
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while data := peer.recv(64):
    peer.sendall(data)
"""
PING = """
import socket, sys, time
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for _ in range(int(sys.argv[2])):
    start = time.monotonic()
    peer.sendall(bytes(64))
    left = 64
    while left:
        left -= len(peer.recv(left))
    print(time.monotonic() - start)
"""


class DelayedLink:
    """Forwards connections on `port` to (host, port); `accepted_at_us`: when it took the first."""

    def __init__(self, target, rtt_s):
        self.target, self.half_s = target, rtt_s / 2
        self.accepted_at_us = None
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.accepted_at_us is None:
                self.accepted_at_us = time.monotonic() * 1e6
            server = socket.create_connection(self.target)
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink in ((client, server), (server, client)):
                self._forward(source, sink)

    def _forward(self, source, sink):
        held, filled = collections.deque(), threading.Condition()

        def read():
            data = b"."
            while data:
                try:
                    data = source.recv(1 << 18)
                except OSError:
                    data = b""
                with filled:
                    held.append((time.monotonic() + self.half_s, data))
                    filled.notify()

        def write():
            while True:
                with filled:
                    filled.wait_for(lambda: held)
                    due, data = held.popleft()
                time.sleep(max(0.0, due - time.monotonic()))
                try:
                    if not data:
                        return sink.shutdown(socket.SHUT_WR)
                    sink.sendall(data)
                except OSError:
                    return None

        for part in (read, write):
            threading.Thread(target=part, daemon=True).start()


def ping_over(rtt_s):
    """What 64 bytes take there and back over such a link, s: the proxy's threads must run too."""
    count = max(10, min(200, int(3 / rtt_s)))
    with subprocess.Popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE, text=True) as echo:
        link = DelayedLink(("127.0.0.1", int(echo.stdout.readline())), rtt_s)
        times = subprocess.run(
            [sys.executable, "-c", PING, str(link.port), str(count)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        link.close()
        echo.kill()
    return statistics.median(map(float, times))
