#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy between a client and a server that understands frames: counts, cuts, stalls, delays, and drops launches.

As a program: link_proxy.py --to HOST:PORT [--listen HOST:PORT] [--drop-launch N | --drop-function N] [--delay-ms D]; prints
`proxy on tcp://...`, and its counters as JSON on SIGTERM. As a module: see LinkProxy.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import struct
import threading
import time

import wire_handshake

FIRST_CREDIT = 10  # of the features (proto/handshake/session_features.h)
HANDSHAKE = struct.Struct("<IIHHHH")  # magic, bytes, type, major, minor, reserved
FRAME = struct.Struct(
    "<IIQQQQIHH"
)  # magic, bytes, seq, ack, chunk_ack, chunks_sent, crc32c, records, flags
RECORD = struct.Struct("<IHHIHH")  # bytes, call, flags, serial, thread, context
HANDSHAKE_MAGIC, FRAME_MAGIC = 0x31484346, 0x31424346
HELLO, WELCOME, WANT_REPLY, REPLY, HEARTBEAT = 2, 3, 1, 2, 0xF000
CRC_OFFSET = 40


def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class _Closed(Exception):
    pass


def _read_exactly(sock, count):
    parts = []
    while count:
        data = sock.recv(min(count, 1 << 20))
        if not data:
            raise _Closed
        parts.append(data)
        count -= len(data)
    return b"".join(parts)


def _read_packet(sock):
    head = _read_exactly(sock, HANDSHAKE.size)
    return head + _read_exactly(sock, HANDSHAKE.unpack(head)[1])


def _without_features(welcome, bits):
    """WELCOME's last fields: its features, then the words of its libraries, which are no small multiples of 8, after their bytes,
    then the first credit, if the features say so. What a client does not expect at the end it passes over."""
    for tail in (16, 0):
        end = len(welcome) - tail
        words = next(
            (
                count
                for count in range(end // 8)
                if struct.unpack_from("<Q", welcome, end - 8 * count - 8)[0] == 8 * count
            ),
            0,
        )
        at = end - 8 * words - 24  # its transport stands between
        (features,) = struct.unpack_from("<Q", welcome, at)
        if (features >> FIRST_CREDIT & 1) == (tail == 16):
            return welcome[:at] + struct.pack("<Q", features & ~bits) + welcome[at + 8 :]
    raise ValueError("no features in WELCOME")


class LinkProxy:
    """Forwards connections to `target` (host, port). All methods from any thread."""

    def __init__(
        self,
        target,
        listen=("127.0.0.1", 0),
        launch_ids=(),
        drop_launch=0,
        delay_s=0.0,
        record_dir=None,
        drop_function=0,
        mark_ids=(),
        without_features=0,
        first_credit=None,
    ):
        self.target, self.launch_ids, self.delay_s = target, set(launch_ids), delay_s
        self.drop_launch = drop_launch  # the launch of this number, or
        self.drop_function = (
            drop_function  # each launch of the function that is the N-th to be launched
        )
        self.without_features = (
            without_features  # bits of WELCOME's features that its server is to be too old for
        )
        self.first_credit = first_credit  # (base, bytes) in the place of what WELCOME grants
        self.mark_ids = set(
            mark_ids
        )  # a record of these calls keeps a copy of the counts as they are then
        self.marks = []
        self.functions = []  # handles in the order of their first launch
        self.counts = {
            "hellos": 0,
            "lane_hellos": 0,
            "wanted_replies": 0,
            "replies": 0,
            "records_out": 0,
            "launches": 0,
            "dropped": 0,
            "frames_out": 0,
            "frames_in": 0,
            "bytes_out": 0,
            "bytes_in": 0,
        }
        self.record_dir = record_dir  # each session's client records go here, one file a session
        self._lock = threading.Lock()
        self._pairs = set()
        self._open = threading.Event()  # cleared: bytes wait (black hole)
        self._open.set()
        self._lanes_open = threading.Event()  # cleared: what clients send on bulk lanes waits
        self._lanes_open.set()
        self._refusing = False
        self._session_keys = {}
        self._cut_at = None  # (a count's name, its value, the event)
        family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
        self._listener = socket.create_server(listen, family=family, backlog=512)
        self.port = self._listener.getsockname()[1]
        self.url = f"tcp://{listen[0]}:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, refuse=False):
        """Closes every connection through the proxy; with `refuse` later ones are closed at once until restore()."""
        self._refusing = refuse
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            for sock in pair:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def cut_when(self, key, value):
        """Cuts, refusing, once this count has reached `value`; the event says that it has."""
        done = threading.Event()
        with self._lock:
            self._cut_at = (key, value, done)
        return done

    def black_hole(self):
        """Bytes stop flowing; nothing is closed."""
        self._open.clear()

    def hold_lanes(self):
        """What clients send on their bulk lanes stops flowing; the log goes on."""
        self._lanes_open.clear()

    def restore(self):
        self._refusing = False
        self._lanes_open.set()
        self._open.set()

    def _add(self, key, value=1):
        with self._lock:
            self.counts[key] += value
            wanted = self._cut_at
            if wanted is None or wanted[0] != key or self.counts[key] < wanted[1]:
                return
            self._cut_at = None
        self.cut(refuse=True)
        wanted[2].set()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client):
        self._open.wait()
        try:
            server = socket.create_connection(self.target, timeout=10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._pairs.add((client, server))
        try:
            if self.without_features or self.first_credit:
                self._take_part(client, server)
        except (_Closed, OSError):
            pass  # the threads below see it too
        for source, sink, outward in ((client, server, True), (server, client, False)):
            threading.Thread(
                target=self._forward, args=(source, sink, outward), daemon=True
            ).start()

    def _take_part(self, client, server):
        """Shakes hands with both, which without a token nobody can prevent, and says WELCOME otherwise."""
        hs, ours, theirs = wire_handshake, wire_handshake.Share(), wire_handshake.Share()
        greeting = _read_packet(server)
        own_greeting = hs.make_greeting(ours)
        self._send(client, own_greeting, False)
        hello = _read_packet(client)
        fields, proofs = hs.open_hello(ours, own_greeting, hello)
        # Of the session that HELLO names, its keys with the client and with the server.
        here, there = self._session_keys[fields[16:32]] if proofs else (b"", b"")
        own_hello = hs.make_hello(theirs, greeting, fields, [there] if proofs else [])
        self._add("hellos")
        self._send(server, own_hello, True)
        answer = _read_packet(server)
        if struct.unpack_from("<H", answer, 8)[0] == WELCOME:
            key, there = theirs.answer_keys(greeting, own_hello, hs.share_in(greeting), there)
            welcome = _without_features(hs.open_answer(key, answer), self.without_features)
            if self.first_credit:
                welcome = welcome[:-16] + struct.pack("<QQ", *self.first_credit)
            key, here = ours.answer_keys(
                own_greeting, hello, hello[HANDSHAKE.size : HANDSHAKE.size + 32], here
            )
            if not proofs:
                self._session_keys[welcome[8:24]] = here, there
            answer = hs.make_answer(key, WELCOME, welcome, 0 if proofs else hs.NO_CREDENTIAL)
        self._send(client, answer, False)

    def _forward(self, source, sink, outward):
        try:
            self._forward_packets(source, sink, outward)
        except (_Closed, OSError):
            pass
        for sock in (source, sink):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _send(self, sink, data, outward):
        self._open.wait()
        if self.delay_s:
            time.sleep(self.delay_s)
        self._add("bytes_out" if outward else "bytes_in", len(data))
        sink.sendall(data)

    def _forward_packets(self, source, sink, outward):
        recording = None
        while True:
            head = _read_exactly(source, 8)
            magic, size = struct.unpack("<II", head)
            if magic == HANDSHAKE_MAGIC:
                rest = _read_exactly(source, HANDSHAKE.size - 8 + size)
                if outward and struct.unpack_from("<H", rest)[0] == HELLO:
                    self._add("hellos")  # sealed: whether it is a lane's shows by what follows
                    recording = self._new_recording()
                self._send(sink, head + rest, outward)
            elif magic == FRAME_MAGIC:
                frame = head + _read_exactly(source, size - 8)
                if recording:
                    with open(recording, "ab") as file:
                        file.write(frame[FRAME.size :])
                self._send(sink, self._look_at_frame(frame, outward), outward)
            else:  # a lane's chunk, or bytes that are not ours: pass them on as they are
                if outward:
                    self._add("hellos", -1)
                    self._add("lane_hellos")
                    self._lanes_open.wait()
                self._send(sink, head, outward)
                while True:
                    data = source.recv(1 << 20)
                    if not data:
                        raise _Closed
                    if outward:
                        self._lanes_open.wait()
                    self._send(sink, data, outward)

    def _new_recording(self):
        if self.record_dir is None:
            return None
        return os.path.join(self.record_dir, f"session-{os.getpid()}-{self.counts['hellos']}")

    def _look_at_frame(self, frame, outward):
        self._add("frames_out" if outward else "frames_in")
        records, at, changed = FRAME.unpack_from(frame)[7], FRAME.size, False
        for _ in range(records):
            size, call, flags, *_ = RECORD.unpack_from(frame, at)
            if outward:
                self._add("records_out")
                if flags & WANT_REPLY:
                    self._add("wanted_replies")
                if call in self.mark_ids:
                    with self._lock:
                        self.marks.append(dict(self.counts))
                if call in self.launch_ids:
                    self._add("launches")
                    if self._unwanted(frame, at) and not flags & WANT_REPLY:
                        frame = frame[: at + 4] + struct.pack("<H", HEARTBEAT) + frame[at + 6 :]
                        changed = True
                        self._add("dropped")
            elif flags & REPLY:
                self._add("replies")
            at += size
        if changed:
            zeroed = frame[:CRC_OFFSET] + bytes(4) + frame[CRC_OFFSET + 4 :]
            if struct.unpack_from("<I", frame, CRC_OFFSET)[0]:
                frame = (
                    frame[:CRC_OFFSET] + struct.pack("<I", crc32c(zeroed)) + frame[CRC_OFFSET + 4 :]
                )
        return frame

    def _unwanted(self, frame, at):
        """Whether this launch is to be dropped. A launch's body begins with its function's handle."""
        (handle,) = struct.unpack_from("<Q", frame, at + RECORD.size)
        with self._lock:
            if handle not in self.functions:
                self.functions.append(handle)
            return (
                self.counts["launches"] == self.drop_launch
                or self.functions.index(handle) + 1 == self.drop_function
            )

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)  # ends accept(), so that the port is free
        self._listener.close()
        self.cut(refuse=True)


def call_ids(*names):
    """The numbers under which these calls travel."""
    ids = pathlib.Path(__file__).resolve().parents[2] / "codegen/ids/cuda.ids"
    lines = (
        line.split() for line in ids.read_text(encoding="utf-8").splitlines() if line[:1].isdigit()
    )
    return [int(number) for number, name in lines if name in names]


def _address(text):
    host, port = text.removeprefix("tcp://").rsplit(":", 1)
    return host.strip("[]"), int(port)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--to", required=True, type=_address, help="server, HOST:PORT or tcp://HOST:PORT"
    )
    parser.add_argument("--listen", default=("127.0.0.1", 0), type=_address)
    parser.add_argument("--launch-ids", default="", help="comma list of call ids that are launches")
    parser.add_argument(
        "--drop-launch", default=0, type=int, help="turn the N-th launch record into a no-op"
    )
    parser.add_argument(
        "--drop-function",
        default=0,
        type=int,
        help="turn each launch of the N-th function launched into a no-op",
    )
    parser.add_argument(
        "--delay-ms", default=0.0, type=float, help="added to each packet, each way"
    )
    parser.add_argument(
        "--record-dir", help="store the records each client sends, as a corpus for tests/fuzz"
    )
    args = parser.parse_args()
    ids = [int(part) for part in args.launch_ids.split(",") if part]
    proxy = LinkProxy(
        args.to,
        args.listen,
        ids,
        args.drop_launch,
        args.delay_ms / 1000,
        args.record_dir,
        args.drop_function,
    )
    print(f"proxy on {proxy.url}", flush=True)
    done = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: done.set())
    signal.signal(signal.SIGINT, lambda *_: done.set())
    done.wait()
    print(json.dumps(proxy.counts), flush=True)


if __name__ == "__main__":
    main()
