# SPDX-License-Identifier: Apache-2.0
"""Live and destroyed objects of the driver API, and structures that a call accepts, for one process of the sweep."""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_char_p, c_uint64, c_void_p

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 value;
.visible .entry k() { ret; }
"""
SCRATCH_BYTES = 1 << 16


class Objects:
    """Makes what a parameter's type names; each call makes a new one."""

    def __init__(self, library: str):
        self.cu = ctypes.CDLL(library)
        self.kept = []  # what calls point at
        # Never freed and never registered: a buffer of `kept` may lie where one was that a call
        # page-locked, which CUDA knows then.
        self.unknown = ctypes.create_string_buffer(SCRATCH_BYTES)
        self.do("cuInit", 0)
        self.do("cuDevicePrimaryCtxRetain", byref(context := c_void_p()), 0)
        self.do("cuCtxSetCurrent", context)
        self.context = context.value
        self.host_function = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: None)
        self.makers = {
            "CUcontext": self.a_context,
            "CUstream": self.a_stream,
            "CUevent": self.an_event,
            "CUmodule": self.a_module,
            "CUfunction": self.a_function,
            "CUlibrary": self.a_library,
            "CUkernel": self.a_kernel,
            "CUgraph": self.a_graph,
            "CUgraphNode": self.a_node,
            "CUgraphExec": self.an_executable,
            "CUmemoryPool": self.a_pool,
            "CUarray": self.an_array,
            "CUmipmappedArray": self.a_mipmap,
            "CUlinkState": self.a_link,
            "CUuserObject": self.a_user_object,
            "CUgreenCtx": self.a_green_context,
            "CUtexref": self.a_texture_reference,
            "CUdeviceptr": self.memory,
            "CUmemGenericAllocationHandle": self.a_physical,
            "CUtexObject": self.a_texture,
            "CUsurfObject": self.a_surface,
        }
        self.enders = {
            "CUcontext": "cuCtxDestroy_v2",
            "CUstream": "cuStreamDestroy_v2",
            "CUevent": "cuEventDestroy_v2",
            "CUmodule": "cuModuleUnload",
            "CUlibrary": "cuLibraryUnload",
            "CUgraph": "cuGraphDestroy",
            "CUgraphNode": "cuGraphDestroyNode",
            "CUgraphExec": "cuGraphExecDestroy",
            "CUmemoryPool": "cuMemPoolDestroy",
            "CUarray": "cuArrayDestroy",
            "CUmipmappedArray": "cuMipmappedArrayDestroy",
            "CUlinkState": "cuLinkDestroy",
            "CUgreenCtx": "cuGreenCtxDestroy",
            "CUdeviceptr": "cuMemFree_v2",
            "CUmemGenericAllocationHandle": "cuMemRelease",
            "CUtexObject": "cuTexObjectDestroy",
            "CUsurfObject": "cuSurfObjectDestroy",
        }

    def do(self, name, *arguments):
        code = getattr(self.cu, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name}: {code}")

    def made(self, name, *rest, first=True):
        out = c_void_p()
        self.do(name, *((byref(out), *rest) if first else (*rest, byref(out))))
        return out.value

    def live(self, kind):
        return self.makers[kind]()

    def destroyed(self, kind):
        handle = self.live(kind)
        self.do(self.enders[kind], c_uint64(handle))
        if kind == "CUcontext":
            self.do("cuCtxSetCurrent", c_void_p(self.context))
        return handle

    def scratch(self, content=b""):
        buffer = ctypes.create_string_buffer(content, SCRATCH_BYTES)
        self.kept.append(buffer)
        return ctypes.addressof(buffer)

    def foreign(self):
        """Readable memory that is no object of CUDA."""
        ctypes.memset(self.unknown, 0, SCRATCH_BYTES)
        return ctypes.addressof(self.unknown)

    def a_context(self):
        out = self.made("cuCtxCreate_v4", None, 0, 0)
        self.do("cuCtxSetCurrent", c_void_p(self.context))
        return out

    def a_stream(self):
        return self.made("cuStreamCreate", 1)

    def an_event(self):
        return self.made("cuEventCreate", 0)

    def a_module(self):
        return self.made("cuModuleLoadData", c_char_p(PTX))

    def a_function(self):
        return self.made("cuModuleGetFunction", c_void_p(self.a_module()), b"k")

    def a_library(self):
        return self.made("cuLibraryLoadData", c_char_p(PTX), None, None, 0, None, None, 0)

    def a_kernel(self):
        return self.made("cuLibraryGetKernel", c_void_p(self.a_library()), b"k")

    def a_graph(self):
        return self.made("cuGraphCreate", 0)

    def a_node(self, kind="Empty"):
        graph = c_void_p(self.a_graph())
        if kind == "Kernel":
            return self.made(
                "cuGraphAddKernelNode_v2",
                graph,
                None,
                c_uint64(0),
                c_void_p(self.structure("CUDA_KERNEL_NODE_PARAMS")),
            )
        if kind == "Memcpy":
            return self.made(
                "cuGraphAddMemcpyNode",
                graph,
                None,
                c_uint64(0),
                c_void_p(self.structure("CUDA_MEMCPY3D")),
                c_void_p(self.context),
            )
        if kind == "Memset":
            params = c_void_p(self.structure("CUDA_MEMSET_NODE_PARAMS"))
            return self.made(
                "cuGraphAddMemsetNode", graph, None, c_uint64(0), params, c_void_p(self.context)
            )
        if kind == "Host":
            return self.made(
                "cuGraphAddHostNode",
                graph,
                None,
                c_uint64(0),
                c_void_p(self.structure("CUDA_HOST_NODE_PARAMS")),
            )
        if kind == "ChildGraph":
            return self.made(
                "cuGraphAddChildGraphNode", graph, None, c_uint64(0), c_void_p(self.a_graph())
            )
        if kind in ("EventRecord", "EventWait"):
            return self.made(
                f"cuGraphAdd{kind}Node", graph, None, c_uint64(0), c_void_p(self.an_event())
            )
        return self.made("cuGraphAddEmptyNode", graph, None, c_uint64(0))

    def an_executable(self):
        return self.made("cuGraphInstantiateWithFlags", c_void_p(self.a_graph()), c_uint64(0))

    def a_pool(self):
        return self.made("cuMemPoolCreate", c_void_p(self.structure("CUmemPoolProps")))

    def an_array(self):
        return self.made("cuArrayCreate_v2", c_void_p(self.structure("CUDA_ARRAY_DESCRIPTOR")))

    def a_mipmap(self):
        return self.made(
            "cuMipmappedArrayCreate", c_void_p(self.structure("CUDA_ARRAY3D_DESCRIPTOR")), 1
        )

    def a_link(self):
        return self.made("cuLinkCreate_v2", 0, None, None, first=False)

    def a_user_object(self):
        return self.made("cuUserObjectCreate", None, self.host_function, 1, 1)

    def a_green_context(self):
        resource, result, count = self.scratch(), self.scratch(), ctypes.c_uint(1)
        self.do("cuDeviceGetDevResource", 0, c_void_p(resource), 1)
        self.do(
            "cuDevSmResourceSplitByCount",
            c_void_p(result),
            byref(count),
            c_void_p(resource),
            None,
            0,
            1,
        )
        description = self.made("cuDevResourceGenerateDesc", c_void_p(result), 1)
        return self.made("cuGreenCtxCreate", c_void_p(description), 0, 1)

    def a_texture_reference(self):
        return self.made("cuTexRefCreate")

    def memory(self):
        return self.made("cuMemAlloc_v2", c_uint64(4096))

    def a_physical(self):
        return self.made(
            "cuMemCreate",
            c_uint64(2 << 20),
            c_void_p(self.structure("CUmemAllocationProp")),
            c_uint64(0),
        )

    def a_texture(self):
        return self.made(
            "cuTexObjectCreate",
            c_void_p(self.structure("CUDA_RESOURCE_DESC")),
            c_void_p(self.scratch()),
            None,
        )

    def a_surface(self):
        return self.made("cuSurfObjectCreate", c_void_p(self.structure("CUDA_RESOURCE_DESC")))

    def structure(self, kind):
        """The address of one that calls accept; of a kind that is not known here, of zeros."""
        content = b""
        if kind == "CUDA_ARRAY_DESCRIPTOR":
            content = struct.pack("<QQII", 16, 16, 1, 1)
        elif kind == "CUDA_ARRAY3D_DESCRIPTOR":
            content = struct.pack("<QQQIII", 16, 16, 0, 1, 1, 0)
        elif kind == "CUDA_MEMCPY2D":
            content = struct.pack("<QQIxxxxQQQQ", 0, 0, 2, 0, self.memory(), 0, 16)
            content += struct.pack("<QQIxxxxQQQQQQ", 0, 0, 2, 0, self.memory(), 0, 16, 16, 1)
        elif kind == "CUDA_MEMCPY3D":
            side = "<QQQQIxxxxQQQQQQ"
            content = b"".join(
                struct.pack(side, 0, 0, 0, 0, 2, 0, self.memory(), 0, 0, 16, 1) for _ in range(2)
            ) + struct.pack("<QQQ", 16, 1, 1)
        elif kind == "CUDA_KERNEL_NODE_PARAMS":
            content = struct.pack("<QIIIIIII", self.a_function(), 1, 1, 1, 1, 1, 1, 0)
        elif kind == "CUDA_MEMSET_NODE_PARAMS":
            content = struct.pack("<QQIIQQ", self.memory(), 0, 0, 1, 16, 1)
        elif kind == "CUDA_HOST_NODE_PARAMS":
            content = struct.pack("<QQ", ctypes.cast(self.host_function, c_void_p).value, 0)
        elif kind == "CUDA_RESOURCE_DESC":
            content = struct.pack("<IxxxxQ", 0, self.an_array())
        elif kind in ("CUmemAllocationProp", "CUmemPoolProps"):
            content = struct.pack("<IIII", 1, 0, 1, 0)
        elif kind == "CUmemAccessDesc":
            content = struct.pack("<III", 1, 0, 3)
        elif kind == "CUmemLocation":
            content = struct.pack("<II", 1, 0)
        elif kind == "CUlaunchConfig":
            content = struct.pack("<IIIIIIIxxxxQQI", 1, 1, 1, 1, 1, 1, 0, self.a_stream(), 0, 0)
        return self.scratch(content)
