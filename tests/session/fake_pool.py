# SPDX-License-Identifier: Apache-2.0
"""A pool that is none: sends whoever says HELLO to an endpoint with a lease of the test's choice."""
import socket
import struct
import threading

MAGIC, MAJOR, MINOR = 0x31484346, 1, 2
GREETING, HELLO, REDIRECT = 1, 2, 5


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data + bytes(-len(data) % 8)


def packet(kind, body):
    return struct.pack("<IIHHHH", MAGIC, len(body), kind, MAJOR, MINOR, 0) + body


class FakePool:
    def __init__(self, endpoint, lease):
        self.answer = packet(REDIRECT, struct.pack("<Q", 1) + text(endpoint) + text(lease) + text("c-fake"))
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.endpoint = "pool://127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with client:
                client.sendall(packet(GREETING, text(bytes(32)) + struct.pack("<Q", 0) + text("0.1.0")))
                kind_at = client.recv(16, socket.MSG_WAITALL)
                client.recv(struct.unpack("<IIHHHH", kind_at)[1], socket.MSG_WAITALL)
                client.sendall(self.answer)
                client.recv(1)

    def close(self):
        self.socket.close()
