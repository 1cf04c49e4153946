# SPDX-License-Identifier: Apache-2.0
"""What right calls are made with: a context, device memory, and the objects of each library."""

import ctypes
import struct
from ctypes import byref, c_int, c_int64, c_size_t, c_uint64, c_void_p

ROOM = 1 << 16  # bytes for each parameter
MOST = 32  # parameters
CUDA_ERROR = 10000  # and the driver's code: what a synchronisation said


def content(element):
    """Bytes behind a pointer to the host."""
    if element in ("double", "cuDoubleComplex", "double2"):
        return struct.pack("dd", 1, 0) * 64
    if element in ("int", "unsigned int"):
        return struct.pack("i", 8) * 256
    if element in ("long", "long long", "size_t", "unsigned long"):
        return struct.pack("q", 8) * 256
    if element == "zero":
        return bytes(4096)
    return struct.pack("ff", 1, 0) * 256


class Objects:
    def __init__(self, name, soname, recipes):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.library = ctypes.CDLL(soname)
        self.recipes, self.made = recipes, {}
        context, address, device = c_void_p(), c_uint64(), c_int()
        self.check(self.cuda.cuInit(0))
        self.check(self.cuda.cuDeviceGet(byref(device), 0))
        self.check(self.cuda.cuDevicePrimaryCtxRetain(byref(context), device))
        self.check(self.cuda.cuCtxSetCurrent(context))
        self.check(self.cuda.cuMemAlloc_v2(byref(address), c_size_t(ROOM * (MOST + 1))))
        self.check(self.cuda.cuMemsetD8_v2(address, 0, c_size_t(ROOM * (MOST + 1))))
        self.memory = address.value
        self.arrays = {}
        for kind, recipe in recipes.items():
            self.make(kind, recipe)

    @staticmethod
    def check(status):
        assert status == 0, f"CUDA error {status}"

    def device(self, index):
        return self.memory + ROOM * index

    def array(self, index):
        """A device array of device addresses."""
        if index not in self.arrays:
            # Room for the 8 matrices of index, all the same memory.
            addresses = struct.pack("Q", self.device(index) + 4096) * 64
            self.check(
                self.cuda.cuMemcpyHtoD_v2(
                    c_uint64(self.device(index)), addresses, c_size_t(len(addresses))
                )
            )
            self.arrays[index] = self.device(index)
        return self.arrays[index]

    def word(self, argument):
        """An argument of a recipe: a number, "d3" of device memory, "w7" a wide number, "@kind" an object, "[1,2]" of ints."""
        if isinstance(argument, list):
            return (c_int * len(argument))(*argument)
        if isinstance(argument, float):
            return ctypes.c_double(argument)
        if isinstance(argument, int):
            return c_int(argument)
        if argument[0] == "w":
            return c_int64(int(argument[1:]))
        if argument[0] == "d":
            return c_void_p(self.device(int(argument[1:])))
        if argument[0] == "@":
            return self.get(argument[1:])
        raise ValueError(argument)

    def make(self, kind, recipe):
        """[[function, arguments...], ...]: "&" stands for where the object goes, "=" for the object."""
        is_number = kind == "cufftHandle"
        object_ = c_int() if is_number else c_void_p()
        for function, *arguments in recipe:
            passed = [
                byref(object_) if a == "&" else object_ if a == "=" else self.word(a)
                for a in arguments
            ]
            status = getattr(self.library, function)(*passed)
            assert status == 0, f"{function}: {status}"
        self.made[kind] = object_

    def get(self, kind):
        return self.made[kind]

    def null(self, kind):
        return c_int(-1) if kind == "cufftHandle" else c_void_p()

    def late(self, code):
        """What becomes known after the call: the driver's code, or that of a right call of the handle."""
        status = self.cuda.cuCtxSynchronize()
        if status != 0:
            return CUDA_ERROR + status
        handle = next(iter(self.made), None)
        one = byref(ctypes.c_float(1))
        after = {
            "cublasHandle_t": lambda: self.library.cublasSscal_v2(
                self.get(handle), 1, one, c_void_p(self.device(MOST)), 1
            )
        }
        return after[handle]() if code == 0 and handle in after else 0
