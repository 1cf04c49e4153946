# SPDX-License-Identifier: Apache-2.0
"""Prints what cuInit says, which devices there are, and what each can do with the first."""

import ctypes
import json
import uuid

cuda = ctypes.CDLL("libcuda.so.1")
seen = {"init": cuda.cuInit(0)}
if seen["init"] == 0:
    count, raw, bus = (
        ctypes.c_int(),
        ctypes.create_string_buffer(16),
        ctypes.create_string_buffer(64),
    )
    assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
    seen.update(uuids=[], buses=[], access=[], atomics=[])
    for device in range(count.value):
        assert (
            cuda.cuDeviceGetUuid_v2(raw, device) == 0
            and cuda.cuDeviceGetPCIBusId(bus, 64, device) == 0
        )
        seen["uuids"].append(str(uuid.UUID(bytes=raw.raw)))
        seen["buses"].append(bus.value.decode())
    for name, attribute in (("access", 2), ("atomics", 3)):  # CU_DEVICE_P2P_ATTRIBUTE_...
        for device in range(1, count.value):
            can = ctypes.c_int()
            assert cuda.cuDeviceGetP2PAttribute(ctypes.byref(can), attribute, device, 0) == 0
            seen[name].append(can.value)
    handle = ctypes.c_int()
    seen["one_more"] = cuda.cuDeviceGet(ctypes.byref(handle), count.value)
print(json.dumps(seen))
