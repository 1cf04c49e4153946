# SPDX-License-Identifier: Apache-2.0
"""Copies between host and device, and on the device: no kernel where the memory is contiguous."""

import torch
from subject import check, exact, main


@check
def tensors_go_there_and_back():
    for dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
    ):
        tensor = torch.randint(0, 2, (37, 53)).to(dtype)
        exact(tensor.cuda(), tensor)


@check
def sizes_from_none_to_64_mib_arrive():
    for count in (0, 1, 3, 255, 4097, 1 << 20, 1 << 24):
        tensor = torch.randn(count)
        exact(tensor.to("cuda"), tensor)


@check
def copies_on_the_device_are_whole():
    tensor = torch.randn(1000, 33)
    there = tensor.cuda()
    copy = torch.empty_like(there)
    copy.copy_(there)
    there.copy_(torch.zeros(1000, 33))
    exact(copy, tensor)
    exact(copy.clone(), tensor)


@check
def the_source_may_be_overwritten_at_once():
    source = torch.full((1 << 18,), 7.0)
    there = source.cuda()
    source.fill_(9.0)
    exact(there, torch.full((1 << 18,), 7.0))


@check
def numpy_and_lists_arrive():
    exact(
        torch.tensor([[1.5, 2.5], [3.5, 4.5]], device="cuda"),
        torch.tensor([[1.5, 2.5], [3.5, 4.5]]),
    )
    exact(torch.from_numpy(torch.arange(100).numpy()).cuda(), torch.arange(100))


@check
def a_row_of_a_matrix_is_read_alone():
    tensor = torch.randn(64, 64)
    exact(tensor.cuda()[17], tensor[17])
    there = tensor.cuda()
    there[3].copy_(tensor[5])
    exact(there[3], tensor[5])
    exact(there[4:], tensor[4:])


main()
