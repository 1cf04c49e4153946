# SPDX-License-Identifier: Apache-2.0
"""Out of memory by every way PyTorch takes memory: CUDA's own error, nothing sticks, and the bytes are right after it.

memory.py       PYTORCH_CUDA_ALLOC_CONF names the allocator; the server gives 1 GiB
"""

import torch

MIB = 1 << 20


def refused(take, error=torch.cuda.OutOfMemoryError):
    try:
        take()
    except error as caught:
        assert "out of memory" in str(caught), str(caught)
        return
    raise AssertionError("it was given")


def goes_on():
    """Nothing stuck: another allocation, a copy up, a copy home, the bytes."""
    torch.cuda.synchronize()
    values = torch.arange(1 << 18)
    assert torch.equal(values.cuda().cpu(), values)


def empty(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


keep = torch.arange(1 << 20).cuda()
refused(lambda: empty(2048))
goes_on()
refused(lambda: empty(1 << 24))  # 16 TiB
goes_on()

parts = []  # filled to the brim, refused, given back, filled again
for _ in range(2):
    refused(lambda: [parts.append(empty(96)) for _ in range(20)])
    assert 6 <= len(parts) <= 10, len(parts)
    goes_on() if len(parts) < 10 else None
    parts.clear()
    torch.cuda.empty_cache()
half = empty(512)
half.zero_()
assert not half[-100:].cpu().any()
del half

refused(lambda: torch.empty(1 << 50, dtype=torch.uint8, pin_memory=True), RuntimeError)
goes_on()

stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    refused(lambda: empty(2048))
    goes_on()

if torch.cuda.get_allocator_backend() == "native":
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            kept = empty(16)
            refused(lambda: empty(2048))
            kept.zero_()
    except RuntimeError as error:  # PyTorch may give the capture up; the session may not
        assert "capture" in str(error) or "out of memory" in str(error), str(error)
    goes_on()

assert torch.equal(keep.cpu(), torch.arange(1 << 20)), "a refusal touched what was there"
print("right")
