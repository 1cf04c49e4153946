# SPDX-License-Identifier: Apache-2.0
"""NVRTC: programs that compile and that do not, headers in memory and in folders, name expressions, options, and calls that are wrong."""

import ctypes
import os
import pathlib
import sys
import tempfile
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p

nvrtc = ctypes.CDLL("libnvrtc.so.13")
nvrtc.nvrtcGetErrorString.restype = c_char_p
print("strings", [nvrtc.nvrtcGetErrorString(code) for code in (*range(18), 18, 99, -1)])
major, minor = c_int(), c_int()
print(
    "version",
    nvrtc.nvrtcVersion(byref(major), byref(minor)),
    major.value,
    minor.value,
    nvrtc.nvrtcVersion(None, byref(minor)),
)
count = c_int()
print(
    "archs",
    nvrtc.nvrtcGetNumSupportedArchs(byref(count)),
    count.value,
    nvrtc.nvrtcGetNumSupportedArchs(None),
)
archs = (c_int * max(count.value, 1))()
print(nvrtc.nvrtcGetSupportedArchs(archs), list(archs), nvrtc.nvrtcGetSupportedArchs(None))


def strings(values):
    return (c_char_p * max(len(values), 1))(*[value.encode() for value in values])


def create(source, name="test.cu", headers=None):
    headers = headers or {}
    program = c_void_p()
    status = nvrtc.nvrtcCreateProgram(
        byref(program),
        None if source is None else source.encode(),
        None if name is None else name.encode(),
        len(headers),
        strings(list(headers.values())),
        strings(list(headers)),
    )
    return status, program


def fetch(program, what, reads="utf8"):
    size = c_size_t(12345)
    status = getattr(nvrtc, f"nvrtcGet{what}Size")(program, byref(size))
    if status != 0:
        return status, None
    data = ctypes.create_string_buffer(max(size.value, 1))
    status = getattr(nvrtc, f"nvrtcGet{what}")(program, data)
    if status == 0 and what == "PTX" and size.value:
        assert data.raw[size.value - 1] == 0, "no terminator"
    return status, data.raw[: size.value]


def describe(program, images=("PTX", "LTOIR", "OptiXIR")):
    told = {}
    for what in images:
        status, data = fetch(program, what)
        lines = (
            []
            if data is None or what != "PTX"
            else [
                line
                for line in data.decode(errors="replace").splitlines()
                if ".entry" in line or "mov" in line
            ]
        )
        told[what] = (status, bool(data), lines[:6])
    return told


def compiled(
    title,
    source,
    options=(),
    headers=None,
    expressions=(),
    name="test.cu",
    images=("PTX", "LTOIR", "OptiXIR"),
):
    status, program = create(source, name, headers)
    added = [nvrtc.nvrtcAddNameExpression(program, text.encode()) for text in expressions]
    done = nvrtc.nvrtcCompileProgram(program, len(options), strings(list(options)))
    log = fetch(program, "ProgramLog")
    print(title, status, added, done, log)
    print(" ", describe(program, images))
    for text in expressions:
        lowered = c_char_p()
        print(
            "  ",
            text,
            nvrtc.nvrtcGetLoweredName(program, text.encode(), byref(lowered)),
            lowered.value,
        )
    print("  destroyed", nvrtc.nvrtcDestroyProgram(byref(program)), program.value)


KERNEL = 'extern "C" __global__ void scale(float* x, float by) { x[threadIdx.x] *= by; }\n'
compiled("plain", KERNEL)
compiled("the same again", KERNEL)
compiled(
    "options",
    KERNEL,
    ["--gpu-architecture=compute_90", "-default-device", "--std=c++17", "-DX=1", "-lineinfo"],
)
compiled("two parts", KERNEL, ["-arch", "compute_90"])
compiled("an error", 'extern "C" __global__ void k(float* x) { x[0] = undefined; }\n')
compiled("a warning", 'extern "C" __global__ void k(float* x) { int unused = 3; x[0] = 1; }\n')
compiled("no such value", KERNEL, ["--maxrregcount=many"])
compiled("no such arch", KERNEL, ["--gpu-architecture=compute_1"])
compiled("empty", "")
compiled("no name", KERNEL, name=None)
compiled("an error, no name", "int", name=None)
compiled("lto", KERNEL, ["-dlto", "--gpu-architecture=compute_90"])
compiled(
    "templates",
    "template <typename T> __global__ void add(T* x, T y) { *x += y; }\nnamespace n { __device__ int v; __constant__ int c[3]; }\n",
    expressions=["add<int>", "add<float>", "n::v", "&n::c", "add<double>"],
)
compiled("a bad expression", KERNEL, expressions=["nothing<int>"])
compiled(
    "in memory",
    '#include "a.h"\n#include <b/c.h>\nextern "C" __global__ void k(int* x) { *x = A + C; }\n',
    headers={"a.h": "#define A 41\n", "b/c.h": "#define C 1000\n"},
)
compiled("not there", "#include <nowhere.h>\n")
compiled("not there from a header", '#include "a.h"\n', headers={"a.h": "\n#include <nowhere.h>\n"})
with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    os.chdir(root)
    for path, text in {
        "one/top.h": '#pragma once\n#include "inner.h"\n#include <two.h>\n#define TOP (INNER + TWO)\n',
        "one/inner.h": "#define INNER 7\n",
        "one/sub/inner.h": "#define SUB_INNER 9\n",
        "one/sub/own.h": '#include "inner.h" // its own folder first\n#define OWN SUB_INNER\n',
        "two/two.h": "#pragma once\n#include <top.h>\n#define TWO 100\n",
        "two/top.h": "#error the first folder has one\n",
        "two/macro.h": "#define BY_MACRO 5000\n",
        "two/guarded.h": "#ifndef GUARDED\n#define GUARDED 3\n#else\n#error twice\n#endif\n",
        "two/broken.h": "int broken broken;\n",
        "here.h": "#define HERE 77\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    use = 'extern "C" __global__ void k(int* x) {{ *x = {}; }}\n'.format
    folders = ["-Ione", "--include-path=two"]
    compiled("folders", "#include <top.h>\n#include <top.h>\n" + use("TOP"), folders)
    compiled("separate", "#include <top.h>\n" + use("TOP"), ["-I", "one", "-I", "two"])
    compiled(
        "absolute folders",
        "#include <top.h>\n" + use("TOP"),
        [f"-I{root}/one", f"-I{root}/two"],
        images=(),
    )
    compiled(
        "own folder", "#include <sub/own.h>\n#include <inner.h>\n" + use("OWN + INNER"), folders
    )
    compiled("by macro", "#define WHICH <macro.h>\n#include WHICH\n" + use("BY_MACRO"), folders)
    compiled(
        "under two names",
        "#include <top.h>\n#include <sub/../top.h>\n#include <guarded.h>\n#ifdef NEVER\n#include <guarded.h>\n#endif\n"
        + use("TOP"),
        folders,
    )
    compiled("here", '#include "here.h"\n' + use("HERE"))
    compiled(
        "asked for",
        '#if __has_include(<top.h>) && !__has_include(<nowhere.h>) && __has_include("here.h")\n'
        + use("1")
        + "#endif\n",
        folders,
    )
    compiled("before all", use("HERE"), ["--pre-include=here.h"])
    compiled("broken in a header", "#include <broken.h>\n", folders)
    compiled(
        "in memory before folders",
        "#include <top.h>\n" + use("TOP"),
        folders,
        headers={"top.h": "#define TOP 1\n"},
    )
    compiled(
        "from memory to folders",
        '#include "a.h"\n' + use("TOP"),
        folders,
        headers={"a.h": "#include <top.h>\n"},
    )
    os.chdir("/")
many = "".join(
    f'extern "C" __global__ void kernel_{i}(int* x) {{ x[{i}] = {i}; }}\n' for i in range(1500)
)
status, program = create(many + "// " + "x" * 1_500_000 + "\n")
status = nvrtc.nvrtcCompileProgram(program, 0, None)
ptx = fetch(program, "PTX")[1]
print(
    "large",
    status,
    len(ptx) > 400_000,
    ptx.count(b".entry"),
    nvrtc.nvrtcDestroyProgram(byref(program)),
)

status, program = create(KERNEL)
print(
    "before compiling",
    status,
    describe(program, ("PTX", "CUBIN", "LTOIR", "OptiXIR", "ProgramLog")),
)
lowered = c_char_p()
print(
    nvrtc.nvrtcGetLoweredName(program, b"scale", byref(lowered)),
    nvrtc.nvrtcAddNameExpression(program, None),
)
print("compiled", nvrtc.nvrtcCompileProgram(program, 0, None))
print(
    "after",
    nvrtc.nvrtcAddNameExpression(program, b"scale"),
    nvrtc.nvrtcGetLoweredName(program, b"scale", byref(lowered)),
    nvrtc.nvrtcGetPTXSize(program, None),
    nvrtc.nvrtcGetPTX(program, None),
    nvrtc.nvrtcGetProgramLogSize(program, None),
)
print("again", nvrtc.nvrtcCompileProgram(program, 0, None), describe(program))
print("pch", nvrtc.nvrtcGetPCHCreateStatus(program))
print(
    "negative",
    nvrtc.nvrtcCompileProgram(program, -1, None),
    nvrtc.nvrtcCompileProgram(program, 1, None),
)
nvrtc.nvrtcDestroyProgram(byref(program))
none = c_void_p()
size = c_size_t()
print(
    "null",
    nvrtc.nvrtcDestroyProgram(byref(none)),
    nvrtc.nvrtcDestroyProgram(None),
    nvrtc.nvrtcCompileProgram(None, 0, None),
    nvrtc.nvrtcGetPTXSize(None, byref(size)),
    nvrtc.nvrtcGetPTX(None, ctypes.create_string_buffer(9)),
    nvrtc.nvrtcGetProgramLogSize(None, byref(size)),
    nvrtc.nvrtcAddNameExpression(None, b"x"),
    nvrtc.nvrtcGetLoweredName(None, b"x", byref(lowered)),
    nvrtc.nvrtcGetPCHCreateStatus(None),
    nvrtc.nvrtcGetCUBINSize(None, byref(size)),
)
print(
    "null arguments",
    create(None)[0],
    nvrtc.nvrtcCreateProgram(None, b"", b"", 0, None, None),
    nvrtc.nvrtcCreateProgram(byref(none), b"", b"", -1, None, None),
    nvrtc.nvrtcCreateProgram(byref(none), b"", b"", 1, None, None),
)
calls = []
Flow = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)
status, program = create(KERNEL)
cancel = Flow(lambda one, two: calls.append(one) or 1)
print(
    "cancelled",
    nvrtc.nvrtcSetFlowCallback(program, cancel, c_void_p(7)),
    nvrtc.nvrtcCompileProgram(program, 0, None),
    bool(calls),
    set(calls),
)
nvrtc.nvrtcDestroyProgram(byref(program))
print("flow", nvrtc.nvrtcSetFlowCallback(None, cancel, None))
sys.stdout.flush()
