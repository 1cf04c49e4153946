#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds for fuzz_serve: from recorded sessions, and by hand for what takes several records.

    make_seeds.py OUT                    the hand-made ones
    make_seeds.py OUT --recording FILE   what tests/tools/link_proxy.py --record-dir stored
    make_seeds.py OUT --client           those for fuzz_client: replies of every size to every generated call

tests/fuzz/serve_items.h says what an input is; tests/fuzz/make_corpus makes the committed corpus of them.
"""
import argparse
import hashlib
import os
import re
import struct

from seed_graphs import (add_node, child_node, conditional, device_copy, edges, event_node, host_node,
    memory_operations, memset_node)
from seed_records import (BUSY, CHUNK_BYTES, CREDIT_BYTES, FENCE_FREES, FRESH, GOODBYE, HEARTBEAT, HOST, HOST_DONE,
    HOST_WINDOW, HOST_WINDOW_END, IDS, IMAGE, LIBRARY_DROP, LIBRARY_PUT, LIBRARY_TAKE, MEMORY, MIRROR_DOWN, MIRROR_UP, MOST_BODY, MOST_ITEMS, NAMED_IMAGE,
    NEED_CREDIT, NOT_READY, NVML, OUT_OF_MEMORY, PREPARED, RECORD, RESERVED, RETURN_CREDIT, SAME_FRAME,
    SHARE_HOST, WANT_REPLY,
    alloc, answer, Body, box, call_ids, chunk, download, free_memory, green, handle, image, item, launch, library, link_input,
    load, named, nvml, of, resource, shape, texture, upload)


def driver_rest():
    """Arrays, textures, links, green contexts, and what asks about a launch."""
    link, array, mipmap = handle("link_state", 40), handle("array", 40), handle("mipmapped_array", 40)
    part, owner, event = handle("green_context", 40), handle("context", 9), handle("event")
    small = [item("cuArray3DCreate_v2", shape(Body().put("Q", array)))]
    levels = [item("cuMipmappedArrayCreate", shape(Body().put("Q", mipmap)).put("I", 2))]
    level = item("cuMipmappedArrayGetLevel", Body().put("Q", handle("array", 41), mipmap).put("I", 1))
    plane = item("cuArrayGetPlane", Body().put("Q", handle("array", 42), array).put("I", 0))
    config = Body().put("Q", handle("function")).put("I", 1, 1, 1, 32, 1, 1, 0).put("Q", 1).put("I", 4).put("Q", *[1] * 8)
    host, in_array = 1, 3
    object_, piece, piece_bytes = handle("mem_handle", 40), handle("mem_handle", 41), 2 << 20
    team = [item("cuMemCreate", Body().put("Q", piece, piece_bytes).put("i", 0).put("I", 0)), of("cuMulticastCreate", object_, 2 * piece_bytes, 1),
            item("cuMulticastAddDevice", Body().put("Q", object_).put("i", 0))]
    bind = of("cuMulticastBindMem", object_, piece_bytes, piece, 0, piece_bytes)
    unbind = item("cuMulticastUnbind", Body().put("Q", object_, piece_bytes, piece_bytes).put("i", 0))
    return {
        "multicast": (PREPARED, [item("cuMulticastGetGranularity", Body().put("I", 1).put("Q", piece_bytes, 0, 0).put("i", 0)), *team, bind, bind, unbind,
                                 of("cuMemRelease", piece), of("cuMemRelease", object_)]),
        "multicast_goes_bound": (PREPARED, team + [bind, of("cuMemRelease", object_), of("cuMemRelease", piece)]),
        "multicast_refused": (PREPARED, [answer("cuMulticastBindMem", OUT_OF_MEMORY), *team, bind, of("cuMemRelease", piece)]),
        "link": (PREPARED, [image(), item("cuLinkCreate_v2", Body().put("Q", link, 1).put("I", 0).put("Q", 32)), link_input(link),
                            item("cuLinkComplete", Body().put("Q", link, 0)), item("cuLinkComplete", Body().put("Q", link, 64)),
                            of("cuLinkDestroy", link), link_input(link)]),
        "link_without_input": (PREPARED, [item("cuLinkCreate_v2", Body().put("Q", link, 0)), link_input(link, b"never sent")]),
        "arrays": (PREPARED, small + [plane, of("cuArrayGetSparseProperties", array), box((host, 0, 0, 0), (in_array, array, 4, 1), 16, 2, 1, b"q" * 32),
                                      box((in_array, array, 0, 0), (host, 0, 0, 0), 16, 2, 1), of("cuArrayDestroy", array), of("cuArrayDestroy", handle("array", 42))]),
        "mipmaps": (PREPARED, levels + [level, of("cuMipmappedArrayGetSparseProperties", mipmap), of("cuArrayDestroy", handle("array", 41)),
                                        of("cuMipmappedArrayDestroy", mipmap), box((in_array, handle("array", 41), 0, 0), (host, 0, 0, 0), 4, 1, 1)]),
        "arrays_refused": (PREPARED, [answer("cuArray3DCreate_v2", OUT_OF_MEMORY, 2), *small, item("cuArray3DCreate_v2", shape(Body().put("Q", array), 1 << 40))]),
        "arrays_then_destroy": (PREPARED, small + [of("cuCtxDestroy_v2", handle("context"))]),
        "textures": (PREPARED, small + levels + [texture(resource(0, array), True), texture(resource(1, mipmap)), texture(resource(2, 0, MEMORY, 64)),
                                                 texture(resource(3, 0, MEMORY, 4, 4, 32)), item("cuSurfObjectCreate", resource(0, array)),
                                                 texture(resource(2, 0, 4096, 64))]),
        "texture_unknown": (PREPARED, [of("cuTexObjectDestroy", 12345), of("cuSurfObjectDestroy", 12345)]),
        "green": (PREPARED, [item("cuDeviceGetDevResource", Body().put("i", 0).put("Q", 0)),
                             item("cuDevSmResourceSplitByCount", Body().put("i", 0).put("Q", 0).put("I", 2, 0, 2)), green(part, owner),
                             item("cuGreenCtxStreamCreate", Body().put("Q", handle("stream", 40), part).put("I", 1).put("i", 0), context=9),
                             item("cuCtxRecordEvent", Body().put("Q", event, owner)), of("cuEventSynchronize", event),
                             item("cuGreenCtxDestroy", Body().put("Q", part, owner), context=0)]),
        "green_nested": (PREPARED, [green(part, owner), green(handle("green_context", 41), handle("context", 10), part, 0, (0, 7)), green(part, handle("context", 11))]),
        "launch_questions": (PREPARED, [item("cuOccupancyMaxActiveClusters", config), item("cuOccupancyMaxPotentialClusterSize", config)]),
    }


def host_window(address=HOST, size=8192, device=-1):
    return item(HOST_WINDOW, Body().put("Q", address, size).put("i", device))


def share_host(address=HOST, size=8192, device=-1):
    return item(SHARE_HOST, Body().put("Q", address, size).put("i", device))


def mirror_up(*runs):
    """Each {address, bytes, mask}."""
    body = Body().put("Q", 0, 0, 0)
    packed = Body()
    for address, data, mask in runs:
        packed.put("Q", address).run(data).run(mask)
    return item(MIRROR_UP, body.run(packed), 0)


def mirror_up_by_lane(transfer, address, size, mask=b""):
    return item(MIRROR_UP, Body().put("Q", transfer, address, size).run(mask), 0)


def memset8(address, count, stream):
    return item("cuMemsetD8Async", Body().put("Q", address).put("B", 7).put("Q", count, stream))


def array_mapping(stream, array, memory, kind=0, offset=0):
    body = Body().put("Q", stream, 1).put("B", kind).put("Q", array).put("B", 0).put("I", 0, 0, 0, 0, 0, 8, 8, 1).put("Q", memory, offset)
    return item("cuMemMapArrayAsync", body)


def lent_and_mirrored():
    """Memory of the program's own, what sessions lend each other, and host memory that kernels reach."""
    stream, event = handle("stream"), handle("event")
    memory, again, library = handle("mem_handle", 40), handle("mem_handle", 41), handle("library", 40)
    create = item("cuMemCreate", Body().put("Q", memory, CHUNK_BYTES).put("i", 0).put("I", 1))
    mapped = item("cuMemMap", Body().put("Q", RESERVED, CHUNK_BYTES, 0, memory))
    access = item("cuMemSetAccess", Body().put("Q", RESERVED, CHUNK_BYTES).put("i", 0).put("I", 3))
    unmap = of("cuMemUnmap", RESERVED, CHUNK_BYTES)
    sparse = item("cuArray3DCreate_v2", shape(Body().put("Q", handle("array", 40)), flags=0x40))
    ask = of("cuStreamSynchronize", stream)
    down = item(MIRROR_DOWN, Body().put("Q", 0))
    end = item(HOST_WINDOW_END, Body().put("Q", HOST), 0)
    words = (HOST + 16, b"w" * 64, b"\xff" * 7 + b"\x0f")
    managed = [image(), load("cuLibraryLoadData", library), item("cuLibraryGetManaged", Body().put("Q", library).run(b"v").put("Q", 0, 0)),
               item("cuLibraryGetManaged", Body().put("Q", library).run(b"v").put("Q", HOST, 4096))]
    squeeze = Body().put("Q", stream, 1, MEMORY, 64, MEMORY + 512, 128, MEMORY + 1024).put("I", 4)
    return {
        "mirrored": (PREPARED, [host_window(), mirror_up(words, (HOST + 4096, b"v" * 9, b"")), memset8(HOST + 100, 5000, stream), ask, down,
                                memset8(HOST, 1, stream), ask, end, down]),
        "shared_host": (PREPARED, [share_host(), share_host(), memset8(HOST + 100, 5000, stream), ask,
                                   mirror_up(words), down]),
        "shared_host_ends": (PREPARED, [share_host(), share_host(HOST + 65536, 4096, 0),
                                        upload(b"u" * 64, address=HOST), ask, end,
                                        share_host(HOST + 131072, 4096), share_host(HOST + 196608, 4096),
                                        host_window(), end, answer("cuMemHostRegister_v2", OUT_OF_MEMORY),
                                        share_host(), share_host(4096), end]),
        "mirrored_by_lane": (PREPARED, [host_window(size=128 << 10), chunk(7, 0, b"l" * 4096), mirror_up_by_lane(7, HOST, 4096),
                                        chunk(8, 0, b"m" * 64), mirror_up_by_lane(8, HOST + 8, 64, b"\x55" * 8), down, end]),
        "mirrored_managed": (PREPARED, [host_window(device=0), host_window(HOST + 65536, 4096, 1), mirror_up(words), upload(b"u" * 64, address=HOST), ask,
                                        end, host_window(), down]),
        "mirrored_twice": (PREPARED, [host_window(), host_window(), host_window(HOST + 4096, 4096), end, end]),
        "mirrored_beyond": (PREPARED, [host_window(), mirror_up((HOST + 8190, b"zzzz", b""))]),
        "mirrored_wrong_mask": (PREPARED, [host_window(), mirror_up((HOST, b"z" * 64, b"\xff"))]),
        "mirrored_refused": (PREPARED, [answer("cuMemHostRegister_v2", OUT_OF_MEMORY), host_window(), answer("cuMemHostGetDevicePointer_v2", 1),
                                        host_window(), host_window(size=1 << 30), host_window(4096), host_window()]),
        "mirrored_graph": (PREPARED, [host_window(), mirror_up(words), add_node(50, work=memset_node), of("cuGraphLaunch", handle("graph_exec"), stream), ask]),
        "managed_variable": (PREPARED, [*managed, mirror_up((HOST, b"a" * 64, b"")), ask, down, of("cuLibraryUnload", library), down, end]),
        "managed_variable_small": (PREPARED, [*managed[:3], item("cuLibraryGetManaged", Body().put("Q", library).run(b"v").put("Q", HOST, 0)), managed[3],
                                              managed[3], of("cuCtxDestroy_v2", handle("context")), down]),
        "user_memory": (PREPARED, [create, mapped, access, memset8(RESERVED, CHUNK_BYTES, stream), upload(b"u" * 64, address=RESERVED), unmap,
                                   of("cuMemRelease", memory)]),
        "user_memory_lies": (PREPARED, [create, mapped, mapped, access, of("cuMemRelease", memory)]),
        "lent_memory": (PREPARED, [create, of("cuMemExportToShareableHandle", memory), of("cuMemImportFromShareableHandle", again, 1, 1),
                                   item("cuMemMap", Body().put("Q", RESERVED, CHUNK_BYTES, 0, again)), access, of("cuMemRelease", memory), unmap,
                                   of("cuMemRelease", again)]),
        "lent_allocation": (PREPARED, [alloc(), of("cuIpcGetMemHandle", MEMORY), of("cuIpcOpenMemHandle_v2", 1, 2, RESERVED, CREDIT_BYTES),
                                       memset8(RESERVED, 64, stream), of("cuIpcCloseMemHandle", RESERVED), of("cuIpcOpenMemHandle_v2", 1, 1, RESERVED, CREDIT_BYTES),
                                       of("cuIpcOpenMemHandle_v2", 1, 2, RESERVED, 2 * CREDIT_BYTES), of("cuIpcOpenMemHandle_v2", 9, 9, RESERVED, CREDIT_BYTES)]),
        "lent_event": (PREPARED, [of("cuIpcGetEventHandle", event), of("cuIpcOpenEventHandle", handle("event", 40), 1, 1),
                                  item("cuEventRecordWithFlags", Body().put("Q", handle("event", 40), stream).put("I", 0)),
                                  of("cuEventQuery", handle("event", 40)), of("cuEventDestroy_v2", handle("event", 40))]),
        "sparse_array": (PREPARED, [create, sparse, array_mapping(stream, handle("array", 40), memory), array_mapping(stream, handle("array", 40), 0),
                                    array_mapping(stream, handle("array", 40), memory), of("cuArrayDestroy", handle("array", 40)), of("cuMemRelease", memory)]),
        "sparse_array_lies": (PREPARED, [create, sparse, array_mapping(stream, handle("array", 40), memory, offset=CHUNK_BYTES)]),
        "decompress": (PREPARED, [alloc(), item("cuMemBatchDecompressAsync", squeeze)]),
        "peers": (PREPARED, [item("cuCtxEnablePeerAccess", Body().put("i", 1)), alloc(), item("cuCtxEnablePeerAccess", Body().put("i", 9))]),
    }


def libraries():
    """Blobs, and compilations that lie of what follows: none gets as far as loading a library."""
    compiles, links = call_ids("nvrtc")["nvrtcCompileProgram"], call_ids("nvjitlink")["nvJitLinkComplete"]
    put = [library(LIBRARY_PUT, Body().put("Q", 1).run(b"int x;"), flags=0), library(LIBRARY_PUT, Body().put("Q", 1).run(b"int y;")),
           library(LIBRARY_PUT, Body().put("Q", 2).run(b""), number=8, flags=0)]
    counts = Body().put("I", 1 << 31, 1, 1, 0)
    return {
        "library_blobs": (PREPARED, [*put, library(LIBRARY_TAKE, Body().put("Q", 1, 4)), library(LIBRARY_TAKE, Body().put("Q", 1, 99)),
                                     library(LIBRARY_TAKE, Body().put("Q", 1, 12)), library(LIBRARY_TAKE, Body().put("Q", 1, 0)),
                                     library(LIBRARY_DROP, Body().put("Q", 2), flags=0), library(LIBRARY_DROP, Body().put("Q", 2)),
                                     library(LIBRARY_PUT, Body().put("Q", 1 << 63).run(b"the server's")), library(LIBRARY_PUT, Body().put("Q", 3, 1 << 40))]),
        "library_lies": (PREPARED, [*put, library(compiles, counts.put("Q", 1, 2)), library(links, Body().put("I", 1, 1 << 30).put("Q", 1), number=8)]),
        "library_unknown": (FRESH, [library(0, number=0), library(0, number=200), library(LIBRARY_DROP, number=200), library(0xFFFF), library(0x1234)]),
    }


# Long: a table.
def by_hand():
    """name -> (mode, items)."""
    stream, event = handle("stream"), handle("event")
    module, library = handle("module", 40), handle("library", 40)
    function, kernel = handle("function", 40), handle("kernel", 40)
    record = item("cuEventRecordWithFlags", Body().put("Q", event, stream).put("I", 0))
    retain = item("cuDevicePrimaryCtxRetain", Body().put("i", 0).put("Q", handle("context", 7)), context=0)
    create = item("cuCtxCreate_v4", Body().put("Q", handle("context", 8)).put("I", 4).put("i", 1), context=0)
    host_function = item("cuLaunchHostFunc", Body().put("Q", 0x5000, 0x6000, stream))
    modules = [image(), load("cuModuleLoadDataEx", module), named("cuModuleGetFunction", module, function)]
    libraries = [image(), load("cuLibraryLoadData", library), named("cuLibraryGetKernel", library, kernel)]
    device, host = 2, 1
    every = sorted(call_ids("nvml").values())
    first, number = struct.pack("<I", 0), struct.pack("<i", 1)
    versioned = struct.pack("<I", 1 << 24 | 16) + bytes(12)
    return {
        "nvml": (FRESH, [nvml(every[::6]), nvml(every[1::6], first), nvml(every[2::6], first, number),
                         nvml(every[3::6], first, number, number), nvml(every[4::6], first, versioned), nvml([0, 0xFFFF], first), nvml([every[0]], struct.pack("<I", 99))]),
        "nvml_lies": (FRESH, [item(NVML, Body().put("Q", 2).run(b"\1\0"), context=0)]),
        "memory": (PREPARED, [alloc(), item("cuMemGetInfo_v2", Body().put("i", 0)), upload(b"abcdefgh" * 8), download(64),
                              item("cuMemFree_v2", Body().put("Q", MEMORY, 1)), item(FENCE_FREES, Body().put("Q", 1))]),
        "fence_in_frame": (PREPARED, [alloc(), item("cuMemFree_v2", Body().put("Q", MEMORY, 1), SAME_FRAME),
                                      item(FENCE_FREES, Body().put("Q", 1), SAME_FRAME | WANT_REPLY), of("cuCtxDestroy_v2", handle("context"))]),
        "credit": (PREPARED, [item(NEED_CREDIT, Body().put("i", 1).put("Q", 4 << 20).put("B", 1)), item(HEARTBEAT, b"", 0),
                              item(RETURN_CREDIT, Body().put("i", 0).put("Q", MEMORY, 4 << 20), 0),
                              item(NEED_CREDIT, Body().put("i", 0).put("Q", 2 << 20).put("B", 1), 0)]),
        "mirrors": (PREPARED, [item(MIRROR_UP, Body().put("Q", 0, 0, 0, 0), 0), item(MIRROR_DOWN, Body().put("Q", 0))]),
        "host_window": (PREPARED, [item(HOST_WINDOW, Body().put("Q", 0x300000000000, 1 << 20).put("I", 0))]),
        "chunks_up": (PREPARED, [chunk(5, 0, b"x" * 600), chunk(5, 600, b"y" * 400), upload(b"", transfer=5, size=1000),
                                 chunk(6, 0, b"z" * 64), upload(b"", transfer=6, size=65)]),
        "chunks_down": (PREPARED, [download(100, transfer=9), download(3 << 20, stream=2, transfer=10), of("cuStreamSynchronize", stream)]),
        "boxes": (PREPARED, [box((host, 0, 16, 4), (device, MEMORY, 32, 8), 16, 4, 2, b"q" * 128),
                             box((device, MEMORY, 32, 8), (host, 0, 16, 4), 16, 4, 2),
                             box((device, MEMORY, 32, 8), (device, MEMORY + 65536, 64, 4), 16, 4, 2),
                             box((device, MEMORY, 4096, 64), (host, 0, 0, 0), 4096, 64, 2, transfer=3),
                             chunk(4, 0, b"c" * 100), box((host, 0, 0, 0), (device, MEMORY, 16, 8), 10, 5, 2, transfer=4)]),
        "module": (PREPARED, modules + [named("cuModuleGetGlobal_v2", module), of("cuModuleEnumerateFunctions", module),
                                        launch(function, b"p" * 24), launch(function, b"short"), of("cuModuleUnload", module)]),
        "library": (PREPARED, libraries + [named("cuLibraryGetGlobal", library), of("cuLibraryEnumerateKernels", library),
                                           launch(kernel, b"p" * 24, [(4, [1])]), of("cuLibraryUnload", library)]),
        "module_without_image": (PREPARED, [load("cuModuleLoadDataEx", module, b"never sent")]),
        "image_by_lane": (PREPARED, [chunk(8, 0, IMAGE[:30]), chunk(8, 30, IMAGE[30:]), image(transfer=8), load("cuModuleLoadDataEx", module)]),
        "image_lies": (PREPARED, [image(IMAGE, size=len(IMAGE) - 1)]),
        "same_frame_slow": (PREPARED, [part[:2] + struct.pack("<H", WANT_REPLY | SAME_FRAME) + part[4:] for part in modules]
                            + [launch(function, b"p" * 24)]),
        "launch_attributes": (PREPARED, [launch(handle("function"), b"", [(1, [MEMORY, 64]), (6, [1])]),
                                         launch(handle("kernel", 2), b"", [(7, [event, 0]), (8, [1])])]),
        "events": (PREPARED, [record, of("cuEventQuery", event), of("cuEventSynchronize", event), of("cuStreamQuery", stream),
                              of("cuStreamSynchronize", stream), of("cuCtxSynchronize_v2", handle("context"))]),
        "not_ready": (PREPARED, [answer("cuStreamQuery", NOT_READY, 4), answer("cuEventQuery", NOT_READY, 4), upload(b"w" * 16, stream),
                                 of("cuStreamQuery", stream), record, of("cuEventSynchronize", event), of("cuStreamSynchronize", stream),
                                 answer("cuStreamQuery", NOT_READY, 4), of("cuStreamDestroy_v2", stream), of("cuCtxSynchronize_v2", handle("context"))]),
        "contexts": (FRESH, [retain, create, item("cuCtxGetLimit", Body().put("i", 0), context=7),
                             item("cuStreamCreateWithPriority", Body().put("Q", handle("stream", 5)).put("I", 0).put("i", 0), context=8),
                             of("cuCtxSynchronize_v2", handle("context", 8)), of("cuCtxDestroy_v2", handle("context", 8)),
                             item("cuCtxGetLimit", Body().put("i", 0), context=8),
                             item("cuDevicePrimaryCtxReset_v2", Body().put("i", 0), context=0), retain]),
        "frees_then_destroy": (PREPARED, [alloc(), free_memory(), of("cuCtxDestroy_v2", handle("context"))]),
        "frees_then_destroy_busy": (PREPARED, [alloc(flags=SAME_FRAME | BUSY), free_memory(), of("cuCtxDestroy_v2", handle("context"))]),
        "destroy_then_free": (PREPARED, [item("cuCtxDestroy_v2", Body().put("Q", handle("context")), SAME_FRAME | WANT_REPLY), free_memory(flags=0)]),
        "destroy_with_watches": (PREPARED, [answer("cuStreamQuery", NOT_READY, 4), answer("cuEventQuery", NOT_READY, 4),
                                            record[:2] + struct.pack("<H", SAME_FRAME) + record[4:], alloc(flags=SAME_FRAME), free_memory(),
                                            of("cuCtxDestroy_v2", handle("context"))]),
        "context_refused": (FRESH, [answer("cuDevicePrimaryCtxRetain", OUT_OF_MEMORY), retain, answer("cuCtxCreate_v4", OUT_OF_MEMORY), create,
                                    item("cuCtxGetLimit", Body().put("i", 0), context=7)]),
        "host_function": (PREPARED, [host_function, item(HOST_DONE, Body().put("Q", 1), 0), of("cuStreamSynchronize", stream)]),
        "host_function_left": (PREPARED, [host_function, host_function]),
        "graph": (PREPARED, [of("cuGraphGetNodes", handle("graph"), 0, 0),
                             of("cuStreamBeginCapture_v2", stream, handle("graph", 50)), upload(b"g" * 8, stream), host_function,
                             add_node(52, handle("graph", 50), stream), edges("cuStreamUpdateCaptureDependencies_v2", stream, flags=1),
                             of("cuGraphGetNodes", handle("graph", 50), stream, 0),
                             of("cuStreamEndCapture", stream, handle("graph", 50)), of("cuGraphDestroy", handle("graph", 50))]),
        "graph_nodes": (PREPARED, [add_node(50), add_node(51, after=(50,)), add_node(52, work=memset_node), alloc(), add_node(53, work=memset_node),
                                   item("cuGraphNodeSetParams", Body().put("Q", handle("graph_node", 53)) + memset_node()),
                                   item("cuGraphExecNodeSetParams",
                                        Body().put("Q", handle("graph_exec"), handle("graph_node", 53)) + memset_node()),
                                   add_node(54, work=host_node), add_node(55, work=event_node), add_node(56, work=child_node),
                                   add_node(57, work=memory_operations), add_node(58, work=device_copy), add_node(59, work=conditional),
                                   of("cuGraphChildGraphNodeGetGraph", handle("graph_node", 56), handle("graph", 70)),
                                   edges("cuGraphAddDependencies_v2", handle("graph"), both=((50, 52),)),
                                   edges("cuGraphRemoveDependencies_v2", handle("graph"), both=((50, 52),)),
                                   of("cuGraphKernelNodeGetParams_v2", handle("graph_node", 50)),
                                   of("cuGraphExecUpdate_v2", handle("graph_exec"), handle("graph")),
                                   of("cuGraphNodeFindInClone", handle("graph_node", 60), handle("graph_node", 50), handle("graph")),
                                   of("cuGraphGetNodes", handle("graph"), 0, 0), of("cuGraphDestroyNode", handle("graph_node", 51)),
                                   edges("cuStreamBeginCaptureToGraph", stream, handle("graph")),
                                   of("cuStreamEndCapture", stream, handle("graph")), of("cuGraphDestroy", handle("graph")),
                                   of("cuGraphNodeGetType", handle("graph_node", 50))]),
        "no_memory": (PREPARED, [answer("cuMemCreate", OUT_OF_MEMORY), item(NEED_CREDIT, Body().put("i", 0).put("Q", 1 << 21).put("B", 1)),
                                 answer("cuMemMap", OUT_OF_MEMORY), item(NEED_CREDIT, Body().put("i", 0).put("Q", 1 << 21).put("B", 1)),
                                 answer("cuMemSetAccess", OUT_OF_MEMORY), item(NEED_CREDIT, Body().put("i", 0).put("Q", 1 << 21).put("B", 1))]),
        "copies_refused": (PREPARED, [answer("cuMemcpyHtoDAsync_v2", OUT_OF_MEMORY), upload(b"abc"), answer("cuMemcpyDtoHAsync_v2", OUT_OF_MEMORY),
                                      download(8), answer("cuMemcpyDtoHAsync_v2", OUT_OF_MEMORY), download(8, transfer=2),
                                      answer("cuEventRecord", OUT_OF_MEMORY), download(8), answer("cuEventRecord", OUT_OF_MEMORY),
                                      download(8, transfer=12)]),
    }


# Paths of hosts do not belong into a corpus: text that looks like one goes.
PATH = re.compile(rb"/[\w.+-]+(?:/[\w.+-]+)+")


def anonymous(body):
    return PATH.sub(lambda match: b"x" * len(match.group()), bytes(body))


LOADS = {IDS["cuModuleLoadDataEx"], IDS["cuLibraryLoadData"]}


def with_our_image(call, body):
    """The body with our small image in place of a program's; None for a goodbye, and for a record whose bytes went by a lane."""
    if call == GOODBYE:
        return None
    if call == NAMED_IMAGE:
        return image()[12:]
    if call in LOADS:  # {u64 handle, u64 32, hash, u64 bytes, ...}
        return body[:16] + hashlib.sha256(IMAGE).digest() + struct.pack("<Q", len(IMAGE)) + body[56:]
    if call == IDS["cuMemcpyHtoDAsync_v2"] and struct.unpack_from("<Q", body, 24)[0] != 0:
        return None
    return anonymous(body)


def from_recording(path):
    with open(path, "rb") as file:
        data = file.read()
    items, at = [], 0
    while at + RECORD.size <= len(data):
        size, call, flags, _, thread, context = RECORD.unpack_from(data, at)
        if size < RECORD.size or at + size > len(data):
            break
        body = with_our_image(call, data[at + RECORD.size:at + size])
        at += size
        if body is not None and len(body) <= MOST_BODY:
            items.append(struct.pack("<HHHHI", call, flags & WANT_REPLY, thread, context, len(body)) + body)
    return FRESH, items[:MOST_ITEMS]


def event_times():
    """Recordings that name another, from which the time is told (kEventTimes)."""
    stream, event, second = handle("stream"), handle("event"), handle("event", 40)

    def record(which, *more, flags=0):
        body = Body().put("Q", which, stream).put("I", flags)
        for code, value in more:
            body.put(code, value)
        return item("cuEventRecordWithFlags", body)

    create = item("cuEventCreate", Body().put("Q", second).put("I", 0))
    destroy = of("cuEventDestroy_v2", event)
    return {
        # One of the numbers is that of the first recording.
        "event_times": (PREPARED, [create, record(event), *(record(second, ("I", serial), ("Q", event)) for serial in range(1, 33))]),
        "event_times_other_kind": (PREPARED, [create, record(second, ("I", 1), ("Q", stream))]),
        "event_times_cut": (PREPARED, [create, record(second, ("I", 1), ("I", 7))]),
        "event_times_none": (PREPARED, [create, record(event), destroy, record(second, ("I", 1), ("Q", event)), record(second, ("I", 2), ("Q", second)),
                                        record(second, ("I", 0xFFFFFFFF), ("Q", 0)), answer("cuEventElapsedTime_v2", NOT_READY), record(second, ("I", 4), ("Q", second))]),
    }


CLIENT_CALLS = 62  # as many as fuzz_replies.inc names; what comes later is reached by mutation, or by making these anew


def client_replies():
    """Steps {u8 0, u8 call, u16 bytes, body}; the body: {i32 status, u32 numbers, outputs}, as client_fuzz.cc says."""
    inputs = {}
    for call in range(CLIENT_CALLS):
        steps = b""
        for number in (0, 1, 2):
            for size in (0, 4, 8, 12, 16, 24, 32, 40, 48, 64, 128):
                body = struct.pack("<iI", 0, number) + bytes(size)
                steps += struct.pack("<BBH", 0, call, len(body)) + body
        inputs[f"reply-{call:02}"] = steps
    # {u8 2, u8 6: kCompleted, u16 bytes, body}: times that are none, and parts of one.
    completed = struct.pack("<QIi", 1, 1, 0)
    times = [struct.pack("<f", ms) for ms in (0.5, -1, float("inf"), float("nan"), 3e38)]
    bodies = [completed + time for time in (b"", *times, b"\1\2", bytes(8), bytes(12))]
    inputs["completed-times"] = b"".join(struct.pack("<BBH", 2, 6, len(body)) + body for body in bodies)
    return inputs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--recording", action="append", default=[])
    parser.add_argument("--client", action="store_true")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    if args.client:
        for name, steps in client_replies().items():
            with open(os.path.join(args.out, name), "wb") as file:
                file.write(steps)
        return
    inputs = {} if args.recording else by_hand() | libraries() | driver_rest() | lent_and_mirrored() | event_times()
    for path in args.recording:
        mode, items = from_recording(path)
        name = hashlib.sha256(b"".join(items)).hexdigest()[:8]
        inputs[f"session-{name}"] = (mode, items)
    for name, (mode, items) in inputs.items():
        with open(os.path.join(args.out, name), "wb") as file:
            file.write(bytes([mode]) + b"".join(items))
    print(f"{len(inputs)} seeds")


if __name__ == "__main__":
    main()
