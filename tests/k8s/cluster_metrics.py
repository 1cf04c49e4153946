# SPDX-License-Identifier: Apache-2.0
"""External metrics on a real cluster: what tests/k8s/run does with `farcall pool k8s metrics`, behind the API server's
aggregation, and with the autoscaler of a real controller-manager."""

import json
import select
import signal
import socket
import subprocess
import urllib.parse

import configuration
import images
from harness import FARCALL, until
from pool_case import MIB

LIMIT_S = 120
PATH = "/apis/external.metrics.k8s.io/v1beta1"


def own_address():
    """An address of this machine: one of its loopback cannot be an endpoint."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        return probe.getsockname()[0]


class MetricsTests:
    """Beside what the class of tests/k8s/run has."""

    @classmethod
    def start_metrics(cls):
        """The server as a process of this machine, with the rights of deploy/k8s/metrics, behind its Service."""
        deployed = cls.root / "deploy/k8s/metrics"
        cls.kubectl("delete", "secret", "farcall-metrics", "-n", "farcall", "--ignore-not-found")
        for name in ("rbac", "api-service"):
            cls.kubectl("apply", "-f", deployed / f"{name}.yaml")
        cls.addClassCleanup(
            cls.kubectl, "delete", "-f", deployed / "api-service.yaml", "--ignore-not-found"
        )
        named = {
            "apiVersion": "v1",
            "metadata": {"name": "farcall-metrics", "namespace": "farcall"},
        }
        port = {"name": "metrics", "port": configuration.METRICS_PORT}
        called = {"name": "metrics", "port": 443, "targetPort": configuration.METRICS_PORT}
        cls.apply(
            named | {"kind": "Service", "spec": {"ports": [called]}},
            named
            | {
                "kind": "Endpoints",
                "subsets": [{"addresses": [{"ip": own_address()}], "ports": [port]}],
            },
        )
        (cls.folder / "metrics-account").write_text(cls.account("farcall-metrics"))
        cls.start_metrics_server()
        cls.addClassCleanup(lambda: cls.stop_metrics_server(signal.SIGTERM))

    @classmethod
    def start_metrics_server(cls):
        command = [FARCALL, "pool", "k8s", "metrics", "--host", "farcall-metrics.farcall.svc"]
        command += ["--listen", f"0.0.0.0:{configuration.METRICS_PORT}"]
        command += ["--pool", cls.pool.url, "--ca", cls.folder / "ca.pem"]
        command += ["--token-file", cls.folder / "cluster.token"]
        command += cls.api_flags("metrics-account")
        cls.metrics = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=cls.log, text=True
        )
        ready, _, _ = select.select([cls.metrics.stdout], [], [], LIMIT_S)
        if not ready or "farcall: metrics" not in cls.metrics.stdout.readline():
            raise AssertionError((cls.folder / "plugin.log").read_text())
        until(lambda: "farcall_vgpu_use" in cls.raw(""), LIMIT_S, "the API server's aggregation")

    @classmethod
    def stop_metrics_server(cls, how):
        cls.metrics.send_signal(how)
        cls.metrics.wait(timeout=60)
        cls.metrics.stdout.close()

    @classmethod
    def raw(cls, rest):
        return cls.kubectl("get", "--raw", PATH + rest, check=False)

    def metric(self, name, selector=""):
        path = f"/namespaces/default/farcall_{name}"
        told = self.raw(
            path + (f"?labelSelector={urllib.parse.quote(selector)}" if selector else "")
        )
        return json.loads(told)["items"] if told else []

    def total(self, name, selector=""):
        """As an autoscaler adds it up; thousandths of GPUs."""
        values = [item["value"] for item in self.metric(name, selector)]
        return sum(int(value.rstrip("m")) for value in values)

    # ---- tests

    def test_what_a_pod_uses_is_a_metric(self):
        pod = self.pod_object("busy", "work", mem="256Mi", limit="90%")
        pod["metadata"]["labels"] = {"app": "busy"}
        self.kubectl("create", "-f", "-", stdin=json.dumps(pod))
        self.addCleanup(self.delete, "busy")
        try:
            self.wait_log("busy", "round 1")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.logs('busy')}") from None
        until(lambda: self.total("vgpu_memory_quota_bytes") == 256 * MIB, LIMIT_S, "its quota")
        (item,) = self.metric("vgpus", "app=busy,pod in (busy)")
        labels = item["metricLabels"]
        self.assertEqual((labels["pod"], labels["container"]), ("busy", "main"))
        self.assertEqual(item["value"], "1")
        self.assertEqual(self.total("vgpus", "app!=busy"), 0)
        until(lambda: self.total("vgpu_memory_bytes") > 0, LIMIT_S, "its memory")
        until(lambda: self.total("vgpu_use") > 0, LIMIT_S, "its GPU time")
        self.assertEqual(self.total("queue_wait_seconds"), 0)
        said = self.kubectl_error("get", "--raw", PATH + "/namespaces/default/farcall_nothing")
        self.assertIn("there is no metric 'farcall_nothing'", said)
        said = self.kubectl_error(
            "get", "--raw", PATH + "/namespaces/default/farcall_vgpus?labelSelector=a%3D%3D%3Db"
        )
        self.assertIn("labelSelector", said)

    def test_nobody_but_the_api_server_is_answered(self):
        """Without the front proxy's certificate there is no connection."""
        done = subprocess.run(
            ["curl", "-sk", "--max-time", "10", f"https://127.0.0.1:{configuration.METRICS_PORT}{PATH}"],
            capture_output=True, text=True,
        )  # fmt: skip
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")

    def test_an_autoscaler_scales_while_claims_wait(self):
        self.make_replicas("train")
        example = self.root / "examples/k8s/autoscaler-1.20.yaml"
        self.kubectl("apply", "-f", example)
        self.addCleanup(self.kubectl, "delete", "-f", example, "--ignore-not-found")
        self.wait_replicas("train", 1)
        for name in ("first", "second", "third"):
            self.make_claim(name, mem="64Gi")  # more than any GPU has
        until(lambda: self.total("queue_length") == 3, LIMIT_S, "three claims wait")
        until(lambda: self.total("queue_wait_seconds") > 0, LIMIT_S, "how long they wait")
        self.wait_replicas("train", 3)
        # What autoscales goes on where it was, whatever dies.
        self.stop_metrics_server(signal.SIGKILL)
        self.start_metrics_server()
        self.wait_replicas("train", 3)
        for name in ("first", "second", "third"):
            self.delete_claim(name)
        self.wait_replicas("train", 1)
        print(
            "  " + self.kubectl("describe", "hpa", "train").split("Events:")[1].strip(), flush=True
        )

    def make_replicas(self, name):
        labels = {"app": name}
        container = {"name": "main", "image": images.PAUSE, "imagePullPolicy": "Never"}
        pod = {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": [container]}
        self.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name},
                "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                },
            }
        )
        # The cluster has no collector of garbage: whoever made pods removes them.
        self.addCleanup(self.kubectl, "delete", "pod", "-l", f"app={name}", "--wait=true")
        self.addCleanup(
            self.kubectl, "delete", "deployment,replicaset", "-l", f"app={name}", "--wait=true"
        )
        self.addCleanup(self.kubectl, "delete", "deployment", name, "--ignore-not-found")

    def wait_replicas(self, name, count):
        def are_there():
            told = json.loads(self.kubectl("get", "deployment", name, "-o", "json"))
            return told["status"].get("readyReplicas", 0) == told["spec"]["replicas"] == count

        try:
            until(are_there, LIMIT_S, f"{count} replicas")
        except AssertionError as error:
            told = self.kubectl("describe", "hpa,deployment", name, check=False)
            raise AssertionError(f"{error}\n{told}") from None
