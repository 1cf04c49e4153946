# SPDX-License-Identifier: Apache-2.0
"""caller.py PLAN SONAME: makes the calls of a plan (plan.py), each line of output `number code late`.

A process of its own makes them until one crashes, hangs, or leaves the context broken; another goes on after that one. `crash`
and `hang` stand for a code. `late` is what the next right call and a synchronisation said."""

import ctypes
import json
import os
import re
import select
import signal
import struct
import sys

import objects

LIMIT_S = float(os.environ.get("FARCALL_WRONG_CALL_LIMIT_S", "60"))  # only ends a call that hangs


class Caller:
    def __init__(self, plan, soname):
        self.plan = plan
        self.objects = objects.Objects(plan["name"], soname, plan["objects"])
        self.kept = []

    def argument(self, name, index, argument, base):
        if argument == "null":
            return ctypes.c_void_p() if base[0] != "object" else self.objects.null(base[1])
        kind, value = argument
        if kind == "object":
            return self.objects.get(value)
        if kind == "device":
            return ctypes.c_void_p(self.objects.device(index))
        if kind == "array":
            return ctypes.c_void_p(self.objects.array(index))
        if kind == "host":
            room = ctypes.create_string_buffer(objects.content(value), 1 << 14)
            self.kept.append(room)
            return ctypes.c_void_p(ctypes.addressof(room))
        if kind == "addresses":
            room = (ctypes.c_uint64 * 1)(self.objects.device(index))
            self.kept.append(room)
            return ctypes.c_void_p(ctypes.addressof(room))
        if kind == "ints":
            room = (ctypes.c_int * len(value))(*value)
            self.kept.append(room)
            return ctypes.c_void_p(ctypes.addressof(room))
        return {
            "float": ctypes.c_float,
            "double": ctypes.c_double,
            "wide": ctypes.c_int64,
            "int": ctypes.c_int,
        }[kind](value)

    def call(self, name, base, changed):
        self.kept.clear()
        passed = [
            self.argument(name, i, changed.get(str(i), changed.get(i, a)), a)
            for i, a in enumerate(base)
        ]
        return getattr(self.objects.library, name)(*passed)


def cases(plan):
    for name, base, wrong in plan["calls"]:
        yield name, base, "right", {}
        for what, changed in wrong:
            yield name, base, what, changed


def child(plan, soname, first, pipe):
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    if os.environ.get("FARCALL_WRONG_CALLS_QUIET", "1") == "1":
        os.dup2(quiet, 2)
    caller, last = Caller(plan, soname), None
    for number, (name, base, what, changed) in enumerate(cases(plan)):
        if number < first:
            continue
        if name != last and last is not None and re.fullmatch(plan["apart"], name):
            break
        last = name
        os.write(pipe, struct.pack("iii", number, -2, 0))
        code = caller.call(name, base, changed)
        late = caller.objects.late(code)
        os.write(pipe, struct.pack("iii", number, code, late))
        if late >= objects.CUDA_ERROR:  # the context is broken
            break
    else:
        os.write(pipe, struct.pack("iii", -1, 0, 0))
    os._exit(0)


def main():
    plan = json.load(open(sys.argv[1]))
    first, done, idle = 0, False, 0
    while not done:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            try:
                child(plan, sys.argv[2], first, writer)
            finally:
                os._exit(1)
        os.close(writer)
        begun, ended = None, first
        why = "crash"
        while True:
            if not select.select([reader], [], [], LIMIT_S)[0]:
                why = "hang"
                os.kill(pid, signal.SIGKILL)
                break
            row = os.read(reader, 12)
            if not row:
                break
            number, code, late = struct.unpack("iii", row)
            if number < 0:
                done = True
            elif code == -2:
                begun = number
            else:
                print(number, code, late, flush=True)
                begun, ended = None, number + 1
        os.close(reader)
        os.waitpid(pid, 0)
        if begun is not None:
            print(begun, why, 0, flush=True)
            ended = begun + 1
        idle = idle + 1 if ended == first else 0
        if idle == 3 and not done:
            sys.exit(f"no call from {first} on: the objects cannot be made")
        first = ended


if __name__ == "__main__":
    main()
