# SPDX-License-Identifier: Apache-2.0
"""What seeds are made of: records, chunks, answers, bodies of calls. tests/fuzz/serve_items.h says what an input is."""

import hashlib
import os
import struct

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
RECORD = struct.Struct("<IHHIHH")  # bytes, call, flags, serial, thread, context
WANT_REPLY, SAME_FRAME, BUSY = 1, 0x8000, 0x4000
CHUNK, DEVICE = 0xFFFF, 0xFFFE
FRESH, PREPARED = 0, 1  # modes
NEED_CREDIT, RETURN_CREDIT, FENCE_FREES, HOST_DONE, HOST_WINDOW, NAMED_IMAGE = (
    0xF010,
    0xF011,
    0xF012,
    0xF013,
    0xF014,
    0xF015,
)
NVML, HOST_WINDOW_END, MIRROR_UP, MIRROR_DOWN, SHARE_HOST = 0xF016, 0xF017, 0xF01A, 0xF01B, 0xF01D
LIBRARY, LIBRARY_PUT, LIBRARY_DROP, LIBRARY_TAKE = (
    0xF01C,
    0xFFF0,
    0xFFF1,
    0xFFF2,
)  # proto/library/library_call.h
HEARTBEAT, GOODBYE = 0xF000, 0xF001
MEMORY = 0x200000000000
RESERVED = MEMORY + (32 << 20)  # the half of the window that programs map themselves
HOST = 0x500000000000  # of the host windows, the one that AddressSanitizer leaves free
CHUNK_BYTES, CREDIT_BYTES = (
    2 << 20,
    16 << 20,
)  # the least that is mapped; the chunk there is beforehand
MOST_ITEMS, MOST_BODY = 400, 4096
NOT_READY, OUT_OF_MEMORY = 600, 2

KINDS = [
    "none",
    "context",
    "stream",
    "event",
    "module",
    "library",
    "function",
    "kernel",
    "graph",
    "graph_exec",
    "graph_node",
    "mem_handle",
    "mem_pool",
    "array",
    "mipmapped_array",
    "tex_object",
    "surf_object",
    "link_state",
    "user_object",
    "green_context",
]


def call_ids(library="cuda"):
    with open(os.path.join(ROOT, "codegen", "ids", f"{library}.ids"), encoding="utf-8") as file:
        lines = (line.split() for line in file if not line.startswith("#"))
        return {
            name: int(number)
            for number, name in (fields[:2] for fields in lines if len(fields) >= 2)
        }


IDS = call_ids()


def handle(kind, index=1, generation=1):
    return (KINDS.index(kind) << 40 | generation << 24 | index) << 4


class Body(bytearray):
    """As proto/codec.h writes: each value aligned to its size."""

    def put(self, fmt, *values):
        size = struct.calcsize("<" + fmt)
        for value in values:
            self.extend(bytes(-len(self) % size))
            self.extend(struct.pack("<" + fmt, value))
        return self

    def run(self, data):
        self.put("Q", len(data))
        self.extend(data)
        return self


def item(call, body=b"", flags=WANT_REPLY, context=1, thread=1):
    number = IDS[call] if isinstance(call, str) else call
    return struct.pack("<HHHHI", number, flags, thread, context, len(body)) + bytes(body)


def name_hash(name):
    value = 2166136261
    for char in name.encode():
        value = (value ^ char) * 16777619 & 0xFFFFFFFF
    return (value ^ value >> 16) & 0xFFFF


def answer(name, result, times=1):
    return item(DEVICE, struct.pack("<HHi", name_hash(name), times, result), 0)


def chunk(transfer, offset, data):
    return item(CHUNK, Body().put("Q", transfer, offset) + data, 0)


def alloc(address=MEMORY, size=4096, flags=WANT_REPLY):
    return item("cuMemAlloc_v2", Body().put("i", 0).put("Q", address, size), flags)


def free_memory(address=MEMORY, epoch=1, flags=SAME_FRAME):
    return item("cuMemFree_v2", Body().put("Q", address, epoch), flags)


def upload(data, stream=1, transfer=0, address=MEMORY, size=None):
    body = Body().put("Q", address, len(data) if size is None else size, stream, transfer, 0)
    return item("cuMemcpyHtoDAsync_v2", body.run(data) if transfer == 0 else body)


def download(size, stream=1, transfer=0, address=MEMORY):
    return item("cuMemcpyDtoHAsync_v2", Body().put("Q", address, size, stream, transfer))


def box(source, destination, width, height, depth, data=None, transfer=0, stream=1):
    body = (
        Body()
        .put("I", source[0], destination[0])
        .put("Q", *source[1:], *destination[1:], width, height, depth, stream, transfer)
    )
    return item("cuMemcpy3DAsync_v2", body if data is None else body.run(data))


IMAGE = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"


def image(data=IMAGE, transfer=0, size=None):
    body = (
        Body()
        .run(hashlib.sha256(data).digest())
        .put("Q", len(data) if size is None else size, transfer)
    )
    return item(NAMED_IMAGE, body.run(b"" if transfer else data))


def load(call, made, data=IMAGE, logs=1, options=((0, 32), (7, 4))):
    body = (
        Body()
        .put("Q", made)
        .run(hashlib.sha256(data).digest())
        .put("Q", len(data))
        .put("B", logs)
        .put("Q", len(options))
    )
    for number, value in options:
        body.put("I", number).put("Q", value)
    return item(call, body.put("Q", 0) if call == "cuLibraryLoadData" else body)


def named(call, parent, made=None, name=b"k"):
    body = Body().put("Q", parent)
    return item(call, (body if made is None else body.put("Q", made)).run(name))


def of(call, *handles):
    return item(call, Body().put("Q", *handles))


def launch(function, parameters, attributes=(), stream=1):
    body = (
        Body().put("Q", function).put("I", 4, 1, 1, 32, 1, 1, 0).put("Q", stream, len(attributes))
    )
    for number, words in attributes:
        body.put("I", number).put("Q", *words, *[0] * (8 - len(words)))
    return item("cuLaunchKernel", body.run(parameters))


def nvml(calls, *runs):
    """A message with a question of each call, all with the same arguments."""
    body = Body().put("Q", len(calls))
    for call in calls:
        question = Body().put("H", call)
        for run in runs:
            question.run(run)
        body.run(question)
    return item(NVML, body, context=0)


def library(function, body=b"", number=7, stream=0, flags=WANT_REPLY):
    """A call of a mathematics library; by default of NVRTC."""
    return item(
        LIBRARY,
        Body().put("Q", stream).put("B", number, 13).put("H", function).put("I", 0) + bytes(body),
        flags,
    )


def shape(body, width=8, height=8, depth=0, fmt=0x20, channels=1, flags=0):
    return body.put("Q", width, height, depth).put("I", fmt, channels, flags)


def resource(kind, wire=0, address=0, width=0, height=0, pitch=0):
    return (
        Body()
        .put("I", kind)
        .put("Q", wire, address)
        .put("I", 0x20, 1)
        .put("Q", width, height, pitch)
    )


def texture(what, view=False):
    body = what.put("I", 1, 1, 1, 0, 0, 0, 0).put("f", *[0.0] * 7).put("B", int(view))
    return item(
        "cuTexObjectCreate",
        body.put("I", 0).put("Q", 0, 0, 0).put("I", 0, 0, 0, 0) if view else body,
    )


def link_input(state, data=IMAGE, kind=1):
    body = (
        Body()
        .put("Q", state)
        .put("I", kind)
        .run(hashlib.sha256(data).digest())
        .put("Q", len(data))
        .run(b"name")
        .put("Q", 0)
    )
    return item("cuLinkAddData_v2", body)


def green(made, context, origin=0, split=1, indices=(0,)):
    body = (
        Body()
        .put("Q", made, context)
        .put("I", 1)
        .put("i", 0)
        .put("Q", origin)
        .put("I", split, 1, 0, 2)
        .put("Q", len(indices))
    )
    return item("cuGreenCtxCreate", body.put("I", *indices), context=0)
