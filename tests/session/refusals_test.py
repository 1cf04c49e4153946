# SPDX-License-Identifier: Apache-2.0
"""What a user gets for a mistake: one line, with the value and what would be right."""

import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import unittest

from harness import BUILD, FARCALL, Server, link_proxy, proxy_of, run, stat_fields, until

HANDSHAKE = struct.Struct("<IIHHHH")


def answer_once(payload):
    """A listener that sends `payload` to whoever connects and keeps the connection open."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        held = []
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.sendall(payload)
            held.append(connection)

    threading.Thread(target=serve, daemon=True).start()
    return listener, f"tcp://127.0.0.1:{listener.getsockname()[1]}"


class Granted(unittest.TestCase):
    """Memory that a server claims to have granted with WELCOME is bounded as any other grant."""

    def test_outside_the_window_the_session_does_not_begin(self):
        with Server() as server:
            for base, size in (
                (1 << 40, 1 << 21),
                (1, 1 << 21),
                ((1 << 64) - (1 << 21), 1 << 22),
                (0, (1 << 64) - 512),
            ):
                proxy = proxy_of(server, first_credit=(base, size))
                client = run(proxy.url, BUILD / "examples/vector_add")
                proxy.close()
                self.assertNotEqual(client.process.returncode, 0)
                self.assertIn(
                    "the server granted memory outside the window that it took",
                    "\n".join(client.err),
                )

    def test_a_server_that_grants_nothing_ahead_is_asked(self):
        with Server() as server:
            proxy = proxy_of(server, without_features=1 << link_proxy.FIRST_CREDIT)
            client = run(proxy.url, BUILD / "examples/vector_add")
            proxy.close()
            self.assertEqual(client.process.returncode, 0, client.err)


class Lacking(unittest.TestCase):
    """A function that is not served: the runtime does not find it, and the device alone answers the same."""

    def test_through_a_session(self):
        with Server() as server:
            client = run(server.url, "lacking")
            self.assertEqual(
                (client.process.returncode, client.out[-1:]),
                (0, ["done"]),
                (client.out, client.err),
            )
            lines = [
                line for line in client.err if "cuImportExternalSemaphore is not supported" in line
            ]
            self.assertEqual(len(lines), 1, client.err)

    def test_on_the_device_alone(self):
        client = run(
            "", "lacking", environment={"LD_LIBRARY_PATH": str(BUILD / "lib/farcall/device")}
        )
        self.assertEqual(
            (client.process.returncode, client.out[-1:]), (0, ["done"]), (client.out, client.err)
        )


class ClientRefusals(unittest.TestCase):
    def says(self, endpoint, *words, **options):
        client = run(endpoint, "steps", 1, **options)
        self.assertEqual(client.process.returncode, 3, client.out)
        lines = [line for line in client.err if line.strip()]
        self.assertEqual(len(lines), 1, lines)
        for word in words:
            self.assertIn(word, lines[0])

    def test_an_endpoint_that_is_no_url(self):
        self.says("gpuhost:7", "gpuhost:7", "tcp://")

    def config(self, text):
        """An environment whose user has this config.toml, and nothing else said."""
        home = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, home)
        folder = pathlib.Path(home, ".config/farcall")
        folder.mkdir(parents=True)
        if text is None:
            (folder / "config.toml").mkdir()
        else:
            (folder / "config.toml").write_text(text)
        return {"HOME": home}

    def test_a_config_file_that_cannot_be_used(self):
        self.says("", "config.toml", "Is a directory", environment=self.config(None))
        self.says(
            "",
            "config.toml",
            "endpiont",
            "endpoint",
            environment=self.config("endpiont = 'tcp://h:1'"),
        )
        self.says("", "config.toml:2", environment=self.config("log = 'warn'\nmem = \n"))
        self.says("", "config.toml: mem=much", "4GiB", environment=self.config("mem = 'much'"))
        # What C's own parsers take for numbers.
        for setting, value in (
            ("mem", "0x10GiB"),
            ("mem", "infGiB"),
            ("share", "0x10%"),
            ("limit", "nan"),
            ("limit", "1e1%"),
            ("net", "0x10MB/s"),
        ):
            self.says(
                "",
                f"config.toml: {setting}={value}",
                "write",
                environment=self.config(f"{setting} = '{value}'"),
            )

    def test_a_config_file_stands_in_for_the_environment(self):
        with Server(token="a-token-of-the-config-file") as server:
            text = f"endpoint = '{server.url}'\ntoken = 'a-token-of-the-config-file'\n"
            client = run("", "steps", 1, environment=self.config(text))
            self.assertEqual((client.process.returncode, client.err), (0, []))
            shown = subprocess.run(
                [FARCALL, "doctor"],
                env={"PATH": "/usr/bin:/bin", **self.config(text)},
                capture_output=True,
                text=True,
            )
            self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
            self.assertIn("config.toml)", shown.stdout)
            self.assertNotIn("a-token-of", shown.stdout)

    def test_a_closed_port(self):
        probe = socket.create_server(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        self.says(f"tcp://127.0.0.1:{port}", str(port))

    def test_a_wrong_token(self):
        with Server(token="right-token-0123456789") as server:
            self.says(server.url, "token", token="wrong-token")
            self.says(server.url, "token")
            self.assertEqual(
                run(server.url, "steps", 1, token="right-token-0123456789").process.returncode, 0
            )
            self.assertNotIn("wrong-token", server.log_text())

    def test_a_server_of_another_wire_major(self):
        body = bytes(32) + b"\0" * 8 + struct.pack("<Q", 0)
        listener, url = answer_once(HANDSHAKE.pack(0x31484346, len(body), 1, 9, 0, 0) + body)
        self.says(url, "9", "wire")
        listener.close()

    def test_a_server_that_is_not_farcall(self):
        listener, url = answer_once(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        self.says(url, url.rsplit(":", 1)[1])
        listener.close()


class WhatRefusalsLeave(unittest.TestCase):
    """Somebody who is refused again and again takes nothing of the server with him."""

    @staticmethod
    def held(server):
        """(descriptors, children that live or have not been buried) of the supervisor."""
        rows = [
            stat_fields(entry.name)
            for entry in pathlib.Path("/proc").iterdir()
            if entry.name.isdigit()
        ]
        children = sum(parent == server.process.pid for _, _, parent in filter(None, rows))
        return len(list(pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir())), children

    def test_nothing(self):
        with Server("--max-share", "50%") as server:

            def refused():
                client = run(server.url, "steps", 1, environment={"FARCALL_SHARE": "60%"})
                self.assertIn("at most 50% here", "\n".join(client.err))

            refused()
            until(lambda: self.held(server)[1] == 0, what="its worker is gone")
            # The last descriptors of a refused session close shortly after its worker is gone, so that `before` may count
            # them. A refusal that left one behind would still add four.
            before = self.held(server)[0]
            for _ in range(4):
                refused()
            until(
                lambda: (held := self.held(server))[0] <= before and held[1] == 0,
                what=f"as before: {before}",
            )


class ServerRefusals(unittest.TestCase):
    def says(self, flags, *words):
        done = subprocess.run(
            [str(FARCALL), "serve", *flags], capture_output=True, text=True, timeout=30
        )
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(lines), 1, lines)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, lines[0])

    def test_a_config_that_cannot_be_read(self):
        self.says(["--config", "/no/such/file.toml"], "/no/such/file.toml")

    def test_a_setting_it_does_not_know(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            pathlib.Path(config.name).write_text('lisen = ["tcp://127.0.0.1:0"]\n')
            self.says(["--config", config.name], "lisen", "listen")

    def test_a_non_loopback_listen_without_a_token(self):
        self.says(["--listen", "tcp://0.0.0.0:0", "--device", "cpu"], "0.0.0.0", "token")

    def test_a_device_it_does_not_know(self):
        self.says(["--listen", "tcp://127.0.0.1:0", "--device", "gpuu"], "gpuu")


if __name__ == "__main__":
    unittest.main(verbosity=2)
