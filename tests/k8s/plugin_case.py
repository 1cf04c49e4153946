# SPDX-License-Identifier: Apache-2.0
"""The device plugin between a kubelet and an API server that do what a test says, and a real pool
with a host on the dry device: what its tests share."""

import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
import api_stub  # noqa: E402
from harness import BUILD, SERVE  # noqa: E402
from json_teller import Teller  # noqa: E402
from pool_case import PoolCase  # noqa: E402

NODE = "node-1"
POOL_TOKEN = "a-token-of-the-pool-that-nobody-prints"
OK, INVALID, REFUSED = 0, 3, 9  # codes of gRPC
LIVE = ("pending", "reserved", "bound", "active", "idle", "preempting")


class PluginCase(PoolCase):
    def setUp(self):
        super().setUp()
        self.folder = self.store.parent
        for name in ("kubelet/device-plugins", "kubelet/pod-resources"):
            (self.folder / name).mkdir(parents=True)
        self.api = api_stub.ApiStub(self.folder, NODE)
        self.addCleanup(lambda: self.api.server and self.api.stop())
        (self.folder / "account").write_text(api_stub.TOKEN + "\n")
        (self.folder / "token").write_text(POOL_TOKEN + "\n")
        self.pool = self.serve(token=POOL_TOKEN)
        self.host(self.pool, "host", "--pool-token-file", self.join_token(self.pool), device="dry")
        self.log = self.folder / "plugin.log"
        self.pods = []
        self.start_kubelet()
        self.start_plugin()

    def start_kubelet(self):
        self.kubelet = Teller(BUILD / "tests/k8s/fake_kubelet", self.folder / "kubelet")
        self.addCleanup(self.kubelet.kill)
        self.kubelet.wait("ready")
        self.kubelet.do("pods", pods=self.pods)

    def start_plugin(self, *flags, healthy=True):
        command = [SERVE, "pool", "k8s", "plugin", "--node", NODE, "--pool", self.pool.url]
        command += ["--token-file", self.folder / "token", "--state", self.folder / "state"]
        command += ["--endpoint", self.pool.endpoint, "--kubelet", self.folder / "kubelet"]
        command += ["--libraries", BUILD / "lib/farcall"]
        command += ["--kube-api", f"https://127.0.0.1:{self.api.port}"]
        command += ["--kube-ca", self.api.files[0], "--kube-token-file", self.folder / "account"]
        environment = {key: value for key, value in os.environ.items() if key != "FARCALL_TOKEN"}
        with open(self.log, "a") as log:
            self.plugin = subprocess.Popen(
                [*map(str, command), *flags],
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=environment,
            )
        self.addCleanup(self.stop_plugin)
        self.registered = self.kubelet.wait("registered")
        if healthy:
            self.kubelet.wait("devices", unhealthy=0, healthy=64)

    def stop_plugin(self, how=signal.SIGTERM):
        if self.plugin.poll() is None:
            self.plugin.send_signal(how)
        return self.plugin.wait(timeout=60)

    # ---- what a cluster does

    def hold(self, pod, *slots):
        """The kubelet's word that a pod's container has these devices."""
        self.pods.append(
            {
                "namespace": pod["metadata"]["namespace"],
                "name": pod["metadata"]["name"],
                "containers": [{"name": "main", "ids": [f"slot-{slot}" for slot in slots]}],
            }
        )
        self.kubelet.do("pods", pods=self.pods)

    def prestart(self, *slots, tag="t"):
        self.kubelet.do("prestart", ids=[f"slot-{slot}" for slot in slots], tag=tag)

    def started(self, tag="t", code=OK):
        told = self.kubelet.wait_end(tag)
        self.assertEqual(told["code"], code, told["message"])
        return told["message"]

    def run_pod(self, name, slot, **annotations):
        pod = self.api.add(name, **annotations)
        self.hold(pod, slot)
        self.prestart(slot)
        self.started()
        return pod

    def settings(self, slot):
        path = self.folder / f"state/slots/{slot}/config.toml"
        if not path.exists():
            return {}
        lines = path.read_text().splitlines()
        return {
            key: value.strip('"') for key, value in (x.split(" = ") for x in lines if " = " in x)
        }

    def claim_at(self, slot):
        return self.pool.claim(self.settings(slot)["claim"])

    def live(self):
        return [claim for claim in self.pool.get("/v1/claims").get("claims", []) if claim["state"] in LIVE]  # fmt: skip
