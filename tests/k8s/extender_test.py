# SPDX-License-Identifier: Apache-2.0
"""The scheduler extender between an API server that does what a test says and a real pool
with a host on the dry device.
Requests are those of a kube-scheduler 1.20."""

import json
import os
import pathlib
import select
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
import api_stub  # noqa: E402
from harness import SERVE, until  # noqa: E402
from pool_case import GIB, MIB, PoolCase  # noqa: E402

NODE = "node-1"
POOL_TOKEN = "a-token-of-the-pool"
ROOM = "/apis/storage.k8s.io/v1/csinodes/farcall-room"
LIMIT_S = 60
LIVE = ("pending", "reserved", "bound", "active", "idle", "preempting")


class Extender(PoolCase):
    def setUp(self):
        super().setUp()
        self.folder = self.store.parent
        self.api = api_stub.ApiStub(self.folder, None)
        self.addCleanup(self.api.stop)
        self.bindings = []
        self.api.objects[ROOM] = {"metadata": {"name": "farcall-room"}, "spec": {"drivers": []}}
        self.api.post = self.take_binding
        (self.folder / "account").write_text(api_stub.TOKEN + "\n")
        (self.folder / "token").write_text(POOL_TOKEN + "\n")
        self.pool = self.serve(token=POOL_TOKEN)
        self.host(self.pool, "host", "--pool-token-file", self.join_token(self.pool), device="dry")
        self.extender = subprocess.Popen(
            self.command("127.0.0.1:0"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
        )
        self.addCleanup(self.stop_extender)
        ready, _, _ = select.select([self.extender.stdout], [], [], LIMIT_S)
        self.assertTrue(ready)
        self.url = "http://" + self.extender.stdout.readline().split(" on ")[1].strip()

    def command(self, listen):
        command = [SERVE, "pool", "k8s", "extender", "--listen", listen]
        command += ["--pool", self.pool.url, "--token-file", self.folder / "token"]
        command += ["--kube-api", f"https://127.0.0.1:{self.api.port}"]
        command += ["--kube-ca", self.api.files[0], "--kube-token-file", self.folder / "account"]
        return list(map(str, command))

    @staticmethod
    def environment():
        return {key: value for key, value in os.environ.items() if key != "FARCALL_TOKEN"}

    def stop_extender(self):
        self.extender.terminate()
        self.assertEqual(self.extender.wait(timeout=60), 0)
        self.extender.stdout.close()
        self.extender.stderr.close()

    def take_binding(self, path, body):
        self.bindings.append((path, body))
        return 201, {"kind": "Status", "status": "Success"}

    def refuse_binding(self, path, body):
        return 409, {"kind": "Status", "status": "Failure", "message": "the pod is bound already"}

    def ask(self, verb, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/{verb}", data)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def pod(self, name, **annotations):
        """One that no node has."""
        pod = self.api.add(name, **annotations)
        del pod["spec"]["nodeName"]
        return pod

    def bind(self, pod, **more):
        metadata = pod["metadata"]
        args = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"]}
        return self.ask("bind", args | {"PodUID": metadata["uid"], "Node": NODE} | more)["Error"]

    def live(self):
        claims = self.pool.get("/v1/claims").get("claims", [])
        return [claim for claim in claims if claim["state"] in LIVE]

    # ---- tests

    def test_bind_claims_first_and_leaves_the_allocation_at_the_pod(self):
        pod = self.pod("train", mem="64Mi", limit="50%")
        self.assertEqual(self.bind(pod), "")
        (claim,) = self.live()
        self.assertEqual((claim["state"], claim["memory_bytes"]), ("bound", str(64 * MIB)))
        self.assertIn(f":{pod['metadata']['uid']}:main:default/train@{NODE}", claim["owner"])
        ((path, binding),) = self.bindings
        self.assertEqual(path, "/api/v1/namespaces/default/pods/train/binding")
        self.assertEqual(binding["target"]["name"], NODE)
        self.assertEqual(binding["metadata"]["uid"], pod["metadata"]["uid"])
        told = json.loads(binding["metadata"]["annotations"]["k8s.farcall.io/allocation"])
        self.assertEqual(told, {"main": {"claim": claim["id"], "host": "host", "gpus": [0]}})
        # A scheduler that has heard no answer asks again: it is the same claim.
        self.assertEqual(self.bind(pod), "")
        self.assertEqual([one["id"] for one in self.live()], [claim["id"]])

    def test_what_is_not_bound_leaves_no_claim(self):
        self.api.post = self.refuse_binding
        self.assertIn("the pod is bound already", self.bind(self.pod("late", mem="64Mi")))
        self.assertEqual(self.live(), [])
        self.api.post = self.take_binding
        said = self.bind(self.pod("huge", mem="4Ti"))
        self.assertIn("another claim", said)
        self.assertEqual((self.live(), self.bindings), ([], []))

    def test_another_pod_of_that_name_is_not_bound(self):
        pod = self.pod("train", mem="64Mi")
        self.assertIn("another one now", self.bind(pod, PodUID="0000"))
        self.assertIn("not found", self.bind(pod, PodName="gone"))
        self.assertIn("no object's name", self.bind(pod, PodName="../nodes"))
        pod["spec"]["nodeName"] = "node-2"
        self.assertIn("bound to node node-2", self.bind(pod))
        self.assertEqual((self.live(), self.bindings), ([], []))

    def test_filter_takes_all_nodes_or_none(self):
        nodes = {"items": [{"metadata": {"name": name}} for name in ("a", "b")]}
        fits = self.ask("filter", {"Pod": self.pod("fits", mem="64Mi"), "Nodes": nodes})
        self.assertEqual((fits["Nodes"], fits.get("FailedNodes"), fits["Error"]), (nodes, None, ""))
        huge = self.pod("huge", mem="4Ti")
        none = self.ask("filter", {"Pod": huge, "Nodes": nodes, "NodeNames": None})
        self.assertEqual((none["Nodes"]["items"], set(none["FailedNodes"])), ([], {"a", "b"}))
        self.assertIn("no GPU of the pool can hold it", none["FailedNodes"]["a"])
        none = self.ask("filter", {"Pod": huge, "Nodes": None, "NodeNames": ["a", "b"]})
        self.assertEqual((none["NodeNames"], set(none["FailedNodes"])), ([], {"a", "b"}))
        wrong = self.ask("filter", {"Pod": self.pod("wrong", mem="4"), "NodeNames": ["a"]})
        self.assertIn("write 4Gi for 4 GiB", wrong["FailedNodes"]["a"])
        self.assertEqual(self.live(), [])

    def test_prioritize_prefers_the_zone_of_the_pools_host(self):
        status, told = self.pool.call("PUT", "/v1/hosts/host/labels", {"labels": {"zone": "z1"}})
        self.assertEqual(status, 200, told)
        nodes = {
            "items": [
                {"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}}}
                for name, zone in (("near", "z1"), ("far", "z2"))
            ]
        }
        pod = self.pod("train", mem="64Mi")
        scores = self.ask("prioritize", {"Pod": pod, "Nodes": nodes})
        expected = [{"Host": "near", "Score": 10}, {"Host": "far", "Score": 0}]
        self.assertEqual(scores, expected)
        scores = self.ask("prioritize", {"Pod": pod, "NodeNames": ["near"]})
        self.assertEqual(scores, [{"Host": "near", "Score": 0}])

    def test_two_pods_that_want_the_same_room_get_it_once(self):
        total = self.pool.get("/v1/gpus")["gpus"]
        room = max(int(gpu["memory_bytes"]) for gpu in total)
        size = f"{room * 2 // 3 // GIB}Gi"
        pods = [self.pod(f"race-{number}", mem=size) for number in range(len(total) + 1)]
        said = [self.bind(pod) for pod in pods]
        self.assertEqual(sum(not word for word in said), len(total), said)
        self.assertEqual(len(self.live()), len(total))
        self.assertEqual(len(self.bindings), len(total))

    def test_room_that_comes_free_makes_the_scheduler_try_again_once(self):
        gpus = self.pool.get("/v1/gpus")["gpus"]
        size = max(int(gpu["memory_bytes"]) for gpu in gpus)
        taken = [self.pool.post("/v1/claims", memory_bytes=str(size - GIB)) for _ in gpus]
        small = self.pool.post("/v1/claims", memory_bytes=str(64 * MIB))
        nodes = ["a", "b"]
        waits = [self.pod(f"waits-{number}", mem="2Gi") for number in range(3)]
        for pod in waits:
            told = self.ask("filter", {"Pod": pod, "NodeNames": nodes})
            self.assertIn("no room for it now", told["FailedNodes"]["a"])
        fits = self.ask("filter", {"Pod": self.pod("fits", mem="64Mi"), "NodeNames": nodes})
        self.assertEqual(fits["NodeNames"], nodes)
        self.release(small)  # 2 GiB do not fit by that
        self.release(taken[0])
        until(lambda: self.told_of_room(), LIMIT_S, "word of room")
        first = self.told_of_room()
        # Nobody is known to wait now: room that comes free is nobody's.
        for claim in taken[1:]:
            self.release(claim)
        time.sleep(2.5)  # two rounds of those that look
        self.assertEqual(self.told_of_room(), first)
        for pod in waits:  # which wait again while they are bound
            self.assertEqual(self.bind(pod), "")

    def test_without_the_object_the_pods_are_bound_all_the_same(self):
        del self.api.objects[ROOM]
        (gpu, *_) = self.pool.get("/v1/gpus")["gpus"]
        taken = self.pool.post("/v1/claims", memory_bytes=gpu["memory_bytes"])
        pod = self.pod("waits", mem=f"{int(gpu['memory_bytes']) >> 20}Mi")
        self.assertIn("another claim", self.bind(pod))
        self.release(taken)
        until(lambda: "farcall-room not found" in self.said(), LIMIT_S, "what is missing")
        self.assertEqual(self.bind(pod), "")

    def said(self):
        """What the extender has written so far."""
        while select.select([self.extender.stderr], [], [], 0.1)[0]:
            self.written += os.read(self.extender.stderr.fileno(), 65536).decode()
        return self.written

    written = ""

    def release(self, claim):
        status, told = self.pool.call("DELETE", "/v1/claims/" + claim["id"])
        self.assertEqual(status, 200, told)

    def told_of_room(self):
        annotations = self.api.objects[ROOM]["metadata"].get("annotations", {})
        return annotations.get("k8s.farcall.io/room")

    def test_it_listens_beyond_the_loopback_only_with_certificates(self):
        done = subprocess.run(
            self.command("0.0.0.0:0"), capture_output=True, text=True, timeout=60, env=self.environment()
        )  # fmt: skip
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--client-ca", done.stderr)

    def test_what_is_no_request_is_refused(self):
        status, told = self.ask("bind", b"{")
        self.assertEqual(status, 400)
        self.assertIn("no JSON object", told["Error"])
        self.assertIn("no pod", self.ask("filter", {"Pod": None})["Error"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
