#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`farcall doctor -- CMD`: which libraries a program gets, what hides ours, what it asks for in vain."""

import ctypes.util
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "session"), str(HERE)]
import harness  # noqa: E402
from plaintext_test import own_address  # noqa: E402
from query_test import free_port  # noqa: E402

PAGE = HERE.parents[1] / "docs/guide/troubleshooting.md"
FOLDER = harness.BUILD / "lib/farcall"
ASKS = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
  void* driver = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW);
  dlopen("libcublas.so.99", RTLD_NOW);
  if (driver == NULL) return 3;
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  if (init == NULL) return 4;
  printf("this is the program's own output\\n");
  return init(0);
}
"""
LINKS = """
int cuInit(unsigned);
int cuGLInit(void);
int main(void) { return cuInit(0) == 0 && cuGLInit() == 801 ? 0 : 5; }
"""
# What ends badly, by the word that it is given; "again" goes on until a call fails.
MEETS = """
#include <stddef.h>
#include <string.h>
#include <unistd.h>
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void**, int), cuCtxSetCurrent(void*);
int cuMemAlloc_v2(unsigned long long*, size_t), cuCtxSynchronize(void);
int cuMemsetD8_v2(unsigned long long, unsigned char, size_t), cuModuleLoadData(void**, const void*);
int main(int argc, char** argv) {
  void *context, *module;
  unsigned long long memory;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 3;
  if (argc > 1 && !strcmp(argv[1], "memory")) 
    return cuMemAlloc_v2(&memory, 1ull << 40) == 2 ? 2 : 4;
  if (argc > 1 && !strcmp(argv[1], "again")) {
    for (int i = 0; i < 600; ++i, usleep(100000))
      if (cuMemAlloc_v2(&memory, 4096) || cuMemsetD8_v2(memory, 0, 16) || cuCtxSynchronize())
        return 5;
    return 0;
  }
  /* The header of a cubin: machine code for one architecture. */
  unsigned char image[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0x33, 7};
  image[16] = 2, image[18] = 190, image[20] = 1, image[52] = 64;
  return cuModuleLoadData(&module, image) == 209 ? 6 : 4;
}
"""


class DoctorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.asks = cls.compile("asks", ASKS)
        cls.meets = cls.compile("meets", MEETS, f"-L{FOLDER}", "-l:libcuda.so.1")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def compile(cls, name, text, *flags):
        source, output = cls.folder / f"{name}.c", cls.folder / name
        source.write_text(text)
        subprocess.run([os.environ["FARCALL_CC"], source, "-o", output, *flags], check=True)
        return str(output)

    def doctor(self, *words, **more):
        keep = harness.KEPT | more
        ran = subprocess.run(
            [harness.FARCALL, "doctor", *words],
            capture_output=True,
            text=True,
            timeout=120,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder),
                "FARCALL_RUN_DIR": str(self.folder),
                **keep,
            },
        )
        return ran

    def report(self, *command, flags=("--device", "cpu")):
        ran = self.doctor(*flags, "--json", "--", *command)
        return ran, json.loads(ran.stdout)

    def failures(self, report):
        return [finding["what"] for finding in report["findings"] if not finding["ok"]]

    def library(self, report, name):
        return next(row for row in report["libraries"] if row["name"] == name)

    def test_a_program_that_gets_ours_is_well(self):
        ran, report = self.report(self.asks)
        self.assertEqual(self.failures(report), [])
        self.assertEqual(ran.returncode, 0)
        driver = self.library(report, "libcuda.so.1")
        self.assertEqual(
            (driver["why"], driver["ours"], driver["dlopen"]), ("LD_LIBRARY_PATH", True, True)
        )
        self.assertEqual(
            os.path.realpath(driver["file"]), os.path.realpath(FOLDER / "libcuda.so.1")
        )
        self.assertEqual(self.library(report, "libcublas.so.99")["file"], "")
        self.assertIn("this is the program's own output", ran.stderr)

    def test_an_rpath_that_hides_ours_is_found(self):
        hiding = self.folder / "hiding"
        hiding.mkdir()
        subprocess.run(
            [os.environ["FARCALL_CC"], "-shared", "-x", "c", "-", "-o", hiding / "libcuda.so.1"],
            input="int cuInit(unsigned f) { return 0; }",
            text=True,
            check=True,
        )
        program = self.compile("hidden", ASKS, "-Wl,--disable-new-dtags", f"-Wl,-rpath,{hiding}")
        ran, report = self.report(program)
        self.assertEqual(ran.returncode, 1)
        driver = self.library(report, "libcuda.so.1")
        self.assertFalse(driver["ours"])
        self.assertEqual(driver["why"], f"RPATH from file {program}")
        self.assertIn("never got our libcuda.so.1", " ".join(self.failures(report)))
        self.assertIn("RPATH comes before LD_LIBRARY_PATH", ran.stdout)

    @unittest.skipIf("LD_PRELOAD" in os.environ, "sanitizers leave the auditor out")
    def test_farcall_run_goes_past_rpaths_and_paths(self):
        other = self.folder / "other"
        other.mkdir()
        subprocess.run(
            [os.environ["FARCALL_CC"], "-shared", "-x", "c", "-", "-o", other / "libcuda.so.1"],
            input="int cuInit(unsigned f) { return 42; }",
            text=True,
            check=True,
        )
        program = self.compile("past", ASKS, "-Wl,--disable-new-dtags", f"-Wl,-rpath,{other}")
        for words in ([program], [program, other / "libcuda.so.1"]):
            for flags, want in (([], 0), (["--no-audit"], 42)):
                with self.subTest(words=words, flags=flags):
                    ran = subprocess.run(
                        [harness.FARCALL, "run", "--device", "cpu", *flags, "--", *words],
                        timeout=120,
                        capture_output=True,
                        text=True,
                        env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
                    )
                    self.assertEqual(ran.returncode, want, ran.stderr)

    def other_driver(self):
        other = self.folder / "libcuda.so.1"
        subprocess.run(
            [os.environ["FARCALL_CC"], "-shared", "-x", "c", "-", "-o", other],
            input="int cuInit(unsigned f) { return 0; }",
            text=True,
            check=True,
        )
        return str(other)

    def test_a_path_of_its_own_is_told(self):
        other = self.other_driver()
        ran, report = self.report(self.asks, other)
        self.assertEqual(ran.returncode, 1)
        self.assertEqual(self.library(report, other)["why"], "its own path")

    @unittest.skipIf("LD_PRELOAD" in os.environ, "sanitizers leave the auditor out")
    def test_with_the_auditor_a_path_of_its_own_hides_nothing(self):
        other = self.other_driver()
        ran, report = self.report(self.asks, other, flags=("--device", "cpu", "--audit"))
        self.assertEqual(self.failures(report), [])
        self.assertEqual(ran.returncode, 0)

    def test_a_program_that_checks_values_is_told_of_the_dry_device(self):
        program = self.compile(
            "checks", ASKS.replace("return init(0);", "return init(0) == 0 ? 6 : 0;")
        )
        for device, told in (("dry", True), ("cpu", False)):
            with self.subTest(device=device):
                ran = self.doctor("--device", device, "--", program)
                self.assertEqual(ran.returncode, 1)
                self.assertRegex(ran.stdout, r"FAIL +program +exit code 6")
                self.assertEqual(
                    "the dry device executes no kernel" in ran.stdout, told, ran.stdout
                )

    def test_calls_asked_for_in_vain_are_named(self):
        program = self.compile(
            "links", LINKS, str(FOLDER / "libcuda.so.1"), "-Wl,--allow-shlib-undefined"
        )
        ran, report = self.report(program)
        self.assertEqual(ran.returncode, 1)
        self.assertEqual(report["linked_not_supported"], ["cuGLInit"])
        self.assertIn("cuGLInit is not supported", report["met"])

    def test_a_program_without_cuda_is_told(self):
        ran, report = self.report("true")
        self.assertEqual(ran.returncode, 1)
        self.assertEqual(self.failures(report), ["the program never got our libcuda.so.1"])

    def test_a_program_that_does_not_end_is_ended(self):
        ran, report = self.report("sleep", "1000", flags=("--device", "cpu", "--seconds", "1"))
        self.assertIn("ended by farcall doctor after 1 s (--seconds)", ran.stdout)
        self.assertEqual(ran.returncode, 1)

    def test_a_program_that_is_not_there(self):
        ran, report = self.report("no-such-program")
        self.assertIn("exit code 127", " ".join(self.failures(report)))
        self.assertIn("no-such-program: No such file", ran.stderr)

    def test_words_for_people(self):
        ran = self.doctor("-v", "--device", "cpu", "--", self.asks)
        self.assertEqual(ran.returncode, 0, ran.stdout)
        # A sanitizer's runtime opens libraries for the program.
        opener = r"(asks|libasan\.so\S*)" if "ASAN_OPTIONS" in os.environ else "asks"
        self.assertRegex(
            ran.stdout,
            rf"ok +libcuda\.so\.1, opened by {opener}: "
            r".*libcuda\.so\.1 \(LD_LIBRARY_PATH; ours\)",
        )

    def test_a_library_that_is_not_found_is_not_well(self):
        ran, report = self.report(self.asks)
        (missing,) = [
            finding
            for finding in report["findings"]
            if finding["what"].startswith("libcublas.so.99")
        ]
        self.assertEqual((missing["ok"], missing["warning"]), (True, True))
        self.assertIn("LD_LIBRARY_PATH", missing["remedy"])
        shown = self.doctor("--device", "cpu", "--", self.asks).stdout
        self.assertRegex(shown, r"(?m)^warn +loaded +libcublas\.so\.99")
        self.assertNotRegex(
            self.doctor("-v", "--device", "cpu", "--", self.asks).stdout, r"ok +libcublas"
        )

    def test_seven_lines_say_how_it_is(self):
        with harness.Server(token="right") as server:
            lines = self.doctor("--endpoint", server.url, FARCALL_TOKEN="right").stdout.splitlines()
        self.assertEqual(
            [line.split()[:2] for line in lines[:-1]],
            [
                ["ok", name]
                for name in ("endpoint", "token", "server", "transport", "devices", "libraries")
            ],
        )
        self.assertEqual(len(lines), 7)
        self.assertIn(f"{server.url}  (--endpoint)", lines[0])
        self.assertRegex(lines[2], r"server \S+ on \S+, wire \d+\.\d+")
        self.assertEqual(lines[6], "ready; next: farcall run -- ./a.out")

    def test_the_server_is_dialled_once(self):
        dialled = []

        def forward(source, sink):
            try:
                while data := source.recv(65536):
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        def serve(listener, port):
            try:
                while True:
                    client, _ = listener.accept()
                    dialled.append(client)
                    server = socket.create_connection(("127.0.0.1", port))
                    for ends in ((client, server), (server, client)):
                        threading.Thread(target=forward, args=ends, daemon=True).start()
            except OSError:
                pass

        with harness.Server() as server, socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=serve, args=(listener, server.port), daemon=True).start()
            url = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
            ran = self.doctor("--endpoint", url)
            self.assertEqual(ran.returncode, 0, ran.stdout)
            self.assertEqual(len(dialled), 1)
            listener.shutdown(socket.SHUT_RDWR)

    # What docs/guide/troubleshooting.md lists, each made to fail: what is wrong stands in a line of its topic, what to do in the last.
    def assert_told(self, ran, topic, what, remedy):
        self.assertEqual(ran.returncode, 1, ran.stdout)
        self.assertRegex(ran.stdout, rf"(?m)^FAIL +{topic} +.*{what}")
        self.assertRegex(ran.stdout.splitlines()[-1], rf"^\d+ failure\(s\); next: .*{remedy}")

    def test_failures_to_connect_are_told(self):
        self.assert_told(
            self.doctor(), "endpoint", "no endpoint", "set FARCALL_ENDPOINT=tcp://host:port"
        )
        self.assert_told(
            self.doctor("--endpoint", "127.0.0.1:1"),
            "server",
            "nothing listens there",
            "farcall serve",
        )
        self.assert_told(
            self.doctor(FARCALL_ENDPOINT="tcp://h:port"),
            "endpoint",
            "FARCALL_ENDPOINT: .*the port is a number",
            "the port is a number",
        )
        with harness.Server() as server:
            self.assert_told(
                self.doctor("--endpoint", server.url, FARCALL_TOKEN="any"),
                "server",
                "knows no token",
                "FARCALL_TOKEN",
            )
        with harness.Server(token="right") as server:
            self.assert_told(
                self.doctor("--endpoint", server.url), "server", "token", "FARCALL_TOKEN"
            )
            self.assert_told(
                self.doctor("--endpoint", server.url, FARCALL_TOKEN="wrong"),
                "server",
                "the token is wrong",
                "FARCALL_TOKEN",
            )
            self.assert_told(
                self.doctor("--endpoint", server.url, FARCALL_TOKEN_FILE="/nowhere"),
                "token",
                "/nowhere.*No such file",
                "readable",
            )

    def test_a_broken_settings_file_is_told(self):
        file = self.folder / ".config/farcall/config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("endpoint = tcp://gpu-host\n")
        self.addCleanup(file.unlink)
        self.assert_told(self.doctor(), "settings", "config.toml:1: ", "text values need quotes")

    def test_what_the_server_refuses_is_told(self):
        with harness.Server("--mem", "64MiB") as server:
            for variable, value, what in (
                ("FARCALL_SHARE", "90%", "share: asked 90%, at most 50% here"),
                ("FARCALL_MEM", "1GiB", "memory: asked 1073741824 bytes"),
            ):
                ran = self.doctor(
                    "-v", "--endpoint", server.url, "--", self.asks, **{variable: value}
                )
                self.assertEqual(ran.returncode, 1)
                self.assertRegex(ran.stdout, rf"FAIL +the program met: .*{what}")

    def refused(self, server, **settings):
        return self.doctor("-v", "--endpoint", server.url, "--", self.asks, **settings)

    def test_each_refusal_of_the_troubleshooting_page_is_explained(self):
        """The lines of the first part of docs/guide/troubleshooting.md, each of them made to happen."""
        part = re.search(
            r"## The program finds no device\n(.*?)\n## ", PAGE.read_text(), re.S
        ).group(1)
        listed = set(re.findall(r"^- `(.*?)`:", part, re.M))
        here = {"FARCALL_RUN_DIR": self.enterContext(tempfile.TemporaryDirectory())}

        def several():
            servers = [
                self.enterContext(
                    harness.Server(listen=f"tcp://127.0.0.1:{free_port()}", environment=here)
                )
                for _ in range(2)
            ]
            ran = self.doctor(**here)
            for server in servers:
                server.stop()
            return ran

        def plaintext():
            address = own_address()
            if address is None:
                return None  # of this host every address is the loopback
            host = f"[{address}]" if ":" in address else address
            with harness.Server(token="right", listen=f"tcp://{host}:0") as server:
                return self.doctor("--endpoint", server.url, FARCALL_TOKEN="right")

        plain = self.enterContext(harness.Server("--mem", "64MiB"))
        cases = {
            "no server: set FARCALL_ENDPOINT=...": (self.doctor, "no endpoint"),
            "Connection refused; nothing listens there": (
                lambda: self.doctor("--endpoint", "127.0.0.1:1"),
                None,
            ),
            "the port is a number from 0 to 65535": (
                lambda: self.doctor("--endpoint", "h:x"),
                None,
            ),
            "several servers run on this machine": (several, None),
            "the server knows no token, so it is not the one that yours is for": (
                lambda: self.doctor("--endpoint", plain.url, FARCALL_TOKEN="any"),
                None,
            ),
            "this server takes no plaintext from other hosts: ...": (
                plaintext,
                "takes no plaintext from other hosts",
            ),
            "memory: asked ... bytes, at most ... here": (
                lambda: self.refused(plain, FARCALL_MEM="1GiB"),
                r"memory: asked \d+ bytes, at most \d+ here",
            ),
            "share: asked 90%, at most 50% here": (
                lambda: self.refused(plain, FARCALL_SHARE="90%"),
                None,
            ),
        }
        self.assertEqual(listed, set(cases))
        for line, (fail, says) in cases.items():
            with self.subTest(line):
                ran = fail()
                if ran is not None:
                    self.assertEqual(ran.returncode, 1, ran.stdout)
                    self.assertRegex(ran.stdout, f"(?m)^FAIL .*{says or re.escape(line)}")

    def section(self, title):
        return re.search(rf"## {title}\n(.*?)\n## ", PAGE.read_text(), re.S).group(1)

    def test_what_a_program_meets_on_the_troubleshooting_page_is_explained(self):
        """The sections on errors amid a program: the text that is there, and doctor's remedy."""
        for word, code, title, met, remedy in (
            ("image", 6, "No kernel image", r"cuModuleLoadDataEx failed .* 209", "build with PTX"),
            ("memory", 2, "Out of memory", r"out of memory: no 1099511627776 bytes", "--mem"),
        ):
            with self.subTest(word):
                self.assertIn("farcall" if word == "memory" else "PTX", self.section(title))
                ran, report = self.report(self.meets, word)
                self.assertEqual(ran.returncode, 1)
                self.assertIn(f"exit code {code}", self.failures(report))
                found = [row for row in report["findings"] if re.search(met, row["what"])]
                self.assertEqual([row["ok"] for row in found], [False], report)
                self.assertIn(remedy, found[0]["remedy"])

    def test_a_server_that_is_lost_is_told(self):
        self.assertIn("cudaErrorDevicesUnavailable (46)", self.section("The connection breaks"))
        with harness.Server("--grace", "2") as server:
            ended = threading.Timer(3, server.process.kill)
            ended.start()
            self.addCleanup(ended.cancel)
            ran = self.doctor("-v", "--endpoint", server.url, "--", self.meets, "again")
        self.assertEqual(ran.returncode, 1, ran.stdout)
        self.assertRegex(ran.stdout, r"(?m)^FAIL +exit code 5")
        self.assertRegex(ran.stdout, r"(?m)^FAIL +the program met: .*(server|session|connect)")

    def test_each_line_of_a_server_that_does_not_start_is_its_own(self):
        listed = re.findall(r"^- `(.*?)`:", self.section("The server does not start"), re.M)
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        port = taken.getsockname()[1]
        cases = (
            ("--device", "cpu", "--listen", "tcp://0.0.0.0:0"),
            ("--device", "cuda"),
            ("--device", "cpu", "--listen", "tcp://127.0.0.1:0", "--metrics", f"127.0.0.1:{port}"),
            ("--device", "cpu", "--listen", "tcp://127.0.0.1:0", "--mem", "100TiB"),
        )
        self.assertEqual(len(listed), len(cases))
        for line, words in zip(listed, cases):
            if "cuda" in words and ctypes.util.find_library("cuda"):
                continue  # it would start
            with self.subTest(line):
                ran = subprocess.run(
                    [harness.FARCALL, "serve", "--control", "off", *words],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **harness.KEPT},
                )
                self.assertNotEqual(ran.returncode, 0)
                said = re.escape(line).replace(r"\.\.\.", ".*")
                self.assertRegex(ran.stderr, said)

    def test_endpoint_and_device_exclude_each_other(self):
        ran = self.doctor("--device", "cpu", "--endpoint", "tcp://127.0.0.1:1", "--", "true")
        self.assertEqual(ran.returncode, 2)
        self.assertEqual(
            ran.stderr.strip(), "farcall doctor: give --endpoint or --device, not both"
        )


if __name__ == "__main__":
    unittest.main()
