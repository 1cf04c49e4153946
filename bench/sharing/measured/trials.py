# SPDX-License-Identifier: Apache-2.0
"""The trials of time, on whatever device the place has: each gives figures (trial, what, value,
unit). A value that is a list is a curve, for the pictures."""

import statistics
import time

from observer import Sampler
from tenants import SATURATING, Tenants

CURVE_S = 0.5


def percentile(values, part):
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


def jain(values):
    return sum(values) ** 2 / (len(values) * sum(value**2 for value in values))


def shares(place, seconds):
    """Backlogged programs with shares; kernels from small to large, mixed."""
    steps = place.kernels.mixed(20, 8000)
    for wanted in ((50, 50), (25, 75), (10, 90), (25, 25, 25, 25)):
        with Tenants(place) as tenants:
            for share in wanted:
                tenants.load(steps, *SATURATING, share=f"{share}%")
            tenants.warm()
            done = [tenant.done() for tenant in tenants.all]
            sampler = tenants.watch(seconds)
            passed, used = sampler.gained()
            gained = [tenant.done() - before for tenant, before in zip(tenants.all, done)]

        def error(got):
            return max(abs(100 * one / sum(got) - share) for one, share in zip(got, wanted))

        windows = [got for _, got in sampler.windows(1)]
        name = ":".join(map(str, wanted))
        yield name, "error over all", error(used), "points"
        yield name, "error over 1 s, mean", statistics.mean(map(error, windows)), "points"
        yield name, "error over 1 s, largest", max(map(error, windows)), "points"
        yield name, "error by what the programs print", error(gained), "points"
        yield name, "Jain over all", jain([one / share for one, share in zip(used, wanted)]), ""
        yield (
            name,
            "Jain over 1 s, least",
            min(jain([one / share for one, share in zip(got, wanted)]) for got in windows),
            "",
        )
        yield name, "device busy", 100 * sum(used) / passed, "%"
        yield (
            name,
            "of the device, over time",
            [[100 * one / passed for one in got] for passed, got in sampler.windows(CURVE_S)],
            "%",
        )


def caps(place, seconds):
    kernel_us = 2000
    for limit in (10, 30, 50, 90):
        with Tenants(place) as tenants:
            tenants.load([place.kernels.steps(kernel_us)], *SATURATING, limit=f"{limit}%")
            tenants.warm()
            sampler = tenants.watch(seconds)

        def part(window):
            return 100 * window[1][0] / window[0]

        def bound(
            passed_s,
        ):  # docs/internals/sharing.md; predictions a fourth off, this kernel a tenth longer than it was
            burst_ms = min(30, limit)
            return limit + 100 * (burst_ms + 4 * 1.25 + 1.1 * kernel_us / 1000) / 1000 / passed_s

        windows = sampler.windows(1)
        name = f"{limit}%"
        yield name, "mean", part(sampler.gained()), "%"
        yield name, "most in a second", max(map(part, windows)), "%"
        yield (
            name,
            "above the bound, at most",
            max(part(window) - bound(window[0]) for window in windows + [sampler.gained()]),
            "points",
        )
        yield (
            name,
            "of the device, over time",
            [part(window) for window in sampler.windows(CURVE_S)],
            "%",
        )


def priority(place, seconds, rounds=2):
    """A high one that pauses, alone, beside a low one that does not, and beside that one if neither
    has a class, in turns."""
    low_steps = place.kernels.mixed(50, 2500, 8)
    with Tenants(place) as tenants:
        tenants.load(low_steps, *SATURATING, priority="low")
        tenants.warm()
        passed, (used,) = tenants.watch(seconds / 2).gained()
        low_alone = used / passed
    for name, busy_ms, pause_ms in (
        ("training: 75 ms of 100", 75, 25),
        ("requests: 15 ms every 20", 15, 5),
    ):
        alone, beside, without, low = [], [], [], []
        for _ in range(rounds):
            for took, has_company, classes in (
                (alone, False, ("high", "low")),
                (beside, True, ("high", "low")),
                (without, True, (None, None)),
            ):
                with Tenants(place) as tenants:
                    wants = [{"priority": each} if each else {} for each in classes]
                    high = tenants.load(
                        [place.kernels.steps(1000)], busy_ms, 1, pause_ms * 1000, **wants[0]
                    )
                    if has_company:
                        tenants.load(low_steps, *SATURATING, **wants[1])
                    tenants.warm()
                    before = high.done()
                    passed, used = tenants.watch(seconds).gained()
                    took.extend(high.iterations_ms(before))
                    if took is beside:
                        low.append(used[1] / passed / low_alone)
        if not (alone and beside and without):
            raise RuntimeError(
                f"{name}: in {seconds:g} s not one iteration was done: the machine is too busy "
                "for this trial, or give it a larger --scale"
            )
        yield name, "high alone, mean", statistics.mean(alone), "ms"
        yield name, "high alone, p99", percentile(alone, 0.99), "ms"
        yield (
            name,
            "high, mean loss",
            100 * (statistics.mean(beside) / statistics.mean(alone) - 1),
            "%",
        )
        yield (
            name,
            "high, median loss",
            100 * (statistics.median(beside) / statistics.median(alone) - 1),
            "%",
        )
        yield (
            name,
            "high, p99 loss",
            100 * (percentile(beside, 0.99) / percentile(alone, 0.99) - 1),
            "%",
        )
        yield (
            name,
            "without classes, mean loss",
            100 * (statistics.mean(without) / statistics.mean(alone) - 1),
            "%",
        )
        yield (
            name,
            "without classes, p99 loss",
            100 * (percentile(without, 0.99) / percentile(alone, 0.99) - 1),
            "%",
        )
        yield name, "low, of its speed alone", 100 * statistics.mean(low), "%"
        yield name, "iterations alone", sorted(alone), "ms"
        yield name, "iterations beside low", sorted(beside), "ms"
        yield name, "iterations beside low, without classes", sorted(without), "ms"


def mix(place, seconds):
    """Three that compute in bursts, three that saturate; each `seconds` of device time."""
    tasks = [
        (
            [place.kernels.steps(1000)],
            busy_ms,
            1,
            (100 - busy_ms) * 1000,
            max(round(seconds * 1000 / busy_ms), 1),
        )
        for busy_ms in (20, 40, 60)
    ]
    paused_s = sum(pause_us * iterations / 1e6 for *_, pause_us, iterations in tasks)
    tasks += [
        ([place.kernels.steps(us)], round(20000 / us), 1, 0, max(round(seconds * 50), 1))
        for us in (200, 1000, 4000)
    ]

    def run(some):
        """Seconds from start to end, device seconds, and what each had of the device over time."""
        with Tenants(place) as tenants:
            for task in some:
                tenants.load(*task, share=f"{100 // len(tasks)}%")
            with Sampler(
                [tenant.used for tenant in tenants.all], 0.02
            ) as sampler:  # often, so that threads that end are counted
                while any(tenant.runs() for tenant in tenants.all):
                    time.sleep(0.02)
                passed = time.monotonic() - min(tenant.begun for tenant in tenants.all)
            for tenant in tenants.all:
                if tenant.client.wait() != 0:
                    raise RuntimeError(f"failed: {tenant.client.err}")
            curve = [
                [100 * one / window_s for one in got] for window_s, got in sampler.windows(CURVE_S)
            ]
            return passed, sum(tenant.used.device_s() for tenant in tenants.all), curve

    alone = [run([task]) for task in tasks]
    serial, work = sum(passed for passed, *_ in alone), sum(used for _, used, _ in alone)
    together, used, curve = run(tasks)
    yield "six tasks", "one after another", serial, "s"
    yield "six tasks", "together", together, "s"
    yield "six tasks", "against one after another", 100 * (together / serial - 1), "%"
    # Of who has the device one at a time: all that they do but pause, or the longest of them.
    least = max(serial - paused_s, *(passed for passed, *_ in alone))
    yield "six tasks", "least that turns could come to", 100 * (least / serial - 1), "%"
    yield "six tasks", "device busy, one after another", 100 * work / serial, "%"
    yield "six tasks", "device busy, together", 100 * used / together, "%"
    yield "six tasks", "of the device, over time", curve, "%"
