# SPDX-License-Identifier: Apache-2.0
"""What is little or no work: zeros (a memset in newer releases, a kernel in older ones), views, shapes, storage."""

import torch
from subject import check, equal, exact, fact, main


@check
def zeros_are_zero():
    for shape in ((5,), (300, 7), (1 << 20,)):
        equal(torch.zeros(shape, device="cuda"), torch.zeros(shape))
    equal(torch.randn(64, 64).cuda().zero_(), torch.zeros(64, 64))


@check
def views_share_memory():
    tensor = torch.arange(24.0)
    there = tensor.cuda()
    view = there.view(2, 3, 4)
    fact(view.data_ptr() == there.data_ptr(), "a view moved")
    exact(view[1], tensor.view(2, 3, 4)[1])
    view[0].zero_()
    fact(there.untyped_storage().nbytes() == 96, "storage size")
    equal(there[:12], torch.zeros(12))


@check
def shapes_change_without_work():
    there = torch.randn(4, 6, 8).cuda()
    fact(there.permute(2, 0, 1).shape == (8, 4, 6), "permute")
    fact(there.transpose(0, 1).stride() == (8, 48, 1), "transpose")
    fact(there.expand(3, 4, 6, 8).stride(0) == 0, "expand")
    fact(len(there.unbind(1)) == 6 and len(there.chunk(2)) == 2, "unbind, chunk")


@check
def bytes_are_reinterpreted():
    tensor = torch.randn(50)
    exact(tensor.cuda().view(torch.int32), tensor.view(torch.int32))


main()
