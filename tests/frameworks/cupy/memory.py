# SPDX-License-Identifier: Apache-2.0
"""The memory pool, pinned memory, streams, events, graphs, copies."""

import cupy as cp
import numpy as np
from subject import check, fact, main, near, same

A = np.arange(100000, dtype=np.float32)


@check
def pools():
    pool = cp.get_default_memory_pool()
    a = cp.asarray(A)
    fact(pool.used_bytes() >= A.nbytes, f"{pool.used_bytes()} bytes used")
    del a
    pool.free_all_blocks()
    fact(pool.total_bytes() == 0, f"{pool.total_bytes()} bytes stay after free_all_blocks")


@check
def the_stream_ordered_allocator():
    with cp.cuda.using_allocator(cp.cuda.MemoryAsyncPool().malloc):
        near(cp.asarray(A) * 2, A * 2)


@check
def out_of_memory():
    free, total = cp.cuda.runtime.memGetInfo()
    fact(0 < free <= total, f"{free} of {total} bytes free")
    try:
        cp.cuda.alloc(total + 1)
    except cp.cuda.memory.OutOfMemoryError:
        pass
    else:
        fact(False, "more than there is was given")
    near(cp.asarray(A) + 1, A + 1)


@check
def streams_and_events():
    stream = cp.cuda.Stream(non_blocking=True)
    start, end = cp.cuda.Event(), cp.cuda.Event()
    with stream:
        start.record()
        a = cp.asarray(A) * 3
        end.record()
    end.synchronize()
    fact(cp.cuda.get_elapsed_time(start, end) >= 0, "time runs backwards")
    near(a, A * 3)


@check
def pinned_memory():
    memory = cp.cuda.alloc_pinned_memory(A.nbytes)
    host = np.frombuffer(memory, np.float32, A.size)
    host[...] = A
    stream = cp.cuda.Stream()
    device = cp.empty(A.shape, cp.float32)
    device.set(host, stream=stream)
    stream.synchronize()
    same(device, A)


@check
def graphs():
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        a = cp.asarray(A)
        a += 1
        stream.synchronize()
        stream.begin_capture()
        a += 1
        graph = stream.end_capture()
        graph.launch(stream)
        graph.launch(stream)
    stream.synchronize()
    same(a, A + 3)


main()
