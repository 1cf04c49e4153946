# SPDX-License-Identifier: Apache-2.0
"""Expandable segments: the caching allocator over reserved addresses that grow (the VMM of the driver)."""

import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = (
    "expandable_segments:True"
)
import torch  # noqa: E402
from subject import check, exact, fact, main  # noqa: E402


@check
def segments_grow():
    parts = []
    for size in (1, 5, 30, 100):
        tensor = torch.randint(0, 255, (size << 20,), dtype=torch.uint8)
        parts.append((tensor.cuda(), tensor))
    for there, here in parts:
        exact(there, here)
    segments = torch.cuda.memory._snapshot()["segments"]
    fact(any(segment.get("is_expandable") for segment in segments), "no segment is expandable")


@check
def memory_goes_back():
    torch.zeros(
        1, dtype=torch.uint8, device="cuda"
    )  # loads its kernels, whose variables take memory
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    tensor = torch.zeros(200 << 20, dtype=torch.uint8, device="cuda")
    del tensor
    torch.cuda.empty_cache()
    after, _ = torch.cuda.mem_get_info()
    fact(after >= free, f"{free - after} kept")


@check
def graphs_work_with_them():
    a = torch.randn(1000).cuda()
    b = torch.empty_like(a)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        b.copy_(a)
    graph.replay()
    exact(b, a.cpu())


main()
