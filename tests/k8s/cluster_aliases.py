# SPDX-License-Identifier: Apache-2.0
"""Names of other GPU-sharing schemes on a real cluster: what tests/k8s/run does with the webhook."""

import json
import re
import select
import signal
import subprocess

import configuration
from harness import FARCALL, until
from pool_case import GIB, MIB

LIMIT_S = 120
CONFIGURATION = "mutatingwebhookconfiguration/farcall-aliases"
FAMILIES = {  # name -> limits, annotations, memory that the pod sees
    "gpushare": ({"aliyun.com/gpu-mem": 1}, {}, GIB),
    "cgpu": ({"aliyun.com/gpu-mem": 1, "aliyun.com/gpu-core.percentage": 30}, {}, GIB),
    "qgpu": ({"tke.cloud.tencent.com/qgpu-core": 25, "tke.cloud.tencent.com/qgpu-memory": "1Gi"}, {}, GIB),
    "hami": ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 300, "nvidia.com/gpucores": 30}, {}, 300 * MIB),
    "hami-part": ({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 25}, {}, GIB),
    "vcuda": ({"tencent.com/vcuda-core": 30, "tencent.com/vcuda-memory": 2}, {}, 512 * MIB),
    "elastic": ({"elasticgpu.io/gpu-core": 10, "elasticgpu.io/gpu-memory": 256}, {}, 256 * MIB),
    "kai": ({}, {"gpu-memory": "384"}, 384 * MIB),
}  # fmt: skip


class AliasTests:
    """Beside what the class of tests/k8s/run has."""

    @classmethod
    def start_aliases(cls):
        """The webhook as a process of this machine, with the rights of deploy/k8s/aliases."""
        deployed = cls.root / "deploy/k8s/aliases"
        # A certificate of an earlier run would be good for longer than these tests want.
        cls.kubectl("delete", "secret", "farcall-webhook", "-n", "farcall", "--ignore-not-found")
        cls.kubectl("apply", "-f", deployed / "rbac.yaml")
        made = cls.kubectl(
            "create", "--dry-run=client", "-o", "json", "-f", deployed / "configuration.yaml"
        )
        told = json.loads(made)
        for webhook in told["webhooks"]:
            path = webhook["clientConfig"].pop("service")["path"]
            webhook["clientConfig"]["url"] = f"https://127.0.0.1:{configuration.WEBHOOK_PORT}{path}"
        cls.kubectl("apply", "-f", "-", stdin=json.dumps(told))
        (cls.folder / "webhook-account").write_text(cls.account("farcall-webhook"))
        cls.webhooks = []
        cls.addClassCleanup(cls.stop_webhooks)
        cls.start_webhook()
        for name, labels in {
            "aliases": ("farcall.io/aliases=enabled",),
            "optional": ("farcall.io/aliases=enabled", "farcall.io/failure-policy=ignore"),
            "remote": ("farcall.io/remote=enabled",),
            "unlabelled": (),
        }.items():
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            cls.kubectl("apply", "-f", "-", stdin=json.dumps(space))
            if labels:
                cls.kubectl("label", "--overwrite", "namespace", name, *labels)
        cls.addClassCleanup(cls.kubectl, "delete", CONFIGURATION, check=False)

    @classmethod
    def start_webhook(cls, port=configuration.WEBHOOK_PORT, *flags):
        command = [FARCALL, "pool", "k8s", "webhook", "--listen", f"127.0.0.1:{port}"]
        command += ["--host", "127.0.0.1", "--gates", *flags, *cls.api_flags("webhook-account")]
        process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=cls.log, text=True
        )
        cls.webhooks.append(process)
        ready, _, _ = select.select([process.stdout], [], [], LIMIT_S)
        if not ready or "farcall-aliases" not in process.stdout.readline():
            raise AssertionError((cls.folder / "plugin.log").read_text())

    @classmethod
    def stop_webhooks(cls, how=signal.SIGTERM):
        for process in cls.webhooks:
            process.send_signal(how)
            process.wait(timeout=60)
            process.stdout.close()
        cls.webhooks.clear()

    def make_alias(self, name, namespace, limits, annotations=None, change=None, check=True):
        """Makes a pod; what kubectl said, where it may be refused."""
        pod = self.pod_object(name, "stay")
        pod["metadata"] |= {"namespace": namespace, "annotations": annotations or {}}
        pod["spec"]["containers"][0]["resources"]["limits"] = {k: str(v) for k, v in limits.items()}
        if change:
            change(pod)
        self.addCleanup(
            *(self.kubectl, "delete", "pod", name, "-n", namespace),
            *("--ignore-not-found", "--wait=true"),
        )
        if check:
            return self.kubectl("create", "-f", "-", stdin=json.dumps(pod))
        return self.kubectl_error("create", "-f", "-", stdin=json.dumps(pod))

    def test_a_server_that_knows_no_gates_gets_none(self):
        """1.20 does not, and says nothing of a field that it does not know."""
        pod = self.pod_object("ungated", claim="training")
        told = self.kubectl(
            *("create", "-n", "aliases", "--dry-run=server", "-o", "json", "-f", "-"),
            stdin=json.dumps(pod),
        )
        self.assertNotIn("schedulingGates", told)
        self.assertIn("scheduling gates need 1.27", (self.folder / "plugin.log").read_text())

    def limits_of(self, name, namespace):
        told = self.kubectl("get", "pod", name, "-n", namespace, "-o", "json")
        return json.loads(told)["spec"]["containers"][0]["resources"]["limits"]

    def wait_words(self, name, namespace, pattern, *flags):
        def look():
            told = self.kubectl("logs", name, "-n", namespace, *flags, check=False)
            return re.search(pattern, told)

        try:
            return until(look, LIMIT_S, f"{name}: {pattern}")
        except AssertionError as error:
            told = self.kubectl("describe", "pod", name, "-n", namespace)[-2000:]
            raise AssertionError(f"{error}\n{told}") from None

    def test_a_pod_of_each_alias_family_sees_its_quota(self):
        for name, (limits, annotations, memory) in FAMILIES.items():
            with self.subTest(family=name):
                self.make_alias(name, "aliases", limits, annotations)
                self.assertEqual(self.wait_words(name, "aliases", r"memory (\d+)")[1], str(memory))
                self.wait_words(name, "aliases", "round 1")
                told = self.kubectl("get", "pod", name, "-n", "aliases", "-o", "json")
                self.assertEqual(json.loads(told)["status"]["phase"], "Running")
                print(f"  {name}: Running, cuMemGetInfo says {memory // MIB} MiB", flush=True)
                self.kubectl("delete", "pod", name, "-n", "aliases", "--wait=true")

    def test_containers_of_one_pod_have_claims_of_their_own(self):
        def several(pod):
            first = pod["spec"]["containers"][0]
            second = json.loads(json.dumps(first)) | {"name": "second"}
            second["resources"]["limits"] = {"tke.cloud.tencent.com/qgpu-memory": "1"}
            pod["spec"]["containers"].append(second)
            init = json.loads(json.dumps(first)) | {"name": "init", "command": ["/bin/program"]}
            init["resources"]["limits"] = {"nvidia.com/gpumem": "256"}
            pod["spec"]["initContainers"] = [init]

        self.make_alias("several", "aliases", {"nvidia.com/gpumem": 256}, change=several)
        for container, memory in {"init": 256 * MIB, "main": 256 * MIB, "second": GIB}.items():
            told = self.wait_words("several", "aliases", r"memory (\d+)", "-c", container)
            self.assertEqual(told[1], str(memory), container)

    def test_a_pod_that_asks_for_the_nodes_own_gpu_is_untouched(self):
        self.make_alias("native", "aliases", {"nvidia.com/gpu": 1})
        self.assertEqual(self.limits_of("native", "aliases"), {"nvidia.com/gpu": "1"})
        self.make_alias("native", "remote", {"nvidia.com/gpu": 1})
        self.assertEqual(self.limits_of("native", "remote"), {"farcall.io/vgpu": "1"})
        self.wait_words("native", "remote", "round 1")

    def test_a_namespace_without_the_label_is_left_alone(self):
        self.make_alias("plain", "unlabelled", {"aliyun.com/gpu-mem": 1})
        self.assertEqual(self.limits_of("plain", "unlabelled"), {"aliyun.com/gpu-mem": "1"})

    def test_a_wrong_request_is_told_what_would_be_right(self):
        core, memory = "tke.cloud.tencent.com/qgpu-core", "tke.cloud.tencent.com/qgpu-memory"
        for limits, told in (
            ({core: 7, memory: 1}, "qgpu-core '7': it goes in steps of 5; write 5 or 10"),
            ({"nvidia.com/gpumem": "4Gi"}, "it counts MiB; write 4096"),
            ({"nvidia.com/gpumem": "2.5"}, "'2500m': write a whole number of MiB"),
            ({"aliyun.com/gpu-mem": "1000000000000000000"}, "no GPU has that many"),
            ({"aliyun.com/gpu-mem": 1, "nvidia.com/gpucores": 30}, "use those of one"),
        ):
            with self.subTest(told=told):
                said = self.make_alias("wrong", "aliases", limits, check=False)
                self.assertIn("farcall: container main: ", said)
                self.assertIn(told, said)

    def test_without_a_webhook_a_namespace_s_label_decides(self):
        self.stop_webhooks(signal.SIGKILL)
        try:
            said = self.make_alias("down", "aliases", {"aliyun.com/gpu-mem": 1}, check=False)
            self.assertIn("failed calling webhook", said)
            self.make_alias("down", "optional", {"aliyun.com/gpu-mem": 1})
            self.assertEqual(self.limits_of("down", "optional"), {"aliyun.com/gpu-mem": "1"})
        finally:
            self.start_webhook()
        self.make_alias("down", "aliases", {"aliyun.com/gpu-mem": 1})
        self.wait_words("down", "aliases", "round 1")

    def test_a_certificate_is_replaced_while_replicas_serve_the_old_one(self):
        bundle = r"jsonpath={.webhooks[*].clientConfig.caBundle}"
        before = self.kubectl("get", CONFIGURATION, "-o", bundle)
        self.assertEqual(len(set(before.split())), 1)
        # Less than a third of this life is left.
        self.start_webhook(configuration.WEBHOOK_PORT + 1, "--certificate-days", "300")
        after = self.kubectl("get", CONFIGURATION, "-o", bundle)
        self.assertNotEqual(after, before)
        self.make_alias("old", "aliases", {"aliyun.com/gpu-mem": 1})  # the first one answers
        self.stop_webhooks(signal.SIGKILL)
        self.start_webhook(configuration.WEBHOOK_PORT, "--certificate-days", "300")
        self.make_alias("new", "aliases", {"aliyun.com/gpu-mem": 1})
