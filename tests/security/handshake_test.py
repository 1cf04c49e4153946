# SPDX-License-Identifier: Apache-2.0
"""Who reads the wire learns no key, who changes it is refused, and no secret of the server is in a worker."""

import pathlib
import socket
import struct
import subprocess
import tempfile
import threading
import unittest

from harness import FARCALL, Client, Server, run, until
import wire_handshake as hs

TOKEN = "3c1f09aa57d2be4410987fe6d5c4b3a2918070605f4e3d2c1b0a998877665544"
VGPU = "a-vgpu-token-of-this-test-0123456789"


def read_packet(sock):
    """A whole packet; b"": the other side closed."""

    def exactly(count):
        data = b""
        while len(data) < count:
            more = sock.recv(count - len(data))
            if not more:
                return b""
            data += more
        return data

    head = exactly(hs.HEADER.size)
    return head and head + exactly(hs.HEADER.unpack(head)[1])


def kind_of(packet):
    return hs.HEADER.unpack_from(packet)[2] if packet else 0


def refusal_in(packet):
    (size,) = struct.unpack_from("<Q", packet, hs.HEADER.size + 8)
    return packet[hs.HEADER.size + 16 : hs.HEADER.size + 16 + size].decode()


class Peer:
    """A client of a server without tokens, up to the answer."""

    def __init__(self, server, fields, keys=(), change=lambda hello: hello, connection=None):
        self.socket = connection or socket.create_connection(("127.0.0.1", server.port), timeout=20)
        share, greeting = hs.Share(), read_packet(self.socket)
        self.hello = change(hs.make_hello(share, greeting, fields, keys))
        self.socket.sendall(self.hello)
        try:
            self.answer = read_packet(self.socket)
        except OSError:
            self.answer = b""
        self.kind = kind_of(self.answer)
        if self.kind == hs.WELCOME:
            key, self.session_key = share.answer_keys(
                greeting, self.hello, hs.share_in(greeting), keys[0] if keys else b""
            )
            self.answer_key = key
            self.welcome = hs.open_answer(key, self.answer)
            self.session = self.welcome[8:24]

    def close(self):
        self.socket.close()


class Recorder:
    """Forwards connections and keeps all bytes of each direction."""

    def __init__(self, port):
        self.port, self.sent, self.received, self.pairs = port, [], [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "tcp://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            self.pairs.append((client, server))
            for source, sink, kept in (
                (client, server, self.sent),
                (server, client, self.received),
            ):
                kept.append(bytearray())
                threading.Thread(
                    target=self._forward, args=(source, sink, kept[-1]), daemon=True
                ).start()

    @staticmethod
    def _forward(source, sink, kept):
        try:
            while data := source.recv(1 << 16):
                kept += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def cut(self):
        for pair in self.pairs:
            for sock in pair:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self.pairs = []

    def hellos(self):
        return [
            bytes(data[: hs.HEADER.size + hs.HEADER.unpack_from(data)[1]])
            for data in self.sent
            if len(data) > hs.HEADER.size
        ]


def memory_of(pid):
    """What a process has mapped for reading and writing, piece by piece."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights = line.split()[:2]
            begin, end = (int(part, 16) for part in span.split("-"))
            if not rights.startswith("rw") or end - begin > 1 << 29:
                continue
            try:
                memory.seek(begin)
                yield memory.read(end - begin)
            except (OSError, ValueError):
                pass


def places_of(secrets, pid):
    """Where in a process these secrets are: names of them."""
    found = set()
    texts = [pathlib.Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline")]
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        if "memfd" in str(link.readlink()):
            texts.append(link.read_bytes())
    for text in (*texts, *memory_of(pid)):
        found |= {name for name, secret in secrets.items() if secret in text}
    return found


class Handshake(unittest.TestCase):
    def serve(self, *flags, **options):
        server = Server(*flags, **options)
        self.addCleanup(server.stop)
        return server

    def peer(self, *arguments, **options):
        peer = Peer(*arguments, **options)
        self.addCleanup(peer.close)
        return peer

    def test_clients_and_servers_of_the_previous_major_are_refused_in_one_line(self):
        server = self.serve()
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as old:
            self.assertEqual(hs.HEADER.unpack_from(read_packet(old))[3], 2)
            body = bytes(232)
            old.sendall(hs.HEADER.pack(hs.MAGIC, len(body), hs.HELLO, 1, 2, 0) + body)
            answer = read_packet(old)
        self.assertEqual(kind_of(answer), hs.REFUSE)
        self.assertEqual(
            refusal_in(answer),
            "client speaks wire 1.2, this server 2.0: install the same release on both sides",
        )
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        held = []

        def greet():
            held.append(listener.accept()[0])
            body = hs.with_bytes(bytes(32)) + bytes(8) + hs.with_bytes(b"0.1.0")
            held[0].sendall(hs.HEADER.pack(hs.MAGIC, len(body), hs.GREETING, 1, 2, 0) + body)

        threading.Thread(target=greet, daemon=True).start()
        client = run("tcp://127.0.0.1:%d" % listener.getsockname()[1], "steps", 1)
        self.assertEqual(client.process.returncode, 3)
        self.assertEqual(len(client.err), 1, client.err)
        self.assertIn(
            "server speaks wire 1.2, this client 2.0: install the same release on both sides",
            client.err[0],
        )

    def test_a_hello_with_any_byte_changed_opens_nothing(self):
        server = self.serve()
        fields = hs.hello_fields(vgpu=VGPU.encode())
        whole = self.peer(server, fields)
        self.assertEqual(whole.kind, hs.WELCOME)
        whole.close()
        workers = len(server.workers())
        size = len(whole.hello)
        for at in (*range(12, 16), *range(16, 48, 5), *range(48, size, 17), size - 1):
            changed = self.peer(
                server,
                fields,
                change=lambda hello: hello[:at] + bytes([hello[at] ^ 1]) + hello[at + 1 :],
            )
            self.assertNotEqual(changed.kind, hs.WELCOME, f"byte {at}")
            changed.close()
        self.assertEqual(len(server.workers()), workers, "a worker was started")

    def test_a_session_is_joined_and_resumed_by_its_key_alone(self):
        server = self.serve()
        first = self.peer(server, hs.hello_fields())
        self.assertEqual(first.kind, hs.WELCOME)
        self.assertNotIn(first.session, first.answer)
        again = {"session": first.session, "credentials": [(hs.SESSION_CREDENTIAL, b"")]}
        for fields in (hs.hello_fields(role=1, **again), hs.hello_fields(received=(0, 0), **again)):
            for keys in ([bytes(32)], [first.answer_key], [hs.sha256(first.session)]):
                wrong = self.peer(server, fields, keys)
                self.assertEqual(wrong.kind, hs.REFUSE)
                self.assertEqual(refusal_in(wrong.answer), "the session key is wrong")
            self.assertEqual(
                self.peer(server, hs.hello_fields(session=first.session)).kind, hs.REFUSE
            )
            right = self.peer(server, fields, [first.session_key])
            self.assertEqual(right.kind, hs.WELCOME)
            self.assertEqual(right.session, first.session)

    def test_who_records_a_session_can_neither_read_its_secrets_nor_repeat_it(self):
        server = self.serve(token=TOKEN)
        recorder = Recorder(server.port)
        self.addCleanup(recorder.listener.close)
        client = Client(
            recorder.url,
            "hold",
            1,
            token=TOKEN,
            stdin=subprocess.PIPE,
            environment={"FARCALL_VGPU": VGPU},
        )
        self.addCleanup(client.kill)
        client.wait_line("held")
        connections = len(recorder.sent)
        recorder.cut()
        until(
            lambda: len(recorder.received) > connections and len(recorder.received[-1]) > 200,
            what="it has resumed",
        )
        seed, server_key = hs.token_keys(TOKEN.encode())
        for data in (*recorder.sent, *recorder.received):
            for name, secret in {
                "token": TOKEN.encode(),
                "vgpu": VGPU.encode(),
                "seed": seed,
                "server key": server_key,
                "program": b"tests/session/hold",
            }.items():
                self.assertNotIn(secret, bytes(data), name)
        workers = server.workers()
        hellos = recorder.hellos()
        self.assertGreater(len(hellos), 1)
        for hello in hellos:
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as thief:
                read_packet(thief)
                thief.sendall(hello)
                self.assertNotEqual(kind_of(read_packet(thief)), hs.WELCOME)
        self.assertEqual(server.workers(), workers)
        self.assertIsNone(client.process.poll(), client.err)

    def test_no_secret_of_the_server_is_in_a_worker(self):
        server = self.serve(token=TOKEN, environment={"FARCALL_TOKEN": TOKEN})
        client = Client(
            server.url,
            "hold",
            1,
            token=TOKEN,
            stdin=subprocess.PIPE,
            environment={"FARCALL_VGPU": VGPU},
        )
        self.addCleanup(client.kill)
        client.wait_line("held")
        (worker,) = server.workers()
        seed, server_key = hs.token_keys(TOKEN.encode())
        secrets = {
            "token": TOKEN.encode(),
            "its seed": seed,
            "its server key": server_key,
            "vgpu": VGPU.encode(),
            "its hash": hs.sha256(TOKEN.encode()),
        }
        try:
            self.assertEqual(places_of(secrets, worker), set())
            # The search finds what is there.
            self.assertIn("its server key", places_of(secrets, server.process.pid))
        except PermissionError:
            self.skipTest("needs the right to read another process's memory")
        for name in ("environ", "cmdline"):
            self.assertNotIn(
                TOKEN.encode(),
                pathlib.Path(f"/proc/{server.process.pid}/{name}").read_bytes(),
                name,
            )

    def test_a_worker_does_not_have_its_sessions_key(self):
        server = self.serve()
        peer = self.peer(server, hs.hello_fields())
        (worker,) = server.workers()
        try:
            secrets = {"session key": peer.session_key, "session id": peer.session}
            self.assertEqual(places_of(secrets, worker), {"session id"})
            self.assertEqual(places_of(secrets, server.process.pid), {"session key", "session id"})
        except PermissionError:
            self.skipTest("needs the right to read another process's memory")

    def test_what_a_server_keeps_of_its_tokens_lets_nobody_in(self):
        with tempfile.TemporaryDirectory() as folder:
            verifiers = pathlib.Path(folder, "verifiers")
            tokens = []
            for name in ("team-a", "team-b"):
                path = pathlib.Path(folder, name)
                subprocess.run(
                    [FARCALL, "token", "new", path, "--verifier", verifiers, "--name", name],
                    check=True,
                )
                self.assertEqual(path.stat().st_mode & 0o777, 0o600)
                tokens.append(path.read_text().strip())
            text = verifiers.read_text()
            server = self.serve("--token-verifier", verifiers)
            for token in tokens:
                self.assertNotIn(token, text)
                self.assertEqual(run(server.url, "steps", 1, token=token).process.returncode, 0)
            for word in {*text.split(), text.splitlines()[0]}:
                client = run(server.url, "steps", 1, token=word)
                self.assertEqual(client.process.returncode, 3, word)
                self.assertIn("the token is wrong", client.err[0])

    def test_a_client_finds_a_server_that_does_not_know_its_token(self):
        with_none = run(self.serve().url, "steps", 1, token=TOKEN)
        self.assertEqual(with_none.process.returncode, 3)
        self.assertIn("unset FARCALL_TOKEN", with_none.err[0])
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def pose():
            client, _ = listener.accept()
            share = hs.Share()
            greeting = hs.make_greeting(share, needs_token=True)
            client.sendall(greeting)
            hello = read_packet(client)
            key, _ = share.answer_keys(greeting, hello, hello[16:48])
            client.sendall(hs.make_answer(key, hs.WELCOME, bytes(512), credential=0))
            client.recv(1)

        threading.Thread(target=pose, daemon=True).start()
        posed = run("tcp://127.0.0.1:%d" % listener.getsockname()[1], "steps", 1, token=TOKEN)
        self.assertEqual(posed.process.returncode, 3)
        self.assertIn("cannot prove that it knows the token", posed.err[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
