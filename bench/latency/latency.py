# SPDX-License-Identifier: Apache-2.0
"""The table of speed: figures of this build, goals beside them, and the same of a peer where its
source is given. `./scripts/bench latency [--peer FOLDER]`; docs/results has figures with their
conditions."""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from delayed_link import DelayedLink, ping_over
from sides import BUILD, Failed, Lupine, Ours


@dataclasses.dataclass
class Row:
    name: str
    unit: str
    goal: str = ""
    most: float = None  # the goal as a bound on ours
    least: float = None
    ours: float = None
    peer: float = None

    def verdict(self):
        if self.ours is None or (self.most is None and self.least is None):
            return ""
        is_met = (self.most is None or self.ours <= self.most) and (
            self.least is None or self.ours >= self.least
        )
        return "met" if is_met else "missed"


def value(number):
    return "" if number is None else f"{number:.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def show(rows):
    print(f"{'measure':56} {'unit':10} {'ours':>9} {'peer':>9}  {'goal':24} ")
    for row in rows:
        print(
            f"{row.name:56} {row.unit:10} {value(row.ours):>9} {value(row.peer):>9}  "
            f"{row.goal:24} {row.verdict()}"
        )


def medians(side, rounds, *what):
    """Each figure's median over runs of the program."""
    runs = [side.run(*what) for _ in range(rounds)]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def raw_figures():
    """Of this machine's loopback, as `farcall bench` measures it."""
    command = [str(BUILD / "bin/farcall"), "bench", "--device", "cpu", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"farcall bench: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


class Table:
    def __init__(self, flags):
        self.flags, self.rows, self.built = flags, [], None
        if flags.peer:
            self.built = Lupine.build(flags.peer, BUILD.parent / "bench/peer")

    def add(self, name, unit, ours, peer=None, goal="", most=None, least=None):
        self.rows.append(Row(name, unit, goal, most, least, ours, peer))

    def sides(self, pins=None):
        """Fresh servers of both; the second is None without a peer."""
        return Ours(pins), Lupine(self.built, pins) if self.built else None

    def local(self, placement, pins):
        ours, peer = self.sides(pins)
        with ours:
            small, launch, bulk = (
                medians(ours, self.flags.rounds, what) for what in ("small", "launch", "bulk")
            )
        theirs = {}
        if peer:
            with peer:
                for what in ("small", "launch", "bulk"):
                    theirs.update(medians(peer, self.flags.rounds, what))
        raw = raw_figures()["raw"] if pins is None else None
        if raw:
            self.add("raw 64-byte ping-pong on loopback", "us", raw["rtt_us"])
            self.add("raw stream on loopback", "GB/s", raw["stream_GBps"])
        sync = small["sync_us"]
        self.add(f"synchronize, {placement}", "us", sync, theirs.get("sync_us"))
        if raw:
            self.add(
                f"synchronize / raw, {placement}", "", sync / raw["rtt_us"], goal="<= 1.4", most=1.4
            )
        for key, name in (
            ("read_4_us", "4 bytes to the host"),
            ("up_1k_us", "1 KiB up, synchronous"),
            ("up_1k_beside_us", "the same beside a non-blocking stream"),
        ):
            self.add(
                f"{name}, {placement}",
                "us",
                small[key],
                theirs.get(key),
                goal=f"<= {sync + 2:.1f} (sync + 2)",
                most=sync + 2,
            )
        for key, name in (
            ("launch_sync_us", "launch + synchronize"),
            ("alloc_free_us", "malloc + free"),
            ("event_pair_us", "two events and their time"),
        ):
            self.add(f"{name}, {placement}", "us", small[key], theirs.get(key))
        self.add(
            f"launch, client's processor time, {placement}",
            "ns",
            launch["launch_cpu_ns"],
            theirs.get("launch_cpu_ns"),
            goal="<= 100",
            most=100,
        )
        least = raw["stream_GBps"] * 0.85 if raw else 0
        bound = {"goal": f">= {least:.2f} (0.85 raw)", "least": least} if raw else {}
        for key, name in (
            ("up_GBps", "64 MiB up"),
            ("down_GBps", "64 MiB down"),
            ("pinned_up_GBps", "64 MiB up, page-locked"),
            ("pinned_down_GBps", "64 MiB down, page-locked"),
        ):
            self.add(f"{name}, {placement}", "GB/s", bulk[key], theirs.get(key), **bound)

    def delayed(self, rtt_ms):
        figures = []
        for side in self.sides():
            if side is None:
                figures.append(None)
                continue
            with side:
                step, begun = self._over_a_delay(side, rtt_ms)
                figures.append((step["step_ms"], step["step_without_read_ms"], begun))
        ours, theirs = figures[0], figures[1] or (None, None, None)
        ping_ms = ping_over(rtt_ms / 1e3) * 1e3
        self.add(
            f"64 bytes there and back over the link, RTT {rtt_ms:g} ms", "RTT", ping_ms / rtt_ms
        )
        self.add(
            f"step with one pageable read, RTT {rtt_ms:g} ms",
            "RTT",
            ours[0] / rtt_ms,
            theirs[0] and theirs[0] / rtt_ms,
        )
        self.add(
            f"the same, in times of those 64 bytes, RTT {rtt_ms:g} ms",
            "",
            ours[0] / ping_ms,
            theirs[0] and theirs[0] / ping_ms,
            goal="<= 1.02",
            most=1.02,
        )
        self.add(f"step that reads nothing, RTT {rtt_ms:g} ms", "ms", ours[1], theirs[1])
        self.add(
            f"connect() to the first kernel's start, RTT {rtt_ms:g} ms",
            "RTT",
            ours[2],
            theirs[2],
            goal="<= 2.1",
            most=2.1,
        )

    def _over_a_delay(self, side, rtt_ms):
        link = DelayedLink(("127.0.0.1", side.port), rtt_ms / 1e3)
        side.run("start", port=link.port)  # fills the caches, which are kept by endpoint
        begins = []
        for _ in range(3):
            link.accepted_at_us = None
            ended = side.run("start", port=link.port)["ended_at_us"]
            # The end of the wait is known half a round trip after the server's.
            begins.append((ended - link.accepted_at_us) / 1e3 / rtt_ms - 0.5)
        step = side.run("step", max(10, min(200, int(3000 / rtt_ms))), port=link.port)
        link.close()
        return step, statistics.median(begins)

    def counts(self):
        """Round trips, the same whatever the load: those of many rounds less those of few."""
        with Ours() as ours:
            ours.counted("start")
            start = ours.counted("start")
            self.add(
                "round trips of a warm start, to its first kernel's end",
                "",
                start["round_trips"],
                goal="<= 2",
                most=2,
            )
            few, many = (ours.counted("small", rounds)["calls"] for rounds in (10, 110))

            def each(*names):
                found = [name for name in many if name in (*names, *(f"{one}_v2" for one in names))]
                if not found:  # a name that the statistics do not have would read as no round trip
                    raise KeyError(names)

                def waited(calls):
                    return sum(calls.get(one, {}).get("waited", 0) for one in found)

                return (waited(many) - waited(few)) / 100

            pair = each("cuEventSynchronize") + each("cuEventElapsedTime")
            self.add(
                "round trips of a pair of events and their time", "", pair, goal="<= 1", most=1
            )
            self.add(
                "round trips of a 1 KiB synchronous upload",
                "",
                each("cuMemcpyHtoD_v2"),
                goal="0",
                most=0,
            )
            few, many = (ours.counted("step", rounds)["round_trips"] for rounds in (5, 25))
            self.add(
                "round trips of a step with one read", "", (many - few) / 20, goal="<= 1", most=1
            )

    def idle(self):
        """A client that has launched, and idles."""
        figures = []
        for side in self.sides():
            if side is None:
                figures.append((None, None))
                continue
            with side:
                program = side.start_program("hold", 6)
                time.sleep(1)
                before = switches(program.pid)
                time.sleep(4)
                figures.append(((switches(program.pid) - before) / 4, memory_mib(program.pid)))
                program.kill()
                program.wait()
        self.add("wake-ups of an idle client", "a second", figures[0][0], figures[1][0])
        self.add("memory of a client that has launched (PSS)", "MiB", figures[0][1], figures[1][1])


def switches(pid):
    """Voluntary context switches of all its threads."""
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/status")
    lines = [line for status in tasks for line in status.read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))


def memory_mib(pid):
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--peer",
        type=pathlib.Path,
        help="a folder with the source of LUPINE, built and measured beside ours",
    )
    parser.add_argument(
        "--rtt",
        type=float,
        nargs="+",
        default=[1, 10, 150],
        help="round trips of the delayed links, ms",
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="runs of each local measure; medians are shown"
    )
    parser.add_argument("--json", type=pathlib.Path)
    flags = parser.parse_args()
    table = Table(flags)
    table.counts()
    table.local("any processor", None)
    if len(os.sched_getaffinity(0)) > 1 and shutil.which("taskset"):
        first, second = sorted(os.sched_getaffinity(0))[:2]
        table.local("processors apart", (first, second))
        table.local("one processor", (first, first))
    for rtt_ms in flags.rtt:
        table.delayed(rtt_ms)
    table.idle()
    show(table.rows)
    print(
        f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors; "
        f"peer: {flags.peer or 'none (--peer FOLDER)'}"
    )
    if flags.json:
        rows = [dict(dataclasses.asdict(row), verdict=row.verdict()) for row in table.rows]
        flags.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    try:
        main()
    except Failed as why:
        sys.exit(f"bench latency: {why}")
