# SPDX-License-Identifier: Apache-2.0
"""`farcall top` in a terminal: its screen, its keys, its width and its colors; `ps` has the same columns."""

import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
from harness import FARCALL, Server, Teller, until  # noqa: E402

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOR = re.compile(r"\x1b\[[0-9;]*m")
MIB = 1 << 20


class Terminal:
    """A program in a pseudo-terminal; `screen()` is what stands on it now."""

    def __init__(self, command, columns=220, rows=40, **environment):
        pid, self.fd = pty.fork()
        if pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            env = (
                {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
                | {"TERM": "xterm"}
                | environment
            )
            os.execvpe(command[0], command, env)
        self.pid, self.raw, self.code = pid, "", None

    def read(self):
        while select.select([self.fd], [], [], 0)[0]:
            try:
                got = os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                return self.ended()
            if not got:
                return self.ended()
            self.raw += got
        return None

    def ended(self):
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def screen(self):
        """Lines of the newest whole screen, without escape sequences."""
        self.read()
        frames = self.raw.split("\x1b[H")
        frame = frames[-1] if "\x1b[J" in frames[-1] else frames[-2] if len(frames) > 1 else ""
        return [ESCAPE.sub("", line).rstrip() for line in frame.split("\x1b[J")[0].split("\r\n")]

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def wait_screen(self, condition, what):
        return until(lambda: (lambda lines: condition(lines) and lines)(self.screen()), 60, what)

    def end(self):
        if self.code is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except OSError:
                pass
        os.close(self.fd)


class Top(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.control = str(pathlib.Path(folder.name, "control.sock"))
        self.server = Server("--control", self.control, "--mem", "64MiB", "--oversubscribe", "1.5")
        self.addCleanup(self.server.stop)

    def tenant(self, mebibytes, user):
        teller = Teller(self.server, USER=user)
        self.addCleanup(teller.end)
        self.assertEqual(teller.say(f"take {mebibytes * MIB}"), "code 0")
        return teller

    def top(self, *flags, **options):
        terminal = Terminal(
            [str(FARCALL), "top", "--control", self.control, "--interval", "0.1", *flags], **options
        )
        self.addCleanup(terminal.end)
        return terminal

    def rows(self, lines):
        heads = next(i for i, line in enumerate(lines) if "JOB" in line)
        return [
            line
            for line in lines[heads + 1 :]
            if "python" in line and not re.match(" +session ", line)
        ]

    def test_a_screen_with_three_tenants(self):
        for mebibytes, user in ((4, "ada"), (8, "ben"), (62, "cyd")):
            self.tenant(mebibytes, user)
        top = self.top()
        lines = top.wait_screen(
            lambda lines: len(lines) > 6
            and any("JOB" in line for line in lines)
            and len(self.rows(lines)) == 3,
            "three rows",
        )
        self.assertRegex(lines[0], r"^farcall \S+ on \S+ \(cpu\), up \S+, 3 sessions")
        self.assertIn("q quit", lines[1])
        self.assertTrue(
            any(
                "Farcall CPU Device" in line and "[" not in line and "...." in line
                for line in lines
            ),
            lines,
        )
        for user in ("ada@", "ben@", "cyd@"):
            self.assertEqual(sum(user in row for row in self.rows(lines)), 1, lines)
        self.assertTrue(all("teller.py" in row for row in self.rows(lines)), lines)
        # Over 95 % of its quota is red, and nothing else is.
        red = [ESCAPE.sub("", part) for part in re.findall(r"\x1b\[31m(.*?)\x1b\[0m", top.raw)]
        self.assertTrue(red and all(re.fullmatch(r"6\dMiB/64MiB", part) for part in red), red)
        self.assertEqual(top.code, None)

    def test_keys(self):
        self.tenant(4, "ada")
        self.tenant(8, "ben")
        top = self.top()
        marked = lambda lines: [line for line in lines if line.startswith("> ")]  # noqa: E731
        user = lambda lines: re.search("ada|ben", marked(lines)[0]).group()  # noqa: E731
        first = user(
            top.wait_screen(
                lambda lines: len(marked(lines)) == 1 and len(self.rows(lines)) == 2,
                "a row is marked",
            )
        )
        top.press("j")
        top.wait_screen(
            lambda lines: marked(lines) and user(lines) != first, "the other row is marked"
        )
        top.press("\x1b[A")
        top.wait_screen(lambda lines: marked(lines) and user(lines) == first, "the first row again")
        top.press("\r")
        top.wait_screen(
            lambda lines: any(re.match(r" +session \d+ +pid \d+", line) for line in lines),
            "its sessions",
        )
        top.press("s")
        top.wait_screen(lambda lines: "s sort: share" in lines[1], "sorted by share")
        top.press("s")
        lines = top.wait_screen(lambda lines: "s sort: memory" in lines[1], "sorted by memory")
        self.assertIn("ben@", self.rows(lines)[0])
        top.press("p")
        top.wait_screen(lambda lines: "is parked" in lines[1], "it is parked")
        top.press("q")
        until(lambda: top.read() is not None, 30, "q ends it")
        self.assertEqual(top.code, 0)
        self.assertTrue(top.raw.endswith("\x1b[?25h\x1b[?1049l"), repr(top.raw[-40:]))

    def test_it_fits_80_columns(self):
        self.tenant(4, "a-user-with-quite-a-long-name")
        for columns in (80, 60):
            top = self.top(columns=columns)
            lines = top.wait_screen(
                lambda lines: any("JOB" in line for line in lines) and self.rows(lines), "a row"
            )
            self.assertLessEqual(max(map(len, lines)), columns, lines)
            if columns == 80:
                (row,) = self.rows(lines)
                self.assertRegex(row, r"\d+MiB/64MiB.* (idle|runs|waits: \w+|resident)$", lines)

    def test_no_color_where_none_is_wanted(self):
        self.tenant(62, "ada")
        top = self.top("--views", "3", NO_COLOR="1")
        until(lambda: top.read() is not None, 60, "three views")
        self.assertEqual((top.code, COLOR.search(top.raw)), (0, None))
        piped = subprocess.run(
            [FARCALL, "top", "--control", self.control, "--views", "1"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((piped.returncode, "\x1b" in piped.stdout), (0, False))
        listed = Terminal([str(FARCALL), "ps", "--control", self.control], columns=200)
        self.addCleanup(listed.end)
        until(lambda: listed.read() is not None, 60, "ps ends")
        self.assertIsNotNone(COLOR.search(listed.raw))

    def test_ps_has_the_columns_of_top(self):
        self.tenant(4, "ada")
        ps = subprocess.run(
            [FARCALL, "ps", "--control", self.control], capture_output=True, text=True, timeout=60
        ).stdout.splitlines()
        top = subprocess.run(
            [FARCALL, "top", "--control", self.control, "--views", "1"],
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        heads = next(
            line for line in top.splitlines() if "JOB" in line and "SESSION" not in line
        ).split()
        shared = [head for head in heads if head not in ("LAST", "NET/S")]
        self.assertEqual([head for head in ps[0].split() if head in shared], shared)
        self.assertIn("teller.py", ps[1])
        # Numbers are to the right: the ends of heads and of their cells are one column.
        for head in ("NOW", "MEMORY"):
            end = ps[0].index(head) + len(head)
            self.assertNotEqual(ps[1][end - 1], " ", ps)
            self.assertEqual(ps[1][end], " ", ps)


if __name__ == "__main__":
    unittest.main()
