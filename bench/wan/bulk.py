# SPDX-License-Identifier: Apache-2.0
"""One large copy in each direction: through Farcall, and as bare TCP connections over the same line.

    bulk.py serve PORT                          the far end of the bare connections
    bulk.py raw HOST PORT CONNECTIONS BYTES     {"up": seconds, "down": seconds}
    bulk.py cuda BYTES random|weights           the same of cuMemcpy, pageable memory, lanes open

Of what does not get smaller by compression, or of normal numbers in bf16, as a model's weights are.

Times are from the first byte to the receiver's word (up) or the last byte (down).
"""

import array
import ctypes
import json
import os
import random
import socket
import sys
import threading
import time

PIECE_BYTES = 1 << 20


def receive(connection, count):
    room = memoryview(bytearray(PIECE_BYTES))
    while count > 0:
        got = connection.recv_into(room[: min(count, PIECE_BYTES)])
        if got == 0:
            raise SystemExit("the connection ended")
        count -= got


def send(connection, count):
    piece = memoryview(bytes(PIECE_BYTES))
    while count > 0:
        count -= connection.send(piece[: min(count, PIECE_BYTES)])


def serve(port):
    with socket.create_server(("", port), backlog=64) as listener:
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            if os.fork() != 0:  # a process each, as one would be short of processors by its lock
                connection.close()
                continue
            while head := connection.recv(9, socket.MSG_WAITALL):
                count = int.from_bytes(head[1:], "little")
                if head[:1] == b"u":
                    receive(connection, count)
                    connection.sendall(b"k")
                else:
                    send(connection, count)
            os._exit(0)


def raw(host, port, lanes, count):
    connections = [socket.create_connection((host, port)) for _ in range(lanes)]
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def move(connection, way, each):
        connection.sendall(way + each.to_bytes(8, "little"))
        if way == b"u":
            send(connection, each)
            connection.recv(1)
        else:
            receive(connection, each)

    def seconds(way, each):
        threads = [
            threading.Thread(target=move, args=(connection, way, each))
            for connection in connections
        ]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.monotonic() - began

    seconds(b"u", PIECE_BYTES)
    seconds(b"d", PIECE_BYTES)
    return {"up": seconds(b"u", count // lanes), "down": seconds(b"d", count // lanes)}


def content(kind):
    """One piece of it."""
    if kind == "random":
        return os.urandom(PIECE_BYTES)
    numbers = array.array("f", (random.gauss(0, 0.02) for _ in range(PIECE_BYTES // 2)))
    wide = numbers.tobytes()
    narrow = bytearray(PIECE_BYTES)
    narrow[0::2], narrow[1::2] = wide[2::4], wide[3::4]
    return bytes(narrow)


def cuda(count, kind):
    driver = ctypes.CDLL("libcuda.so.1")

    def must(status):
        if status != 0:
            raise SystemExit(f"CUDA error {status}")

    piece = content(kind)
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    host = (ctypes.c_char * count).from_buffer(bytearray(piece * (count // len(piece))))
    must(driver.cuInit(0))
    must(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    must(driver.cuCtxSetCurrent(context))
    must(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(count)))

    def seconds(copy, *arguments):
        began = time.monotonic()
        must(copy(*arguments))
        must(driver.cuCtxSynchronize())
        return time.monotonic() - began

    def both(size):
        size = ctypes.c_size_t(size)
        return {
            "up": seconds(driver.cuMemcpyHtoD_v2, address, host, size),
            "down": seconds(driver.cuMemcpyDtoH_v2, host, address, size),
        }

    both(8 * PIECE_BYTES)
    return both(count)


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "serve":
        serve(int(words[0]))
    elif command == "raw":
        print(json.dumps(raw(words[0], *map(int, words[1:]))))
    else:
        print(json.dumps(cuda(int(words[0]), words[1])))
