#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decodes the examples' pictures: checksums, size, and that there is something to see."""

import struct
import sys
import zlib
from pathlib import Path


def check(path: Path) -> str:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "no PNG signature"
    at, chunks = 8, {}
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(
            kind + body
        ), f"{kind}: wrong CRC"
        chunks[kind], at = body, at + 12 + size
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    rows = zlib.decompress(chunks[b"IDAT"])  # checks the Adler-32
    assert b"IEND" in chunks and (depth, colour) == (8, 2), "not 8-bit RGB"
    assert len(rows) == height * (1 + 3 * width), f"{len(rows)} bytes for {width} x {height}"
    pixels = {
        rows[y * (1 + 3 * width) + 1 + 3 * x :][:3] for y in range(height) for x in range(width)
    }
    assert len(pixels) > 16, f"{len(pixels)} colours: nothing to see"
    return f"{width} x {height}, {len(pixels)} colours"


for name in sys.argv[1:]:
    try:
        print(f"{name}: {check(Path(name))}")
    except (AssertionError, OSError, struct.error, zlib.error, KeyError) as error:
        sys.exit(f"{name}: {error}")
