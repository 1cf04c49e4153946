# SPDX-License-Identifier: Apache-2.0
"""Page-locked memory and copies that do not wait."""

import torch
from subject import check, exact, fact, main


@check
def memory_is_pinned():
    tensor = torch.randn(1000).pin_memory()
    fact(tensor.is_pinned() and not torch.randn(5).is_pinned(), "is_pinned")
    fact(torch.empty(10, pin_memory=True).is_pinned(), "empty")


@check
def copies_do_not_block_and_arrive():
    source = torch.randn(1 << 20).pin_memory()
    there = source.to("cuda", non_blocking=True)
    back = torch.empty(1 << 20, pin_memory=True)
    back.copy_(there, non_blocking=True)
    torch.cuda.synchronize()
    exact(back, source)


@check
def pinned_blocks_are_used_again_in_order():
    for round_ in range(20):
        source = torch.full((1 << 16,), float(round_)).pin_memory()
        there = source.to("cuda", non_blocking=True)
        del source  # its block may serve the next round, but not before the copy has read it
        exact(there, torch.full((1 << 16,), float(round_)))


@check
def memory_is_registered_by_hand():
    tensor = torch.randn(1 << 18)
    runtime = torch.cuda.cudart()
    fact(
        int(runtime.cudaHostRegister(tensor.data_ptr(), tensor.numel() * 4, 0)) == 0,
        "cudaHostRegister",
    )
    fact(tensor.is_pinned(), "registered memory is not pinned")
    exact(tensor.to("cuda", non_blocking=True), tensor)
    fact(int(runtime.cudaHostUnregister(tensor.data_ptr())) == 0, "cudaHostUnregister")


@check
def shared_memory_is_copied():
    tensor = torch.randn(5000).share_memory_()
    exact(tensor.cuda(), tensor)


main()
