# SPDX-License-Identifier: Apache-2.0
"""What gate and ledger cost who is alone, by the machine's books: of a CPU device only."""

import dataclasses
import statistics
import time

from cpu_device import cpu_of
from tenants import SATURATING, WARM, Tenants
from trials import percentile


def alone(place, turns, iterations):
    """What gate and ledger cost who is alone: the same program with a share and without one, each on a server of its own, in short turns of
    the same kernels, so that what else the machine does meets both alike."""
    for name, steps, scale in (
        ("kernels of 20 us to 8 ms", place.kernels.mixed(20, 8000), 1),
        ("kernels of 20 us", [place.kernels.steps(20)], 40),
    ):
        with Tenants(place) as shares, Tenants(place) as has_none:
            sides = (
                Turns(shares.load(steps, *SATURATING, share="50%")),
                Turns(has_none.load(steps, *SATURATING)),
            )
            begun = max(side.tenant.done() for side in sides) + WARM * scale
            for side in sides:
                side.run_to(begun)
            pairs = []
            for i in range(turns):
                costs = [
                    side.run_to(begun + (i + 1) * iterations * scale)
                    for side in (sides if i % 2 else sides[::-1])
                ]
                pairs.append(costs if i % 2 else costs[::-1])
        for what, more in (
            ("processor time more", lambda one, none: one.whole_s / none.whole_s),
            (
                "beside the device's threads, more",
                lambda one, none: 1 + (one.host_s - none.host_s) / none.whole_s,
            ),
            ("time by the clock, more", lambda one, none: one.clock_s / none.clock_s),
        ):
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
        return self.tenant.done(), own + used.all_s(), used.threads_s(), time.monotonic()
