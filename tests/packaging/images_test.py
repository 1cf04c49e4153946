# SPDX-License-Identifier: Apache-2.0
"""The images, built by buildah on a base made by debootstrap: a server in one serves a program."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from root import Root, must

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = pathlib.Path(os.environ["FARCALL_PACKAGES"])
CACHE = pathlib.Path(os.environ["FARCALL_ROOTS"])
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
            buildah("build", "--isolation", "chroot", "--format", "docker", "--pull-never", "-q", "-t", f"farcall-{name}",
                    "--build-arg", f"BASE={BASE}", "--network", "host", "-f", SOURCE / f"deploy/images/{name}.Dockerfile", PACKAGES)

    def container(self, image):
        name = buildah("from", "--pull-never", image).strip()
        self.addCleanup(buildah, "rm", name)
        return name

    def inside(self, container, *command, user="7717", mounts=(), **environment):
        variables = [word for key, value in environment.items() for word in ("--env", f"{key}={value}")]
        volumes = [word for mount in mounts for word in ("--volume", mount)]
        return buildah("run", "--isolation", "chroot", "--network", "host", "--user", user, *variables, *volumes, container, "--", *command)

    def test_none_runs_as_root(self):
        for name in IMAGES:
            config = json.loads(buildah("inspect", "--type", "image", f"farcall-{name}"))["Docker"]["config"]
            self.assertEqual(config["User"], "7717", name)
            if name != "client":
                self.assertTrue(config["Healthcheck"]["Test"], name)

    def test_a_program_in_one_runs_on_a_server_in_another(self):
        """As compose runs them: set up, serve by TLS, and a client's program."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=CACHE))
        self.addCleanup(shutil.rmtree, folder)
        for name in ("authority", "server", "client"):
            (folder / name).mkdir(mode=0o755)
        server, client = self.container("farcall-server"), self.container("farcall-client")
        setup = SOURCE / "deploy/compose/setup"
        mounts = [f"{folder / name}:/{name}" for name in ("authority", "server", "client")] + [f"{setup}:/setup:ro"]
        for _ in range(2):  # the second time changes nothing
            self.inside(server, "bash", "/setup", "server", "localhost", user="0", mounts=mounts)
        command = ["buildah", *STORE, "run", "--isolation", "chroot", "--network", "host", "--user", "7717",
                   "--volume", f"{folder / 'server'}:/etc/farcall:ro", server, "--",
                   "farcall", "serve", "--config", "/etc/farcall/server.toml", "--device", "cpu", "--listen", "tls://127.0.0.1:17717"]
        log = open(folder / "log", "w+")
        self.addCleanup(log.close)
        serving = subprocess.Popen([str(word) for word in command], stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(lambda: (serving.terminate(), serving.wait(timeout=30)))
        settings = {"FARCALL_ENDPOINT": "tls://localhost:17717", "FARCALL_CA": "/client/ca.pem", "FARCALL_TOKEN_FILE": "/client/token"}
        mounts = [f"{folder / 'client'}:/client:ro", f"{PROGRAM}:/opt/vector_add:ro"]
        for attempt in range(20):
            try:
                out = self.inside(client, "farcall", "run", "--", "/opt/vector_add", mounts=mounts, **settings)
                break
            except AssertionError as error:
                log.seek(0)
                self.assertIsNone(serving.poll(), log.read())
                if attempt == 19:
                    raise AssertionError(f"{error}\n{log.read()}") from None
                subprocess.run(["sleep", "0.5"], check=True)
        self.assertIn("PASS", out)
        self.inside(server, "farcall", "ps", "--json")  # the health check
        log.seek(0)
        text = log.read()
        self.assertNotIn("no Landlock", text)  # the sandbox holds without root

    def test_the_compose_files_fit_the_schema(self):
        files = sorted((SOURCE / "deploy/compose").glob("*.yaml"))
        self.assertTrue(files)
        must(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *files)

    def test_the_bill_of_materials_is_valid_and_names_our_packages(self):
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
        container = self.container("farcall-server")
        root = buildah("mount", container).strip()
        self.addCleanup(buildah, "umount", container)
        bill = must(SOURCE / "deploy/images/sbom.py", root, "farcall-server")
        self.assertIsNone(JsonStrictValidator(SchemaVersion.V1_5).validate_str(bill))
        names = {component["name"] for component in json.loads(bill)["components"]}
        self.assertLessEqual({"farcall-client", "farcall-server", "farcall-pool", "farcall-cpu-device", "libc6", "libssl3"}, names)
        self.assertEqual(bill, must(SOURCE / "deploy/images/sbom.py", root, "farcall-server"))


if __name__ == "__main__":
    unittest.main()
