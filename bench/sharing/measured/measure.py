# SPDX-License-Identifier: Apache-2.0
"""measure.py [--json FILE] [--scale PART] [--only NAME[,NAME...]]: sharing, as unmodified programs
on the CPU device meet it, seen from outside (docs/internals/sharing.md). FARCALL_BUILD names the
build tree."""

import argparse
import json
import math
import pathlib
import sys
import time

import alone_trial
import swap_trials
import trials
from cpu_device import CpuDevice
from observer import CORES, load_average, machine_busy

# name: (trial, its length at scale 1)
TRIALS = {
    "shares": lambda place, scale: trials.shares(place, 10 * scale),
    "caps": lambda place, scale: trials.caps(place, 10 * scale),
    "priority": lambda place, scale: trials.priority(place, 8 * scale),
    "mix": lambda place, scale: trials.mix(place, 2.5 * scale),
    "alone": lambda place, scale: alone_trial.alone(
        place, turns=max(round(40 * scale), 4), iterations=30
    ),
    "swap": lambda place, scale: swap_trials.swap(
        place, 2.0, rounds=max(round(6 * scale), 2), pairs=3
    ),
}


class Figures(list):
    def __init__(self):
        super().__init__()
        self.curves = []

    def of(self, group, name, trial=""):
        """Values of this name, of trials that begin so."""
        return [
            one["value"]
            for one in self
            if one["group"] == group and one["name"] == name and one["trial"].startswith(trial)
        ]


# Long: a list of goals.
def goals(figures):
    """(what, goal, value, unit, met) of what was measured."""

    def at_most(what, values, goal, unit):
        if values:
            yield what, f"<= {goal:g}", max(values), unit, max(values) <= goal

    def at_least(what, values, goal, unit):
        if values:
            yield what, f">= {goal:g}", min(values), unit, min(values) >= goal

    beside = [
        abs(value - float(one["trial"].rstrip("%")))
        for one in figures
        if one["group"] == "caps" and one["name"] == "mean"
        for value in [one["value"]]
    ]
    busier = [
        more - less
        for more, less in zip(
            figures.of("mix", "device busy, together"),
            figures.of("mix", "device busy, one after another"),
        )
    ]
    yield from at_most(
        "share error, 1:1, 1:3, 1:9, four equal",
        figures.of("shares", "error over all"),
        3,
        "points",
    )
    yield from at_least(
        "Jain, four equal, all of the time",
        figures.of("shares", "Jain over all", "25:25:25:25"),
        0.999,
        "",
    )
    yield from at_most("caps of 10, 30, 50, 90 %: mean beside it", beside, 3, "points")
    yield from at_most(
        "caps: above the bound, at most",
        figures.of("caps", "above the bound, at most"),
        0,
        "points",
    )
    yield from at_most(
        "high priority, training: mean loss",
        figures.of("priority", "high, mean loss", "training"),
        3,
        "%",
    )
    yield from at_most(
        "high priority, requests: p99 loss",
        figures.of("priority", "high, p99 loss", "requests"),
        5,
        "%",
    )
    yield from at_least(
        "low priority beside them: of its speed alone",
        figures.of("priority", "low, of its speed alone"),
        20,
        "%",
    )
    yield from at_most(
        "six tasks against one after another: time",
        figures.of("mix", "against one after another"),
        -25,
        "%",
    )
    yield from at_least("six tasks: utilization more", busier, 15, "points")
    yield from at_most(
        "gate and ledger, alone: processor time", figures.of("alone", "processor time more"), 1, "%"
    )
    yield from at_most(
        "two jobs of 0.9 x the memory, half busy",
        figures.of("swap", "against one after the other", "half"),
        0.72,
        "x",
    )
    yield from at_most(
        "two jobs of 0.9 x the memory, 90 % busy",
        figures.of("swap", "against one after the other", "90"),
        0.98,
        "x",
    )


def run(name, place, scale, figures):
    load, before, begun = load_average(), machine_busy(), time.monotonic()
    for trial, what, value, unit in TRIALS[name](place, scale):
        if isinstance(value, list):
            figures.curves.append(
                {"group": name, "trial": trial, "name": what, "values": value, "unit": unit}
            )
            continue
        figures.append({"group": name, "trial": trial, "name": what, "value": value, "unit": unit})
        print(f"{name + ', ' + trial:36} {what:44} {value:10.4g} {unit}", flush=True)
    busy, stolen, ticks = (after - earlier for earlier, after in zip(before, machine_busy()))
    conditions = {
        "load before": load,
        "load after": load_average(),
        "processors busy": busy / max(ticks, 1),
        "stolen": stolen / max(ticks, 1),
        "seconds": time.monotonic() - begun,
    }
    print(
        f"{name}: load {load:g} to {conditions['load after']:g}, "
        f"processors busy {100 * conditions['processors busy']:.0f} %, "
        f"stolen by the machine's host {100 * conditions['stolen']:.1f} %, {conditions['seconds']:.0f} s\n",
        flush=True,
    )
    return conditions


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--device",
        choices=["cpu", "cpu-apart"],
        default="cpu",
        help="cpu-apart: the device is the last processor alone, and all that is no device's work runs on the others",
    )
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--scale", type=float, default=1, help="lengths over their usual ones")
    parser.add_argument("--only", default=",".join(TRIALS), help="some of " + ",".join(TRIALS))
    given = parser.parse_args()
    names = given.only.split(",")
    if not set(names) <= set(TRIALS) or not (math.isfinite(given.scale) and given.scale > 0):
        parser.error(
            f"--only {given.only}, --scale {given.scale}: some of {','.join(TRIALS)}, and a number above 0"
        )
    figures, conditions = Figures(), {}
    place = CpuDevice(apart=given.device == "cpu-apart")
    device_part = place.calibrate()
    print(
        f"{CORES} processors, load {load_average():g}; a program alone has {100 * device_part:.0f} % of the device, "
        f"a step of its kernel takes {1000 * place.kernels.step_us:.0f} ns\n",
        flush=True,
    )
    for name in names:
        conditions[name] = run(name, place, given.scale, figures)
    judged = list(goals(figures))
    print(f"{'measured, ' + given.device:48} {'goal':16} {'reached':16}")
    for what, goal, value, unit, met in judged:
        print(
            f"{what:48} {goal + ' ' + unit:16} {f'{value:.4g} {unit}':16} {'met' if met else 'MISSED'}"
        )
    if given.json:
        given.json.write_text(
            json.dumps(
                {
                    "simulated": False,
                    "processors": CORES,
                    "device part alone": device_part,
                    "conditions": conditions,
                    "figures": figures,
                    "curves": figures.curves,
                    "seconds of a point": trials.CURVE_S,
                    "goals": [
                        {"what": what, "goal": goal, "value": value, "unit": unit, "met": met}
                        for what, goal, value, unit, met in judged
                    ],
                },
                indent=1,
            )
        )


if __name__ == "__main__":
    sys.exit(main())
