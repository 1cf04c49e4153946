# SPDX-License-Identifier: Apache-2.0
"""The DRA driver between a kubelet and an API server that do what a test says, and a real pool with a host on the dry
device. No kubelet that knows DRA has run it."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
import api_stub  # noqa: E402
from harness import BUILD, SERVE, until  # noqa: E402
from json_teller import Teller  # noqa: E402
from pool_case import MIB, PoolCase  # noqa: E402

NODE = "node-1"
POOL_TOKEN = "a-token-of-the-pool"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/farcall/leases/farcall-dra"
LIVE = ("pending", "reserved", "bound", "active", "idle", "preempting")
LIMIT_S = 60


class DraCase(PoolCase):
    def setUp(self):
        super().setUp()
        self.folder = self.store.parent
        self.api = api_stub.ApiStub(self.folder, None)
        self.addCleanup(lambda: self.api.server and self.api.stop())
        (self.folder / "account").write_text(api_stub.TOKEN + "\n")
        (self.folder / "token").write_text(POOL_TOKEN + "\n")
        self.pool = self.serve(token=POOL_TOKEN)
        self.host(
            self.pool,
            *("host", "--pool-token-file", self.join_token(self.pool)),
            device="dry",
            environment={"FARCALL_DRY_DEVICES": "2"},
        )
        self.log = self.folder / "dra.log"

    def start(self, *words):
        command = [SERVE, "pool", "k8s", "dra", *words, "--pool", self.pool.url]
        command += ["--token-file", self.folder / "token"]
        command += ["--kube-api", f"https://127.0.0.1:{self.api.port}"]
        command += ["--kube-ca", self.api.files[0], "--kube-token-file", self.folder / "account"]
        environment = {key: value for key, value in os.environ.items() if key != "FARCALL_TOKEN"}
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                list(map(str, command)), stdout=subprocess.DEVNULL, stderr=log, env=environment
            )
        self.addCleanup(self.end)

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(timeout=60)

    def live(self):
        claims = self.pool.get("/v1/claims").get("claims", [])
        return [claim for claim in claims if claim["state"] in LIVE]


class Slices(DraCase):
    def setUp(self):
        super().setUp()
        self.api.collections.add(SLICES)
        self.api.objects[LEASE] = {"metadata": {"name": "farcall-dra"}, "spec": {}}
        self.start("slices")
        until(self.slices, LIMIT_S, "a slice")

    def slices(self):
        return [o for path, o in self.api.objects.items() if path.startswith(SLICES + "/")]

    def devices(self):
        return [device for told in self.slices() for device in told["spec"]["devices"]]

    def test_the_pools_gpus_are_devices_of_every_node(self):
        (told,) = self.slices()
        spec = told["spec"]
        self.assertEqual((spec["driver"], spec["allNodes"]), ("farcall.io", True))
        self.assertEqual(spec["pool"]["resourceSliceCount"], 1)
        gpus = self.pool.get("/v1/gpus")["gpus"]
        self.assertEqual(len(spec["devices"]), len(gpus))
        device = spec["devices"][0]
        self.assertEqual(device["name"], "host-gpu-0")
        self.assertTrue(device["allowMultipleAllocations"])
        self.assertEqual(device["attributes"]["model"], {"string": gpus[0]["name"]})
        self.assertEqual(device["attributes"]["host"], {"string": "host"})
        step = device["capacity"]["memory"]["requestPolicy"]["validRange"]["step"]
        self.assertEqual(step, "256Mi")

    def test_a_host_that_drains_is_tainted_and_nothing_is_written_twice(self):
        before = len(self.api.writes)
        generation = self.slices()[0]["spec"]["pool"]["generation"]
        self.pool.post("/v1/hosts/host:cordon")
        until(lambda: self.devices()[0].get("taints"), LIMIT_S, "a taint")
        taint = {"key": "farcall.io/cordoned", "effect": "NoSchedule"}
        self.assertEqual(self.devices()[0]["taints"], [taint])
        self.assertEqual(self.slices()[0]["spec"]["pool"]["generation"], generation + 1)
        self.assertEqual(len(self.api.writes), before + 1)
        self.pool.post("/v1/hosts/host:uncordon")
        until(lambda: "taints" not in self.devices()[0], LIMIT_S, "no taint")
        # One that follows finds all as it is.
        self.end()
        self.start("slices")
        until(lambda: self.api.objects[LEASE]["spec"]["leaseTransitions"] == 2, LIMIT_S, "a leader")
        self.pool.post("/v1/hosts/host:cordon")
        until(lambda: self.devices()[0].get("taints"), LIMIT_S, "a taint")
        self.assertEqual(len(self.api.writes), before + 3)

    def test_every_object_is_valid_by_the_published_schemas(self):
        try:
            import kubernetes_validate
        except ImportError:
            self.skipTest("kubernetes-validate is not installed: ./scripts/setup installs it")
        self.pool.post("/v1/hosts/host:cordon")
        until(lambda: self.devices()[0].get("taints"), LIMIT_S, "a taint")
        (told,) = self.slices()
        told = json.loads(json.dumps(told))
        told["metadata"].pop("resourceVersion")
        for version in ("1.34", "1.35", "1.36", "1.37"):
            with self.subTest(version=version):
                kubernetes_validate.validate(told, version, strict=True)
                with self.assertRaises(kubernetes_validate.ValidationError):
                    kubernetes_validate.validate(
                        told | {"spec": told["spec"] | {"allNode": True}}, version, strict=True
                    )


class Node(DraCase):
    def setUp(self):
        super().setUp()
        (self.folder / "kubelet").mkdir()
        self.start_node()
        self.kubelet = Teller(BUILD / "tests/k8s/fake_dra_kubelet", self.folder / "kubelet")
        self.addCleanup(self.kubelet.kill)
        self.kubelet.do("register")
        self.registered = self.kubelet.wait("registered")

    def start_node(self):
        self.start(
            *("node", "--node", NODE, "--endpoint", self.pool.endpoint),
            *("--state", self.folder / "state", "--kubelet", self.folder / "kubelet"),
            *("--cdi", self.folder / "cdi", "--libraries", BUILD / "lib/farcall"),
        )

    def claim(self, name, *devices, node=NODE, pods=None, **capacity):
        """A ResourceClaim as a scheduler leaves it, and its pod."""
        pod = self.api.add("pod-of-" + name, node=node)
        results = [
            {"request": "gpu", "driver": "farcall.io", "pool": "farcall-gpus-0", "device": device}
            for device in devices or ("host-gpu-0",)
        ]
        for result in results:
            if capacity:
                result["consumedCapacity"] = capacity
        told = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default", "uid": "uid-of-" + name},
            "spec": {},
            "status": {
                "allocation": {"devices": {"results": results}},
                "reservedFor": [
                    {
                        "resource": "pods",
                        "name": pod["metadata"]["name"],
                        "uid": pod["metadata"]["uid"],
                    }
                ],
            },
        }
        self.api.objects[f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}"] = (
            told
        )
        return told

    @staticmethod
    def words(claim):
        metadata = claim["metadata"]
        return [metadata["namespace"], metadata["name"], metadata["uid"]]

    def prepare(self, *claims):
        self.kubelet.do("prepare", claims=[self.words(claim) for claim in claims])
        return self.kubelet.wait("prepared", code=0)["claims"]

    def unprepare(self, *claims):
        self.kubelet.do("unprepare", claims=[self.words(claim) for claim in claims])
        return self.kubelet.wait("unprepared", code=0)["claims"]

    def refused(self, claim, words):
        told = self.prepare(claim)[claim["metadata"]["uid"]]
        self.assertEqual(told["devices"], [])
        self.assertIn(words, told["error"])

    def spec(self, claim):
        path = self.folder / f"cdi/farcall.io-vgpu-{claim['metadata']['uid']}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def test_the_kubelet_finds_the_driver(self):
        told = self.registered
        self.assertEqual((told["type"], told["name"]), ("DRAPlugin", "farcall.io"))
        self.assertEqual(told["versions"], ["v1.DRAPlugin"])
        self.assertTrue(pathlib.Path(told["endpoint"]).is_socket())

    def test_a_claim_is_prepared_once_and_unprepared_once(self):
        claim = self.claim("train", memory="512Mi", cores="25")
        first = self.prepare(claim)["uid-of-train"]
        self.assertEqual(first["error"], "")
        (device,) = first["devices"]
        self.assertEqual((device["device"], device["requests"]), ("host-gpu-0", ["gpu"]))
        (live,) = self.live()
        self.assertEqual(live["memory_bytes"], str(512 * MIB))
        self.assertEqual(live["request"]["share_milli"], 250)
        self.assertIn(":resourceclaim:default/train@" + NODE, live["owner"])
        spec = self.spec(claim)
        self.assertEqual(spec["kind"] + "=" + spec["devices"][0]["name"], device["cdi"][0])
        mounts = {m["containerPath"]: m for m in spec["containerEdits"]["mounts"]}
        self.assertIn("ro", mounts["/etc/farcall"]["options"])
        self.assertIn("/usr/local/lib/farcall", mounts)
        folder = pathlib.Path(mounts["/etc/farcall"]["hostPath"])
        settings, token = (folder / "config.toml").read_text(), (folder / "token").read_text()
        self.assertIn(f'claim = "{live["id"]}"', settings)
        self.assertNotIn(POOL_TOKEN, settings + token)
        # Once more, and by a driver that has started again: it is the same.
        self.assertEqual(self.prepare(claim)["uid-of-train"], first)
        self.end(signal.SIGKILL)
        self.start_node()
        self.kubelet.do("register")
        self.kubelet.wait("registered", code=0)
        self.assertEqual(self.prepare(claim)["uid-of-train"], first)
        self.assertEqual((folder / "token").read_text(), token)
        self.assertEqual([one["id"] for one in self.live()], [live["id"]])
        for _ in range(2):
            self.assertEqual(self.unprepare(claim), {"uid-of-train": ""})
            self.assertEqual((self.live(), self.spec(claim), folder.exists()), ([], None, False))

    def test_two_devices_of_a_host_are_one_claim(self):
        claim = self.claim("pair", "host-gpu-0", "host-gpu-1", memory="256Mi", cores="0")
        told = self.prepare(claim)["uid-of-pair"]
        self.assertEqual(len({device["cdi"][0] for device in told["devices"]}), 2)
        (live,) = self.live()
        self.assertEqual(len(live["devices"]), 2)

    def test_one_that_fails_fails_alone(self):
        good, wrong = self.claim("good", memory="256Mi"), self.claim("bad", "gone-gpu-0")
        told = self.prepare(good, wrong)
        self.assertEqual(told["uid-of-good"]["error"], "")
        self.assertIn("the pool has no device", told["uid-of-bad"]["error"])
        self.assertEqual(len(self.live()), 1)

    def test_a_node_asks_only_for_what_its_pods_have(self):
        self.refused(self.claim("other", node="node-2"), "reserved for no pod of node node-1")
        claim = self.claim("forged")
        claim["status"]["reservedFor"][0]["uid"] = "0000"
        self.refused(claim, "reserved for no pod of node node-1")
        claim = self.claim("unborn")
        claim["status"].pop("allocation")
        self.refused(claim, "is not allocated")
        claim = self.claim("renewed")
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/renewed"
        self.api.objects[path] = json.loads(json.dumps(claim))
        self.api.objects[path]["metadata"]["uid"] = "another"
        self.refused(claim, "is another one now")
        self.refused(
            {"metadata": {"namespace": "..", "name": "a/b", "uid": "u"}}, "no object's name"
        )
        self.assertEqual(self.live(), [])

    def test_an_administrators_claim_takes_nothing(self):
        claim = self.claim("look")
        claim["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
        told = self.prepare(claim)["uid-of-look"]
        self.assertEqual(told["error"], "")
        self.assertNotIn("cdi", told["devices"][0])
        self.assertEqual((self.live(), self.spec(claim)), ([], None))
        self.assertEqual(self.unprepare(claim), {"uid-of-look": ""})

    def test_a_pool_that_is_away_is_an_error_and_a_later_call_goes_on(self):
        claim = self.claim("late", memory="256Mi")
        addresses = self.pool.addresses()
        self.pool.stop()
        self.refused(claim, "cannot connect")
        self.assertIn("cannot connect", self.unprepare(claim)["uid-of-late"])
        self.pool = self.serve(token=POOL_TOKEN, **addresses)
        until(
            lambda: self.pool.hosts().get("host", {}).get("state") == "ready", LIMIT_S, "the host"
        )
        self.assertEqual(self.prepare(claim)["uid-of-late"]["error"], "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
