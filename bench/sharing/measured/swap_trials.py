# SPDX-License-Identifier: Apache-2.0
"""Two programs that need 1.8 x the device's memory together, against one after the other; each compares all of its contents."""

import statistics
import time

from cpu_device import SWAPPED
from tenants import Tenants, until

MEMORY_MIB, JOB_MIB = 160, 144


def swap(place, turn_s, rounds, pairs):
    """
    pairs  of runs, one after the other and together; what is given is the middle one
    """
    pass_s = seconds_of_a_pass(place)
    for name, part in (("half of the time on the device", 0.5), ("90 % of the time", 0.9)):
        passes, pause_ms = max(round(part * turn_s / pass_s), 1), round((1 - part) * turn_s * 1000)
        work = (SWAPPED, "work", JOB_MIB, rounds, pause_ms, passes)
        pairs_s = [
            (run(place, [work]) + run(place, [work]), run(place, [work, work]))
            for _ in range(pairs)
        ]
        ratios = [together / serial for serial, together in pairs_s]
        yield name, "one after the other", statistics.median(serial for serial, _ in pairs_s), "s"
        yield name, "together", statistics.median(together for _, together in pairs_s), "s"
        yield name, "against one after the other", statistics.median(ratios), "x"
        yield name, "against one after the other, least", min(ratios), "x"
        yield name, "against one after the other, most", max(ratios), "x"


def seconds_of_a_pass(place):
    """By the clock, alone."""
    rounds, passes = 8, 4
    with Tenants(place, "--oversubscribe", "2", memory=f"{MEMORY_MIB}MiB") as tenants:
        client = tenants.program(SWAPPED, "work", JOB_MIB, rounds, 0, passes).client
        until(lambda: client.out, 120, lambda: "the first round")
        begun = time.monotonic()
        until(lambda: len(client.out) >= rounds, 120, lambda: "the last round")
        return (time.monotonic() - begun) / (rounds - 1) / passes


def run(place, programs):
    with Tenants(place, "--oversubscribe", "2", memory=f"{MEMORY_MIB}MiB") as tenants:
        for program in programs:
            tenants.program(*program)
        begun = min(tenant.begun for tenant in tenants.all)
        for tenant in tenants.all:
            code = tenant.client.wait()
            if code != 0 or tenant.client.out[-1] != "done":
                raise RuntimeError(
                    f"contents are not what they were, or it failed: {tenant.client.out[-1:]} {tenant.client.err}"
                )
        return time.monotonic() - begun
