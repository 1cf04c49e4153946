# SPDX-License-Identifier: Apache-2.0
"""The handshake of docs/reference/wire.md once more, in plain Python: for proxies that take part in it, for servers and clients of tests.

Without tokens: both ends of a session without one can be played by whoever stands between them. The cryptography is for tests
alone: it is slow, and its time tells its secrets.
"""

import hashlib
import hmac
import os
import struct

HEADER = struct.Struct("<IIHHHH")  # magic, bytes, type, major, minor, reserved
MAGIC, MAJOR = 0x31484346, 2
GREETING, HELLO, WELCOME, REFUSE, REDIRECT = 1, 2, 3, 4, 5
NO_CREDENTIAL = 0xFFFFFFFF
SESSION_CREDENTIAL = 2
P = 2**255 - 19


def packet(kind, body, major=MAJOR):
    return HEADER.pack(MAGIC, len(body), kind, major, 0, 0) + body


def x25519(scalar, point):
    """RFC 7748, section 5."""
    k = bytearray(scalar)
    k[0] &= 248
    k[31] = k[31] & 127 | 64
    k = int.from_bytes(k, "little")
    u = int.from_bytes(point, "little") & (1 << 255) - 1
    x2, z2, x3, z3, swap = 1, 0, u, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % P, b * b % P, d * a % P, c * b % P
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % P, u * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def _rotated(value, bits):
    return (value << bits & 0xFFFFFFFF) | value >> 32 - bits


def _block(key, counter):
    start = [
        0x61707865,
        0x3320646E,
        0x79622D32,
        0x6B206574,
        *struct.unpack("<8I", key),
        counter,
        0,
        0,
        0,
    ]
    s = list(start)
    quarters = (
        (0, 4, 8, 12),
        (1, 5, 9, 13),
        (2, 6, 10, 14),
        (3, 7, 11, 15),
        (0, 5, 10, 15),
        (1, 6, 11, 12),
        (2, 7, 8, 13),
        (3, 4, 9, 14),
    )
    for _ in range(10):
        for a, b, c, d in quarters:
            s[a] = s[a] + s[b] & 0xFFFFFFFF
            s[d] = _rotated(s[d] ^ s[a], 16)  # noqa: E702
            s[c] = s[c] + s[d] & 0xFFFFFFFF
            s[b] = _rotated(s[b] ^ s[c], 12)  # noqa: E702
            s[a] = s[a] + s[b] & 0xFFFFFFFF
            s[d] = _rotated(s[d] ^ s[a], 8)  # noqa: E702
            s[c] = s[c] + s[d] & 0xFFFFFFFF
            s[b] = _rotated(s[b] ^ s[c], 7)  # noqa: E702
    return struct.pack("<16I", *(x + y & 0xFFFFFFFF for x, y in zip(s, start)))


def _crypt(key, data):
    stream = b"".join(_block(key, 1 + i) for i in range((len(data) + 63) // 64))[: len(data)]
    return (int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")).to_bytes(
        len(data), "little"
    )


def _tag(key, sealed, associated):
    one_time = _block(key, 0)
    r = int.from_bytes(one_time[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    s = int.from_bytes(one_time[16:32], "little")
    text = b"".join(part + bytes(-len(part) % 16) for part in (associated, sealed)) + struct.pack(
        "<QQ", len(associated), len(sealed)
    )
    total = 0
    for at in range(0, len(text), 16):
        total = (total + int.from_bytes(text[at : at + 16] + b"\1", "little")) * r % (2**130 - 5)
    return (total + s & 2**128 - 1).to_bytes(16, "little")


def seal(key, plain, associated):
    """ChaCha20-Poly1305 (RFC 8439), nonce 0."""
    sealed = _crypt(key, plain)
    return sealed + _tag(key, sealed, associated)


def unseal(key, sealed, associated):
    if len(sealed) < 16 or not hmac.compare_digest(
        _tag(key, sealed[:-16], associated), sealed[-16:]
    ):
        raise ValueError("sealed by another, or changed")
    return _crypt(key, sealed[:-16])


def extract(salt, secret):
    return hmac.digest(salt, secret, "sha256")


def expand(key, purpose):
    return hmac.digest(key, purpose + b"\1", "sha256")


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def with_bytes(data):
    """A run of bytes as codec.h writes it, at a multiple of 8."""
    return struct.pack("<Q", len(data)) + data + bytes(-len(data) % 8)


class Share:
    def __init__(self):
        self.secret = os.urandom(32)
        self.public = x25519(self.secret, (9).to_bytes(32, "little"))

    def hello_key(self, greeting, hello_open, peer):
        salt = sha256(b"farcall 2 hello", greeting, hello_open[HEADER.size :])
        return expand(extract(salt, x25519(self.secret, peer)), b"farcall 2 hello")

    def answer_keys(self, greeting, hello, peer, secret=b""):
        """(of the answer, of the session)"""
        root = extract(
            sha256(b"farcall 2 keys", greeting, hello), x25519(self.secret, peer) + secret
        )
        return expand(root, b"farcall 2 answer"), expand(root, b"farcall 2 session")


def make_greeting(share, needs_token=False):
    body = (
        with_bytes(os.urandom(32))
        + with_bytes(share.public)
        + bytes([needs_token])
        + bytes(7)
        + struct.pack("<QQ", 0, 1)
    )
    return packet(GREETING, body + with_bytes(b"test"))


def share_in(greeting):
    return greeting[HEADER.size + 48 : HEADER.size + 80]


def open_hello(share, greeting, hello):
    """(fields, [proofs]) of a HELLO that answers this greeting."""
    head = hello[: HEADER.size + 32]
    plain = unseal(share.hello_key(greeting, head, head[HEADER.size :]), hello[len(head) :], head)
    (size,) = struct.unpack_from("<Q", plain)
    fields, at, proofs = plain[8 : 8 + size], 8 + size + -size % 8, []
    (count,) = struct.unpack_from("<Q", plain, at)
    at += 8
    for _ in range(count):
        (size,) = struct.unpack_from("<Q", plain, at)
        proofs.append(plain[at + 8 : at + 8 + size])
        at += 8 + size + -size % 8
    return fields, proofs


def make_hello(share, greeting, fields, session_keys=()):
    """A HELLO with a proof by each of these keys; the fields name as many credentials."""

    def plain(proofs):
        return (
            with_bytes(fields) + struct.pack("<Q", len(proofs)) + b"".join(map(with_bytes, proofs))
        )

    room = plain([bytes(32)] * len(session_keys))
    head = HEADER.pack(MAGIC, 32 + len(room) + 16, HELLO, MAJOR, 0, 0) + share.public
    digest = sha256(b"farcall 2 client", greeting, head, fields)
    proofs = [hmac.digest(key, b"farcall 2 session" + digest, "sha256") for key in session_keys]
    return head + seal(share.hello_key(greeting, head, share_in(greeting)), plain(proofs), head)


def make_answer(key, kind, body, credential=NO_CREDENTIAL):
    head = HEADER.pack(MAGIC, 4 + len(body) + 16, kind, MAJOR, 0, 0) + struct.pack("<I", credential)
    return head + seal(key, body, head)


def open_answer(key, answer):
    return unseal(key, answer[HEADER.size + 4 :], answer[: HEADER.size + 4])


class Fields:
    """Fields in codec.h's layout."""

    def __init__(self):
        self.data = b""

    def put(self, form, value):
        size = struct.calcsize("<" + form)
        self.data += bytes(-len(self.data) % size) + struct.pack("<" + form, value)
        return self

    def run(self, data):
        self.put("Q", len(data)).data += data
        return self


def hello_fields(
    role=0,
    lane=0,
    session=bytes(16),
    received=(0, 0),
    credentials=(),
    vgpu=b"",
    program=b"tests",
    lease=b"",
    priority=0,
):
    fields = (
        Fields()
        .put("B", role)
        .put("I", lane)
        .run(session)
        .put("Q", received[0])
        .put("Q", received[1])
    )
    fields.put("Q", len(credentials))
    for kind, name in credentials:
        fields.put("B", kind).run(name)
    fields.put("Q", 1).run(vgpu).put("Q", 0).put("I", 0).put("I", 0).put("B", priority).put(
        "Q", 0
    ).put("I", 1)
    for text in (b"user", b"host", program, b"0"):
        fields.run(text)
    fields.put("Q", 0).put("Q", 0).put("Q", 0).put("I", 13000).put("Q", 0).put("I", 0).run(b"").run(
        lease
    )
    return fields.data


def token_keys(token):
    """(seed of the client's signing key, the server's key) of a token."""
    root = extract(b"farcall token 1", token)
    return expand(root, b"farcall token: client signs"), expand(
        root, b"farcall token: server proves itself"
    )
