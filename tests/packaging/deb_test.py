# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: lintian, their units, and in a clean root: installed, booted, used, upgraded, purged."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from root import Root, must

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = pathlib.Path(os.environ["FARCALL_PACKAGES"])
OLDER = pathlib.Path(os.environ["FARCALL_OLDER_PACKAGES"])
CACHE = pathlib.Path(os.environ["FARCALL_ROOTS"])
PROGRAM = pathlib.Path(os.environ["FARCALL_PROGRAM"])
NAMES = ("farcall-client", "farcall-cpu-device", "farcall-pool", "farcall-server")
# The exposure that systemd-analyze computes: 0 is least. The server has root, for worker_users.
EXPOSURE = {"farcall-server.service": 6.0, "farcall-pool.service": 2.0}


def packages(folder, names=NAMES):
    found = [path for path in sorted(folder.glob("*.deb")) if path.name.split("_")[0] in names]
    assert len(found) == len(
        names
    ), f"{folder} holds {[path.name for path in found]}, not one package of each of {names}"
    return found


def files_of(package):
    listed = must("dpkg-deb", "--contents", package)
    return {
        line.split(None, 5)[5].split(" -> ")[0].removeprefix(".") for line in listed.splitlines()
    }


class Contents(unittest.TestCase):
    def test_lintian_finds_no_error(self):
        done = subprocess.run(
            [
                "lintian",
                "--fail-on",
                "error",
                "--tag-display-limit",
                "0",
                *map(str, sorted(PACKAGES.glob("*.deb"))),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("E: ", done.stdout)

    def test_symbols_come_apart(self):
        for name in NAMES:
            if name == "farcall-server":  # its programs are farcall-client's
                continue
            (symbols,) = PACKAGES.glob(f"{name}-dbgsym_*.deb")
            self.assertTrue([file for file in files_of(symbols) if file.endswith(".debug")], name)

    def test_no_package_puts_a_library_where_the_linker_looks(self):
        for package in packages(PACKAGES):
            found = [file for file in files_of(package) if re.search(r"\.so(\.|$)", file)]
            self.assertFalse(
                [file for file in found if not file.startswith("/usr/lib/farcall/")], package
            )

    def test_units_are_what_systemd_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for package in packages(PACKAGES):
                must("dpkg-deb", "--extract", package, root)
            for unit, limit in EXPOSURE.items():
                file = root / "lib/systemd/system" / unit
                # Its program and its users are not on this machine.
                text = (
                    file.read_text()
                    .replace("/usr/bin/farcall", str(root / "usr/bin/farcall"))
                    .replace("User=farcall-pool", "User=daemon")
                )
                copy = root / unit
                copy.write_text(text)
                self.assertEqual(
                    must("systemd-analyze", "verify", "--man=no", copy).strip(), "", unit
                )
                shown = must("systemd-analyze", "security", "--offline=true", "--no-pager", copy)
                exposure = float(
                    re.search(r"Overall exposure level for \S+: ([0-9.]+)", shown).group(1)
                )
                print(f"{unit}: exposure {exposure}", flush=True)
                self.assertLessEqual(exposure, limit, shown)


@unittest.skipIf(os.geteuid() != 0, "a root needs chroot, which needs root")
class CleanRoot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.base = Root.base(CACHE)

    def root(self):
        root = self.base.copy(CACHE / "tried")
        must("cp", PROGRAM, root.folder / "opt/vector_add")
        return root

    def test_installed_and_booted_it_serves(self):
        root = self.root()
        root.install(packages(PACKAGES))
        log = root.boot(SOURCE / "tests/packaging/booted")
        print(log, flush=True)
        results = re.findall(r"^(ok|not ok) (\w+)$", log, re.M)
        self.assertTrue(log.endswith("end\n"), "the checks did not end")
        self.assertEqual([name for result, name in results if result != "ok"], [])
        self.assertEqual(len(results), 13)

    def test_an_upgrade_keeps_settings_and_a_purge_leaves_nothing(self):
        root = self.root()
        root.install(packages(OLDER))
        settings = root.folder / "etc/farcall/server.toml"
        changed = settings.read_text().replace('#log_level = "info"', 'log_level = "debug"')
        settings.write_text(changed)
        root.install(packages(PACKAGES))
        versions = root.run("dpkg-query", "-W", "-f", "${Version}\\n", *NAMES).split()
        self.assertEqual(versions, [packages(PACKAGES)[0].name.split("_")[1]] * len(NAMES))
        self.assertEqual(settings.read_text(), changed)
        root.run("apt-get", "purge", "-y", *NAMES)
        left = [
            folder
            for folder in (
                "etc/farcall",
                "etc/default/farcall-pool",
                "usr/lib/farcall",
                "usr/libexec/farcall",
                "usr/share/farcall",
                "var/lib/farcall",
                "var/lib/farcall-pool",
                "var/log/farcall",
            )
            if (root.folder / folder).exists()
        ]
        self.assertEqual(left, [])

    def test_the_client_alone_says_what_it_lacks(self):
        root = self.root()
        root.install(packages(PACKAGES, ("farcall-client",)))
        self.assertRegex(root.run("farcall", "--version"), r"^farcall [0-9.]+ ")
        with self.assertRaisesRegex(
            AssertionError, "127.0.0.1:9.*refused"
        ):  # not: its program is missing
            root.run("farcall", "devices", "--endpoint", "pool://127.0.0.1:9")
        with self.assertRaisesRegex(AssertionError, "package farcall-pool"):
            root.run("farcall", "pool", "list")
        with self.assertRaisesRegex(AssertionError, "cudaErrorNoDevice|no device"):
            root.run("farcall", "run", "--", "/opt/vector_add")

    def test_the_cpu_device_alone_runs_a_program(self):
        root = self.root()
        root.install(packages(PACKAGES, ("farcall-client", "farcall-cpu-device")))
        self.assertRegex(root.run("farcall", "run", "--", "/opt/vector_add"), "PASS vector_add")


if __name__ == "__main__":
    unittest.main()
