# SPDX-License-Identifier: Apache-2.0
"""Two frameworks in one process, on one device, exchanging tensors by DLPack without a copy.

together.py cupy|jax SITE_PACKAGES      the other one, and where it is installed
"""

import sys

other, folder = sys.argv[1:3]
sys.path.append(folder)  # behind this environment's own: what both have is PyTorch's

import torch  # noqa: E402
import numpy as np  # noqa: E402

values = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 3


def with_cupy():
    import cupy

    executes = "dry" not in torch.cuda.get_device_name()
    ours = values.cuda()
    theirs = cupy.from_dlpack(ours)
    assert theirs.data.ptr == ours.data_ptr(), "a copy was made"
    np.testing.assert_array_equal(theirs.get(), values.numpy())
    theirs *= 2  # CuPy's kernel on PyTorch's memory
    theirs.ravel()[5] = -7
    torch.cuda.synchronize()
    wanted = values * 2
    wanted.view(-1)[5] = -7
    if executes:
        assert torch.equal(ours.cpu(), wanted), ours.cpu()
    product = torch.from_dlpack(theirs @ theirs.T)  # cuBLAS as CuPy calls it, read by PyTorch
    again = ours @ ours.T  # and as PyTorch does
    assert product.shape == again.shape == (4, 4)
    if executes:
        torch.testing.assert_close(product.cpu(), wanted @ wanted.T)
        torch.testing.assert_close(again.cpu(), product.cpu())
    # Each on a stream of its own, ordered by an event of the other's.
    there, here = cupy.cuda.Stream(non_blocking=True), torch.cuda.Stream()
    big = cupy.zeros(1 << 20, dtype=cupy.float32)
    with there:
        big += 3
    with torch.cuda.stream(here):
        torch.cuda.ExternalStream(there.ptr).record_event().wait(here)
        home = torch.from_dlpack(big).cpu()
    if executes:
        assert (home == 3).all()
    # Both run out and go on, neither in the other's way.
    for take in (
        lambda: cupy.empty(1 << 44, dtype=cupy.uint8),
        lambda: torch.empty(1 << 44, dtype=torch.uint8, device="cuda"),
    ):
        try:
            take()
        except (cupy.cuda.memory.OutOfMemoryError, torch.cuda.OutOfMemoryError):
            continue
        raise AssertionError("16 TiB were given")
    np.testing.assert_array_equal(cupy.from_dlpack(values.cuda()).get(), values.numpy())


def with_jax():
    import jax

    ours = values.cuda()
    device = jax.devices("gpu")[0]
    theirs = jax.dlpack.from_dlpack(ours)
    assert (
        theirs.device == device and theirs.unsafe_buffer_pointer() == ours.data_ptr()
    ), "a copy was made"
    np.testing.assert_array_equal(np.asarray(theirs), values.numpy())
    back = torch.from_dlpack(jax.device_put(values.numpy() * 2, device))
    assert torch.equal(back.cpu(), values * 2)
    product = torch.from_dlpack(jax.numpy.matmul(theirs, theirs.T))
    torch.cuda.synchronize()
    if "dry" not in torch.cuda.get_device_name():
        torch.testing.assert_close(product.cpu(), values @ values.T, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close((ours @ ours.T).cpu(), values @ values.T)


{"cupy": with_cupy, "jax": with_jax}[other]()
print("right")
