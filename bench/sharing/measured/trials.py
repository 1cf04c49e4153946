# SPDX-License-Identifier: Apache-2.0
"""The trials of time: each returns figures (trial, what, value, unit). What docs/sharing.md calls measured."""
import dataclasses
import statistics
import time

from tenants import CORES, SATURATING, WARM, Tenants, cpu_of


def percentile(values, part):
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


def jain(values):
    return sum(values) ** 2 / (len(values) * sum(value ** 2 for value in values))


def shares(kernels, seconds):
    """Backlogged programs with shares; kernels from small to large, mixed."""
    steps = kernels.mixed(20, 8000)
    for wanted in ((50, 50), (25, 75), (10, 90), (25, 25, 25, 25)):
        with Tenants() as tenants:
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
        yield name, "Jain over 1 s, least", min(jain([one / share for one, share in zip(got, wanted)]) for got in windows), ""
        yield name, "device busy", 100 * sum(used) / CORES / passed, "%"


def caps(kernels, seconds):
    kernel_us = 2000
    for limit in (10, 30, 50, 90):
        with Tenants() as tenants:
            tenants.load([kernels.steps(kernel_us)], *SATURATING, limit=f"{limit}%")
            tenants.warm()
            sampler = tenants.watch(seconds)

        def part(window):
            return 100 * window[1][0] / CORES / window[0]

        def bound(passed_s):  # docs/sharing.md; predictions a fourth off, this kernel a tenth longer than it was
            burst_ms = min(30, limit)
            return limit + 100 * (burst_ms + 4 * 1.25 + 1.1 * kernel_us / 1000) / 1000 / passed_s
        windows = sampler.windows(1)
        name = f"{limit}%"
        yield name, "mean", part(sampler.gained()), "%"
        yield name, "most in a second", max(map(part, windows)), "%"
        yield name, "above the bound, at most", max(part(window) - bound(window[0]) for window in windows + [sampler.gained()]), "points"


def priority(kernels, seconds, rounds=2):
    """A high one that pauses, alone and beside a low one that does not, in turns."""
    low_steps = kernels.mixed(50, 2500, 8)
    with Tenants() as tenants:
        tenants.load(low_steps, *SATURATING, priority="low")
        tenants.warm()
        passed, (used,) = tenants.watch(seconds / 2).gained()
        low_alone = used / passed
    for name, busy_ms, pause_ms in (("training: 75 ms of 100", 75, 25), ("requests: 15 ms every 20", 15, 5)):
        alone, beside, low = [], [], []
        for _ in range(rounds):
            for company in (False, True):
                with Tenants() as tenants:
                    high = tenants.load([kernels.steps(1000)], busy_ms, 1, pause_ms * 1000, priority="high")
                    if company:
                        tenants.load(low_steps, *SATURATING, priority="low")
                    tenants.warm()
                    before = high.done()
                    passed, used = tenants.watch(seconds).gained()
                    (beside if company else alone).extend(high.iterations_ms(before))
                    if company:
                        low.append(used[1] / passed / low_alone)
        yield name, "high alone, mean", statistics.mean(alone), "ms"
        yield name, "high alone, p99", percentile(alone, 0.99), "ms"
        yield name, "high, mean loss", 100 * (statistics.mean(beside) / statistics.mean(alone) - 1), "%"
        yield name, "high, median loss", 100 * (statistics.median(beside) / statistics.median(alone) - 1), "%"
        yield name, "high, p99 loss", 100 * (percentile(beside, 0.99) / percentile(alone, 0.99) - 1), "%"
        yield name, "low, of its speed alone", 100 * statistics.mean(low), "%"


def mix(kernels, seconds):
    """Three that compute in bursts, three that saturate; each `seconds` of device time."""
    tasks = [([kernels.steps(1000)], busy_ms, 1, (100 - busy_ms) * 1000, round(seconds * 1000 / busy_ms)) for busy_ms in (20, 40, 60)]
    tasks += [([kernels.steps(us)], round(20000 / us), 1, 0, round(seconds * 50)) for us in (200, 1000, 4000)]

    def run(some):
        """Seconds from start to end, of the device's threads."""
        with Tenants() as tenants:
            for task in some:
                tenants.load(*task, share=f"{100 // len(tasks)}%")
            begun = min(tenant.begun for tenant in tenants.all)
            while any(tenant.runs() for tenant in tenants.all):
                for tenant in tenants.all:
                    tenant.used.look()
                time.sleep(0.02)
            passed = time.monotonic() - begun
            for tenant in tenants.all:
                if tenant.client.wait() != 0:
                    raise RuntimeError(f"failed: {tenant.client.err}")
            return passed, sum(tenant.used.device_s() for tenant in tenants.all)
    alone = [run([task]) for task in tasks]
    serial, work = sum(passed for passed, _ in alone), sum(used for _, used in alone)
    together, used = run(tasks)
    yield "six tasks", "one after another", serial, "s"
    yield "six tasks", "together", together, "s"
    yield "six tasks", "against one after another", 100 * (together / serial - 1), "%"
    yield "six tasks", "device busy, one after another", 100 * work / CORES / serial, "%"
    yield "six tasks", "device busy, together", 100 * used / CORES / together, "%"


def alone(kernels, turns, iterations):
    """What gate and ledger cost who is alone: the same program with a share and without one, each on a server of its own, in short turns of
    the same kernels, so that what else the machine does meets both alike."""
    for name, steps, scale in (("kernels of 20 us to 8 ms", kernels.mixed(20, 8000), 1), ("kernels of 20 us", [kernels.steps(20)], 40)):
        with Tenants() as shares, Tenants() as has_none:
            sides = Turns(shares.load(steps, *SATURATING, share="50%")), Turns(has_none.load(steps, *SATURATING))
            begun = max(side.tenant.done() for side in sides) + WARM * scale
            for side in sides:
                side.run_to(begun)
            pairs = []
            for i in range(turns):
                costs = [side.run_to(begun + (i + 1) * iterations * scale) for side in (sides if i % 2 else sides[::-1])]
                pairs.append(costs if i % 2 else costs[::-1])
        for what, more in (("processor time more", lambda one, none: one.whole_s / none.whole_s),
                           ("beside the device's threads, more", lambda one, none: 1 + (one.host_s - none.host_s) / none.whole_s),
                           ("time by the clock, more", lambda one, none: one.clock_s / none.clock_s)):
            found = [100 * (more(*pair) - 1) for pair in pairs]
            yield name, what, statistics.median(found), "%"
            yield name, what + ", half of the turns: from", percentile(found, 0.25), "%"
            yield name, what + ", half of the turns: to", percentile(found, 0.75), "%"


@dataclasses.dataclass
class Cost:
    """Of an iteration: processor seconds of client, worker and supervisor; those that are not the device's threads'; by the clock."""
    whole_s: float
    host_s: float
    clock_s: float


class Turns:
    """A program that stands still but for its turns."""

    def __init__(self, tenant):
        self.tenant = tenant
        tenant.wait_done(WARM)
        tenant.stand_still()

    def run_to(self, iterations):
        """Until it has done so many in all; what one of this turn cost."""
        self.tenant.go_on()
        before = self._spent()
        self.tenant.wait_done(iterations)
        clock = time.monotonic()
        self.tenant.stand_still()
        done, whole, device, _ = (b - a for a, b in zip(before, self._spent()))
        return Cost(whole / done, (whole - device) / done, (clock - before[3]) / done)

    def _spent(self):
        used = self.tenant.used
        own = cpu_of([self.tenant.client.process.pid, self.tenant.server.process.pid])
        return self.tenant.done(), own + used.all_s(), used.device_s(), time.monotonic()
