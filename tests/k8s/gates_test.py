# SPDX-License-Identifier: Apache-2.0
"""Scheduling gates: the webhook and the controller between an API server that does what a test
says and a real pool with a host on the dry device."""

import base64
import http.client
import json
import os
import pathlib
import select
import ssl
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
import api_stub  # noqa: E402
from harness import SERVE, until  # noqa: E402
from pool_case import PoolCase  # noqa: E402

GATE, OTHER = "farcall.io/claim", "example.com/budget"
GROUP = "/apis/farcall.io/v1alpha1"
CLAIMS = GROUP + "/namespaces/default/vgpuclaims/"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/farcall/leases/farcall-controller"
SECRET = "/api/v1/namespaces/farcall/secrets/farcall-webhook"
CONFIGURATION = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/farcall-aliases"
)
POOL_TOKEN = "a-token-of-the-pool"
LIMIT_S = 60


class GateCase(PoolCase):
    def setUp(self):
        super().setUp()
        self.folder = self.store.parent
        self.api = api_stub.ApiStub(self.folder, None)
        self.addCleanup(self.api.stop)
        (self.folder / "account").write_text(api_stub.TOKEN + "\n")
        (self.folder / "token").write_text(POOL_TOKEN + "\n")
        self.log = self.folder / "k8s.log"

    def start(self, *words, **more):
        command = [SERVE, "pool", "k8s", *words]
        command += ["--kube-api", f"https://127.0.0.1:{self.api.port}"]
        command += ["--kube-ca", self.api.files[0], "--kube-token-file", self.folder / "account"]
        environment = {key: value for key, value in os.environ.items() if key != "FARCALL_TOKEN"}
        with open(self.log, "a") as log:
            process = subprocess.Popen(
                list(map(str, command)),
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
            )
        self.addCleanup(self.end, process)
        ready, _, _ = select.select([process.stdout], [], [], LIMIT_S)
        self.assertTrue(ready, self.log.read_text())
        return process.stdout.readline()

    def end(self, process):
        process.terminate()
        self.assertEqual(process.wait(timeout=60), 0)
        process.stdout.close()


class Controller(GateCase):
    def setUp(self):
        super().setUp()
        self.pool = self.serve(token=POOL_TOKEN)
        self.host(self.pool, "host", "--pool-token-file", self.join_token(self.pool), device="dry")
        self.api.post = self.make_object
        for kind in ("vgpuclaims", "vgpuclasses"):
            self.api.collections.add(f"{GROUP}/{kind}")
        self.api.objects[LEASE] = {"metadata": {"name": "farcall-controller"}, "spec": {}}
        flags = ("--pool", self.pool.url, "--token-file", self.folder / "token")
        self.assertIn("leads", self.start("controller", *flags))

    def make_object(self, path, told):
        """What the controller makes: VGPUClaims."""
        self.assertEqual(path + "/", CLAIMS)
        name = told["metadata"]["name"]
        if CLAIMS + name in self.api.objects:
            return 409, {"message": f'vgpuclaims "{name}" already exists'}
        told["metadata"] |= {"uid": "uid-" + name, "generation": 1}
        self.api.put(CLAIMS + name, told)
        return 201, told

    def claim(self, name, mem):
        told = {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}}
        told["metadata"]["generation"] = 1
        told["spec"] = {"mem": mem}
        self.api.put(CLAIMS + name, told)

    def phase(self, name):
        return self.api.objects[CLAIMS + name].get("status", {}).get("phase")

    def gates(self, name):
        pod = self.api.pods["default", name]
        return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]

    def has_pod(self, claim, pod):
        status = self.api.objects[CLAIMS + claim].get("status", {})
        return (status.get("pod") or {}).get("name") == pod

    def test_a_pods_gate_goes_once_its_claim_is_bound(self):
        whole = self.pool.post("/v1/claims", memory_bytes="0")["id"]
        self.claim("training", "1Gi")
        self.api.add("train", claim="training", gates=(OTHER, GATE))
        until(lambda: self.has_pod("training", "train"), LIMIT_S, "the claim is the pod's")
        until(lambda: self.phase("training") == "Pending", LIMIT_S, "it waits")
        self.assertEqual(self.gates("train"), [OTHER, GATE])
        self.pool.call("DELETE", f"/v1/claims/{whole}")
        until(lambda: self.gates("train") == [OTHER], LIMIT_S, "its gate is gone")
        self.assertEqual(self.phase("training"), "Bound")

    def test_a_pod_waits_for_all_claims_that_it_names(self):
        self.claim("one", "1Gi")
        words = {"claim.first": "one", "claim.second": "two"}
        self.api.add("pair", containers=("first", "second"), gates=(GATE,), **words)
        until(lambda: self.phase("one") == "Bound", LIMIT_S, "the first claim")
        # Another pod, told of later, gets its own: by then this one's was looked at.
        self.claim("three", "1Gi")
        self.api.add("other", claim="three", gates=(GATE,))
        until(lambda: not self.gates("other"), LIMIT_S, "the other pod's gate is gone")
        self.assertEqual(self.gates("pair"), [GATE])
        self.claim("two", "1Gi")
        until(lambda: not self.gates("pair"), LIMIT_S, "its gate is gone")

    def test_a_pod_waits_while_another_one_has_the_claim(self):
        self.claim("shared", "1Gi")
        first = self.api.add("first", claim="shared", gates=(GATE,))
        until(lambda: not self.gates("first"), LIMIT_S, "the first pod's gate is gone")
        self.api.add("second", claim="shared", gates=(GATE,))
        until(
            lambda: any("VGPUClaimInUse" in str(line) for line in self.api.told_events),
            LIMIT_S,
            "an event of the second pod",
        )
        self.assertEqual(self.gates("second"), [GATE])
        self.api.finish(first)
        until(lambda: not self.gates("second"), LIMIT_S, "the second pod's gate is gone")

    def test_a_gated_pods_own_requests_become_claims_that_go_with_it(self):
        words = {"mem": "1Gi", "limit.second": "50%", "claim.third": "training"}
        words["mem.first"] = words.pop("mem")
        self.claim("training", "2Gi")
        pod = self.api.add(
            "trio",
            containers=("first", "second", "third"),
            gates=(GATE,),
            **words,
            **{"mem.second": "25%"},
        )
        until(lambda: not self.gates("trio"), LIMIT_S, "its gate is gone")
        uid = pod["metadata"]["uid"]
        names = {name: f"pod-{uid}-{name}" for name in ("first", "second")} | {"third": "training"}
        annotations = self.api.pods["default", "trio"]["metadata"]["annotations"]
        self.assertEqual(
            annotations, {f"farcall.io/claim.{key}": value for key, value in names.items()}
        )
        first, second = (self.api.objects[CLAIMS + names[name]] for name in ("first", "second"))
        self.assertEqual(first["spec"], {"count": 1, "mem": "1Gi"})
        self.assertEqual(second["spec"], {"count": 1, "mem": "25%", "limit": "50%"})
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "trio", "uid": uid}
        self.assertEqual(first["metadata"]["ownerReferences"], [owner])
        for name in names.values():
            self.assertEqual(self.phase(name), "Bound")
            self.assertTrue(self.has_pod(name, "trio"))

    def test_a_gated_pod_whose_request_has_no_room_waits(self):
        whole = self.pool.post("/v1/claims", memory_bytes="0")["id"]
        pod = self.api.add("train", gates=(GATE,))  # whole GPUs
        name = f"pod-{pod['metadata']['uid']}-main"
        until(lambda: CLAIMS + name in self.api.objects, LIMIT_S, "its claim")
        until(lambda: self.has_pod(name, "train"), LIMIT_S, "the claim is the pod's")
        until(lambda: self.phase(name) == "Pending", LIMIT_S, "it waits")
        self.assertEqual(self.gates("train"), [GATE])
        self.pool.call("DELETE", f"/v1/claims/{whole}")
        until(lambda: not self.gates("train"), LIMIT_S, "its gate is gone")

    def test_a_controller_that_dies_before_the_pod_names_its_claim_makes_no_second_one(self):
        spec = {"count": 1, "mem": "1Gi"}
        with self.api.lock:  # the controller sees the pod once the claim is there
            pod = self.api.add("train", mem="1Gi", gates=(GATE,))
            name = f"pod-{pod['metadata']['uid']}-main"
            metadata = {"name": name, "namespace": "default", "uid": "uid-1", "generation": 1}
            self.api.put(CLAIMS + name, {"metadata": metadata, "spec": spec})
        until(lambda: not self.gates("train"), LIMIT_S, "its gate is gone")
        claims = [path for path in self.api.objects if path.startswith(CLAIMS)]
        self.assertEqual(claims, [CLAIMS + name])

    def test_a_gate_goes_from_pods_that_should_have_none(self):
        first = {"name": "first", "resources": {}}
        self.api.add("steps", mem="1Gi", init=[first], gates=(GATE,))  # another webhook's
        self.api.add("wrong", mem="none", gates=(GATE,))
        self.api.add("plain", containers=(), gates=(GATE, OTHER))
        for name, left in {"steps": [], "wrong": [], "plain": [OTHER]}.items():
            until(lambda n=name, x=left: self.gates(n) == x, LIMIT_S, f"pod {name} has no gate")
        self.assertEqual([path for path in self.api.objects if path.startswith(CLAIMS)], [])

    def test_a_pod_without_the_gate_is_not_written_to(self):
        self.claim("training", "1Gi")
        self.api.add("own", mem="1Gi")
        self.api.add("train", claim="training")
        until(lambda: self.has_pod("training", "train"), LIMIT_S, "the claim is the pod's")
        until(lambda: self.phase("training") == "Bound", LIMIT_S, "the claim is bound")
        self.assertEqual([path for method, path in self.api.writes if "/pods/" in path], [])


class Webhook(GateCase):
    def start_webhook(self, version, *flags):
        major, minor = version.split(".")
        self.api.objects["/version"] = {"major": major, "minor": minor}
        self.api.objects[SECRET] = {"kind": "Secret", "metadata": {}}
        self.api.objects[CONFIGURATION] = {"metadata": {}, "webhooks": [{"clientConfig": {}}]}
        told = self.start("webhook", "--host", "127.0.0.1", "--listen", "127.0.0.1:0", *flags)
        self.port = int(told.rsplit(":", 1)[1])

    def patch(self, pod):
        """What the webhook changes of a pod that is made."""
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        review["request"] = {"uid": "1", "operation": "CREATE", "kind": {"kind": "Pod"}}
        review["request"]["object"] = pod
        trust = ssl.create_default_context(
            cadata=base64.b64decode(self.api.objects[SECRET]["data"]["ca.crt"]).decode()
        )
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=trust, timeout=30)
        connection.request(
            "POST", "/pods", json.dumps(review), {"Content-Type": "application/json"}
        )
        told = json.loads(connection.getresponse().read())["response"]
        connection.close()
        self.assertTrue(told["allowed"], told)
        return json.loads(base64.b64decode(told["patch"])) if "patch" in told else []

    @staticmethod
    def pod(limits=None, spec=None, **annotations):
        container = {"name": "main", "image": "x"}
        container["resources"] = {"limits": limits or {"farcall.io/vgpu": "1"}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "train-",
                "annotations": {f"farcall.io/{key}": value for key, value in annotations.items()},
            },
            "spec": {"containers": [container], **(spec or {})},
        }

    def test_pods_that_ask_for_vgpus_are_gated(self):
        self.start_webhook("1.27+", "--gates")
        gate = {"name": GATE}
        added = [{"op": "add", "path": "/spec/schedulingGates", "value": [gate]}]
        self.assertEqual(self.patch(self.pod(claim="training")), added)
        self.assertEqual(self.patch(self.pod(**{"claim.main": "training"})), added)
        self.assertEqual(self.patch(self.pod(mem="1Gi")), added)
        steps = {"initContainers": [{"name": "first"}]}
        self.assertEqual(self.patch(self.pod(claim="training", spec=steps)), added)
        self.assertEqual(self.patch(self.pod({"nvidia.com/gpumem": "512"}))[-1:], added)
        other = self.pod(claim="training", spec={"schedulingGates": [{"name": OTHER}]})
        self.assertEqual(
            self.patch(other), [{"op": "add", "path": "/spec/schedulingGates/-", "value": gate}]
        )
        elastic = self.pod({"cpu": "1"})
        elastic["metadata"]["annotations"] = {"elasticgpu.io/egpuc-main": "training"}
        self.assertEqual(self.patch(elastic)[-1:], added)

    def test_other_pods_are_not_gated(self):
        self.start_webhook("1.30", "--gates")
        for pod in (
            self.pod(mem="none"),
            self.pod({"cpu": "1"}),
            self.pod({"cpu": "1"}, claim="training"),  # no container of it uses one
            self.pod(mem="1Gi", spec={"initContainers": [{"name": "first"}]}),
            self.pod(claim="training", spec={"nodeName": "node-1"}),
            self.pod(claim="training", spec={"schedulingGates": [{"name": GATE}]}),
            self.pod(claim="../training"),
        ):
            self.assertEqual(self.patch(pod), [])

    def test_an_older_server_s_pods_are_not_gated(self):
        self.start_webhook("1.26", "--gates")
        self.assertEqual(self.patch(self.pod(claim="training")), [])
        self.assertIn("scheduling gates need 1.27", self.log.read_text())

    def test_without_the_flag_nothing_is_gated(self):
        self.start_webhook("1.36")
        self.assertEqual(self.patch(self.pod(claim="training")), [])

    def test_a_gated_pod_is_valid_by_the_schemas_of_1_27_and_newer(self):
        try:
            import kubernetes_validate
        except ImportError:
            self.skipTest("kubernetes-validate is not installed: ./scripts/setup installs it")
        pod = self.pod(claim="training", spec={"schedulingGates": [{"name": GATE}]})
        pod["spec"]["containers"][0].pop("resources")
        for minor in range(27, 38):
            kubernetes_validate.validate(pod, f"1.{minor}", strict=True)


if __name__ == "__main__":
    unittest.main()
