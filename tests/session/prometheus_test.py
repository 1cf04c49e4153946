# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes a server; each expression of the Grafana dashboard is asked of it, and promtool reads our page."""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request

from control_test import CONTROL, MIB
from harness import FARCALL, HERE, Server, Teller, until

DASHBOARD = HERE.parent.parent / "deploy/grafana/farcall.json"
# Nothing runs on the device of these tests' program, so these have no series.
WITHOUT_SERIES = ("farcall_vgpu_throttled_seconds_total",)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.read().decode()
    except OSError:
        return ""


class Prometheus:
    def __init__(self, *targets):
        self.folder, self.port = tempfile.TemporaryDirectory(), free_port()
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "farcall", "static_configs": [{"targets": targets}]}],
        }
        path = pathlib.Path(self.folder.name, "prometheus.yml")
        path.write_text(json.dumps(config))  # YAML takes JSON
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={path}",
                f"--storage.tsdb.path={self.folder.name}/data",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, expression):
        query = urllib.parse.urlencode({"query": expression})
        text = get(f"http://127.0.0.1:{self.port}/api/v1/query?{query}")
        answer = json.loads(text) if text else {"status": "none"}
        return answer["data"]["result"] if answer["status"] == "success" else None

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.folder.cleanup()


class Scraped(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.address = f"127.0.0.1:{free_port()}"
        self.server = Server(
            "--control",
            f"{folder.name}/control.sock",
            "--metrics",
            self.address,
            "--oversubscribe",
            "1.5",
        )  # so that swapping has series
        self.addCleanup(self.server.stop)
        self.teller = Teller(self.server)
        self.addCleanup(self.teller.end)
        self.teller.say(f"take {64 * MIB}")
        self.page = until(lambda: get(f"http://{self.address}/metrics"), what="metrics")

    def test_promtool_reads_the_page(self):
        checked = subprocess.run(
            ["promtool", "check", "metrics"],
            input=self.page,
            capture_output=True,
            text=True,
            timeout=60,
        )
        # Names of another exporter are as they are; what is said of ours is a fault.
        ours = [
            line for line in (checked.stdout + checked.stderr).splitlines() if "farcall_" in line
        ]
        self.assertEqual(ours, [])

    def test_each_expression_of_the_dashboard_is_answered(self):
        pool = subprocess.Popen(
            [FARCALL, "pool", "dev"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.addCleanup(lambda: (pool.terminate(), pool.wait(20), pool.stdout.close()))
        pool_address = re.search(r"REST on http://(\S+)", pool.stdout.readline()).group(1)
        self.page += get(f"http://{pool_address}/metrics")
        prometheus = Prometheus(self.address, pool_address)
        self.addCleanup(prometheus.stop)
        until(lambda: prometheus.ask("farcall_vgpu_memory_used_bytes"), 60, "the first scrape")
        expressions = [
            target["expr"]
            for panel in json.loads(DASHBOARD.read_text())["panels"]
            for target in panel["targets"]
        ]
        self.assertGreater(len(expressions), 8)
        for expression in expressions:
            filled = (
                expression.replace("$instance", ".*")
                .replace("$pool", ".*")
                .replace("[1m]", "[10s]")
                .replace("[5m]", "[10s]")
            )
            for name in re.findall(r"farcall_\w+", filled):
                self.assertIn(f"# TYPE {name} ", self.page, expression)
            wanted = not any(name in filled for name in WITHOUT_SERIES)
            found = until(
                lambda: prometheus.ask(filled) if wanted else prometheus.ask(filled) is not None,
                30,
                filled,
            )
            self.assertTrue(found, filled)
        (used,) = prometheus.ask("farcall_vgpu_memory_used_bytes")
        self.assertGreaterEqual(float(used["value"][1]), 64 * MIB)


if __name__ == "__main__":
    missing = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    if missing or not CONTROL.exists():
        print(f"skipped: no {' '.join(missing) or CONTROL}")
        sys.exit(77)
    unittest.main()
