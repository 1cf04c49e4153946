# SPDX-License-Identifier: Apache-2.0
"""Programs over a long-distance line (tests/tools/wan): time, round trips, and how much longer than over the loopback.

    measure.py [--json FILE] [--device DEVICE] [--scheme tls|tcp] [--quick]     FARCALL_BUILD names the build tree

Client and server are in namespaces of their own. Each program has run once before, so that its
kernels and the client's answers are known. Exit code 77 with a reason where namespaces cannot be had.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools/wan"))
from wan import Unavailable, Wan  # noqa: E402

BUILD = pathlib.Path(os.environ["FARCALL_BUILD"])
FARCALL, BOX = BUILD / "bin/farcall", BUILD / "tests/tools/wan_box"
TOKEN = "a-token-of-this-measurement-0123456789"
PORT = 7717
PROGRAMS = {
    name: [BUILD / "examples" / name]
    for name in ("vector_add", "reduction_shuffle", "heat_stencil", "train_mlp")
}
PROGRAMS["copies of 64 MiB"] = [BUILD / "tests/session/steps", 5, 0, 64]
RTTS_MS, RATES_MBIT = (0.2, 1, 10, 30, 150), (1000, 10000)
BULK, BULK_BYTES, BULK_LANES, RAW_PORT = (
    pathlib.Path(__file__).with_name("bulk.py"),
    1 << 30,
    8,
    7718,
)
CUT_MS = 12_000  # longer than a link that hears nothing is believed to be alive


def bulk(command, **more):
    """Seconds up and down, as bulk.py says them."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, **more)
    return json.loads(done.stdout)


class Setup:
    """A server with its certificates, and the environment of its clients; `wan`: None is the loopback."""

    def __init__(self, folder, scheme, device, wan):
        self.wan, self.folder = wan, folder
        host = Wan.SERVER if wan else "127.0.0.1"
        where = wan.at_server if wan else lambda *words: [str(word) for word in words]
        port = PORT if wan else 0
        listen = [f"{scheme}://{host}:{port}"]
        tls = (
            ["--tls-cert", f"{folder}/server.pem", "--tls-key", f"{folder}/server.key"]
            if scheme == "tls"
            else ["--plaintext"]
        )
        self.log = open(f"{folder}/server.log", "a")
        self.server = subprocess.Popen(
            where(
                FARCALL,
                "serve",
                "--device",
                device,
                "--listen",
                *listen,
                "--token",
                TOKEN,
                "--control",
                "off",
                *tls,
            ),
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, "FARCALL_CACHE_DIR": f"{folder}/server-cache"},
        )
        line = self.server.stdout.readline()
        found = re.search(r"(?:tcp|tls)://\S+:\d+", line)
        if not found:
            raise SystemExit(
                f"the server does not start: {line}{pathlib.Path(self.log.name).read_text()}"
            )
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "LD_LIBRARY_PATH": str(BUILD / "lib/farcall"),
            "FARCALL_ENDPOINT": found.group(),
            "FARCALL_CA": f"{folder}/ca.pem",
            "FARCALL_TOKEN": TOKEN,
            "FARCALL_STATS": f"{folder}/stats.json",
            "FARCALL_LOG": "warn",
        }

    def run(self, command, cut_after_s=None):
        """Seconds, round trips, and how often the session came back."""
        words = [str(word) for word in command]
        began = time.monotonic()
        client = subprocess.Popen(
            self.wan.at_client(*words) if self.wan else words,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
        )
        if cut_after_s is not None:
            time.sleep(cut_after_s)
            self.wan.cut(CUT_MS)
        out, _ = client.communicate(timeout=900)
        seconds = time.monotonic() - began
        if client.returncode != 0:
            raise SystemExit(f"{words}: exit code {client.returncode}\n{out}")
        stats = json.loads(pathlib.Path(self.environment["FARCALL_STATS"]).read_text())
        return {
            "seconds": seconds,
            "round_trips": stats["round_trips"],
            "bytes": stats["bytes_out"] + stats["bytes_in"],
            "reconnects": out.count("reconnected to"),
        }

    def bulk(self, kind="random", **environment):
        return bulk(
            self.wan.at_client(sys.executable, BULK, "cuda", BULK_BYTES, kind),
            env={**self.environment, **environment},
        )

    def stop(self):
        self.server.terminate()
        try:
            self.server.wait(10)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        self.server.stdout.close()


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.rows = options, folder, []

    def setup(self, wan):
        return Setup(self.folder, self.options.scheme, self.options.device, wan)

    def local(self):
        setup = self.setup(None)
        found = {}
        for name, command in PROGRAMS.items():
            setup.run(command)
            runs = [setup.run(command) for _ in range(3)]
            found[name] = sorted(runs, key=lambda run: run["seconds"])[1]
        setup.stop()
        return found

    def bulk(self, rtt_ms, rate_mbit, rounds):
        """One copy of 1 GiB in each direction, and as many bytes over bare connections, in turn."""
        with Wan(BOX, rtt_ms=rtt_ms, rate_mbit=rate_mbit) as wan:
            setup = self.setup(wan)
            far = subprocess.Popen(
                wan.at_server(sys.executable, BULK, "serve", RAW_PORT),
                stdout=subprocess.PIPE,
                text=True,
            )
            far.stdout.readline()
            raw, ours = [], []
            for _ in range(rounds):
                raw.append(
                    bulk(
                        wan.at_client(
                            sys.executable,
                            BULK,
                            "raw",
                            Wan.SERVER,
                            RAW_PORT,
                            BULK_LANES,
                            BULK_BYTES,
                        )
                    )
                )
                ours.append(setup.bulk())
            far.kill()
            far.wait()
            setup.stop()
        print(
            f"\n1 GiB at {rtt_ms} ms, {rate_mbit // 1000} Gbit, {self.options.scheme}://; "
            f"raw: {BULK_LANES} TCP connections\n"
        )
        print("| | seconds | raw | share of raw's speed (median) |\n|---|---|---|---|")
        for way in ("up", "down"):
            mine, bare = [run[way] for run in ours], [run[way] for run in raw]
            print(
                f"| {way} | {', '.join(f'{t:.2f}' for t in mine)} | {', '.join(f'{t:.2f}' for t in bare)} | "
                f"{statistics.median(bare) / statistics.median(mine):.2f} |",
                flush=True,
            )
        return {"rtt_ms": rtt_ms, "rate_mbit": rate_mbit, "raw": raw, "farcall": ours}

    def compression(self, rtt_ms, rates_mbit, rounds):
        """Weights in bf16, 1 GiB in each direction, with compression and without, in turn."""
        print(
            f"\n1 GiB of weights in bf16 at {rtt_ms} ms, {self.options.scheme}://: seconds\n\n"
            "| Gbit/s | | as they are | compressed where it helps | median ratio |\n|---|---|---|---|---|"
        )
        rows = []
        for rate in rates_mbit:
            runs = {"off": [], "auto": []}
            with Wan(BOX, rtt_ms=rtt_ms, rate_mbit=rate) as wan:
                setup = self.setup(wan)
                for _ in range(rounds):
                    for how, found in runs.items():
                        found.append(setup.bulk("weights", FARCALL_COMPRESSION=how))
                setup.stop()
            rows.append({"rtt_ms": rtt_ms, "rate_mbit": rate, **runs})
            for way in ("up", "down"):
                plain, packed = ([run[way] for run in runs[how]] for how in ("off", "auto"))
                print(
                    f"| {rate / 1000:g} | {way} | {', '.join(f'{t:.2f}' for t in plain)} | "
                    f"{', '.join(f'{t:.2f}' for t in packed)} | "
                    f"{statistics.median(packed) / statistics.median(plain):.2f} |",
                    flush=True,
                )
        return rows

    def model(self, at_home, run, rtt_ms, rate_mbit):
        """Seconds: at home, what is waited for, and the bytes. HELLO and the lanes are a round trip each in
        the count, and as many more as the connection needs ahead of it."""
        ahead = {"tcp": 2, "tls": 3}[self.options.scheme]
        return (
            at_home
            + (run["round_trips"] + 2 * ahead) * rtt_ms / 1000
            + run["bytes"] * 8 / (rate_mbit * 1e6)
        )

    def line(
        self, local, what, rtt_ms, rate_mbit, cut_after_s=None, programs=tuple(PROGRAMS), **more
    ):
        with Wan(BOX, rtt_ms=rtt_ms, rate_mbit=rate_mbit, **more) as wan:
            setup = self.setup(wan)
            for name in programs:
                if not self.rows:  # what has to be learned at this endpoint, once
                    for command in PROGRAMS.values():
                        setup.run(command)
                run = setup.run(PROGRAMS[name], cut_after_s)
                at_home = local[name]["seconds"]
                row = {
                    "line": what,
                    "rtt_ms": rtt_ms,
                    "rate_mbit": rate_mbit,
                    "program": name,
                    **run,
                    "local_seconds": at_home,
                    "ratio": run["seconds"] / at_home,
                    "model_seconds": self.model(at_home, run, rtt_ms, rate_mbit),
                }
                self.rows.append(row)
                print(
                    f"| {what} | {name} | {row['seconds']:.2f} s | {row['round_trips']} | "
                    f"{at_home:.2f} s | {row['ratio']:.1f} | "
                    f"{row['model_seconds']:.2f} s | {run['reconnects'] or ''} |",
                    flush=True,
                )
            setup.stop()
        if self.rows:
            self.rows[-1]["counts"] = wan.counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--scheme", choices=("tls", "tcp"), default="tls")
    parser.add_argument(
        "--compression", action="store_true", help="only weights, with compression and without"
    )
    parser.add_argument("--quick", action="store_true", help="1 and 30 ms at 1 Gbit, and the cut")
    options = parser.parse_args()
    Wan.check()
    with tempfile.TemporaryDirectory(prefix="farcall-wan-") as folder:
        for words in (("init",), ("issue", "server", "--host", "127.0.0.1", "--host", Wan.SERVER)):
            subprocess.run(
                [FARCALL, "cert", *words, "--dir", folder], check=True, capture_output=True
            )
        bench = Bench(options, folder)
        if options.compression:
            rows = bench.compression(30, (1000, 2500, 5000), 3)
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps({"compression": rows}, indent=1))
            return
        control = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
        local = bench.local()
        print(
            f"{options.scheme}://, device {options.device}, TCP {control}; "
            "model: local + round trips x RTT + bytes / rate\n"
        )
        print(
            "| line | program | time | round trips | local | ratio | model | reconnects |\n"
            "|---|---|---|---|---|---|---|---|"
        )
        for rate in (1000,) if options.quick else RATES_MBIT:
            for rtt in (1, 30) if options.quick else RTTS_MS:
                bench.line(local, f"{rtt} ms, {rate // 1000} Gbit", rtt, rate)
        if not options.quick:
            bench.line(local, "30 ms, 1 Gbit, 0.1 % lost", 30, 1000, loss=0.001)
            bench.line(local, "30 ms, 1 Gbit, 1 % out of order", 30, 1000, reorder=0.01)
        bench.line(
            local,
            f"30 ms, 1 Gbit, cut for {CUT_MS // 1000} s",
            30,
            1000,
            cut_after_s=1.0,
            programs=("copies of 64 MiB",),
        )
        bulk_rows = bench.bulk(30, 1000 if options.quick else 10000, 1 if options.quick else 3)
        if options.json:
            found = {
                "local": local,
                "rows": bench.rows,
                "bulk": bulk_rows,
                "congestion_control": control,
            }
            pathlib.Path(options.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    try:
        main()
    except Unavailable as why:
        print(f"skipped: {why}")
        sys.exit(77)
