# SPDX-License-Identifier: Apache-2.0
"""Asks, beside PyTorch, for what this driver lacks: by its name, by cuGetProcAddress, and through the runtime of the wheel."""

import ctypes
import pathlib

import torch

NOT_SUPPORTED, NOT_FOUND = 801, 1
NEEDS_NEWER_DRIVER = 36

kept = torch.arange(1 << 16).cuda()
driver = ctypes.CDLL("libcuda.so.1")
junk = (ctypes.c_uint64 * 64)()
for _ in range(3):
    assert driver.cuImportExternalSemaphore(junk, junk) == NOT_SUPPORTED
    assert driver.cuGraphicsMapResources(1, junk, None) == NOT_SUPPORTED

pointer, status = ctypes.c_void_p(7), ctypes.c_int()
assert (
    driver.cuGetProcAddress_v2(
        b"cuTurnTheWorldAround",
        ctypes.byref(pointer),
        13020,
        ctypes.c_uint64(0),
        ctypes.byref(status),
    )
    == 0
)
assert pointer.value is None and status.value == NOT_FOUND

folder = pathlib.Path(torch.__file__).parents[1] / "nvidia"
runtime = ctypes.CDLL(str(next(folder.glob("*/lib/libcudart.so.1*"))))
# The runtime was told at its start that there are none, and says so in its own way.
assert runtime.cudaImportExternalMemory(junk, junk) == NEEDS_NEWER_DRIVER
assert runtime.cudaGetLastError() == NEEDS_NEWER_DRIVER and runtime.cudaGetLastError() == 0
if hasattr(runtime, "cudaMemcpyWithAttributesAsync"):  # of CUDA 13.2
    source = (ctypes.c_char * 64)()
    got = runtime.cudaMemcpyWithAttributesAsync(
        ctypes.c_void_p(kept.data_ptr()), source, ctypes.c_size_t(64), junk, None
    )
    assert got == NEEDS_NEWER_DRIVER and runtime.cudaGetLastError() == NEEDS_NEWER_DRIVER, got
assert torch.equal(kept.cpu(), torch.arange(1 << 16))
print("right")
