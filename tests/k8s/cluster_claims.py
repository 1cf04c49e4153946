# SPDX-License-Identifier: Apache-2.0
"""VGPUClaims on a real cluster: what tests/k8s/run does with the controller."""

import json
import os
import re
import select
import signal
import subprocess

import processes
from harness import FARCALL, until
from pool_case import GIB, MIB

LIMIT_S = 120
LEASE_S = 6


class ClaimTests:
    """Beside what the class of tests/k8s/run has."""

    @classmethod
    def start_claims(cls):
        """The controller as a process of this machine, with the rights of deploy/k8s/claims."""
        deployed = cls.root / "deploy/k8s/claims"
        for folder in (deployed, deployed.with_name("elastic-gpu")):
            for name in ("claim", "class", "rbac"):
                cls.kubectl("apply", "-f", folder / f"{name}.yaml")
        cls.kubectl("apply", "-f", deployed.with_name("elastic-gpu") / "gpu.yaml")
        for name in (
            "vgpuclaims.farcall",
            "vgpuclasses.farcall",
            "elasticgpuclaims.elasticgpu",
            "elasticgpuclasses.elasticgpu",
            "elasticgpus.elasticgpu",
        ):
            crd = f"crd/{name}.io"
            cls.kubectl("wait", "--for=condition=Established", "--timeout=60s", crd)
        (cls.folder / "controller-account").write_text(cls.account("farcall-controller"))
        cls.controller_log = open(cls.folder / "controller.log", "ab")
        cls.addClassCleanup(cls.controller_log.close)
        cls.controllers = []
        cls.addClassCleanup(cls.stop_controllers)
        cls.start_controller()
        for name, spec in {
            "late": {"bindingMode": "WaitForFirstConsumer"},
            "kept": {"reclaimPolicy": "Retain", "bindingMode": "WaitForFirstConsumer"},
            "small": {"parameters": {"mem": "128Mi", "limit": "50%"}},
            "others": {"provisioner": "example.com/other"},
        }.items():
            cls.apply({"kind": "VGPUClass", "metadata": {"name": name}, "spec": spec})

    @classmethod
    def start_controller(cls, leads=True):
        command = [
            FARCALL,
            "pool",
            "k8s",
            "controller",
            "--lease-seconds",
            LEASE_S,
            "--elastic-gpu",
        ]
        command += ["--pool", cls.pool.url, "--ca", cls.folder / "ca.pem", "--project-root", "k8s"]
        command += [
            "--token-file",
            cls.folder / "cluster.token",
            *cls.api_flags("controller-account"),
        ]
        process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=cls.controller_log, text=True
        )
        cls.controllers.append(process)
        if leads:
            cls.wait_leads(process)
        return process

    @classmethod
    def wait_leads(cls, process):
        ready, _, _ = select.select([process.stdout], [], [], LIMIT_S)
        if not ready or "controller leads" not in process.stdout.readline():
            raise AssertionError(cls.controller_words())

    @classmethod
    def controller_words(cls):
        return (cls.folder / "controller.log").read_text()

    @classmethod
    def stop_controllers(cls, how=signal.SIGTERM):
        for process in cls.controllers:
            process.send_signal(how)
            process.wait(timeout=60)
            process.stdout.close()
        cls.controllers.clear()

    @classmethod
    def apply(cls, *objects):
        for made in objects:
            told = {"apiVersion": "farcall.io/v1alpha1"} | made
            cls.kubectl("apply", "-f", "-", stdin=json.dumps(told))

    def make_claim(self, name, namespace="default", **spec):
        self.apply(
            {
                "kind": "VGPUClaim",
                "metadata": {"name": name, "namespace": namespace},
                "spec": spec,
            }
        )
        self.addCleanup(self.delete_claim, name, namespace)

    def delete_claim(self, name, namespace="default"):
        """Its finalizer has gone when this is back."""
        words = ("delete", "vgpuclaim", name, "-n", namespace)
        self.kubectl(*words, "--ignore-not-found", "--timeout=60s")

    def vgpu(self, name, namespace="default"):
        told = self.kubectl("get", "vgpuclaim", name, "-n", namespace, "-o", "json")
        return json.loads(told).get("status", {})

    def wait_claim(self, name, phase, namespace="default", reason="", pod=None):
        def reached():
            told = self.vgpu(name, namespace)
            is_there = told.get("phase") == phase and reason in told.get("reason", "")
            if pod is not None:
                is_there = is_there and told.get("pod", {}).get("name", "") == pod
            return told if is_there else None

        try:
            return until(reached, LIMIT_S, f"VGPUClaim {name}: {phase} {reason}")
        except AssertionError as error:
            raise AssertionError(
                f"{error}\n{self.vgpu(name, namespace)}\n{self.controller_words()[-2000:]}"
            ) from None

    def make_unstarted(self, name, **annotations):
        """A pod that never starts: the kubelet of this version takes minutes to let go of one."""
        self.make(name, **annotations)
        self.addCleanup(
            self.kubectl, "delete", "pod", name, "--force", "--grace-period=0", "--ignore-not-found"
        )

    def wait_event(self, pod, pattern):
        return until(
            lambda: re.search(pattern, self.kubectl("describe", "pod", pod)), LIMIT_S, pattern
        )

    # ---- tests

    def test_a_claim_is_bound_used_by_a_pod_and_released_with_it(self):
        self.make_claim("data", mem="256Mi", limit="50%")
        bound = self.wait_claim("data", "Bound")
        self.assertEqual((bound["host"], bound["gpus"], bound["mem"]), ("host", [0], "256Mi"))
        self.make("user", "stay", claim="data")
        self.assertEqual(self.wait_log("user", r"memory (\d+)")[1], str(256 * MIB))
        self.wait_event("user", rf"VGPUClaimBound.*claim {bound['claim']} of the pool on host host")
        columns = self.kubectl("get", "vgpuclaims", "data").splitlines()
        self.assertEqual(
            columns[0].split(), ["NAME", "PHASE", "HOST", "GPUS", "MEM", "POD", "CLASS", "AGE"]
        )
        self.assertEqual(columns[1].split()[:6], ["data", "Bound", "host", "[0]", "256Mi", "user"])
        self.assertEqual([claim["id"] for claim in self.live()], [bound["claim"]])
        self.delete("user")
        self.wait_claim("data", "Released")
        self.wait_claims(0)
        self.make("user", "stay", claim="data")  # the next pod has a claim of its own
        self.wait_log("user", "round 1")
        self.assertNotEqual(self.wait_claim("data", "Bound")["claim"], bound["claim"])

    def test_a_claim_that_is_kept_waits_for_its_first_pod_and_outlives_it(self):
        self.make_claim("kept", className="kept", mem="256Mi")
        self.wait_claim("kept", "Pending", reason="waits for a pod")
        self.assertEqual(self.live(), [])
        self.make("first", claim="kept")
        self.wait_phase("first", "Succeeded")
        bound = self.wait_claim("kept", "Bound", pod="")
        self.make("second", claim="kept")
        self.wait_phase("second", "Succeeded")
        self.assertEqual(self.wait_claim("kept", "Bound", pod="")["claim"], bound["claim"])
        self.assertIn(f'claim = "{bound["claim"]}"', self.logs("second"))
        self.delete_claim("kept")
        self.wait_claims(0)

    def test_a_class_says_what_a_claim_does_not(self):
        self.make_claim("of-class", className="small")
        self.assertEqual(self.wait_claim("of-class", "Bound")["mem"], "128Mi")
        self.make_claim("others", className="others")
        self.make_claim("nowhere", className="nowhere")
        self.wait_claim("nowhere", "Failed", reason="there is no VGPUClass 'nowhere'")
        self.assertEqual(self.vgpu("others"), {})

    def test_two_pods_take_turns_with_one_claim(self):
        self.make_claim("shared", mem="256Mi")
        self.make("one", "stay", claim="shared")
        self.wait_log("one", "round 1")
        self.make("two", "stay", claim="shared")
        self.wait_event("two", "VGPUClaimInUse.*pod one has it")
        self.assertEqual(len(self.live()), 1)
        self.wait_round("one")
        self.delete("one")
        self.wait_claim("shared", "Bound", pod="two")
        self.wait_log("two", "round 1")
        self.assertEqual(len(self.live()), 1)

    def test_why_a_claim_waits_is_told_by_the_pods_events(self):
        self.make_claim("large", className="late", mem="64Gi")
        self.make("waits", claim="large")
        self.wait_claim("large", "Pending", reason="no GPU of the pool can hold the claim")
        self.wait_event("waits", "VGPUClaimWaiting.*no GPU of the pool can hold the claim")
        self.delete("waits")  # while it is pending
        self.wait_claim("large", "Released")
        self.wait_claims(0)

    def test_a_claim_of_another_namespace_cannot_be_named(self):
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "victim"}})
        self.make_claim("theirs", "victim", mem="256Mi")
        theirs = self.wait_claim("theirs", "Bound", "victim")
        self.make_unstarted("forged", claim="victim/theirs")
        self.wait_event("forged", "annotation farcall.io/claim 'victim/theirs'")
        self.make_unstarted("absent", claim="theirs")
        self.wait_event("absent", "there is no VGPUClaim default/theirs")
        # A status that names it: nobody but the controller may write one, and it is not believed.
        self.make_claim("bait", className="late", mem="256Mi")
        self.wait_claim("bait", "Pending")
        self.stop_controllers(signal.SIGKILL)
        try:
            self.make("liar", claim="bait")
            uid = self.pod("liar")["metadata"]["uid"]
            path = "/apis/farcall.io/v1alpha1/namespaces/default/vgpuclaims/bait"
            told = json.loads(self.kubectl("get", "--raw", path))
            told["status"] = {
                "phase": "Bound",
                "claim": theirs["claim"],
                "pod": {"name": "liar", "uid": uid},
            }
            self.kubectl("replace", "--raw", path + "/status", "-f", "-", stdin=json.dumps(told))
            self.wait_event("liar", f"names claim {theirs['claim']}, which is not its own")
        finally:
            self.start_controller()
        self.wait_phase("liar", "Succeeded")  # with a claim of its own, once that is put right
        self.assertEqual(self.wait_claim("theirs", "Bound", "victim"), theirs)

    def test_a_claim_is_changed_while_it_is_used(self):
        self.make_claim("grows", mem="256Mi")
        self.make("user", "stay", claim="grows")
        self.wait_log("user", "round 1")
        change = json.dumps({"spec": {"mem": "1Gi", "limit": "50%"}})
        self.kubectl("patch", "vgpuclaim", "grows", "--type=merge", "-p", change)
        until(lambda: self.vgpu("grows").get("mem") == "1Gi", LIMIT_S, "1Gi")
        claim = self.pool.claim(self.vgpu("grows")["claim"])
        self.assertEqual((claim["memory_bytes"], claim["request"]["limit_milli"]), (str(GIB), 500))
        change = json.dumps({"spec": {"mem": "64Gi"}})
        self.kubectl("patch", "vgpuclaim", "grows", "--type=merge", "-p", change)
        self.assertEqual(self.wait_claim("grows", "Bound", reason="not changed")["mem"], "1Gi")
        self.wait_round("user")

    def test_claims_are_in_the_project_of_their_namespace(self):
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
        self.make_claim("of-team", "team-a", mem="128Mi")
        self.wait_claim("of-team", "Bound", "team-a")
        self.make_claim("of-nobody", mem="192Mi")
        self.wait_claim("of-nobody", "Bound")
        self.make("own", "stay", mem="256Mi")  # the plugin's own
        self.wait_log("own", "round 1")
        projects = {int(claim["memory_bytes"]) // MIB: claim["project"] for claim in self.live()}
        self.assertEqual(projects, {128: "k8s/team-a", 192: "k8s", 256: "k8s"})

    def test_an_elastic_gpu_claim_in_every_spelling_is_bound_and_used(self):
        """The first is as articles about elastic GPUs have it, apiVersion v1alpha included."""
        qgpu = "tke.cloud.tencent.com/qgpu-"
        for name, version, of_class, resources, memory in (
            (
                "article",
                "v1alpha",
                "storageClassName",
                {qgpu + "core": 10, qgpu + "memory": "1GB"},
                GIB,
            ),
            (
                "readme",
                "v1alpha1",
                "egpuClassName",
                {
                    "gpushare.provisioner.elasticgpu.io/gpu-core": 10,
                    "gpushare.provisioner.elasticgpu.io/gpu-memory": 1,
                },
                GIB,
            ),
            (
                "schema",
                "v1alpha1",
                "elasticGPUClassName",
                {"elasticgpu.io/gpu-memory": 256},
                256 * MIB,
            ),
        ):
            with self.subTest(spelling=name):
                made = {"apiVersion": f"elasticgpu.io/{version}", "metadata": {"name": name}}
                self.apply(
                    made
                    | {"kind": "ElasticGPUClass", "provisioner": "elasticgpu.io/qgpu"}
                    | {"reclaimPolicy": "Retain", "eGPUBindingMode": "Immediate"},
                    made
                    | {"kind": "ElasticGPUClaim"}
                    | {"spec": {of_class: name, "resources": {"requests": resources}, "note": "x"}},
                )
                self.addCleanup(
                    self.kubectl, "delete", "elasticgpuclaim", name, "--ignore-not-found"
                )
                self.make_elastic(name)
                self.assertEqual(self.wait_log(name, r"memory (\d+)")[1], str(memory))
                self.wait_log(name, "round 1")
                self.wait_event(name, f"VGPUClaimBound.*ElasticGPUClaim {name}: claim c-")
                told = json.loads(self.kubectl("get", "elasticgpuclaim", name, "-o", "json"))
                self.assertEqual((told["status"]["phase"], told["spec"]["note"]), ("Bound", "x"))
                print(f"  ElasticGPUClaim {name}: {told['status']}", flush=True)
                self.kubectl("delete", "pod", name, "-n", "default", "--wait=true")
                self.kubectl("delete", "elasticgpuclaim", name, "--timeout=60s")
                self.wait_claims(0)

    def gpus(self):
        """name -> ElasticGPU."""
        items = json.loads(self.kubectl("get", "elasticgpus", "-o", "json"))["items"]
        return {item["metadata"]["name"]: item for item in items}

    def test_elastic_gpus_show_the_cards_and_who_has_what(self):
        card = until(lambda: self.gpus().get("host-gpu-0"), LIMIT_S, "the card")
        self.assertEqual(card["spec"]["capacity"]["elasticgpu.io/gpu-memory"], "4Gi")
        self.assertIn("CPU Device", card["spec"]["elasticGPUSource"]["physicalGPU"]["model"])
        until(lambda: self.gpus()["host-gpu-0"]["status"]["phase"] == "Available", LIMIT_S, "free")
        self.kubectl("delete", "elasticgpu", "host-gpu-0")  # by somebody, for which it is no reason
        self.make_claim("sliced", mem="256Mi")
        claim = self.wait_claim("sliced", "Bound")["claim"]
        slice_ = until(lambda: self.gpus().get(f"{claim}-0"), LIMIT_S, "the slice")
        self.assertEqual(slice_["spec"]["claimRef"]["name"], "sliced")
        self.assertEqual(slice_["spec"]["elasticGPUSource"], {"gpuShare": {"gpu": "host-gpu-0"}})
        until(lambda: self.gpus()["host-gpu-0"]["status"]["phase"] == "Bound", LIMIT_S, "taken")
        used = self.gpus()["host-gpu-0"]["status"]["used"]["elasticgpu.io/gpu-memory"]
        self.assertEqual(used, "256Mi")
        print("  " + self.kubectl("get", "elasticgpus").replace("\n", "\n  "), flush=True)
        self.delete_claim("sliced")
        until(lambda: set(self.gpus()) == {"host-gpu-0"}, LIMIT_S, "no slice")

    def make_elastic(self, name):
        """As articles have it: the container asks for nothing, and the webhook adds a place."""
        pod = self.pod_object(name, "stay", count=0)
        key = "egpuc.elasticgpu.io/main" if name == "readme" else "elasticgpu.io/egpuc-main"
        pod["metadata"]["annotations"] = {key: name}
        self.kubectl("label", "--overwrite", "namespace", "default", "farcall.io/aliases=enabled")
        self.addCleanup(self.kubectl, "label", "namespace", "default", "farcall.io/aliases-")
        self.kubectl("create", "-f", "-", stdin=json.dumps(pod))
        self.addCleanup(self.delete, name)

    def test_every_overlay_is_one_for_the_real_server(self):
        for overlay in sorted((self.root / "deploy/k8s").iterdir()):
            with self.subTest(overlay=overlay.name):
                made = self.kubectl("kustomize", overlay)
                newer = ("apiVersion: policy/v1\n", "apiVersion: resource.k8s.io/v1\n")  # than 1.20
                parts = [
                    part
                    for part in made.split("\n---\n")
                    if not any(line in part + "\n" for line in newer)
                ]
                self.kubectl("apply", "--dry-run=server", "-f", "-", stdin="\n---\n".join(parts))
        self.assertIn(
            "--elastic-gpu", self.kubectl("kustomize", self.root / "deploy/k8s/elastic-gpu")
        )
        self.assertIn("--gates", self.kubectl("kustomize", self.root / "deploy/k8s/gates"))

    def test_deleting_a_claim_ends_it(self):
        self.make_claim("gone", mem="256Mi")
        self.make("user", "stay", claim="gone")
        self.wait_log("user", "round 1")
        self.delete_claim("gone")
        self.wait_claims(0)

    def test_a_controller_that_dies_between_bind_and_status_leaks_nothing(self):
        self.pool.post("/v1/hosts/host:cordon")
        try:
            self.make_claim("binds", mem="256Mi")
            waiting = self.wait_claim("binds", "Pending", reason="waits in the pool")
            # From here no controller hears of anything, while the pool binds. Were it the API server
            # that stands still, it would find their last word on a connection that is open.
            for controller in self.controllers:
                controller.send_signal(signal.SIGSTOP)
            self.pool.post("/v1/hosts/host:uncordon")
            until(lambda: self.live()[0]["state"] == "bound", LIMIT_S, "bound")
            self.stop_controllers(signal.SIGKILL)
        finally:
            for controller in self.controllers:
                controller.send_signal(signal.SIGCONT)
            self.pool.post("/v1/hosts/host:uncordon")
        self.assertEqual(self.vgpu("binds")["phase"], "Pending")
        self.start_controller()
        self.assertEqual(self.wait_claim("binds", "Bound")["claim"], waiting["claim"])
        self.assertEqual(len(self.live()), 1)

    def test_what_ends_while_no_controller_runs_is_released(self):
        self.make_claim("pod-goes", mem="256Mi")
        self.make_claim("claim-goes", mem="256Mi")
        self.make_claim("stays", mem="256Mi")
        for name in ("pod-goes", "stays"):
            self.make(name, "stay", claim=name)
            self.wait_log(name, "round 1")
        self.wait_claim("claim-goes", "Bound")
        self.stop_controllers(signal.SIGKILL)
        self.delete("pod-goes")
        self.kubectl("delete", "vgpuclaim", "claim-goes", "--wait=false")
        # And one whose finalizer somebody removes.
        self.make_claim("forced", mem="256Mi")
        self.wait_round("stays")
        self.start_controller()
        self.wait_claim("pod-goes", "Released")
        self.wait_claim("forced", "Bound")
        self.wait_claims(2)
        self.stop_controllers(signal.SIGKILL)
        self.kubectl(
            "patch", "vgpuclaim", "forced", "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
        )
        self.delete_claim("forced")
        self.start_controller()
        self.wait_claims(1)
        self.wait_round("stays")

    def test_another_controller_follows_one_that_dies(self):
        first = self.controllers[0]
        second = self.start_controller(leads=False)
        self.make_claim("one", mem="256Mi")
        self.wait_claim("one", "Bound")
        first.kill()
        first.wait(timeout=60)
        first.stdout.close()
        self.controllers.remove(first)
        self.wait_leads(second)
        self.make_claim("two", mem="256Mi")
        self.wait_claim("two", "Bound")
        self.assertEqual(len(self.live()), 2)

    def test_an_api_server_that_is_away_ends_no_session(self):
        self.make_claim("stays", mem="256Mi")
        self.make("stays", "stay", claim="stays")
        self.wait_log("stays", "round 1")
        before = self.wait_claim("stays", "Bound")
        said = len(self.controller_words())
        self.signal_component("kube-apiserver", signal.SIGSTOP)
        try:
            until(lambda: "leads no more" in self.controller_words()[said:], LIMIT_S, "no leader")
            self.assertEqual([claim["id"] for claim in self.live()], [before["claim"]])
        finally:
            self.signal_component("kube-apiserver", signal.SIGCONT)
        self.wait_leads(self.controllers[0])
        self.make_claim("next", mem="256Mi")
        self.wait_claim("next", "Bound")
        self.assertEqual(self.wait_claim("stays", "Bound"), before)
        self.wait_round("stays")

    def test_a_version_that_the_api_server_has_forgotten_is_listed_again(self):
        """A controller that slept while the server began anew hears 410 Gone."""
        self.make_claim("old", mem="256Mi")
        self.wait_claim("old", "Bound")
        said = len(self.controller_words())
        self.controllers[0].send_signal(signal.SIGSTOP)
        try:
            self.kubectl("delete", "vgpuclaim", "old", "--wait=false")
            self.make_claim("new", mem="256Mi")
            self.assertEqual(self.cluster("restart", "kube-apiserver").returncode, 0)
            until(
                lambda: self.kubectl("get", "--raw", "/readyz", check=False) == "ok",
                LIMIT_S,
                "API server",
            )
            self.kubectl("label", "vgpuclaim", "new", "farcall.io/test=1")
        finally:
            self.controllers[0].send_signal(signal.SIGCONT)
        self.wait_claim("new", "Bound")
        self.wait_claims(1)
        until(lambda: "(410)" in self.controller_words()[said:], LIMIT_S, "410")

    def signal_component(self, name, how):
        os.kill(processes.running(self.run_folder, name), how)
