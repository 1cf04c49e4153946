# SPDX-License-Identifier: Apache-2.0
"""The images, built by buildah on a base made by debootstrap: a server in one serves a program."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import yaml

from root import Root, must

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = pathlib.Path(os.environ["FARCALL_PACKAGES"])
CACHE = pathlib.Path(os.environ["FARCALL_ROOTS"])
COMPOSE = SOURCE / "deploy/compose"
PROGRAM = pathlib.Path(os.environ["FARCALL_PROGRAM"])
STORE = ["--storage-driver", "vfs", "--root", CACHE / "images", "--runroot", CACHE / "images-run"]
BASE = "farcall-test-base"
IMAGES = ("client", "server", "pool")


def buildah(*arguments, **options):
    return must("buildah", *STORE, *arguments, **options)


@unittest.skipIf(os.geteuid() != 0 or shutil.which("buildah") is None, "needs root and buildah")
class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        root = Root.base(CACHE, include="ca-certificates")
        if BASE not in buildah("images", "--format", "{{.Name}}"):
            container = buildah("from", "scratch").strip()
            buildah("copy", "-q", container, root.folder, "/")
            buildah("commit", "-q", container, BASE)
            buildah("rm", container)
        for name in IMAGES:
            buildah(
                "build",
                "--isolation",
                "chroot",
                "--format",
                "docker",
                "--pull-never",
                "-q",
                "-t",
                f"farcall-{name}",
                "--build-arg",
                f"BASE={BASE}",
                "--network",
                "host",
                "-f",
                SOURCE / f"deploy/images/{name}.Dockerfile",
                PACKAGES,
            )

    def container(self, image):
        name = buildah("from", "--pull-never", image).strip()
        self.addCleanup(buildah, "rm", name)
        return name

    def inside(self, container, *command, user="7717", mounts=(), **environment):
        variables = [
            word for key, value in environment.items() for word in ("--env", f"{key}={value}")
        ]
        volumes = [word for mount in mounts for word in ("--volume", mount)]
        return buildah(
            "run",
            "--isolation",
            "chroot",
            "--network",
            "host",
            "--user",
            user,
            *variables,
            *volumes,
            container,
            "--",
            *command,
        )

    def test_none_runs_as_root(self):
        for name in IMAGES:
            config = json.loads(buildah("inspect", "--type", "image", f"farcall-{name}"))["Docker"][
                "config"
            ]
            self.assertEqual(config["User"], "7717", name)
            if name != "client":
                self.assertTrue(config["Healthcheck"]["Test"], name)

    def folder(self, *names):
        """A folder for volumes, and as arguments of --volume each of `names` below it at /NAME."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=CACHE))
        folder.chmod(0o755)
        self.addCleanup(shutil.rmtree, folder)
        for name in names:
            (folder / name).mkdir(mode=0o755, parents=True)
        return folder, [f"{folder / name}:/{name}" for name in names]

    def start(self, container, etc, *command):
        """A service that reads `etc` as /etc/farcall.   Returns its log and how to ask whether it ended"""
        words = [
            "buildah",
            *STORE,
            "run",
            "--isolation",
            "chroot",
            "--network",
            "host",
            "--user",
            "7717",
            "--volume",
            f"{etc}:/etc/farcall:ro",
            container,
            "--",
            *command,
        ]
        log = tempfile.NamedTemporaryFile("w+", dir=CACHE)
        self.addCleanup(log.close)
        service = subprocess.Popen(
            [str(word) for word in words], stdout=log, stderr=subprocess.STDOUT
        )
        self.addCleanup(lambda: (service.terminate(), service.wait(timeout=60)))
        return pathlib.Path(log.name), service.poll

    def soon(self, attempt, *services):
        """`attempt`'s result once it succeeds, while the services run."""
        for left in reversed(range(40)):
            try:
                return attempt()
            except AssertionError as error:
                logs = "".join(log.read_text() for log, _ in services)
                self.assertEqual([poll() for _, poll in services], [None] * len(services), logs)
                if left == 0:
                    raise AssertionError(f"{error}\n{logs}") from None
                time.sleep(0.5)
        return None

    def test_a_program_in_one_runs_on_a_server_in_another(self):
        """As host.yaml has it: set up, serve by TLS, and a client's program."""
        folder, mounts = self.folder("authority", "server", "client")
        server, client = self.container("farcall-server"), self.container("farcall-client")
        mounts.append(f"{COMPOSE / 'setup'}:/setup:ro")
        for _ in range(2):  # the second time changes nothing
            self.inside(server, "bash", "/setup", "server", "localhost", user="0", mounts=mounts)
        serving = self.start(
            server,
            folder / "server",
            "farcall",
            "serve",
            "--config",
            "/etc/farcall/server.toml",
            "--device",
            "cpu",
            "--listen",
            "tls://127.0.0.1:17717",
        )
        settings = {
            "FARCALL_ENDPOINT": "tls://localhost:17717",
            "FARCALL_CA": "/client/ca.pem",
            "FARCALL_TOKEN_FILE": "/client/token",
        }
        mounts = [f"{folder / 'client'}:/client:ro", f"{PROGRAM}:/opt/vector_add:ro"]
        out = self.soon(
            lambda: self.inside(
                client, "farcall", "run", "--", "/opt/vector_add", mounts=mounts, **settings
            ),
            serving,
        )
        self.assertIn("PASS", out)
        self.inside(server, "farcall", "ps", "--json")  # the health check
        self.assertNotIn("no Landlock", serving[0].read_text())  # the sandbox holds without root

    def test_a_pool_of_two_hosts_lends_to_a_client(self):
        """As pool.yaml has it, on the loopback and on ports of our own: one network has one 7717."""
        folder, mounts = self.folder("authority", "pool", "hosts/host-a", "hosts/host-b", "client")
        pool, client = self.container("farcall-pool"), self.container("farcall-client")
        hosts = {name: self.container("farcall-server") for name in ("host-a", "host-b")}
        mounts.append(f"{COMPOSE / 'pool-setup'}:/setup:ro")
        made = []
        for _ in range(2):
            self.inside(
                hosts["host-a"], "bash", "/setup", "localhost", *hosts, user="0", mounts=mounts
            )
            made.append(
                {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
            )
        self.assertEqual(made[0], made[1])
        given = yaml.safe_load((COMPOSE / "pool.yaml").read_text())["services"]
        flags = [
            flag.replace("pool.pem", "localhost.pem").replace("pool.key", "localhost.key")
            for flag in given["pool"]["command"]
        ]
        services = [
            self.start(
                pool,
                folder / "pool",
                "farcall",
                "pool",
                "serve",
                "--store",
                "/var/lib/farcall-pool/pool.db",
                "--listen",
                "127.0.0.1:17718",
                "--rest",
                "127.0.0.1:17719",
                "--grpc",
                "127.0.0.1:17720",
                *flags,
            )
        ]
        for port, (name, container) in enumerate(hosts.items(), 17721):
            services.append(
                self.start(
                    container,
                    folder / "hosts" / name,
                    "farcall",
                    "serve",
                    "--config",
                    "/etc/farcall/server.toml",
                    "--listen",
                    f"tls://127.0.0.1:{port + 10}",
                    "--advertise",
                    f"tls://localhost:{port + 10}",
                    "--pool",
                    "https://localhost:17719",
                )
            )
        mounts = [
            f"{folder / 'client'}:/client:ro",
            f"{folder / 'pool'}:/pool:ro",
            f"{PROGRAM}:/opt/vector_add:ro",
        ]

        def asked(service, *command):
            settings = given[service]["environment"] | {
                "FARCALL_ENDPOINT": "pools://localhost:17718"
            }
            return self.inside(
                client,
                *(command or ("farcall", *given[service]["command"])),
                mounts=mounts,
                **settings,
            )

        def both():
            shown = asked("operator")
            self.assertEqual([name for name in hosts if name in shown], list(hosts), shown)
            return shown

        print(self.soon(both, *services), flush=True)
        print(asked("client"), flush=True)
        self.assertIn("PASS", asked("client", "farcall", "run", "--", "/opt/vector_add"))

    def test_the_compose_files_fit_the_schema(self):
        files = sorted(COMPOSE.glob("*.yaml"))
        self.assertTrue(files)
        must(
            sys.executable,
            "-m",
            "check_jsonschema",
            "--builtin-schema",
            "vendor.compose-spec",
            *files,
        )

    def test_the_bill_of_materials_is_valid_and_names_our_packages(self):
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator

        container = self.container("farcall-server")
        root = buildah("mount", container).strip()
        self.addCleanup(buildah, "umount", container)
        bill = must(SOURCE / "deploy/images/sbom.py", root, "farcall-server")
        self.assertIsNone(JsonStrictValidator(SchemaVersion.V1_5).validate_str(bill))
        names = {component["name"] for component in json.loads(bill)["components"]}
        self.assertLessEqual(
            {
                "farcall-client",
                "farcall-server",
                "farcall-pool",
                "farcall-cpu-device",
                "libc6",
                "libssl3",
            },
            names,
        )
        self.assertEqual(bill, must(SOURCE / "deploy/images/sbom.py", root, "farcall-server"))


if __name__ == "__main__":
    unittest.main()
