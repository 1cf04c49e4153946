# SPDX-License-Identifier: Apache-2.0
"""A pool that is none: sends whoever says HELLO to an endpoint with a lease of the test's choice."""

import socket
import struct
import threading

import harness  # noqa: F401 - the way to tests/tools
import wire_handshake


def text(value):
    return wire_handshake.with_bytes(value if isinstance(value, bytes) else value.encode())


class FakePool:
    def __init__(self, endpoint, lease):
        self.answer = struct.pack("<Q", 1) + text(endpoint) + text(lease) + text("c-fake")
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
                share = wire_handshake.Share()
                greeting = wire_handshake.make_greeting(share)
                client.sendall(greeting)
                head = client.recv(wire_handshake.HEADER.size, socket.MSG_WAITALL)
                hello = head + client.recv(
                    wire_handshake.HEADER.unpack(head)[1], socket.MSG_WAITALL
                )
                key, _ = share.answer_keys(greeting, hello, hello[len(head) : len(head) + 32])
                client.sendall(
                    wire_handshake.make_answer(key, wire_handshake.REDIRECT, self.answer)
                )
                client.recv(1)

    def close(self):
        self.socket.close()
