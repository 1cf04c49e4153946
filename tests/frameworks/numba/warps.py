# SPDX-License-Identifier: Apache-2.0
"""Threads that hand values to each other: warp operations, shared memory by trees and networks, atomics, grids, threads that leave early."""

import numpy as np
from numba import cuda, float64, int32, int64
from subject import EXECUTES, Skip, check, main, near, same

RNG = np.random.default_rng(2)
ALL = 0xFFFFFFFF
KINDS = ((np.int32, int32), (np.int64, int64), (np.float64, float64))
BLOCKS = (32, 64, 96, 128, 256)


def ran(kernel, shape, out, *arguments):
    """What the kernel wrote to `out`, which is its last parameter."""
    device = cuda.to_device(out)
    kernel[shape](
        *(cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments), device
    )
    return device.copy_to_host()


@check
def values_go_from_lane_to_lane():
    @cuda.jit
    def kernel(x, out):
        i, lane = cuda.grid(1), cuda.laneid
        out[0, i] = cuda.shfl_sync(ALL, x[i], (lane * 7 + 3) & 31)
        out[1, i] = cuda.shfl_up_sync(ALL, x[i], 3)
        out[2, i] = cuda.shfl_down_sync(ALL, x[i], 5)
        scan, step = x[i], 1
        while step < 32:
            other = cuda.shfl_up_sync(ALL, scan, step)
            if lane >= step:
                scan += other
            step *= 2
        out[3, i] = scan
        if lane < 16:
            out[4, i] = cuda.shfl_xor_sync(0xFFFF, x[i], 1)
        else:
            out[4, i] = cuda.shfl_down_sync(0xFFFF0000, x[i], 1)

    lane = np.arange(32)
    for kind in (np.int32, np.float32, np.int64, np.float64):
        x = RNG.integers(-50, 50, 128).astype(kind)
        w = x.reshape(4, 32)
        above = np.minimum(lane + 1, 31)
        want = (
            w[:, (lane * 7 + 3) & 31],
            w[:, np.where(lane < 3, lane, lane - 3)],
            w[:, np.where(lane < 27, lane + 5, lane)],
            w.cumsum(1),
            w[:, np.where(lane < 16, lane ^ 1, above)],
        )
        same(
            ran(kernel, (2, 64), np.zeros((5, 128), kind), x),
            np.stack([row.ravel() for row in want]),
        )


@check
def votes_and_matches():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        positive = x[i] > 0
        out[0, i] = cuda.popc(cuda.ballot_sync(ALL, positive) & cuda.lanemask_lt())
        out[1, i] = cuda.popc(cuda.match_any_sync(ALL, x[i]))
        out[2, i] = cuda.syncthreads_count(int32(positive))
        if positive:
            out[3, i] = cuda.popc(cuda.activemask())
            out[4, i] = cuda.popc(cuda.ballot_sync(cuda.activemask(), cuda.laneid % 2))

    for block in BLOCKS:
        x = RNG.integers(-3, 4, 2 * block).astype(np.int32)
        want = np.zeros((5, x.size), np.int32)
        for at in range(0, x.size, 32):
            w = x[at : at + 32]
            p = w > 0
            want[0, at : at + 32] = p.cumsum() - p
            want[1, at : at + 32] = (w[:, None] == w).sum(1)
            want[3, at : at + 32] = p * p.sum()
            want[4, at : at + 32] = p * p[1::2].sum()
        want[2] = np.repeat((x.reshape(2, block) > 0).sum(1), block)
        same(ran(kernel, (2, block), np.zeros_like(want), x), want)


@check
def sums_by_trees():
    for kind, scalar in KINDS:
        for block in BLOCKS:

            @cuda.jit
            def kernel(x, out):
                part, t = cuda.shared.array(256, scalar), cuda.threadIdx.x
                total = scalar(0)
                for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
                    total += x[i]
                part[t] = total
                cuda.syncthreads()
                step = 128
                while step >= 32:
                    if t < step and t + step < block:
                        part[t] += part[t + step]
                    cuda.syncthreads()
                    step //= 2
                if t < 32:
                    while step > 0:
                        value = part[t + step] if t < step else scalar(0)
                        cuda.syncwarp()
                        if t < step:
                            part[t] += value
                        cuda.syncwarp()
                        step //= 2
                if t == 0:
                    out[cuda.blockIdx.x] = part[0]

            for n in (1, 31, 1000):
                x = RNG.integers(-9, 9, n).astype(kind)
                near(ran(kernel, (3, block), np.zeros(3, kind), x).sum(), x.sum())


def _networks(block):
    @cuda.jit
    def scan(x, out):
        part, t, at = cuda.shared.array(256, int32), cuda.threadIdx.x, cuda.grid(1)
        part[t] = x[at]
        cuda.syncthreads()
        step = 1
        while step < block:
            i = (t + 1) * 2 * step - 1
            if i < block:
                part[i] += part[i - step]
            cuda.syncthreads()
            step *= 2
        step = block // 4
        while step > 0:
            i = (t + 1) * 2 * step - 1
            if i + step < block:
                part[i + step] += part[i]
            cuda.syncthreads()
            step //= 2
        out[at] = part[t]

    @cuda.jit
    def bitonic(x, out):
        part, t, at = cuda.shared.array(256, int32), cuda.threadIdx.x, cuda.grid(1)
        part[t] = x[at]
        cuda.syncthreads()
        size = 2
        while size <= block:
            step = size // 2
            while step > 0:
                other = t ^ step
                if other > t and (part[t] > part[other]) == ((t & size) == 0):
                    part[t], part[other] = part[other], part[t]
                cuda.syncthreads()
                step //= 2
            size *= 2
        out[at] = part[t]

    @cuda.jit
    def odd_even(x, out):
        part, t, at = cuda.shared.array(256, int32), cuda.threadIdx.x, cuda.grid(1)
        part[t] = x[at]
        cuda.syncthreads()
        for turn in range(block):
            if t % 2 == turn % 2 and t + 1 < block and part[t] > part[t + 1]:
                part[t], part[t + 1] = part[t + 1], part[t]
            cuda.syncthreads()
        out[at] = part[t]

    return (scan, np.cumsum), (bitonic, np.sort), (odd_even, np.sort)


@check
def scans_and_sorts_in_shared_memory():
    for block in (32, 64, 128, 256):
        x = RNG.integers(-1000, 1000, (3, block)).astype(np.int32)
        for kernel, of_rows in _networks(block):
            same(
                ran(kernel, (3, block), np.zeros(x.size, np.int32), x.ravel()),
                of_rows(x, 1).ravel(),
            )


@check
def threads_that_leave_early():
    @cuda.jit
    def kernel(x, out):
        part, t, i = cuda.shared.array(128, int32), cuda.threadIdx.x, cuda.grid(1)
        if i >= x.size:
            return
        part[t] = x[i]
        cuda.syncthreads()
        out[i] = part[t ^ 1] if (i ^ 1) < x.size else part[t]

    for n in (1, 31, 33, 100, 129, 255):
        x = RNG.integers(0, 99, n).astype(np.int32)
        other = np.arange(n) ^ 1
        same(
            ran(kernel, (2, 128), np.zeros(n, np.int32), x),
            x[np.where(other < n, other, np.arange(n))],
        )


@check
def queues_of_warps():
    @cuda.jit
    def kernel(x, head, out):
        lane = cuda.laneid
        while True:
            at = 0
            if lane == 0:
                at = cuda.atomic.add(head, 0, 32)
            at = cuda.shfl_sync(ALL, at, 0)
            if at >= x.size:
                break
            if at + lane < x.size:
                out[at + lane] = x[at + lane] * 2

    for n in (1, 33, 1000):
        x = RNG.integers(0, 99, n).astype(np.int32)
        same(ran(kernel, (3, 96), np.zeros(n, np.int32), x, np.zeros(1, np.int32)), x * 2)


@check
def compaction_by_the_lanes_that_are_there():
    @cuda.jit
    def kernel(x, count, out):
        i = cuda.grid(1)
        if i < x.size and x[i] % 3 == 0:
            there = cuda.activemask()
            first, at = cuda.ffs(there) - 1, 0
            if cuda.laneid == first:
                at = cuda.atomic.add(count, 0, cuda.popc(there))
            at = cuda.shfl_sync(there, at, first)
            out[at + cuda.popc(there & cuda.lanemask_lt())] = x[i]

    for n in (1, 40, 1000):
        x = RNG.integers(1, 99, n).astype(np.int32)
        want = np.zeros(n, np.int32)
        want[: (x % 3 == 0).sum()] = np.sort(x[x % 3 == 0])[::-1]
        same(
            np.sort(ran(kernel, (8, 128), np.zeros(n, np.int32), x, np.zeros(1, np.int32)))[::-1],
            want,
        )


@check
def a_grid_in_step():
    if not EXECUTES:
        raise Skip(
            "the dry device links no library of machine code, such as libcudadevrt.a for its card"
        )

    @cuda.jit
    def kernel(turns, x):
        grid, i, n = cuda.cg.this_grid(), cuda.grid(1), x.shape[1]
        for turn in range(turns):
            here = turn & 1
            if i < n:
                x[1 - here, i] = x[here, (i + 1) % n] + x[here, (i + n - 1) % n]
            grid.sync()

    for n, shape in ((100, (4, 32)), (129, (2, 96)), (1000, (8, 128))):
        x = np.zeros((2, n), np.int64)
        x[0] = RNG.integers(0, 9, n)
        want = x[0]
        for _ in range(7):
            want = np.roll(want, -1) + np.roll(want, 1)
        same(ran(kernel, shape, x, 7)[1], want)


@check
def blocks_that_wait_for_the_one_before():
    @cuda.jit
    def kernel(x, sums, done, out):
        part, before = cuda.shared.array(128, int32), cuda.shared.array(1, int32)
        t, block = cuda.threadIdx.x, cuda.blockIdx.x
        part[t] = x[block * 128 + t]
        cuda.syncthreads()
        step = 1
        while step < 128:
            value = part[t - step] if t >= step else 0
            cuda.syncthreads()
            part[t] += value
            cuda.syncthreads()
            step *= 2
        if t == 0:
            start = 0
            if block > 0:
                while cuda.atomic.add(done, block - 1, 0) == 0:
                    pass
                cuda.threadfence()
                start = sums[block - 1]
            before[0] = start
            sums[block] = start + part[127]
            cuda.threadfence()
            cuda.atomic.exch(done, block, 1)
        cuda.syncthreads()
        out[block * 128 + t] = part[t] + before[0]

    x = RNG.integers(0, 9, 128 * 20).astype(np.int32)
    same(
        ran(kernel, (20, 128), np.zeros_like(x), x, np.zeros(20, np.int32), np.zeros(20, np.int32)),
        x.cumsum(),
    )


@check
def atomics_of_every_kind():
    def kernel_of(operation, scalar):
        text = (
            "def kernel(x, where, out):\n"
            "    part, t = cuda.shared.array(8, scalar), cuda.threadIdx.x\n"
            "    i = cuda.grid(1)\n"
            "    if t < 8:\n"
            "        part[t] = out[1, t]\n"
            "    cuda.syncthreads()\n"
            "    if i < x.size:\n"
            f"        cuda.atomic.{operation}(out, (0, where[i]), x[i])\n"
            f"        cuda.atomic.{operation}(part, where[i], x[i])\n"
            "    cuda.syncthreads()\n"
            "    if t < 8:\n"
            "        out[1, t] = part[t]\n"
        )
        names = {"cuda": cuda, "scalar": scalar}
        exec(text, names)  # an operation is no value that a kernel could take
        return cuda.jit(names["kernel"])

    ufuncs = {
        "add": np.add,
        "max": np.maximum,
        "min": np.minimum,
        "and_": np.bitwise_and,
        "or_": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    where = RNG.integers(0, 7, 250)
    for kind, scalar in KINDS:
        for operation, ufunc in ufuncs.items():
            if kind is np.float64 and operation not in ("add", "max", "min"):
                continue
            x, out = (
                RNG.integers(-100, 100, 250).astype(kind),
                np.tile(np.arange(8) * 5 + 1, (2, 1)).astype(kind),
            )
            want = out.copy()
            ufunc.at(want[0], where, x)
            want[1] = want[0]
            same(ran(kernel_of(operation, scalar), (1, 256), out, x, where), want)


main()
