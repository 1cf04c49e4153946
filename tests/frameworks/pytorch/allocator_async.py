# SPDX-License-Identifier: Apache-2.0
"""The cudaMallocAsync backend: the driver's own pools."""

import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "backend:cudaMallocAsync"
import torch  # noqa: E402
from subject import check, exact, fact, main  # noqa: E402


@check
def memory_comes_from_the_drivers_pool():
    fact(
        torch.cuda.get_allocator_backend() == "cudaMallocAsync", torch.cuda.get_allocator_backend()
    )
    for size in (1, 10, 1 << 20):
        tensor = torch.randn(size)
        exact(tensor.cuda(), tensor)


@check
def statistics_are_kept():
    tensor = torch.zeros(1 << 20, device="cuda")
    fact(torch.cuda.memory_allocated() >= 4 << 20, f"{torch.cuda.memory_allocated()}")
    del tensor
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


main()
