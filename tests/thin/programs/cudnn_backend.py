# SPDX-License-Identifier: Apache-2.0
"""cuDNN's backend API: a graph of a convolution, engines, heuristics, plans and their runs; descriptors that are wrong."""

import ctypes
from ctypes import byref, c_int64, c_void_p

from backend import (
    BOOLEAN,
    CONFIG,
    DATA_TYPE,
    DESCRIPTOR,
    ENGINE,
    FORWARD,
    HANDLE,
    HEUR_MODE,
    HEURISTICS,
    INT64,
    PACK,
    PLAN,
    POINTER,
    TENSOR,
    count_of,
    cudnn,
    final,
    get,
    get_objects,
    make,
    plain,
    put,
    scaled,
    tensor,
)
from device import Memory, new_stream, start

start()


def show(what, *results):
    print(what, *results)


handle, stream = c_void_p(), new_stream()
show("handle", cudnn.cudnnCreate(byref(handle)), cudnn.cudnnSetStream(handle, stream))


def configs(of, mode, most=3):
    heuristics = final(HEURISTICS, (201, DESCRIPTOR, of), (200, HEUR_MODE, mode))
    show("results", count_of(heuristics, 202, DESCRIPTOR)[0])
    found = [make(CONFIG) for _ in range(most)]
    status, count, _ = get_objects(heuristics, 202, found)
    return status, count, found[:count]


def run(plan, ids, pointers, workspace):
    pack = final(
        PACK, (1000, INT64, *ids), (1001, POINTER, *pointers), (1003, POINTER, workspace.address)
    )
    status = cudnn.cudnnBackendExecute(handle, plan, pack)
    cudnn.cudnnBackendDestroyDescriptor(pack)
    return status


# A convolution: what the heuristics propose, its engines, plans, values.
x, w, room = (
    Memory(ctypes.c_float, count, [((i * 7) % 11 - 5) / 4 for i in range(count)])
    for count in (384, 108, 1 << 18)
)
for round_ in range(2):  # the second asks nothing new
    for mode in (0, 2):
        of = plain(handle, 4)
        show("engines", get(of, 802, INT64, 1))
        status, count, found = configs(of, mode)
        show("configs", mode, status, count)
        for config in found:
            engine = make(ENGINE)
            status, _, _ = get_objects(config, 300, [engine])
            show(
                "engine",
                status,
                get(engine, 1301, INT64, 1),
                get(engine, 1303, 11, 12),
                count_of(engine, 1303, 11),
                [note for note in get(engine, 1305, 19, 8)[2] if note != 3],
            )
            plan = make(PLAN)
            codes = (
                put(plan, 400, HANDLE, handle),
                put(plan, 401, DESCRIPTOR, config),
                cudnn.cudnnBackendFinalize(plan),
            )
            show("plan", codes)
            if any(codes):
                continue
            size = get(plan, 402, INT64, 1)
            y = Memory(ctypes.c_float, 512)
            show(
                "run",
                size,
                run(plan, (1, 2, 3), (x.address, w.address, y.address), room),
                [round(value, 3) for value in y.read(stream)][:48],
            )
    show("round", round_)

# A scalar on the host, read when the plan is run and not later.
of = scaled(handle)
status, count, found = configs(of, 3)
show("scaled", status, count)
for config in found[:2]:
    plan = make(PLAN)
    codes = (
        put(plan, 400, HANDLE, handle),
        put(plan, 401, DESCRIPTOR, config),
        cudnn.cudnnBackendFinalize(plan),
    )
    show("plan", codes)
    if any(codes):
        continue
    y, number = Memory(ctypes.c_float, 64), ctypes.c_float(2.5)
    for value in (2.5, -1.0):
        number.value = value
        ran = run(plan, (1, 2, 3), (x.address, c_void_p(ctypes.addressof(number)), y.address), room)
        number.value = 99
        show("run", ran, [round(value, 3) for value in y.read(stream)][:16])

# An engine by its number, and one that there is not.
of = plain(handle, 5)
for number in (0, 1, 9999):
    engine = make(ENGINE)
    show(
        "engine",
        number,
        put(engine, 1300, DESCRIPTOR, of),
        put(engine, 1301, INT64, number),
        cudnn.cudnnBackendFinalize(engine),
    )

# What is there to be read of a tensor, and what is wrong.
it = tensor(7, (1, 2, 3, 4), (24, 12, 4, 1))
show(
    "get",
    get(it, 902, INT64, 8),
    get(it, 902, INT64, 2),
    count_of(it, 902, INT64),
    get(it, 901, DATA_TYPE, 1),
    get(it, 907, BOOLEAN, 1),
    get(it, 906, INT64, 1),
)
show(
    "wrong",
    get(it, 902, DATA_TYPE, 8),
    get(it, 100, INT64, 8),
    get(it, 902, INT64, -1),
    get(None, 902, INT64, 8),
)
show(
    "final",
    cudnn.cudnnBackendFinalize(it),
    put(it, 906, INT64, 8),
    cudnn.cudnnBackendFinalize(None),
)
bad = make(TENSOR)
show("unfinished", get(bad, 902, INT64, 8), cudnn.cudnnBackendFinalize(bad))
show(
    "set",
    put(bad, 901, INT64, 0),
    put(bad, 901, DATA_TYPE, 0, 0),
    put(bad, 100, DATA_TYPE, 0),
    put(bad, 99999, DATA_TYPE, 0),
    put(None, 901, DATA_TYPE, 0),
    cudnn.cudnnBackendSetAttribute(bad, 901, DATA_TYPE, c_int64(1), None),
    put(bad, 901, DATA_TYPE, 0),
)
show("lacks dimensions", cudnn.cudnnBackendFinalize(bad))
show(
    "negative",
    put(bad, 902, INT64, 1, -2, 3, 4),
    put(bad, 903, INT64, 24, 12, 4, 1),
    put(bad, 906, INT64, 7),
    put(bad, 900, INT64, 16),
    cudnn.cudnnBackendFinalize(bad),
)
forward = make(FORWARD)
show(
    "not final",
    put(forward, 704, DESCRIPTOR, bad),
    put(forward, 702, DESCRIPTOR, it),
    cudnn.cudnnBackendFinalize(forward),
)
show("no such type", cudnn.cudnnBackendCreateDescriptor(99, byref(c_void_p())))
pack = make(PACK)
show(
    "pack",
    put(pack, 1000, INT64, 7, 8),
    put(pack, 1001, POINTER, 4096),
    cudnn.cudnnBackendFinalize(pack),
)
show(
    "pack",
    put(pack, 1000, POINTER, 7),
    put(pack, 1001, INT64, 7),
    put(pack, 1003, POINTER, 1, 2),
    put(pack, 901, INT64, 1),
    put(pack, 1002, POINTER, 1),
)
show(
    "destroy",
    cudnn.cudnnBackendDestroyDescriptor(it),
    cudnn.cudnnBackendDestroyDescriptor(None),
    cudnn.cudnnDestroy(handle),
)
