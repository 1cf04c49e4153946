# SPDX-License-Identifier: Apache-2.0
"""Import, initialisation, and the questions every program asks first."""

from subject import check, fact, main, note


@check
def torch_imports():
    import torch

    note("torch", torch.__version__)


@check
def cuda_is_available():
    import torch

    fact(torch.cuda.is_available(), "is_available() is False")
    fact(torch.cuda.device_count() >= 1, "no device")


@check
def cuda_initialises():
    import torch

    torch.cuda.init()
    fact(torch.cuda.is_initialized() and torch.cuda.current_device() == 0, "not on device 0")
    torch.cuda.synchronize()


main()
