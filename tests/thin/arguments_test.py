# SPDX-License-Identifier: Apache-2.0
"""Each posted or waiting function of each mathematics library: its arguments arrive equal at a fake library that writes down raw
registers and stack. What a function takes is read from the headers' model, not from the generator's plans."""

import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "session"))
sys.path.insert(0, str(ROOT / "codegen"))
from harness import BUILD, Server  # noqa: E402
from fake_library import fake  # noqa: E402
from library_spec import CODEGEN, LibrarySpec  # noqa: E402

# Values by type where the function's own checks, or ours, want a real one.
VALUES = {
    "cudaDataType": 0,
    "cudaDataType_t": 0,
    "cublasComputeType_t": 68,
    "size_t": 64,
    "uint32_t": 4,
}
FLOATS = {"float": 2.5, "double": 2.5}
# Their arrays are as long as descriptors and other arrays say, which of numbers that mean nothing is beyond any array; or
# empty, of a type that no header defines.
BY_CONTENT = re.compile(
    r"cudnnCTCLoss|cudnnMultiHeadAttn(Forward|BackwardData)|cudnnGetCTCLossWorkspaceSize|cudnnQueryRuntimeError|cusolverSp[SDCZ]csrlu\w+"
)
# What the server looks into: row pointers of empty rows, permutations.
FORMS = {"zero": re.compile(r"(h_)?csr(RowPtr|EndPtr)\w*"), "count": re.compile(r"(h_)?[pqPQ]")}
# Objects of a sister library.
FOREIGN = {"cusolver": {"cusparseMatDescr_t": ("cusparse", 12, "cusparseCreateMatDescr")}}
LIBRARIES = {"cublas": 13, "cusolver": 12, "cusparse": 12, "cudnn": 9}
FEWEST = {
    "cublas": 450,
    "cudnn": 130,
    "cusolver": 480,
    "cusparse": 250,
}  # functions: less means that a plan fell out


# What lies behind a pointer, for programs of these tests.
CONTENT = """
import ctypes, json, sys
def content(value, form=""):
    if form == "zero":
        return bytes(4096)
    if form == "count":
        return b"".join(i.to_bytes(4, "little") for i in range(1024))
    return bytes((value * 7 + i) % 251 for i in range(4096))
"""
CALLER = (
    CONTENT
    + """
calls = json.load(open(sys.argv[1]))
cuda = ctypes.CDLL("libcuda.so.1")
library = ctypes.CDLL(sys.argv[2])
cuda.cuInit(0)
objects, kept, results = {}, [], []
memory = []
def device():
    # An address of the program's on the device, another one each time.
    if not memory:
        context, address = ctypes.c_void_p(), ctypes.c_uint64()
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(32 << 20)) == 0
        memory.append(address.value)
    memory.append(memory[-1] + 256)
    return memory[-1]
for kind, (file, create) in calls["foreign"].items():
    objects[kind] = ctypes.c_void_p()
    assert getattr(ctypes.CDLL(file), create)(ctypes.byref(objects[kind])) == 0, create
for name in calls["create"]:
    handle = ctypes.c_void_p()
    status = getattr(library, name)(ctypes.byref(handle), *[ctypes.c_void_p(0)] * 0)
    assert status == 0 and handle.value, (name, status)
    objects[calls["create"][name]] = handle
if calls["set_stream"]:
    stream = ctypes.c_void_p()
    context = ctypes.c_void_p()
    cuda.cuCtxGetCurrent(ctypes.byref(context))
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
for name, arguments in calls["calls"]:
    passed, values = [], []
    for kind, value, *form in arguments:
        if kind == "object":
            passed.append(objects[value]); values.append(0)
        elif kind == "pointer":
            room = ctypes.create_string_buffer(content(value, *form), 4096)
            kept.append(room); passed.append(ctypes.c_void_p(ctypes.addressof(room))); values.append(ctypes.addressof(room))
        elif kind == "device":
            address = device()
            passed.append(ctypes.c_void_p(address)); values.append(address)
        elif kind == "float":
            passed.append(ctypes.c_float(value)); values.append(0)
        elif kind == "double":
            passed.append(ctypes.c_double(value)); values.append(0)
        elif kind == "int64":
            passed.append(ctypes.c_int64(value)); values.append(value)
        else:
            passed.append(ctypes.c_int(value)); values.append(value)
    status = getattr(library, name)(*passed)
    results.append([name, status, values])
cuda.cuCtxSynchronize()
print(json.dumps(results))
"""
)


class Arguments(unittest.TestCase):
    def plan(self, spec, exported):
        """What to call with what, from the headers' model: they declare more than the library has."""
        creates, calls = {}, []
        for name, data in spec.data["objects"].items():
            for call in spec.calls.values():
                params = call.function.params
                if (
                    call.served
                    and len(params) == 1
                    and params[0].type == f"{name} *"
                    and "reate" in call.name
                ):
                    creates.setdefault(call.name, name)
        for call in spec.calls.values():
            by_generator = call.generated or call.how == "set"
            if (
                not by_generator
                or call.of_kind("new", "end")
                or call.name not in exported
                or BY_CONTENT.fullmatch(call.name)
            ):
                continue
            arguments = []
            for index, param in enumerate(call.function.params):
                kind = param.type.replace("const ", "")
                canonical = spec.model.canonical(param.type)
                if kind in spec.data["objects"]:
                    if kind not in creates.values() and kind not in FOREIGN.get(spec.name, ()):
                        break
                    arguments.append(["object", kind])
                elif call.plans and call.plans[index].kind == "dev":
                    arguments.append(["device", index + 1])
                elif "*" in canonical:
                    form = next(
                        (
                            form
                            for form, names in FORMS.items()
                            if spec.name in FOREIGN and names.fullmatch(param.name)
                        ),
                        "",
                    )
                    arguments.append(["pointer", index + 1, form])
                elif kind in FLOATS:
                    arguments.append([kind, FLOATS[kind]])
                elif canonical in ("cuComplex", "cuDoubleComplex", "float2", "double2"):
                    break
                elif kind in ("int64_t", "size_t", "uint64_t", "long long"):
                    arguments.append(["int64", VALUES.get(kind, index + 3)])
                else:
                    arguments.append(
                        ["int", VALUES.get(kind, index % 4 + (2 if kind == "int" else 0))]
                    )
            else:
                calls.append([call.name, arguments])
        foreign = {
            kind: [f"lib{name}.so.{major}", create]
            for kind, (name, major, create) in FOREIGN.get(spec.name, {}).items()
        }
        return {"create": creates, "calls": calls, "set_stream": False, "foreign": foreign}

    def check_library(self, name):
        major = LIBRARIES[name]
        include = pathlib.Path(os.environ["FARCALL_CUDA_INCLUDE"])
        spec = LibrarySpec(
            CODEGEN / "spec" / "thin" / f"{name}.yaml",
            include,
            BUILD / f"generated/{name}_model.json",
        )
        with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
            folder = pathlib.Path(scratch)
            fake(name, major, folder)
            for sister, sister_major, _ in FOREIGN.get(name, {}).values():
                fake(sister, sister_major, folder)
            calls = self.plan(
                spec, set((CODEGEN / "exports" / f"{name}.{major}.txt").read_text().split())
            )
            (folder / "calls.json").write_text(json.dumps(calls))
            log = folder / "log"
            environment = {"FARCALL_LIBRARIES": scratch, "FARCALL_FAKE_LOG": str(log)}
            with Server(
                "--trust-tenants", environment=environment
            ) as server:  # a worker writes to /dev/shm
                env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
                env |= {
                    "FARCALL_LIBRARY_CACHE": "0",
                    "LD_LIBRARY_PATH": f"{BUILD}/lib/farcall:{BUILD}/lib/farcall/thin",
                    "FARCALL_ENDPOINT": server.url,
                }
                done = subprocess.run(
                    [
                        sys.executable,
                        "-c",
                        CALLER,
                        str(folder / "calls.json"),
                        f"lib{name}.so.{major}",
                    ],
                    env=env,
                    capture_output=True,
                    text=True,
                    timeout=300,
                )
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                server.stop()
            lines = {}
            for line in log.read_text().splitlines():
                words = line.split()
                lines.setdefault(words[0], []).append(words[1:])
            wrong = []
            for (called, status, values), (_, arguments) in zip(
                json.loads(done.stdout.splitlines()[-1]), calls["calls"]
            ):
                wrong += [
                    f"{called}: {problem}"
                    for problem in self.compare(status, values, arguments, lines.get(called))
                ]
            self.assertFalse(
                wrong, f"{len(wrong)} of {len(calls['calls'])}:\n" + "\n".join(wrong[:20])
            )
            self.assertGreaterEqual(len(calls["calls"]), FEWEST[name])
            print(f"{name}: {len(calls['calls'])} functions", file=sys.stderr)

    def compare(self, status, values, arguments, recorded):
        if status != 0 or not recorded:
            yield f"status {status}, recorded {bool(recorded)}"
            return
        words = recorded[-1]
        integers = [int(w[1:], 16) for w in words if w[0] in "is"]
        vectors = [int(w[1:], 16) for w in words if w[0] == "v"]
        seen = {
            int(m[1]): bytes.fromhex(m[2]) for w in words if (m := re.fullmatch(r"p(\d+):(\w+)", w))
        }
        integer = vector = 0
        for (kind, argument, *form), value in zip(arguments, values):
            if kind in ("float", "double"):
                code = ctypes.c_float(argument) if kind == "float" else ctypes.c_double(argument)
                wanted = int.from_bytes(bytes(code), "little")
                if vectors[vector] & (2 ** (8 * len(bytes(code))) - 1) != wanted:
                    yield f"{kind} {argument} arrived as {vectors[vector]:x}"
                vector += 1
                continue
            got = integers[integer]
            if kind == "object":
                if got >> 16 != 0x5EED:
                    yield f"object {argument} arrived as {got:x}"
            elif kind == "device":
                if got != value:
                    yield f"address {argument} arrived as {got:x}, not {value:x}"
            elif kind == "pointer":
                content = bytes((argument * 7 + i) % 251 for i in range(16))
                if form == ["count"]:
                    content = bytes((0, 0, 0, 0, 1, 0, 0, 0))
                # As it was (a device address), captured (the same bytes), or room for an output (zeroes).
                same = got == value or seen.get(integer, b"")[:2] in (content[:2], b"\0\0")
                if not same and got != 0:
                    yield f"pointer {argument} arrived as {got:x}, {seen.get(integer)}"
            else:
                bits = 64 if kind == "int64" else 32
                if got & (2**bits - 1) != value:
                    yield f"{kind} {value} arrived as {got:x}"
            integer += 1

    def test_cublas(self):
        self.check_library("cublas")

    def test_cudnn(self):
        self.check_library("cudnn")

    def test_cusolver(self):
        self.check_library("cusolver")

    def test_cusparse(self):
        self.check_library("cusparse")


if __name__ == "__main__":
    unittest.main(verbosity=2)
