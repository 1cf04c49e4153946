# SPDX-License-Identifier: Apache-2.0
"""The caching allocator: blocks come again, memory goes back, statistics hold."""

import torch
from subject import check, exact, fact, main


@check
def freed_blocks_are_used_again():
    first = torch.zeros(1 << 20, device="cuda")
    where = first.data_ptr()
    del first
    fact(torch.zeros(1 << 20, device="cuda").data_ptr() == where, "another block")


@check
def statistics_count_bytes():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    tensor = torch.zeros(3 << 20, dtype=torch.uint8, device="cuda")
    fact(torch.cuda.memory_allocated() - before == 3 << 20, "memory_allocated")
    fact(torch.cuda.max_memory_allocated() >= before + (3 << 20), "max_memory_allocated")
    fact(torch.cuda.memory_reserved() >= torch.cuda.memory_allocated(), "memory_reserved")
    fact("allocated_bytes.all.current" in torch.cuda.memory_stats(), "memory_stats")
    fact(
        "MiB" in torch.cuda.memory_summary() or "KiB" in torch.cuda.memory_summary(),
        "memory_summary",
    )
    del tensor


@check
def memory_goes_back():
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    tensor = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    during, _ = torch.cuda.mem_get_info()
    fact(free - during >= 256 << 20, f"{free - during} taken")
    del tensor
    torch.cuda.empty_cache()
    after, _ = torch.cuda.mem_get_info()
    fact(after >= free, f"{free - after} kept")


@check
def a_process_may_be_held_to_a_fraction():
    _, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction((64 << 20) / total)
    try:
        torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
        fact(False, "more than the fraction")
    except torch.cuda.OutOfMemoryError:
        pass
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@check
def history_and_snapshots_are_recorded():
    torch.cuda.memory._record_memory_history()
    tensor = torch.zeros(1000, device="cuda")
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    fact(snapshot["segments"], "no segments")
    exact(tensor, torch.zeros(1000))


@check
def two_streams_keep_their_blocks_apart():
    stream = torch.cuda.Stream()
    a = torch.zeros(1 << 20, device="cuda")
    with torch.cuda.stream(stream):
        b = torch.zeros(1 << 20, device="cuda")
    fact(a.data_ptr() != b.data_ptr(), "one block twice")
    torch.cuda.synchronize()


main()
