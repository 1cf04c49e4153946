# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces with a long-distance line between them (wan_box.cc): the client's and the server's.

    with Wan(box, rtt_ms=30, rate_mbit=1000) as wan:
        subprocess.Popen(wan.at_server("farcall", "serve", ...))     # listens on wan.SERVER
        subprocess.run(wan.at_client("./train"))
        wan.cut(8000)                                                # no packet passes for 8 s
    wan.counts                                                       # what the line did

Needs root and /dev/net/tun; Unavailable says what is missing.
"""

import json
import os
import pathlib
import shutil
import subprocess


class Unavailable(Exception):
    """Why there can be no namespaces here."""


class Wan:
    CLIENT, SERVER = "10.99.0.1", "10.99.0.2"
    MTU = 9000  # with 1500 the box is short of processor time at 10 Gbit
    _number = 0

    def __init__(self, box, *, rtt_ms, rate_mbit, loss=0.0, reorder=0.0, queue_ms=20.0, seed=1):
        Wan._number += 1
        self._name = f"fcw{os.getpid() % 100000}-{Wan._number}"
        self._flags = {
            "--rtt-ms": rtt_ms,
            "--rate-mbit": rate_mbit,
            "--loss": loss,
            "--reorder": reorder,
            "--queue-ms": queue_ms,
            "--seed": seed,
        }
        self._box_path, self._box, self.counts = box, None, None

    @staticmethod
    def _ip(*words, must=True):
        done = subprocess.run(["ip", *words], capture_output=True, text=True)
        if must and done.returncode != 0:
            raise Unavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")
        return done

    @staticmethod
    def check():
        """Raises Unavailable where it cannot work at all."""
        if shutil.which("ip") is None:
            raise Unavailable("the command `ip` (package iproute2) is missing")
        if os.geteuid() != 0:
            raise Unavailable("network namespaces need root")
        if not pathlib.Path("/dev/net/tun").exists():
            raise Unavailable("there is no /dev/net/tun")

    def __enter__(self):
        self.check()
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def _open(self):
        ends = {
            side: self._name + side for side in "cs"
        }  # a device and its namespace have one name
        for space in ends.values():
            self._ip("netns", "add", space)
        command = [str(self._box_path), "--left", ends["c"], "--right", ends["s"]]
        for flag, value in self._flags.items():
            command += [flag, str(value)]
        self._box = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self._box.stdout.readline() != "ready\n":
            raise Unavailable(self._box.stderr.read().strip())
        for side, address in (("c", self.CLIENT), ("s", self.SERVER)):
            space = ends[side]
            self._ip("link", "set", space, "netns", space)
            # Only what is sent on purpose passes the line.
            subprocess.run(
                [
                    "ip",
                    "netns",
                    "exec",
                    space,
                    "sh",
                    "-c",
                    "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6",
                ],
                capture_output=True,
            )
            for words in (
                ("link", "set", "lo", "up"),
                ("addr", "add", address + "/24", "dev", space),
                ("link", "set", space, "mtu", str(self.MTU), "up"),
            ):
                self._ip("-n", space, *words)

    def __exit__(self, *_):
        self._close()

    def _close(self):
        if self._box is not None:
            out, _ = self._box.communicate()
            if self._box.returncode == 0 and out:
                self.counts = json.loads(out)
            self._box = None
        for side in "cs":
            self._ip("netns", "del", self._name + side, must=False)

    def _at(self, side, words):
        return ["ip", "netns", "exec", self._name + side, *map(str, words)]

    def at_client(self, *words):
        return self._at("c", words)

    def at_server(self, *words):
        return self._at("s", words)

    def cut(self, milliseconds):
        self._box.stdin.write(f"cut {milliseconds}\n")
        self._box.stdin.flush()
