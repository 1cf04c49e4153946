# SPDX-License-Identifier: Apache-2.0
"""What is asked of a server without a session, by which rule a server is found, and what is refused where it is read."""

import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
from harness import BUILD, FARCALL, HERE, KEPT, Server, Teller, run, until  # noqa: E402

HAS_CONTROL = (BUILD / "libexec/farcall/farcall-control").exists()
GIB = 1 << 30


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_dir = self.folder / "run"
        self.run_dir.mkdir(mode=0o700)
        # Of no other server on this machine, and no settings but these.
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
        self.environment |= {
            "FARCALL_RUN_DIR": str(self.run_dir),
            "XDG_CONFIG_HOME": str(self.folder),
            "HOME": str(self.folder),
        }

    def farcall(self, *words, code=0, **more):
        done = subprocess.run(
            [FARCALL, *map(str, words)],
            env=self.environment | more,
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(done.returncode, code, (done.stdout, done.stderr))
        return done

    def serve(self, *flags, **options):
        options.setdefault("environment", {"FARCALL_RUN_DIR": str(self.run_dir)})
        server = Server(*flags, **options)
        self.addCleanup(server.stop)
        return server

    def serve_here(self, *flags):
        return self.serve(*flags, listen=f"tcp://127.0.0.1:{free_port()}")


@unittest.skipUnless(HAS_CONTROL, "needs the control service")
class Query(Case):
    def status(self, control):
        return json.loads(self.farcall("ps", "--json", "--control", control).stdout)

    def test_devices_and_doctor_leave_no_session(self):
        control = self.folder / "control.sock"
        server = self.serve("--control", control, "--mode", "exclusive")
        for _ in range(3):
            self.farcall("devices", "--endpoint", server.url)
            self.farcall("doctor", "--endpoint", server.url)
        status = self.status(control)
        self.assertEqual((status["sessions_started"], status["vgpus"]), ("0", []))
        # An exclusive device is still free for the next program.
        teller = Teller(server)
        self.addCleanup(teller.end)
        self.assertEqual(teller.say("take 1048576"), "code 0")

    def test_devices_tell_what_is_free(self):
        server = self.serve(
            "--mem",
            "1GiB",
            environment={"FARCALL_CPU_MEM": "2GiB", "FARCALL_RUN_DIR": str(self.run_dir)},
        )
        (device,) = json.loads(self.farcall("devices", "--json", "--endpoint", server.url).stdout)
        self.assertEqual(
            (device["index"], device["kind"], device["endpoint"]), (0, "cpu", server.url)
        )
        self.assertEqual((device["total_bytes"], device["free_bytes"]), (GIB, GIB))
        self.assertRegex(device["compute_capability"], r"^\d+\.\d$")
        taken = 900 << 20
        for _ in range(2):
            teller = Teller(server)
            self.addCleanup(teller.end)
            self.assertEqual(teller.say(f"take {taken}"), "code 0")
        (device,) = json.loads(self.farcall("devices", "--json", "--endpoint", server.url).stdout)
        self.assertLessEqual(device["free_bytes"], 2 * GIB - 2 * taken)
        shown = self.farcall("devices", "--endpoint", server.url).stdout.splitlines()
        self.assertIn(server.url, shown[0])
        self.assertIn("farcall ", shown[0])
        self.assertRegex(shown[1], r"DEVICE +NAME +CAPABILITY +MEMORY +FREE +PCI")
        self.assertEqual(len(shown), 3)

    def test_who_asks_has_to_know_the_token(self):
        server = self.serve(token="right")
        self.assertIn(
            "token is wrong",
            self.farcall("devices", "--endpoint", server.url, code=1, FARCALL_TOKEN="wrong").stderr,
        )
        self.farcall("devices", "--endpoint", server.url, FARCALL_TOKEN="right")


class Discovery(Case):
    def run_here(self, *flags, code=0, **more):
        keep = dict(KEPT)
        return self.farcall(
            "run", *flags, "--", "sh", "-c", "echo $FARCALL_ENDPOINT", code=code, **keep, **more
        )

    def test_the_only_server_here_is_found_and_told(self):
        server = self.serve_here()
        done = self.run_here()
        self.assertEqual(done.stdout.strip(), server.url)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(f"on {server.url} (the server on this machine)", done.stderr)
        self.assertIn("the server on this machine", self.farcall("devices").stdout)
        self.assertIn(server.url, self.farcall("doctor").stdout)
        # What is said beats what is found.
        self.assertNotEqual(self.run_here("--device", "cpu").stdout.strip(), server.url)
        self.assertEqual(self.run_here("--device", "cpu").stderr, "")

    def test_a_private_server_is_told(self):
        done = self.run_here()
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("on a private server", done.stderr)

    def test_several_servers_are_not_guessed_between(self):
        urls = [self.serve_here().url for _ in range(2)]
        for command in (["devices"], ["run", "--", "true"]):
            done = self.farcall(*command, code=125 if command[0] == "run" else 1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            for url in urls:
                self.assertIn(url, done.stderr)

    @unittest.skipUnless(HAS_CONTROL, "needs the control service")
    def test_the_socket_of_a_killed_server_is_forgotten(self):
        killed, other = self.serve_here(), self.serve_here()
        socket_of = {server: self.run_dir / f"{server.port}.sock" for server in (killed, other)}
        until(lambda: all(path.exists() for path in socket_of.values()), what="both sockets")
        killed.process.send_signal(signal.SIGKILL)
        killed.process.wait()
        self.assertTrue(stat.S_ISSOCK(socket_of[killed].stat().st_mode))
        self.assertEqual(self.farcall("ps").stdout, "no sessions\n")
        self.assertFalse(socket_of[killed].exists())
        self.assertTrue(socket_of[other].exists())
        self.assertEqual(self.run_here().stdout.strip(), other.url)

    def test_what_is_no_endpoint_is_refused_before_the_program(self):
        made = self.folder / "made"
        for endpoint, says in (
            ("nonsense.invalid", "tcp://nonsense.invalid:7717"),
            ("tcp://h:x", "the port is a number"),
            (f"127.0.0.1:{free_port()}", "nothing listens there"),
            (f"pool://127.0.0.1:{free_port()}", "nothing listens there"),
        ):
            with self.subTest(endpoint):
                done = self.farcall("run", "--endpoint", endpoint, "--", "touch", made, code=125)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(says, done.stderr)
                self.assertFalse(made.exists())
        self.farcall(
            "run", "--no-check", "--endpoint", f"127.0.0.1:{free_port()}", "--", "touch", made
        )
        self.assertTrue(made.exists())

    def test_a_host_is_an_endpoint_and_ptx_goes_by_its_device(self):
        program = ("sh", "-c", "echo $FARCALL_ENDPOINT $TRITON_PTXAS_PATH")
        for device, wants in (("cpu", True), ("dry", False)):
            with self.subTest(device):
                server = self.serve(device=device)
                done = self.farcall("run", "--endpoint", f"127.0.0.1:{server.port}", "--", *program)
                words = done.stdout.split()
                self.assertEqual((words[0], len(words) == 2, done.stderr), (server.url, wants, ""))

    def test_a_claim_is_of_a_pool(self):
        server = self.serve()
        done = self.farcall(
            "run", "--endpoint", server.url, "--claim", "c-1", "--", "true", code=125
        )
        self.assertIn("--claim is of a pool", done.stderr)

    def test_libraries_of_wheels_are_found(self):
        bin_folder, wheel = (
            self.folder / "venv/bin",
            self.folder / "venv/lib/python3.11/site-packages/nvidia/cudnn/lib",
        )
        bin_folder.mkdir(parents=True)
        wheel.mkdir(parents=True)
        (bin_folder / "python").symlink_to("/bin/sh")
        done = self.farcall(
            "run",
            "--device",
            "cpu",
            "--",
            bin_folder / "python",
            "-c",
            "echo $LD_LIBRARY_PATH",
            LD_LIBRARY_PATH="/mine",
        )
        path = done.stdout.strip().split(":")
        self.assertEqual(path[-2:], ["/mine", str(wheel)])


class Settings(Case):
    def write(self, text):
        (self.folder / "farcall").mkdir(exist_ok=True)
        (self.folder / "farcall/config.toml").write_text(text)

    def test_paths_are_the_homes_or_the_files(self):
        server = self.serve(token="right")
        (self.folder / "farcall").mkdir()
        (self.folder / "farcall/beside").write_text("right\n")
        (self.folder / "at_home").write_text("right\n")
        for path in ("beside", "~/at_home"):
            with self.subTest(path):
                self.write(f'endpoint = "{server.url}"\ntoken_file = "{path}"\n')
                self.farcall("devices")
        self.write(f'endpoint = "{server.url}"\ntoken_file = "nowhere"\n')
        done = self.farcall("devices", code=1)
        self.assertIn(
            f"token file '{self.folder}/farcall/nowhere': cannot be read: No such file or directory",
            done.stderr,
        )


class Refused(Case):
    def assert_refused(self, *words, code, says):
        done = self.farcall(*words, code=code)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(says, done.stderr)

    def test_what_a_server_cannot_do_is_refused_at_its_start(self):
        listen = ("--listen", "tcp://127.0.0.1:0", "--device", "cpu")
        for flags, code, says in (
            (["--mem", "100TiB"], 2, "the largest device has"),
            (["--mem", "4"], 2, "write 4GiB"),
            (["--pool", "pool://127.0.0.1:7718"], 2, "http://host:7719"),
            (["--metrics", "nowhere"], 3, "--metrics 'nowhere'"),
            (["--metrics", "203.0.113.1:9"], 3, "--metrics '203.0.113.1:9'"),
        ):
            with self.subTest(flags):
                self.assert_refused("serve", *listen, *flags, code=code, says=says)

    @unittest.skipUnless(HAS_CONTROL, "needs the control service")
    def test_a_taken_port_is_no_place_for_metrics(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.assert_refused(
                "serve",
                "--listen",
                "tcp://127.0.0.1:0",
                "--device",
                "cpu",
                "--metrics",
                address,
                code=3,
                says=address,
            )

    def test_sizes(self):
        self.assert_refused(
            "run", "--mem", "4", "--", "true", code=2, says="'4': less than 64KiB; write 4GiB"
        )
        for text in ("256mib", "256M", "256MiB"):
            self.farcall("run", "--device", "cpu", "--mem", text, "--", "true")

    def test_more_memory_than_the_server_gives_is_refused(self):
        server = self.serve("--mem", "64MiB")
        client = run(
            server.url,
            sys.executable,
            HERE / "programs/teller.py",
            environment={"FARCALL_MEM": "128MiB"},
        )
        self.assertIn("memory: asked 134217728 bytes, at most 67108864 here", "\n".join(client.err))


if __name__ == "__main__":
    unittest.main()
