# SPDX-License-Identifier: Apache-2.0
"""nvJitLink: PTX, machine code and LTO-IR linked, files, logs, options and calls that are wrong, under the names of several versions of CUDA."""

import ctypes
import hashlib
import os
import tempfile
from ctypes import byref, c_char_p, c_size_t, c_uint, c_void_p

link = ctypes.CDLL("libnvJitLink.so.13")
nvrtc = ctypes.CDLL("libnvrtc.so.13")
CUBIN, PTX, LTOIR, FATBIN, ANY = 1, 2, 3, 4, 10
major, minor = c_uint(), c_uint()
print("version", link.nvJitLinkVersion(byref(major), byref(minor)), major.value, minor.value)


def compiled(source, *options, what="PTX"):
    program, size = c_void_p(), c_size_t()
    assert nvrtc.nvrtcCreateProgram(byref(program), source.encode(), b"part.cu", 0, None, None) == 0
    array = (c_char_p * max(len(options), 1))(*[option.encode() for option in options])
    assert nvrtc.nvrtcCompileProgram(program, len(options), array) == 0
    assert getattr(nvrtc, f"nvrtcGet{what}Size")(program, byref(size)) == 0
    data = ctypes.create_string_buffer(size.value)
    assert getattr(nvrtc, f"nvrtcGet{what}")(program, data) == 0
    nvrtc.nvrtcDestroyProgram(byref(program))
    return data.raw


def fetch(handle, what):
    size = c_size_t(77)
    status = getattr(link, f"nvJitLinkGet{what}Size")(handle, byref(size))
    if status != 0:
        return status, None
    data = ctypes.create_string_buffer(max(size.value, 1))
    return getattr(link, f"nvJitLinkGet{what}")(handle, data), data.raw[: size.value]


def shown(status, data, with_text=False):
    if data is None:
        return status
    text = data.decode(errors="replace")
    return status, data[:4] == b"\x7fELF", len(data) > 1, text if with_text else "one" in text


def linked(title, options, inputs, name="nvJitLink{}", text=True):
    handle = c_void_p()
    array = (c_char_p * max(len(options), 1))(*[option.encode() for option in options])
    status = getattr(link, name.format("Create"))(byref(handle), len(options), array)
    if status != 0:
        print(
            title,
            "create",
            status,
            bool(handle.value),
            fetch(handle, "ErrorLog"),
            fetch(handle, "InfoLog")[0],
            fetch(handle, "LinkedCubin"),
        )
        print(
            " ",
            getattr(link, name.format("Complete"))(handle),
            getattr(link, name.format("Destroy"))(byref(handle)),
            handle.value,
        )
        return None
    added = [
        getattr(link, name.format("AddData"))(handle, kind, data, c_size_t(len(data)), b"an input")
        for kind, data in inputs
    ]
    done = getattr(link, name.format("Complete"))(handle)
    cubin = fetch(handle, "LinkedCubin")
    print(
        title,
        added,
        done,
        shown(*cubin),
        hashlib.sha256(cubin[1] or b"").hexdigest()[:12],
        shown(*fetch(handle, "LinkedPtx")),
        fetch(handle, "ErrorLog") if text else "",
        fetch(handle, "InfoLog")[0],
    )
    print(" ", getattr(link, name.format("Destroy"))(byref(handle)), handle.value)
    return cubin[1]


ONE = (
    'extern "C" __device__ int two(int); extern "C" __global__ void one(int* x) { *x = two(*x); }\n'
)
TWO = 'extern "C" __device__ int two(int x) { return 2 * x; }\n'
one, two = (compiled(source, "-arch=compute_90", "-rdc=true") for source in (ONE, TWO))
linked("ptx", ["-arch=sm_90"], [(PTX, one), (PTX, two)])
linked("any", ["-arch=sm_90"], [(ANY, one), (ANY, two)])
cubin = linked(
    "whole",
    ["-arch=sm_90"],
    [(PTX, compiled('extern "C" __global__ void one(int* x) { *x = 1; }\n', "-arch=compute_90"))],
)
linked(
    "machine code",
    ["-arch=sm_90"],
    [(CUBIN, compiled(ONE, "-arch=sm_90", "-rdc=true", what="CUBIN")), (PTX, two)],
)
lto = [
    (LTOIR, compiled(source, "-arch=compute_90", "-dlto", "-rdc=true", what="LTOIR"))
    for source in (ONE, TWO)
]
linked("lto", ["-arch=sm_90", "-lto"], lto)
linked("lto to ptx", ["-arch=sm_90", "-lto", "-ptx"], lto)
for version in ("13_0",):
    linked(version, ["-arch=sm_90"], [(PTX, one), (PTX, two)], name="__nvJitLink{}_" + version)
linked("large", ["-arch=sm_90"], [(PTX, one + b"//" + b"x" * 1_500_000), (PTX, two)])
linked("a name missing", ["-arch=sm_90"], [(PTX, one)])
linked("no arch", [], [])
linked("no such value", ["-arch=sm_90", "-maxrregcount=many"], [])
linked("nothing", ["-arch=sm_90"], [], text=False)
with tempfile.NamedTemporaryFile(suffix=".ptx") as file:
    file.write(two)
    file.flush()
    handle = c_void_p()
    link.nvJitLinkCreate(byref(handle), 1, (c_char_p * 1)(b"-arch=sm_90"))
    print(
        "file",
        link.nvJitLinkAddData(handle, PTX, one, c_size_t(len(one)), None),
        link.nvJitLinkAddFile(handle, PTX, os.fsencode(file.name)),
        link.nvJitLinkComplete(handle),
        shown(*fetch(handle, "LinkedCubin")),
        link.nvJitLinkDestroy(byref(handle)),
    )
handle = c_void_p()
size = c_size_t()
link.nvJitLinkCreate(byref(handle), 1, (c_char_p * 1)(b"-arch=sm_90"))
print(
    "wrong",
    [
        link.nvJitLinkAddData(handle, kind, data, c_size_t(size), None)
        for kind, data, size in (
            (PTX, b"x", 0),
            (PTX, b"garbage", 7),
            (CUBIN, b"garbage", 7),
            (77, b"garbage", 7),
        )
    ],
    link.nvJitLinkAddFile(handle, PTX, b"/nowhere.ptx"),
)
print(
    "early",
    fetch(handle, "LinkedCubin"),
    fetch(handle, "LinkedPtx"),
    link.nvJitLinkGetErrorLogSize(handle, None),
)
print(
    "destroyed",
    link.nvJitLinkDestroy(byref(handle)),
    link.nvJitLinkDestroy(byref(handle)),
    link.nvJitLinkDestroy(None),
)
print(
    "null",
    link.nvJitLinkCreate(None, 0, None),
    link.nvJitLinkComplete(None),
    link.nvJitLinkAddData(None, PTX, b"x", c_size_t(1), None),
    link.nvJitLinkGetLinkedCubinSize(None, byref(size)),
)
