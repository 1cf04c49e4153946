# SPDX-License-Identifier: Apache-2.0
"""The metrics server between an API server that does what a test says and a real pool with a host on the dry device."""

import base64
import hashlib
import json
import os
import pathlib
import select
import ssl
import subprocess
import sys
import unittest
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
import api_stub  # noqa: E402
from harness import FARCALL, SERVE, until  # noqa: E402
from pool_case import MIB, PoolCase  # noqa: E402

GROUP = "/apis/external.metrics.k8s.io/v1beta1"
SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io"
SECRET = "/api/v1/namespaces/farcall/secrets/farcall-metrics"
PROXY = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
POOL_TOKEN = "a-token-of-the-pool"
LIMIT_S = 60


class Metrics(PoolCase):
    def setUp(self):
        super().setUp()
        self.folder = self.store.parent
        self.api = api_stub.ApiStub(self.folder, None)
        self.addCleanup(self.api.stop)
        self.api.objects[SERVICE] = {
            "kind": "APIService",
            "metadata": {},
            "spec": {"version": "v1"},
        }
        self.api.objects[SECRET] = {"kind": "Secret", "metadata": {}}
        self.issue("proxy")
        self.issue("other")
        self.api.objects[PROXY] = {
            "data": {
                "requestheader-client-ca-file": (self.folder / "ca.pem").read_text(),
                "requestheader-allowed-names": '["proxy"]',
            }
        }
        (self.folder / "account").write_text(api_stub.TOKEN + "\n")
        (self.folder / "token").write_text(POOL_TOKEN + "\n")
        self.pool = self.serve(token=POOL_TOKEN)
        self.start_server()

    def issue(self, name):
        flags = ("--dir", self.folder)
        if not (self.folder / "ca.pem").exists():
            subprocess.run([FARCALL, "cert", "init", *flags], check=True, capture_output=True)
        subprocess.run(
            [FARCALL, "cert", "issue", name, "--host", name, *flags],
            check=True,
            capture_output=True,
        )

    def start_server(self):
        command = [
            SERVE,
            "pool",
            "k8s",
            "metrics",
            "--host",
            "127.0.0.1",
            "--listen",
            "127.0.0.1:0",
        ]
        command += ["--pool", self.pool.url, "--token-file", self.folder / "token"]
        command += ["--kube-api", f"https://127.0.0.1:{self.api.port}"]
        command += ["--kube-ca", self.api.files[0], "--kube-token-file", self.folder / "account"]
        environment = {key: value for key, value in os.environ.items() if key != "FARCALL_TOKEN"}
        self.log = open(self.folder / "metrics.log", "ab")
        self.addCleanup(self.log.close)
        self.server = subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment,
            text=True,
        )
        self.addCleanup(self.stop_server)
        ready, _, _ = select.select([self.server.stdout], [], [], LIMIT_S)
        self.assertTrue(ready, (self.folder / "metrics.log").read_text())
        self.port = int(self.server.stdout.readline().rsplit(":", 1)[1])

    def stop_server(self):
        self.server.terminate()
        self.assertEqual(self.server.wait(timeout=60), 0)
        self.server.stdout.close()

    def ask(self, path, shown="proxy"):
        """(status, object), as the API server asks: it believes what the APIService says."""
        bundle = base64.b64decode(self.api.objects[SERVICE]["spec"]["caBundle"]).decode()
        trust = ssl.create_default_context(cadata=bundle)
        if shown:
            trust.load_cert_chain(self.folder / f"{shown}.pem", self.folder / f"{shown}.key")
        url = f"https://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, context=trust, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def value(self, metric, selector=""):
        status, told = self.ask(
            f"{GROUP}/namespaces/default/{metric}?labelSelector={urllib.parse.quote(selector)}"
        )
        self.assertEqual(status, 200, told)
        return [item["value"] for item in told["items"]]

    # ---- tests

    def test_the_api_server_alone_is_answered(self):
        status, told = self.ask(GROUP)
        self.assertEqual((status, told["kind"]), (200, "APIResourceList"))
        self.assertIn("farcall_vgpu_use", [one["name"] for one in told["resources"]])
        # The same authority signed it, for another.
        status, told = self.ask(GROUP, "other")
        self.assertEqual((status, told["reason"]), (403, "Forbidden"))
        with self.assertRaises((urllib.error.URLError, OSError)):
            self.ask(GROUP, None)

    def test_a_pods_claim_is_found_by_the_pods_labels(self):
        pod = self.api.add("train", node="node-1", mem="64Mi")
        pod["metadata"]["labels"] = {"app": "train"}
        self.api.finish(pod, "Running")  # labels and all
        self.assertEqual(self.value("farcall_vgpus"), ["0"])
        self.assertEqual(self.value("farcall_queue_length"), ["0"])
        # As a plugin of that node asks for it.
        owner = self.owner("node-1", pod["metadata"]["uid"], "default/train@node-1")
        self.pool.post("/v1/claims", memory_bytes=str(64 * MIB), owner=owner)
        until(lambda: self.value("farcall_queue_length") == ["1"], LIMIT_S, "it waits")
        self.assertEqual(self.value("farcall_queue_length", "app in (train)"), ["1"])
        self.assertEqual(self.value("farcall_queue_length", "app!=train"), ["0"])
        self.host(self.pool, "host", "--pool-token-file", self.join_token(self.pool), device="dry")
        until(lambda: self.value("farcall_vgpus", "app=train") == ["1"], LIMIT_S, "it is bound")
        quota = self.value("farcall_vgpu_memory_quota_bytes")
        self.assertEqual(quota, [str(64 * MIB)])
        self.api.delete(pod)  # nobody's of this cluster any more
        until(lambda: self.value("farcall_vgpus") == ["0"], LIMIT_S, "it has gone")

    @staticmethod
    def owner(node, uid, end):
        scope = hashlib.sha256(f"0e1b7c1e-cluster/{node}".encode()).hexdigest()[:16]
        return f"k8s:{scope}:{uid}:main:{end}"

    def test_what_cannot_be_told_is_refused(self):
        status, told = self.ask(f"{GROUP}/namespaces/default/farcall_nothing")
        self.assertEqual(
            (status, told["message"]), (404, "farcall: there is no metric 'farcall_nothing'")
        )
        status, told = self.ask(f"{GROUP}/namespaces/default/farcall_vgpus?labelSelector=a%20in")
        self.assertEqual(status, 400, told)
        self.assertIn("labelSelector", told["message"])
        self.pool.stop()  # an autoscaler then leaves all as it is
        path = f"{GROUP}/namespaces/default/farcall_vgpus"
        until(lambda: self.ask(path)[0] == 503, LIMIT_S, "503")

    def test_requests_to_the_api_server_share_a_connection(self):
        """Of six that read, two watch pods, and two may be late enough for a new one."""
        self.assertEqual(self.value("farcall_vgpus"), ["0"])
        self.assertLessEqual(len(self.api.connections), 4, self.api.connections)


if __name__ == "__main__":
    unittest.main(verbosity=2)
