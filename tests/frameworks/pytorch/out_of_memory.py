# SPDX-License-Identifier: Apache-2.0
"""Out of memory is an exception, and the program goes on."""

import torch
from subject import check, exact, fact, main


def _refused(count):
    try:
        torch.empty(count, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        return str(error)
    fact(False, f"{count} bytes were given")


@check
def more_than_the_device_has_is_refused():
    _, total = torch.cuda.mem_get_info()
    fact("out of memory" in _refused(2 * total), "another message")


@check
def the_program_goes_on():
    tensor = torch.randn(1000)
    exact(tensor.cuda(), tensor)


@check
def memory_runs_out_and_comes_back():
    free, _ = torch.cuda.mem_get_info()
    block, parts = max(free // 8, 1 << 20), []
    for _ in range(20):
        try:
            parts.append(torch.empty(block, dtype=torch.uint8, device="cuda"))
        except torch.cuda.OutOfMemoryError:
            break
    else:
        fact(False, "20 eighths fitted")
    fact(6 <= len(parts) <= 8, f"{len(parts)} eighths fitted")
    parts.clear()
    torch.cuda.empty_cache()
    tensor = torch.empty(2 * block, dtype=torch.uint8, device="cuda")
    tensor.zero_()
    exact(tensor[-100:], torch.zeros(100, dtype=torch.uint8))


@check
def pinned_memory_beyond_reason_is_refused():
    try:
        torch.empty(1 << 50, dtype=torch.uint8, pin_memory=True)
        fact(False, "a petabyte was pinned")
    except RuntimeError:
        pass


main()
