# SPDX-License-Identifier: Apache-2.0
"""Each function that takes objects, with each of them null, ended, of another kind, or an address that is nobody's: an error at the call,
nothing reaches the library, and the right ones work after it."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import arguments_test
from arguments_test import BUILD, CODEGEN, FOREIGN, LIBRARIES, LibrarySpec, Server, fake

CALLER = (
    arguments_test.CONTENT
    + """
import os
plan = json.load(open(sys.argv[1]))
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
kept = []
library = ctypes.CDLL(sys.argv[2])
room = ctypes.create_string_buffer(4096)
def make(kind):
    file, create = plan["makers"][kind]
    handle = ctypes.c_void_p()
    assert getattr(ctypes.CDLL(file), create)(ctypes.byref(handle)) == 0, create
    return handle
right, wrong = {}, {}
for kind in plan["makers"]:
    right[kind], ended = make(kind), make(kind)
    wrong[kind] = {"null": ctypes.c_void_p(), "nobody's": ctypes.c_void_p(ctypes.addressof(room))}
    if kind in plan["enders"]:
        file, end = plan["enders"][kind]
        assert getattr(ctypes.CDLL(file), end)(ended) == 0, end
        wrong[kind]["ended"] = ended
kinds = list(right)
for at, kind in enumerate(kinds):
    if len(kinds) > 1:
        wrong[kind]["of another kind"] = right[kinds[at - 1]]
codes = {}
def call(name, arguments, at=None, case=""):
    passed = []
    for index, (kind, value, *form) in enumerate(arguments):
        if kind == "object":
            passed.append(wrong[value][case] if index == at else right[value])
        elif kind == "pointer":
            kept.append(ctypes.create_string_buffer(content(value, *form), 4096))
            passed.append(ctypes.c_void_p(ctypes.addressof(kept[-1])))
        elif kind == "device":
            passed.append(ctypes.c_void_p())
        else:
            passed.append({"float": ctypes.c_float, "double": ctypes.c_double, "int64": ctypes.c_int64}.get(kind, ctypes.c_int)(value))
    return getattr(library, name)(*passed)
for name, arguments in plan["calls"]:
    for index, (kind, value, *_) in enumerate(arguments):
        for case in wrong[value] if kind == "object" else ():
            if [name, index] not in plan["may_be_null"] or case != "null":
                codes[f"{name}, argument {index} {case}"] = call(name, arguments, index, case)
cuda.cuCtxSynchronize()
reached = [line.split()[0] for line in open(sys.argv[3])] if os.path.exists(sys.argv[3]) else []
for name, arguments in plan["calls"]:
    assert call(name, arguments) == 0, name
print(json.dumps([codes, reached]))
"""
)


class WrongObjects(unittest.TestCase):
    def plan(self, spec, name, major):
        exported = set((CODEGEN / "exports" / f"{name}.{major}.txt").read_text().split())
        plan = arguments_test.Arguments.plan(self, spec, exported)
        file = f"lib{name}.so.{major}"
        plan["makers"] = {kind: [file, create] for create, kind in plan["create"].items()} | plan[
            "foreign"
        ]
        plan["enders"] = {}
        for call in spec.calls.values():
            params = call.function.params
            if (
                call.served
                and len(params) == 1
                and call.of_kind("end", "end?")
                and params[0].type in plan["makers"]
                and call.name in exported
            ):
                plan["enders"].setdefault(params[0].type, [file, call.name])
        plan["calls"] = [
            call for call in plan["calls"] if any(kind == "object" for kind, *_ in call[1])
        ]
        plan["may_be_null"] = [
            [call, index]
            for call, arguments in plan["calls"]
            for index in range(len(arguments))
            if spec.calls[call].plans[index].kind == "object?"
        ]
        return plan

    def check(self, name):
        major = LIBRARIES[name]
        spec = LibrarySpec(
            CODEGEN / "spec" / "thin" / f"{name}.yaml",
            pathlib.Path(os.environ["FARCALL_CUDA_INCLUDE"]),
            BUILD / f"generated/{name}_model.json",
        )
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            for library, its_major in [(name, major)] + [
                (sister, its_major) for sister, its_major, _ in FOREIGN.get(name, {}).values()
            ]:
                fake(library, its_major, folder)
            plan = self.plan(spec, name, major)
            (folder / "plan.json").write_text(json.dumps(plan))
            with Server(
                environment={"FARCALL_LIBRARIES": scratch, "FARCALL_FAKE_LOG": str(folder / "log")}
            ) as server:
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
                        str(folder / "plan.json"),
                        f"lib{name}.so.{major}",
                        str(folder / "log"),
                    ],
                    env=env,
                    capture_output=True,
                    text=True,
                    timeout=300,
                )
                self.assertEqual(done.returncode, 0, done.stdout[-200:] + done.stderr[-2000:])
                server.stop()
            codes, reached = json.loads(done.stdout.splitlines()[-1])
            self.assertFalse(
                set(reached) & {call for call, _ in plan["calls"]}, "with a wrong object"
            )
            taken = [what for what, status in codes.items() if status == 0]
            self.assertFalse(taken, f"{len(taken)} of {len(codes)}:\n" + "\n".join(taken[:20]))
            self.assertGreater(len(codes), 100)
            print(
                f"{name}: {len(codes)} wrong calls of {len(plan['calls'])} functions",
                file=sys.stderr,
            )

    def test_cublas(self):
        self.check("cublas")

    def test_cudnn(self):
        self.check("cudnn")

    def test_cusolver(self):
        self.check("cusolver")

    def test_cusparse(self):
        self.check("cusparse")


if __name__ == "__main__":
    unittest.main(verbosity=2)
