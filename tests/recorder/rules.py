# SPDX-License-Identifier: Apache-2.0
"""Where Farcall, by design, asks a driver for other calls than the program made. Each rule has its reason and the decision
it follows from; the comparison counts what each one takes, and a rule that takes nothing fails the test.

A direct call is one of
    nothing   it copies no bytes, or lists no functions
    refused   it failed, and the client refused it by itself
    local     the client answers it (CLIENT)
    once      the client remembers the answer, so only some of the calls arrive (REMEMBERED)
    discarded it failed, and what the server had of it is thrown away (DISCARDED)
    deferred  it arrives, perhaps after later calls (DEFERRED)
    waited    the server parks it and polls (WAITS)
    lowered   it arrives as other calls (LOWERED)
    overtaken it arrives, perhaps after later calls that do not need it (OVERTAKEN)
    same      it arrives as it is
and a call in the remote log that none of these asked for must be one of ADDED.
"""
from call_log import Call

REFUSED = "D5: a call that fails by its arguments or state is refused on the client, with the code the device gives"

NOTHING = "D3: a copy of no bytes, or a list of no entries, asks for nothing"

# Calls the client answers from its own state. They are no evidence of anything crossing, and not counted.
CLIENT = {
    "D3: start-up, error texts and symbol lookup never leave the client": {
        "cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress", "cuGetProcAddress_v2",
        "cuGetExportTable", "cuModuleGetLoadingMode", "cuThreadExchangeStreamCaptureMode"},
    "D3: facts of devices come with the handshake": {
        "cuDeviceGet", "cuDeviceGetCount", "cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceGetUuid_v2", "cuDeviceTotalMem_v2",
        "cuDeviceGetAttribute", "cuDeviceGetProperties", "cuDeviceComputeCapability", "cuDeviceGetPCIBusId",
        "cuDeviceGetByPCIBusId", "cuDeviceCanAccessPeer", "cuDeviceGetP2PAttribute"},
    "D3: the time between two events comes with the word that the second has completed": {
        "cuEventElapsedTime", "cuEventElapsedTime_v2"},
    "D10: the stack of contexts, the primary's flags and references are client state": {
        "cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxPushCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent", "cuCtxPopCurrent_v2",
        "cuCtxGetDevice", "cuCtxGetDevice_v2", "cuCtxGetFlags", "cuCtxGetId", "cuCtxGetApiVersion",
        "cuDevicePrimaryCtxGetState", "cuDevicePrimaryCtxSetFlags", "cuDevicePrimaryCtxSetFlags_v2",
        "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2"},
    "D3: what a stream is, the client knows": {
        "cuStreamGetFlags", "cuStreamGetPriority", "cuStreamGetId", "cuStreamGetCtx", "cuStreamGetCtx_v2", "cuStreamGetDevice"},
    "D3: what a graph is and what its nodes do, the client knows": {
        "cuGraphGetNodes", "cuGraphGetRootNodes", "cuGraphGetEdges_v2", "cuGraphNodeGetDependencies",
        "cuGraphNodeGetDependentNodes_v2", "cuGraphNodeGetType", "cuGraphMemsetNodeGetParams", "cuGraphMemcpyNodeGetParams",
        "cuGraphBatchMemOpNodeGetParams", "cuGraphExecGetFlags", "cuGraphNodeGetEnabled"},
    "D14: user objects are the application's; the memory of graphs is the session's credit": {
        "cuUserObjectCreate", "cuUserObjectRetain", "cuUserObjectRelease", "cuGraphRetainUserObject", "cuGraphReleaseUserObject",
        "cuDeviceGetGraphMemAttribute", "cuDeviceGraphMemTrim"},
    "D17: capture state is the client's": {
        "cuStreamIsCapturing", "cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v3"},
    "D6: names, layouts and attributes of functions come with the function": {
        "cuFuncGetAttribute", "cuFuncGetName", "cuFuncGetParamInfo", "cuKernelGetAttribute",
        "cuKernelGetLibrary", "cuKernelGetName", "cuKernelGetParamInfo"},
    "D3: addresses are chosen on the client, in memory the server granted before": {
        "cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocAsync", "cuMemFree_v2", "cuMemFreeAsync", "cuMemGetAddressRange_v2",
        "cuPointerGetAttribute", "cuPointerGetAttributes", "cuPointerSetAttribute", "cuDeviceGetDefaultMemPool",
        "cuDeviceGetMemPool", "cuDeviceSetMemPool", "cuMemPoolGetAttribute", "cuMemPoolSetAttribute", "cuMemPoolTrimTo", "cuMemPoolCreate",
        "cuMemPoolDestroy", "cuMemAllocFromPoolAsync", "cuMemPoolGetAccess", "cuMemPoolSetAccess", "cuMemAddressReserve", "cuMemAddressFree",
        "cuMemGetAllocationGranularity", "cuMemGetAccess", "cuMemRetainAllocationHandle", "cuMemGetAllocationPropertiesFromHandle"},
    "D3: host memory is the client's own": {
        "cuMemAllocHost_v2", "cuMemFreeHost", "cuMemHostAlloc", "cuMemHostGetFlags", "cuMemHostRegister",
        "cuMemHostRegister_v2", "cuMemHostUnregister", "cuMemHostGetDevicePointer_v2"},
    "D3: block sizes are searched on the client, with the limits of the device and the function": {
        "cuOccupancyMaxPotentialBlockSize", "cuOccupancyMaxPotentialBlockSizeWithFlags"},
    "D11: free memory is what the ledger says": {"cuMemGetInfo_v2"},
}

# Calls whose answer the client keeps: the first of a kind arrives, later ones may not.
REMEMBERED = {
    "D10: the primary context is retained on the worker once": {"cuDevicePrimaryCtxRetain"},
    "D6: a name that was looked up is remembered": {
        "cuModuleGetFunction", "cuLibraryGetKernel", "cuModuleGetGlobal_v2", "cuLibraryGetGlobal", "cuKernelGetFunction",
        "cuLibraryGetModule"},
    "D3: an answer stands until a call that may change it": {
        "cuCtxGetLimit", "cuCtxGetCacheConfig", "cuCtxGetSharedMemConfig", "cuCtxGetStreamPriorityRange",
        "cuModuleGetFunctionCount", "cuLibraryGetKernelCount", "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "cuOccupancyAvailableDynamicSMemPerBlock",
        "cuDeviceGetTexture1DLinearMaxWidth", "cuDeviceGetExecAffinitySupport"},
    "D6: a function's module is known, but that of a library's function": {"cuFuncGetModule"},
}

# A call that fails directly, and the successful ones that may arrive in its place.
DISCARDED = {
    "D17: a capture that the client found invalid ends on the server, and its graph is thrown away": {
        "cuStreamEndCapture": ("cuStreamEndCapture", "cuGraphDestroy")},
}

# Calls that arrive, but perhaps after later ones: name to the argument that says what they end.
DEFERRED = {
    "D4: the issue thread does not wait: an unload follows once the work before it is done": {
        "cuModuleUnload": "hmod", "cuLibraryUnload": "library"},
}

WAITS = {
    "D4: a wait is parked on the server, which polls for its end": {
        "cuStreamSynchronize", "cuStreamQuery", "cuEventSynchronize", "cuEventQuery", "cuCtxSynchronize", "cuCtxSynchronize_v2"},
}


def to(name, *, drop=(), rename=(), **constants):
    """As `name`, without some arguments, with some renamed, and with others of a fixed value."""
    def lower(call: Call) -> list[tuple[str, dict[str, str]]]:
        arguments = {k: v for k, v in call.arguments.items() if k.lstrip("*") not in drop}
        for old, new in rename:
            for prefix in ("", "*"):
                if prefix + old in arguments:
                    arguments[prefix + new] = arguments.pop(prefix + old)
        return [(name, arguments | constants)]
    return lower


def stream(call: Call) -> str:
    return call.arguments.get("hStream", "h:CUstream_st:0x0")


def on_default(name):
    """The form that waits is the form with a stream."""
    return lambda call: [(name, call.arguments | {"hStream": "h:CUstream_st:0x0"})]


def device_copy(call: Call):
    arguments = call.arguments
    return [("cuMemcpyDtoDAsync_v2", {"dstDevice": arguments["dst"], "srcDevice": arguments["src"],
                                      "ByteCount": arguments["ByteCount"], "hStream": stream(call)})]


def box(call: Call):
    """Host sides are packed on the wire; a box is copied there slice by slice. Between device memory it is one copy in 3D."""
    get = lambda field: call.number_of("pCopy." + field) if "pCopy." + field in call.arguments else 0  # noqa: E731
    host, device = 1, 2
    width, height, depth = get("WidthInBytes"), get("Height"), max(get("Depth"), 1)
    starts, types = {}, {side: get(side + "MemoryType") for side in ("src", "dst")}
    if width == 0 or height == 0 or types == {"src": host, "dst": host}:
        return []
    for side in ("src", "dst"):
        rows = get(side + "Z") * get(side + "Height") + get(side + "Y")
        starts[side] = get(side + "Device") + rows * get(side + "Pitch") + get(side + "XInBytes")
    common = {"hStream": stream(call), "pCopy.WidthInBytes": f"n:{width}"}
    for side in ("src", "dst"):
        common |= {f"pCopy.{side}MemoryType": f"n:{types[side]}", f"pCopy.{side}XInBytes": "n:0", f"pCopy.{side}Y": "n:0"}
    if types == {"src": device, "dst": device}:
        for side in ("src", "dst"):
            common |= {f"pCopy.{side}Device": f"a:{starts[side]}", f"pCopy.{side}Pitch": f"n:{get(side + 'Pitch')}"}
        return [("cuMemcpy3DAsync_v2", common | {"pCopy.Height": f"n:{height}", "pCopy.Depth": f"n:{depth}"})]
    calls = []
    for z in range(depth):
        arguments = dict(common, **{"pCopy.Height": f"n:{height}"})
        for side in ("src", "dst"):
            if types[side] == host:
                arguments |= {f"pCopy.{side}Host": "p:set", f"pCopy.{side}Pitch": f"n:{width}"}
            else:
                start = starts[side] + z * get(side + "Height") * get(side + "Pitch")
                arguments |= {f"pCopy.{side}Device": f"a:{start}", f"pCopy.{side}Pitch": f"n:{get(side + 'Pitch')}"}
        calls.append(("cuMemcpy2DAsync_v2", arguments))
    return calls


def launch(call: Call):
    """Parameters travel in one buffer, whichever form they came in."""
    arguments = {k.removeprefix("config."): v for k, v in call.arguments.items()}
    dropped = {"kernelParams", "extra", "config", "attrs", "numAttrs"}
    return [("cuLaunchKernel", {k: v for k, v in arguments.items() if k not in dropped})]


def cooperative(call: Call):
    config = {"hStream", "sharedMemBytes", "gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ"}
    arguments = {("config." if k in config else "") + k: v for k, v in call.arguments.items() if k != "kernelParams"}
    return [("cuLaunchKernelEx", arguments | {"config.numAttrs": "n:1"})]


def whole_answer(call: Call):
    return [(call.base, {k: v for k, v in call.arguments.items() if v != "p:null"})]


def listed(count, owner, room):
    """Asked for whole, by as many as there are."""
    def lower(call: Call):
        kept = {k: v for k, v in call.arguments.items() if k != room}
        return [(count, {owner: call.arguments[owner]}), (call.base, kept)]
    return lower


def record_event(call: Call):
    return [("cuEventRecord", {k: v for k, v in call.arguments.items() if k != "flags"})]


def instantiate(call: Call):
    arguments = {k: v for k, v in call.arguments.items() if k.lstrip("*") in ("phGraphExec", "hGraph")}
    flags = call.arguments.get("flags", "n:0")
    return [("cuGraphInstantiateWithFlags", arguments | {"flags": flags})]


def instantiate_by_structure(call: Call):
    upload, flags = 2, call.number_of("instantiateParams.flags")
    made = call.arguments["*phGraphExec"]
    calls = [("cuGraphInstantiateWithFlags",
              {"*phGraphExec": made, "hGraph": call.arguments["hGraph"], "flags": f"n:{flags & ~upload}"})]
    if flags & upload:
        calls.append(("cuGraphUpload", {"hGraph": made, "hStream": call.arguments["instantiateParams.hUploadStream"]}))
    return calls


def kept(name, *arguments):
    """As `name`, with these arguments only."""
    return lambda call: [(name, {k: v for k, v in call.arguments.items() if k.lstrip("*") in arguments})]


ADD_NODE = kept("cuGraphAddNode_v2", "phGraphNode", "hGraph")

LOAD = ("numOptions", "options", "optionValues", "fname", "image", "fatCubin")
LIBRARY = ("fileName", "code", "jitOptions", "jitOptionsValues", "numJitOptions", "libraryOptions", "libraryOptionValues",
           "numLibraryOptions")
MEMSETS = {f"cuMemset{form}_v2": f"cuMemset{form}Async" for form in ("D8", "D16", "D32", "D2D8", "D2D16", "D2D32")}

LOWERED = {
    "D16: an older name of a call arrives as the newest": {
        "cuCtxCreate_v2": to("cuCtxCreate_v4", ctxCreateParams="p:null"),
        "cuCtxCreate_v3": to("cuCtxCreate_v4", drop=("paramsArray", "numParams"), ctxCreateParams="p:null"),
        "cuCtxDestroy": to("cuCtxDestroy_v2"),
        "cuDevicePrimaryCtxReset": to("cuDevicePrimaryCtxReset_v2"),
        "cuEventDestroy": to("cuEventDestroy_v2"),
        "cuStreamDestroy": to("cuStreamDestroy_v2"),
        "cuStreamCreate": to("cuStreamCreateWithPriority", rename=[("Flags", "flags")], priority="n:0"),
    },
    "D3: a stream's priority arrives within the range the device has": {
        "cuStreamCreateWithPriority": to("cuStreamCreateWithPriority", drop=("priority",)),
    },
    "D4: a copy or fill that waits arrives as the one in stream order; the client waits": {
        **{name: on_default(target) for name, target in MEMSETS.items()},
        "cuMemcpyDtoD_v2": on_default("cuMemcpyDtoDAsync_v2"),
        "cuMemcpyPeer": on_default("cuMemcpyPeerAsync"),
        "cuMemcpyHtoD_v2": on_default("cuMemcpyHtoDAsync_v2"),
        "cuMemcpyDtoH_v2": on_default("cuMemcpyDtoHAsync_v2"),
    },
    "D3: the client knows which side of a copy is whose": {
        "cuMemcpy": device_copy, "cuMemcpyAsync": device_copy,
    },
    "D7: host sides of a box cross packed": {
        name: box for name in ("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DAsync_v2", "cuMemcpy3D_v2",
                               "cuMemcpy3DAsync_v2")},
    "D3: a launch is one record; only attributes need the longer call": {
        "cuLaunchKernel": launch, "cuLaunchKernelEx": launch, "cuLaunchCooperativeKernel": cooperative,
    },
    "D14: host functions run on the client; the device runs the server's in their place": {
        "cuStreamAddCallback": to("cuLaunchHostFunc", drop=("callback", "flags"), fn="p:set", userData="p:set"),
        "cuLaunchHostFunc": to("cuLaunchHostFunc", fn="p:set", userData="p:set"),
    },
    "D3: an answer is fetched whole, whatever of it the program takes": {
        name: whole_answer for name in ("cuCtxGetStreamPriorityRange", "cuModuleGetGlobal_v2", "cuLibraryGetGlobal")},
    "D19: the header spells a parameter of the variant another way": {
        "cuStreamGetAttribute": to("cuStreamGetAttribute", rename=[("value_out", "value")]),
        "cuStreamSetAttribute": to("cuStreamSetAttribute", rename=[("value", "param")]),
        "cuGraphUpload": to("cuGraphUpload", rename=[("hGraphExec", "hGraph")]),
        "cuGraphLaunch": to("cuGraphLaunch", rename=[("hGraphExec", "hGraph")]),
        "cuStreamCopyAttributes": to("cuStreamCopyAttributes", rename=[("dst", "dstStream"), ("src", "srcStream")]),
    },
    "D4: flags that change nothing are left out": {
        "cuEventRecordWithFlags": record_event,
    },
    "D17: the server captures relaxed": {
        "cuStreamBeginCapture": to("cuStreamBeginCapture_v2", mode="n:2"),
        "cuStreamBeginCapture_v2": to("cuStreamBeginCapture_v2", mode="n:2"),
    },
    "D3: all ways to add a node, and to change one, arrive as one": {
        **{f"cuGraphAdd{kind}Node": ADD_NODE
           for kind in ("Empty", "ChildGraph", "EventRecord", "EventWait", "Memset", "Memcpy", "BatchMemOp")},
        "cuGraphAddNode_v2": ADD_NODE,
        "cuGraphAddDependencies": kept("cuGraphAddDependencies_v2", "hGraph"),
        "cuGraphRemoveDependencies": kept("cuGraphRemoveDependencies_v2", "hGraph"),
        "cuGraphMemsetNodeSetParams": kept("cuGraphNodeSetParams", "hNode"),
        "cuGraphExecMemsetNodeSetParams": kept("cuGraphExecNodeSetParams", "hGraphExec", "hNode"),
    },
    "D17: one way to instantiate crosses": {
        "cuGraphInstantiate": instantiate, "cuGraphInstantiate_v2": instantiate,
        "cuGraphInstantiateWithParams": instantiate_by_structure,
    },
    "D6: the module of a library's function is the library's": {
        "cuFuncGetModule": lambda call: [("cuLibraryGetModule", {"*pMod": call.arguments["*hmod"]})]},
    "D6: a list of functions is fetched whole": {
        "cuModuleEnumerateFunctions": listed("cuModuleGetFunctionCount", "mod", "numFunctions"),
        "cuLibraryEnumerateKernels": listed("cuLibraryGetKernelCount", "lib", "numKernels"),
    },
    "D6: every image loads from memory, its options are the server's": {
        **{name: to("cuModuleLoadDataEx", drop=LOAD, image="p:set")
           for name in ("cuModuleLoad", "cuModuleLoadData", "cuModuleLoadFatBinary", "cuModuleLoadDataEx")},
        **{name: to("cuLibraryLoadData", drop=LIBRARY, code="p:set") for name in ("cuLibraryLoadFromFile", "cuLibraryLoadData")},
    },
}

# What may directly follow a call.
FOLLOWED = {
    "D6: a listed function is looked up by its name": {
        "cuModuleEnumerateFunctions": "cuModuleGetFunction", "cuLibraryEnumerateKernels": "cuLibraryGetKernel"},
}

# Calls ahead of which another arrives, the first time.
PRECEDED = {
    "D5: a cooperative launch fails at the call if its blocks are not resident at once, which the driver knows": {
        "cuLaunchCooperativeKernel": "cuOccupancyMaxActiveBlocksPerMultiprocessor"},
}

# Calls that arrive in their turn, or after later ones that do not name what they make.
OVERTAKEN = {
    "D4: what may load code runs on the helper; if nobody waits for it, calls that do not need it may pass": {
        "cuModuleLoadDataEx", "cuLibraryLoadData", "cuKernelGetFunction"},
}

# Calls of the server's own. Events and streams are told apart by handle: see compare.py.
REPORT = "D3: each process of the server describes the device before a session begins"
OWN_EVENTS = "D4: the server watches streams by events of its own, which it polls"
OWN_STREAMS = "D4: a thread's own stream, and the one that flushes device printf, are made by the worker"
OWN_LISTS = "D6: an image of few functions comes with what is known of them: a load and a list behind it"
ADDED = {
    "D4: the issue thread makes the record's context current": {"cuCtxSetCurrent", "cuCtxPopCurrent_v2"},
    "D17: threads of the server break no capture; a stream that captures gets no watch": {
        "cuThreadExchangeStreamCaptureMode", "cuStreamIsCapturing"},
    "D17: the server looks up the graph that a capture makes": {"cuStreamGetCaptureInfo_v3"},
    "D17: what a capture made is listed when somebody asks": {"cuGraphGetNodes", "cuGraphGetEdges_v2", "cuGraphNodeGetType"},
    "D4: a wait polls": {"cuStreamQuery", "cuEventQuery", "cuCtxSynchronize"},
    "D3: granted memory is mapped into the window": {
        "cuMemAddressReserve", "cuMemAddressFree", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease"},
    "D7: the server asks whether a new stream blocks, to know what may pass an upload's bytes": {"cuStreamGetFlags"},
    "D3: the server asks the time between two events once the second has completed": {"cuEventElapsedTime"},
    "D7: staging memory of the server is pinned": {"cuMemHostRegister_v2", "cuMemHostUnregister"},
    "D3: host memory that kernels may reach gets a mirror at its own address": {"cuMemHostGetDevicePointer_v2"},
    "D6: a function's attributes and layout are fetched with it": {
        "cuFuncGetAttribute", "cuFuncGetParamInfo", "cuKernelGetAttribute", "cuKernelGetParamInfo"},
    "D6: lists of functions travel as names": {"cuFuncGetName", "cuKernelGetName"},
}
