# SPDX-License-Identifier: Apache-2.0
"""The device plugin: the claims of pods, and what the kubelet and the API server do to them."""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
import api_stub  # noqa: E402
from harness import BUILD, HERE, SERVE, run, until  # noqa: E402
from plugin_case import INVALID, LIVE, NODE, OK, POOL_TOKEN, REFUSED, PluginCase  # noqa: E402
from pool_case import GIB, MIB  # noqa: E402


class Plugin(PluginCase):
    def test_it_registers_and_tells_its_slots(self):
        self.stop_plugin()
        self.kubelet.wait("ended")
        self.start_plugin("--slots", "3", healthy=False)
        told = self.kubelet.wait("devices", healthy=3)
        self.assertEqual((told["unhealthy"], told["first"]), (0, "slot-0"))

    def test_registration_names_the_resource_and_asks_for_the_call_before_a_start(self):
        told = self.registered
        expected = {
            "version": "v1beta1",
            "endpoint": "farcall.sock",
            "resource": "farcall.io/vgpu",
            "pre_start": True,
        }
        self.assertLessEqual(expected.items(), told.items())

    def test_allocate_mounts_the_slots_folder_and_the_libraries(self):
        self.kubelet.do("allocate", ids=["slot-9", "slot-4"])
        told = self.kubelet.wait("allocated")
        self.assertEqual(told["code"], OK, told["message"])
        slot = str(self.folder / "state/slots/4")
        self.assertEqual(
            told["mounts"],
            {
                "/etc/farcall": {"host": slot, "read_only": True},
                "/usr/local/lib/farcall": {"host": str(BUILD / "lib/farcall"), "read_only": True},
            },
        )
        self.assertEqual(told["env"], {"LD_LIBRARY_PATH": "/usr/local/lib/farcall"})
        self.assertTrue(os.path.isdir(slot), "a mount's source has to be there")
        self.assertEqual(os.stat(self.folder / "state").st_mode & 0o777, 0o700)

    def test_devices_that_are_not_ours_are_refused(self):
        for ids in (
            ["slot-64"],
            ["slot-01"],
            ["slot--1"],
            ["gpu0"],
            [],
            ["slot-1", "slot-1"],
            ["slot-99999999999"],
        ):
            self.kubelet.do("allocate", ids=ids)
            told = self.kubelet.wait("allocated")
            self.assertEqual(told["code"], INVALID, (ids, told["message"]))
            self.kubelet.do("prestart", ids=ids, tag="wrong")
            self.started("wrong", INVALID)

    def test_a_container_gets_the_claim_that_its_pod_asks_for(self):
        self.run_pod("train", 5, mem="256Mi", share="25%", limit="50%")
        settings = self.settings(5)
        self.assertEqual(settings["endpoint"], self.pool.endpoint)
        self.assertRegex((self.folder / "state/slots/5/token").read_text(), "^fcc_[0-9a-f]{64}\n$")
        claim = self.claim_at(5)
        self.assertEqual(claim["state"], "bound")
        request = claim["request"]
        self.assertEqual(request["memory_bytes"], str(256 * MIB))
        self.assertEqual((request["share_milli"], request["limit_milli"]), (250, 500))
        self.assertIn("default/train", claim["owner"])
        told = subprocess.run(
            [SERVE, "pool", "list", "--pool", self.pool.url, "--token-file", self.folder / "token"],
            capture_output=True,
            text=True,
        ).stdout
        self.assertIn(f"pod default/train, container main, node {NODE}\n", told)
        # Whatever user a container runs as can read them.
        for name in ("config.toml", "token"):
            self.assertEqual(os.stat(self.folder / f"state/slots/5/{name}").st_mode & 0o777, 0o444)

    def test_a_claim_made_ahead_of_its_pods_binding_is_kept_for_a_while(self):
        """As a scheduler extender makes it."""
        scope = hashlib.sha256(f"0e1b7c1e-cluster/{NODE}".encode()).hexdigest()[:16]
        owner = f"k8s:{scope}:0000-1111:main:default/ahead@{NODE}"
        ahead = self.pool.post("/v1/claims", memory_bytes=str(64 * MIB), owner=owner)["id"]
        pod = self.run_pod("other", 0, mem="64Mi")
        other = self.settings(0)["claim"]
        self.api.delete(pod)  # the plugin looks at all claims then
        until(lambda: other not in self.ids(), 60, "the other one is released")
        self.assertIn(ahead, self.ids())
        until(lambda: ahead not in self.ids(), 90, "its pod never came")

    def ids(self):
        return [claim["id"] for claim in self.live()]

    def test_the_token_in_a_container_opens_its_own_claim_alone(self):
        own = self.run_pod("own", 0, mem="256Mi")
        self.run_pod("other", 1, mem="256Mi")
        token = (self.folder / "state/slots/0/token").read_text().strip()
        bearer = {"Authorization": "Bearer " + token}
        claim, other = self.settings(0)["claim"], self.settings(1)["claim"]
        for method, path in (
            ("GET", "/v1/claims"),
            ("GET", "/v1/hosts"),
            ("GET", "/v1/events"),
            ("GET", "/v1/tokens"),
            ("GET", f"/v1/claims/{claim}"),
            ("GET", f"/v1/claims/{other}"),
            ("DELETE", f"/v1/claims/{claim}"),
            ("DELETE", f"/v1/claims/{other}"),
            ("PATCH", f"/v1/claims/{claim}"),
            ("POST", f"/v1/claims/{claim}:renew"),
            ("POST", "/v1/claims"),
            ("POST", "/v1/tokens"),
        ):
            body = None if method in ("GET", "DELETE") else {}
            status, told = self.pool.call(method, path, body, bearer)
            self.assertEqual((status, told["code"]), (403, "forbidden"), (method, path, told))
        connect = "/v1/claims/{}:connect"
        self.assertEqual(self.pool.call("POST", connect.format(other), {}, bearer)[0], 404)
        self.assertEqual(self.pool.call("POST", connect.format(claim), {}, bearer)[0], 200)
        for wanted, error in (
            (claim, ""),
            (other, f"there is no claim '{other}'"),
            ("", "may only"),
        ):
            environment = {"FARCALL_TOKEN": token, **({"FARCALL_CLAIM": wanted} if wanted else {})}
            program = run(
                self.pool.endpoint,
                sys.executable,
                HERE / "programs/teller.py",
                environment=environment,
            )
            self.assertEqual(program.process.returncode == 0, not error, program.err)
            self.assertIn(error, "\n".join(program.err))
        # It ends with the claim.
        self.api.delete(own)
        until(lambda: len(self.live()) == 1, what="one claim")
        until(
            lambda: self.pool.call("POST", connect.format(claim), {}, bearer)[0] == 401,
            what="the token has ended",
        )

    def test_a_start_whose_devices_went_to_another_pod_fails(self):
        """A pod is deleted while it starts; the kubelet gives its slot to the next one at once."""
        whole = self.run_pod("whole", 0)
        self.hold(self.api.add("first", mem="512Mi"), 3)
        self.prestart(3, tag="first")
        until(lambda: len(self.live()) == 2, what="a claim that waits")
        self.pods.pop()
        self.kubelet.do("allocate", ids=["slot-3"])
        self.kubelet.wait("allocated")
        self.hold(self.api.add("other", mem="256Mi"), 3)
        self.api.delete(whole)
        self.assertIn("was given to another container", self.started("first", REFUSED))
        self.assertEqual(self.settings(3), {})
        self.prestart(3, tag="next")
        self.started("next")
        self.assertEqual(self.claim_at(3)["memory_bytes"], str(256 * MIB))

    def test_two_pods_that_start_at_once_get_their_own_limits(self):
        small = self.api.add("small", mem="1Gi")
        large = self.api.add("large", mem="2Gi")
        self.prestart(0, tag="first")  # before the kubelet says whose they are
        self.prestart(1, tag="second")
        self.hold(large, 0)
        self.hold(small, 1)
        self.started("first")
        self.started("second")
        self.assertEqual(self.claim_at(0)["request"]["memory_bytes"], str(2 * GIB))
        self.assertEqual(self.claim_at(1)["request"]["memory_bytes"], str(1 * GIB))

    def test_it_does_not_guess_between_two_pods_with_one_device(self):
        old = self.api.add("old", mem="1Gi")
        new = self.api.add("new", mem="2Gi")
        self.hold(old, 3)
        self.hold(new, 3)
        self.prestart(3)
        until(lambda: self.api.lists > 0, what="the API server is asked")
        self.assertEqual(self.settings(3), {})
        self.pods = [pod for pod in self.pods if pod["name"] == "new"]
        self.kubelet.do("pods", pods=self.pods)
        self.started()
        self.assertEqual(self.claim_at(3)["request"]["memory_bytes"], str(2 * GIB))

    def test_two_calls_for_one_container_take_turns(self):
        devices = sum(len(host["gpus"]) for host in self.pool.hosts().values())
        other = self.pool.post("/v1/claims", count=devices, owner="other")
        self.assertIn(other["state"], LIVE)
        self.hold(self.api.add("train", mem="1Gi"), 0)
        self.prestart(0, tag="first")
        until(lambda: len(self.live()) == 2, what="the pod's claim waits")
        time.sleep(1)  # the first call waits for the claim, which may have been made ahead of it
        self.prestart(0, tag="second")
        time.sleep(1)
        self.pool.call("DELETE", f"/v1/claims/{other['id']}")
        self.started("first")
        self.started("second")
        self.assertEqual([claim["id"] for claim in self.live()], [self.settings(0)["claim"]])

    def test_a_container_that_starts_again_keeps_its_claim(self):
        self.run_pod("train", 0, mem="1Gi")
        claim = self.settings(0)["claim"]
        self.stop_plugin(signal.SIGKILL)
        self.kubelet.wait("ended")
        self.start_plugin()
        self.prestart(0)
        self.started()
        self.assertEqual(self.settings(0)["claim"], claim)
        self.assertEqual(len(self.live()), 1)

    def test_a_pods_end_releases_its_claim(self):
        for slot, end in enumerate(("delete", "Succeeded", "Failed")):
            pod = self.run_pod(f"pod-{slot}", slot, mem="1Gi")
            self.api.delete(pod) if end == "delete" else self.api.finish(pod, end)
            until(lambda: not self.live(), what=f"no claim after {end}")
            until(lambda s=slot: self.settings(s) == {}, what="an empty folder")
        self.assertFalse((self.folder / "state/slots/0/token").exists())

    def test_a_pod_that_ends_while_the_plugin_is_down_releases_its_claim(self):
        gone = self.run_pod("gone", 0, mem="1Gi")
        self.run_pod("stays", 1, mem="2Gi")
        self.stop_plugin(signal.SIGKILL)
        self.api.delete(gone)
        self.kubelet.wait("ended")
        self.start_plugin()
        until(lambda: len(self.live()) == 1, what="one claim")
        self.assertEqual(self.live()[0]["request"]["memory_bytes"], str(2 * GIB))

    def test_a_pod_of_the_same_name_gets_a_claim_of_its_own(self):
        first = self.run_pod("web-0", 0, mem="1Gi")
        before = self.settings(0)["claim"]
        self.api.delete(first)
        self.pods.clear()
        self.run_pod("web-0", 0, mem="2Gi")
        self.assertNotEqual(self.settings(0)["claim"], before)
        self.assertEqual(self.claim_at(0)["request"]["memory_bytes"], str(2 * GIB))

    def test_several_devices_are_one_claim(self):
        pod = self.api.add("pair", count="2", mem="1Gi")
        self.hold(pod, 7, 2)
        self.prestart(2, 7)
        told = self.kubelet.wait_end("t")
        # The pool's one host has one GPU.
        self.assertEqual(told["code"], REFUSED, told["message"])
        self.assertIn("default/pair", told["message"])
        self.assertEqual(self.live(), [])

    def test_wrong_annotations_are_refused_with_what_would_be_right(self):
        cases = {
            "mem": (
                "0",
                "-1",
                "4",
                "",
                "4 Gi",
                "4GB4",
                "1e9",
                "99999999999999999999",
                "99999999Ti",
            ),
            "share": ("0", "-1", "4", "4Gi", "101%", "0.00001", ""),
            "limit": ("0", "30", "x%", "1000%"),
            "memory": ("4Gi",),
        }
        for slot, (name, value) in enumerate((n, v) for n, values in cases.items() for v in values):
            pod = self.api.add(f"wrong-{slot}", **{name: value})
            self.hold(pod, slot)
            self.prestart(slot)
            said = self.started(code=INVALID)
            self.assertIn(f"default/wrong-{slot}", said)
            self.assertIn(f"farcall.io/{name} '{value}'", said)
            self.assertEqual(self.settings(slot), {})
        self.assertEqual(self.live(), [])

    def test_quantities_are_those_of_kubernetes(self):
        for slot, (text, size) in enumerate(
            (
                ("4Gi", 4 * GIB),
                ("4G", 4 * 10**9),
                ("1.5Gi", 3 * GIB // 2),
                ("512Mi", 512 * MIB),
                ("1073741824", GIB),
                ("4GiB", 4 * GIB),
            )
        ):
            pod = self.run_pod(f"pod-{slot}", slot, mem=text)
            self.assertEqual(self.claim_at(slot)["request"]["memory_bytes"], str(size), text)
            self.api.delete(pod)
            until(lambda: not self.live(), what="no claim")

    def test_more_than_any_gpu_has_is_refused_and_leaves_no_claim(self):
        pod = self.api.add("huge", mem=str(10**18))
        self.hold(pod, 0)
        self.prestart(0)
        self.started(code=REFUSED)
        self.assertEqual(self.live(), [])

    def test_a_limit_below_the_share_is_refused(self):
        pod = self.api.add("odd", mem="1Gi", share="50%", limit="25%")
        self.hold(pod, 0)
        self.prestart(0)
        self.assertIn("farcall.io/limit '25%'", self.started(code=INVALID))

    def test_the_kubelet_starts_again(self):
        self.run_pod("train", 0, mem="1Gi")
        claim = self.settings(0)["claim"]
        self.kubelet.kill()
        self.start_kubelet()
        self.kubelet.wait("registered")
        self.kubelet.wait("devices", unhealthy=0)
        self.prestart(0)
        self.started()
        self.assertEqual(self.settings(0)["claim"], claim)
        self.assertEqual(self.pool.claim(claim)["state"], "bound")

    def test_slots_are_unhealthy_while_the_pool_does_not_answer(self):
        self.run_pod("train", 0, mem="1Gi")
        claim, where = self.settings(0)["claim"], self.pool.addresses()
        self.pool.stop(signal.SIGKILL)
        self.assertEqual(self.kubelet.wait("devices", healthy=0)["unhealthy"], 64)
        self.pool = self.serve(token=POOL_TOKEN, **where)
        self.kubelet.wait("devices", unhealthy=0)
        self.prestart(0)
        self.started()
        self.assertEqual(self.settings(0)["claim"], claim)

    def test_it_waits_for_an_api_server_that_is_down(self):
        pod = self.api.add("train", mem="1Gi")
        self.hold(pod, 0)
        self.api.stop()
        self.prestart(0)
        self.api.start()
        self.started()
        self.assertEqual(self.claim_at(0)["state"], "bound")

    def test_claims_survive_an_api_server_that_is_down(self):
        pod = self.run_pod("train", 0, mem="1Gi")
        self.api.stop()
        self.stop_plugin(signal.SIGKILL)
        self.kubelet.wait("ended")
        self.start_plugin()
        self.assertEqual(len(self.live()), 1)
        self.api.start()
        until(lambda: self.api.lists > 1, 60, "the pods are listed again")
        self.assertEqual(len(self.live()), 1)
        self.api.delete(pod)
        until(lambda: not self.live(), 60, "no claim")

    def test_a_watch_that_is_too_old_begins_anew(self):
        pod = self.run_pod("train", 0, mem="1Gi")
        with self.api.lock:  # the watch is told nothing of the end
            self.api.pods.clear()
        self.api.forget_events()
        until(lambda: not self.live(), what=f"no claim of {pod['metadata']['name']}")

    def test_pods_that_are_not_here_are_refused(self):
        self.hold({"metadata": {"namespace": "default", "name": "unknown"}}, 0)
        self.hold(self.api.add("elsewhere", node="node-2"), 1)
        self.hold(self.api.add("more", count="2"), 2)
        over = self.api.add("over")
        self.hold(over, 3)
        self.api.finish(over)
        for slot, why in enumerate(
            ("not found", "not bound to node node-1", "does not ask for 1", "is over")
        ):
            self.prestart(slot)
            self.assertIn(why, self.started(code=REFUSED))
        until(lambda: not self.live(), what="no claim")  # that of the pod that is over ends with it

    def test_no_log_and_no_environment_has_the_token(self):
        self.run_pod("train", 0, mem="1Gi")
        self.kubelet.do("allocate", ids=["slot-0"])
        self.assertNotIn(POOL_TOKEN, json.dumps(self.kubelet.wait("allocated")))
        self.assertNotIn(POOL_TOKEN, self.log.read_text())
        self.assertNotIn(api_stub.TOKEN, self.log.read_text())
        environment = pathlib.Path(f"/proc/{self.plugin.pid}/environ").read_text()
        self.assertNotIn(POOL_TOKEN, environment)


class Flags(unittest.TestCase):
    def refused(self, *flags):
        done = subprocess.run(
            [SERVE, "pool", "k8s", "plugin", *flags], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_wrong_flags_are_one_line(self):
        api = ("--kube-api", "https://127.0.0.1:1")
        self.assertIn("--node", self.refused())
        self.assertIn("--kube-api", self.refused("--node", "n"))
        self.assertIn("write the node's name", self.refused("--node", "a/b", *api))
        self.assertIn("https://host:port", self.refused("--node", "n", "--kube-api", "http://h:1"))
        self.assertIn(
            "no libcuda.so.1", self.refused("--node", "n", *api, "--libraries", "/nowhere")
        )
        self.assertIn(
            "pools://host:port", self.refused("--node", "n", *api, "--endpoint", "tcp://h:1")
        )
        self.assertIn("whole path", self.refused("--node", "n", *api, "--state", "here"))
        self.assertIn("--slots", self.refused("--node", "n", *api, "--slots", "0"))


if __name__ == "__main__":
    unittest.main()
