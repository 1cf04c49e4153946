# SPDX-License-Identifier: Apache-2.0
"""The scheduler extender on a real cluster: what tests/k8s/run does with `farcall pool k8s extender` and a second real
kube-scheduler, which has the policy of deploy/k8s/extender and schedules the pods that name it."""

import json
import re
import select
import signal
import subprocess

import configuration
from harness import FARCALL, until
from pool_case import MIB

LIMIT_S = 120
SCHEDULER = "farcall-scheduler"
ALLOCATION = "k8s.farcall.io/allocation"


class ExtenderTests:
    """Beside what the class of tests/k8s/run has."""

    @classmethod
    def start_extender(cls):
        """Both as processes of this machine; the extender with the rights of deploy/k8s/extender."""
        deployed = cls.root / "deploy/k8s/extender"
        for name in ("rbac", "room"):
            cls.kubectl("apply", "-f", deployed / f"{name}.yaml")
        (cls.folder / "extender-account").write_text(cls.account("farcall-extender"))
        cls.start_extender_process()
        cls.addClassCleanup(lambda: cls.stop_extender(signal.SIGTERM))
        policy = json.loads((deployed / "policy.json").read_text())
        policy["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{configuration.EXTENDER_PORT}"
        (cls.folder / "policy.json").write_text(json.dumps(policy))
        run = cls.run_folder
        command = [
            run.parent / "bin/kube-scheduler",
            f"--kubeconfig={run}/scheduler.kubeconfig",
            f"--scheduler-name={SCHEDULER}",
            f"--policy-config-file={cls.folder}/policy.json",
            "--leader-elect=false",
            "--port=0",
            f"--secure-port={configuration.PORTS['second scheduler']}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={cls.folder}/second-scheduler",
        ]
        log = open(run / "log/second-scheduler.log", "ab")
        cls.addClassCleanup(log.close)
        scheduler = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)
        cls.addClassCleanup(scheduler.wait, 60)
        cls.addClassCleanup(scheduler.terminate)

    @classmethod
    def start_extender_process(cls):
        command = [FARCALL, "pool", "k8s", "extender", "--project-root", "k8s"]
        command += ["--listen", f"127.0.0.1:{configuration.EXTENDER_PORT}"]
        command += ["--pool", cls.pool.url, "--ca", cls.folder / "ca.pem"]
        command += ["--token-file", cls.folder / "cluster.token"]
        command += cls.api_flags("extender-account")
        cls.extender = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=cls.log, text=True
        )
        ready, _, _ = select.select([cls.extender.stdout], [], [], LIMIT_S)
        if not ready or "scheduler extender" not in cls.extender.stdout.readline():
            raise AssertionError((cls.folder / "plugin.log").read_text())

    @classmethod
    def stop_extender(cls, how):
        cls.extender.send_signal(how)
        cls.extender.wait(timeout=60)
        cls.extender.stdout.close()

    def make_scheduled(self, name, *words, **more):
        pod = self.pod_object(name, *words, **more)
        pod["spec"]["schedulerName"] = SCHEDULER
        self.kubectl("create", "-f", "-", stdin=json.dumps(pod))
        self.addCleanup(self.delete, name)

    def allocation(self, name):
        told = self.pod(name)["metadata"]["annotations"].get(ALLOCATION)
        return told and json.loads(told)["main"]

    # ---- tests

    def test_the_extender_binds_a_pod_with_its_claim(self):
        self.make_scheduled("placed", mem="256Mi", limit="50%")
        self.wait_phase("placed", "Succeeded")
        self.assertIn(f"memory {256 * MIB}\n", self.logs("placed"))
        found = re.search(r'claim = "(c-\w+)"', self.logs("placed"))[1]
        told = {"claim": found, "host": "host", "gpus": [0]}
        self.assertEqual(self.allocation("placed"), told)
        self.wait_claims(0)

    def test_a_pod_that_the_pool_has_no_room_for_is_not_bound(self):
        self.make_scheduled("huge", mem="64Gi")
        self.wait_event("huge", "FailedScheduling.*no GPU of the pool can hold it")
        self.assertNotIn("nodeName", self.pod("huge")["spec"])
        self.assertEqual(self.live(), [])

    def test_room_that_comes_free_outside_of_the_cluster_is_heard_of(self):
        """Nothing changes in the cluster meanwhile: a scheduler looks again after 60 s by itself."""
        other = self.pool.post("/v1/claims", memory_bytes=str(3 << 30), wait_ms="20000")
        self.assertEqual(other["state"], "bound")
        self.make_scheduled("waits", "stay", mem="2Gi")
        self.wait_event("waits", "FailedScheduling.*the pool has no room for it now")
        before = self.room()
        self.pool.call("DELETE", "/v1/claims/" + other["id"])
        until(lambda: self.room() != before, LIMIT_S, "the extender tells of room")
        self.wait_log("waits", "round 1")

    def room(self):
        told = json.loads(self.kubectl("get", "csinode", "farcall-room", "-o", "json"))
        return told["metadata"].get("annotations", {}).get("k8s.farcall.io/room")

    def test_pods_that_race_for_the_last_room_are_bound_or_have_nothing(self):
        """Six at once, and room for two; the extender dies amid."""
        names = [f"race-{number}" for number in range(6)]
        for name in names:
            self.make_scheduled(name, "stay", mem="1536Mi")
        self.stop_extender(signal.SIGKILL)
        self.start_extender_process()

        def bound():
            return {name for name in names if self.pod(name)["spec"].get("nodeName")}

        until(lambda: len(bound()) == 2, LIMIT_S, "two are bound")
        first = bound()
        for name in first:
            self.wait_log(name, "round 1")
        self.wait_claims(2)
        claims = {claim["id"] for claim in self.live()}
        self.assertEqual({self.allocation(name)["claim"] for name in first}, claims)
        for name in set(names) - first:
            self.assertNotIn("nodeName", self.pod(name)["spec"])
        gone = first.pop()
        self.delete(gone)
        names.remove(gone)
        until(lambda: len(bound()) == 2, LIMIT_S, "the next one is bound")
        (next_one,) = bound() - first
        self.wait_log(next_one, "round 1")
        self.wait_claims(2)  # those that lose have one while their bind waits for the pool
