# SPDX-License-Identifier: Apache-2.0
"""Claims that the device plugin makes while the kubelet still prepares a pod."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
from harness import until  # noqa: E402
from plugin_case import PluginCase  # noqa: E402
from pool_case import MIB  # noqa: E402


class EarlyClaims(PluginCase):
    def setUp(self):
        super().setUp()
        until(lambda: self.api.watches, what="a watch")  # what a list tells of may be older

    def test_a_pods_claim_is_there_before_its_container_starts(self):
        pod = self.api.add("early", mem="256Mi")
        until(lambda: [claim["state"] for claim in self.live()] == ["bound"], what="its claim")
        before = [claim["id"] for claim in self.live()]
        self.hold(pod, 2)
        self.prestart(2)
        self.started()
        self.assertEqual([self.settings(2)["claim"]], before)
        self.assertEqual([claim["id"] for claim in self.live()], before)

    def test_a_pod_that_never_starts_loses_its_early_claim(self):
        pod = self.api.add("refused", mem="256Mi")
        until(lambda: len(self.live()) == 1, what="its claim")
        self.api.finish(pod, "Failed")
        until(lambda: not self.live(), what="no claim")

    def test_no_claim_is_made_early_that_may_be_there_already_or_is_not_used_yet(self):
        self.api.add("allocated", mem="64Mi", allocation={"k8s.farcall.io/allocation": "{}"})
        first = {"name": "first", "resources": {}}
        self.api.add("steps", mem="64Mi", init=[first])
        self.api.add("elsewhere", mem="64Mi", node="node-2")
        self.api.add("named", claim="training")
        self.api.add("last", mem="128Mi")
        until(lambda: self.live(), what="the last one's claim")
        sizes = [claim["request"]["memory_bytes"] for claim in self.live()]
        self.assertEqual(sizes, [str(128 * MIB)])


if __name__ == "__main__":
    unittest.main()
