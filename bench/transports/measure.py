# SPDX-License-Identifier: Apache-2.0
"""Calls, copies and starts over each transport, beside the raw limit of the same run and the goal.

    measure.py [--json FILE] [--device DEVICE] [--rounds N]     FARCALL_BUILD names the build tree

One server listens on tcp://, tls:// and shm://, and offers UCX where libucp.so.0 is found;
`farcall bench` runs at each in turn, once a round, and medians are printed. The raw limits are
`farcall bench`'s own (TCP, memcpy) and, for TLS, what Python's ssl module (OpenSSL) moves between
two processes for each lane, both ends in the same run; for UCX, what `ucx_perftest` (ucx-utils)
measures over the device that UCX chooses.
Exit code 0 whatever the figures are.
"""

import argparse
import ctypes.util
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["FARCALL_BUILD"])
FARCALL = BUILD / "bin/farcall"
TOKEN = "a-token-of-this-measurement-0123456789"
LANES = 2  # the default of a server, and as `farcall bench` measures raw TCP
PUMP_BYTES, PIECE_BYTES, PINGS, PING_BYTES = 256 << 20, 256 << 10, 2000, 64
HAS_UCX = bool(os.environ.get("FARCALL_UCX_PATH") or ctypes.util.find_library("ucp"))
START = """
import ctypes, time
library = ctypes.CDLL("libcuda.so.1")
began = time.perf_counter()
assert library.cuInit(0) == 0
print((time.perf_counter() - began) * 1e3)
"""


def answer(port, folder, pipe, pumps):
    """The server's end of one connection of raw TLS: takes PUMP_BYTES, or answers pings."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(f"{folder}/server.pem", f"{folder}/server.key")
    with socket.create_server(("127.0.0.1", port)) as listener:
        pipe.send(listener.getsockname()[1])
        plain, _ = listener.accept()
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection = context.wrap_socket(plain, server_side=True)
    buffer = memoryview(bytearray(PIECE_BYTES))
    if pumps:
        left = PUMP_BYTES
        while left:
            left -= connection.recv_into(buffer, min(left, PIECE_BYTES))
        connection.sendall(b"x")
    else:
        for _ in range(PINGS):
            connection.recv_into(buffer, PING_BYTES)
            connection.sendall(buffer[:PING_BYTES])
    connection.close()


def connect(folder, pumps):
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=answer, args=(0, folder, theirs, pumps))
    process.start()
    context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
    plain = socket.create_connection(("127.0.0.1", ours.recv()))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain, server_hostname="127.0.0.1"), process


def pump(folder, begin, pipe):
    connection, process = connect(folder, True)
    piece = bytes(PIECE_BYTES)
    begin.wait()
    began = time.monotonic()
    for _ in range(PUMP_BYTES // PIECE_BYTES):
        connection.sendall(piece)
    connection.recv(1)
    pipe.send((began, time.monotonic()))
    connection.close()
    process.join()


def raw_tls(folder):
    """{rtt_us, stream_GBps}"""
    connection, process = connect(folder, False)
    data, times = bytes(PING_BYTES), []
    for _ in range(PINGS):
        began = time.perf_counter()
        connection.sendall(data)
        connection.recv(PING_BYTES)
        times.append((time.perf_counter() - began) * 1e6)
    connection.close()
    process.join()
    begin, pipes, lanes = multiprocessing.Barrier(LANES), [], []
    for _ in range(LANES):
        ours, theirs = multiprocessing.Pipe()
        lanes.append(multiprocessing.Process(target=pump, args=(folder, begin, theirs)))
        pipes.append(ours)
        lanes[-1].start()
    spans = [ours.recv() for ours in pipes]
    for lane in lanes:
        lane.join()
    seconds = max(end for _, end in spans) - min(began for began, _ in spans)
    return {"rtt_us": statistics.median(times), "stream_GBps": LANES * PUMP_BYTES / seconds / 1e9}


def perftest(*words):
    """The average of the last line of ucx_perftest, over UCX's TCP as it chooses; None: it is not here."""
    program = shutil.which("ucx_perftest")
    if program is None:
        return None
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    env = dict(os.environ, UCX_TLS=os.environ.get("UCX_TLS", "tcp"))
    server = subprocess.Popen([program, "-p", port], env=env, stdout=subprocess.DEVNULL)
    time.sleep(1)  # it does not say when it waits for a connection
    done = subprocess.run(
        [program, "127.0.0.1", "-p", port, *words],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    server.kill()
    server.wait()
    final = re.search(r"Final:\s+(.*)", done.stdout)
    return [float(word) for word in final.group(1).split()] if final else None


def raw_ucx():
    """{rtt_us, stream_GBps}; None where it cannot be measured"""
    latency = perftest("-t", "ucp_am_lat", "-s", str(PING_BYTES), "-n", "5000", "-w", "200")
    stream = perftest("-t", "ucp_am_bw", "-s", str(PIECE_BYTES), "-n", "2000", "-w", "50")
    return {
        # Iterations, typical, average and overall latency (half of a round trip), MB/s, ...
        "rtt_us": 2 * latency[2] if latency else None,
        "stream_GBps": stream[-4] * (1 << 20) / 1e9 if stream else None,
    }


class Server:
    def __init__(self, folder, device):
        for words in (["init"], ["issue", "server", "--host", "127.0.0.1"]):
            subprocess.run(
                [FARCALL, "cert", *words, "--dir", folder], check=True, capture_output=True
            )
        self.log = open(f"{folder}/server.log", "w")
        self.process = subprocess.Popen(
            [
                FARCALL,
                "serve",
                "--device",
                device,
                "--listen",
                "tcp://127.0.0.1:0",
                "--listen",
                "tls://127.0.0.1:0",
                "--shm",
                f"{folder}/farcall.shm",
                "--tls-cert",
                f"{folder}/server.pem",
                "--tls-key",
                f"{folder}/server.key",
                "--token",
                TOKEN,
                "--control",
                "off",
                *(["--ucx"] if HAS_UCX else []),
                "--log-level",
                "warn",
            ],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        line = self.process.stdout.readline()
        found = dict(re.findall(r"\b(tcp|tls)(://127\.0\.0\.1:\d+)", line))
        if set(found) != {"tcp", "tls"}:
            raise SystemExit(
                f"the server does not start: {line}{pathlib.Path(self.log.name).read_text()}"
            )
        self.urls = {
            "tcp": "tcp" + found["tcp"],
            "tls": "tls" + found["tls"],
            "shm": f"shm://{folder}/farcall.shm",
        }
        if HAS_UCX:
            self.urls["ucx"] = "ucx" + found["tcp"]

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


def environment(folder, url):
    return {
        "PATH": os.environ["PATH"],
        "HOME": folder,
        "LD_LIBRARY_PATH": str(BUILD / "lib/farcall"),
        "FARCALL_ENDPOINT": url,
        "FARCALL_CA": f"{folder}/ca.pem",
        "FARCALL_TOKEN": TOKEN,
        "FARCALL_LOG": "error",
        "FARCALL_TRANSPORT": url[:3],
    }


def bench(folder, url):
    done = subprocess.run(
        [FARCALL, "bench", "--json", "--endpoint", url],
        env=environment(folder, url),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"farcall bench at {url}: {done.stderr}")
    return json.loads(done.stdout)


def start_ms(folder, url):
    done = subprocess.run(
        [sys.executable, "-c", START],
        env=environment(folder, url),
        capture_output=True,
        text=True,
        check=True,
    )
    time.sleep(0.5)  # the next worker waits by then
    return float(done.stdout)


def measure(folder, server, rounds, starts):
    """{transport: [figures of a round]}, and of raw TLS and raw UCX."""
    found = {transport: [] for transport in server.urls}
    raw, ucx = [], []
    for _ in range(rounds):
        raw.append(raw_tls(folder))
        ucx.append(raw_ucx() if HAS_UCX else {})
        for transport, url in server.urls.items():
            report = bench(folder, url)
            copy = max(report["farcall"]["copies"], key=lambda each: each["bytes"])
            opens = statistics.median(start_ms(folder, url) for _ in range(starts))
            found[transport].append(
                {
                    "sync_us": report["farcall"]["sync_us"],
                    "launch_ns": report["farcall"]["launch_ns"],
                    "h2d_GBps": copy["h2d_GBps"],
                    "d2h_GBps": copy["d2h_GBps"],
                    "open_ms": opens,
                    "raw_rtt_us": report["raw"]["rtt_us"],
                    "raw_stream_GBps": report["raw"]["stream_GBps"],
                    "raw_memcpy_GBps": report["raw"]["memcpy_GBps"],
                }
            )
    return found, raw, ucx


# Long: a list of rows.
def rows(found, raw, ucx):
    """(what, transport, figure, unit, raw limit, goal as text, figure over what the goal allows: met at 1 or less)"""

    def of(transport, name):
        return statistics.median(each[name] for each in found[transport])

    def raw_of(name):
        return statistics.median(each[name] for each in raw)

    def ucx_of(name):
        known = [each[name] for each in ucx if each.get(name)]
        return statistics.median(known) if known else None

    made = []

    def add(what, transport, figure, unit, limit, goal, allowed, more_is_better=False):
        over = allowed / figure if more_is_better else figure / allowed
        made.append(
            {
                "what": what,
                "transport": transport,
                "figure": figure,
                "unit": unit,
                "raw": limit,
                "goal": goal,
                "over": over,
            }
        )

    rtt = of("tcp", "raw_rtt_us")
    add("synchronising call", "tcp", of("tcp", "sync_us"), "us", rtt, "1.3 x raw", 1.3 * rtt)
    add(
        "synchronising call",
        "tls",
        of("tls", "sync_us"),
        "us",
        raw_of("rtt_us"),
        "raw TLS + 5 us",
        raw_of("rtt_us") + 5,
    )
    add("synchronising call", "shm", of("shm", "sync_us"), "us", None, "1.5 us", 1.5)
    for transport, goal in (("tcp", 50), ("shm", 30)):
        add(
            "launch, client side",
            transport,
            of(transport, "launch_ns"),
            "ns",
            None,
            f"{goal} ns",
            goal,
        )
    for name, what in (("h2d_GBps", "64 MiB to the device"), ("d2h_GBps", "64 MiB to the host")):
        for transport, limit, share, text in (
            ("tcp", of("tcp", "raw_stream_GBps"), 0.9, "90 % of raw TCP"),
            ("tls", raw_of("stream_GBps"), 0.85, "85 % of raw TLS"),
            ("shm", of("shm", "raw_memcpy_GBps"), 0.85, "85 % of memcpy"),
        ):
            add(what, transport, of(transport, name), "GB/s", limit, text, share * limit, True)
    for transport, goal in (("tcp", 10), ("tls", 15), ("shm", 10)):
        add("open a session", transport, of(transport, "open_ms"), "ms", None, f"{goal} ms", goal)
    if "ucx" in found:
        rtt, stream = ucx_of("rtt_us"), ucx_of("stream_GBps")
        add(
            "synchronising call",
            "ucx",
            of("ucx", "sync_us"),
            "us",
            rtt,
            "1.3 x ucx_perftest" if rtt else "tcp://",
            1.3 * rtt if rtt else of("tcp", "sync_us"),
        )
        for name, what in (
            ("h2d_GBps", "64 MiB to the device"),
            ("d2h_GBps", "64 MiB to the host"),
        ):
            tcp = of("tcp", name)
            add(what, "ucx", of("ucx", name), "GB/s", stream, "tcp://", tcp, True)
        add(
            "open a session",
            "ucx",
            of("ucx", "open_ms"),
            "ms",
            None,
            "tcp://",
            of("tcp", "open_ms"),
        )
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--device", default="dry")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--starts", type=int, default=5, help="sessions opened at each transport in a round"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, options.device)
        try:
            found, raw, ucx = measure(folder, server, options.rounds, options.starts)
        finally:
            server.stop()
    table = rows(found, raw, ucx)
    print(
        f"{options.rounds} rounds, device {options.device}, {LANES} lanes, "
        f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}\n\n"
        "| what | transport | measured | raw, same run | goal | met |\n|---|---|---|---|---|---|"
    )
    for row in table:
        limit = "-" if row["raw"] is None else f"{row['raw']:.4g} {row['unit']}"
        met = "yes" if row["over"] <= 1 else f"no, {row['over']:.2f} x"
        print(
            f"| {row['what']} | `{row['transport']}://` | {row['figure']:.4g} {row['unit']} | "
            f"{limit} | {row['goal']} | {met} |"
        )
    print(
        "\nNot here: lines of 30 ms (./scripts/bench wan), and page-locked memory over shm://, of which"
        " no copy crosses."
    )
    if options.json:
        pathlib.Path(options.json).write_text(
            json.dumps({"rows": table, "rounds": found, "raw_tls": raw}, indent=1)
        )


if __name__ == "__main__":
    main()
