# SPDX-License-Identifier: Apache-2.0
"""The long-distance line itself, and sessions over it: what is lost and reordered, and a cut that a session outlives."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from wan import Unavailable, Wan

from harness import BUILD, FARCALL, PROGRAMS, until

BOX = BUILD / "tests/tools/wan_box"
TOKEN = "a-token-of-this-test-0123456789"
COUNT = 400
# Sends datagrams, or counts those that come and whether in order, until the word of the end has come a few times.
SEND = f"import socket,sys,time; s=socket.socket(2,2); [(s.sendto(b'%d'%i,('{Wan.SERVER}',9)),time.sleep(.0005)) for i in range({COUNT})]"
HEAR = (
    f"import socket; s=socket.socket(2,2); s.bind(('{Wan.SERVER}',9)); print('ready',flush=True); s.settimeout(2); got=[]\n"
    "try:\n    while True: got.append(int(s.recv(99)))\nexcept TimeoutError: pass\nprint(len(got), got == sorted(got))"
)


class WanTest(unittest.TestCase):
    def wan(self, **line):
        opened = Wan(BOX, **line)
        opened.__enter__()
        self.addCleanup(opened.__exit__)
        return opened

    def datagrams(self, wan):
        """(how many came, whether in order) of those that are sent."""
        hears = subprocess.Popen(
            wan.at_server(sys.executable, "-c", HEAR), stdout=subprocess.PIPE, text=True
        )
        self.assertEqual(hears.stdout.readline(), "ready\n")
        subprocess.run(wan.at_client(sys.executable, "-c", SEND), check=True, timeout=60)
        count, in_order = hears.communicate()[0].split()
        wan.__exit__()
        return int(count), in_order == "True"

    def test_all_pass_in_their_order(self):
        wan = self.wan(rtt_ms=10, rate_mbit=1000)
        self.assertEqual(self.datagrams(wan), (COUNT, True))
        self.assertEqual(
            {
                name: wan.counts["there"][name]
                for name in ("packets", "delivered", "lost", "cut", "reordered")
            },
            {"packets": COUNT, "delivered": COUNT, "lost": 0, "cut": 0, "reordered": 0},
        )

    def test_loss_and_order_are_what_was_asked_for(self):
        wan = self.wan(rtt_ms=10, rate_mbit=1000, loss=0.25, reorder=0.25)
        came, in_order = self.datagrams(wan)
        there = wan.counts["there"]
        self.assertEqual(there["packets"], COUNT)
        self.assertEqual((came, there["delivered"]), (COUNT - there["lost"],) * 2)
        self.assertEqual(
            (there["lost"], there["reordered"], in_order), (96, 69, False)
        )  # the seed's

    def test_a_cut_drops_all(self):
        wan = self.wan(rtt_ms=0, rate_mbit=1000)
        wan.cut(600_000)
        until(lambda: self.passes_nothing(wan), what="a cut")

    def passes_nothing(self, wan):
        command = wan.at_client(
            sys.executable, "-c", f"import socket; socket.create_connection(('{Wan.SERVER}',9),.3)"
        )
        return "timed out" in subprocess.run(command, capture_output=True, text=True).stderr

    def serve(self, wan, folder):
        certificates = pathlib.Path(folder)
        for words in (("init",), ("issue", "server", "--host", Wan.SERVER)):
            subprocess.run(
                [FARCALL, "cert", *words, "--dir", folder], check=True, capture_output=True
            )
        server = subprocess.Popen(
            wan.at_server(
                FARCALL,
                "serve",
                "--device",
                "cpu",
                "--listen",
                f"tls://{Wan.SERVER}:0",
                "--token",
                TOKEN,
                "--control",
                "off",
                "--tls-cert",
                certificates / "server.pem",
                "--tls-key",
                certificates / "server.key",
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        return re.search(r"tls://\S+:\d+", server.stdout.readline()).group(), str(
            certificates / "ca.pem"
        )

    def test_a_session_outlives_a_cut_and_a_line_that_loses_and_reorders(self):
        with tempfile.TemporaryDirectory() as folder:
            wan = self.wan(rtt_ms=10, rate_mbit=1000, loss=0.002, reorder=0.01)
            url, ca = self.serve(wan, folder)
            env = {
                "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
                "HOME": folder,
                "LD_LIBRARY_PATH": str(BUILD / "lib/farcall"),
                "FARCALL_ENDPOINT": url,
                "FARCALL_CA": ca,
                "FARCALL_TOKEN": TOKEN,
            }
            client = subprocess.Popen(
                wan.at_client(PROGRAMS / "steps", 30, 20, 4),
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            while client.stdout.readline() != "step 5\n":
                self.assertIsNone(
                    client.poll(), client.stderr.read() if client.poll() is not None else ""
                )
            wan.cut(12_000)
            out, err = client.communicate(timeout=200)
            self.assertEqual((client.returncode, out.splitlines()[-1]), (0, "right"), err)
            self.assertIn("reconnected to", err)


if __name__ == "__main__":
    try:
        with Wan(BOX, rtt_ms=0, rate_mbit=1000):
            pass
    except Unavailable as why:
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main(verbosity=2)
