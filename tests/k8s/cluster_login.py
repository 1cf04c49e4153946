# SPDX-License-Identifier: Apache-2.0
"""Service accounts of a real cluster that log in at a pool: what tests/k8s/run does with
`farcall pool serve --kube-api` and `farcall login --id-token-file`."""

import json
import os
import subprocess
import tempfile

from harness import FARCALL
from pool_case import Pool

REVIEWER = "farcall-reviewer"


class LoginTests:
    """Beside what the class of tests/k8s/run has."""

    def make_reviewer(self):
        """The account by which a pool makes TokenReviews."""
        self.kubectl("delete", "clusterrolebinding", REVIEWER, "--ignore-not-found")
        self.kubectl("delete", "serviceaccount", REVIEWER, "-n", "farcall", "--ignore-not-found")
        self.kubectl("create", "serviceaccount", REVIEWER, "-n", "farcall")
        role = ("--clusterrole=system:auth-delegator", f"--serviceaccount=farcall:{REVIEWER}")
        self.kubectl("create", "clusterrolebinding", REVIEWER, *role)
        self.addCleanup(self.kubectl, "delete", "clusterrolebinding", REVIEWER)
        (self.folder / "reviewer").write_text(self.account(REVIEWER))

    def account_token(self, audience):
        """Of the account `trainer` of the namespace team-a."""
        path = "/api/v1/namespaces/team-a/serviceaccounts/trainer/token"
        spec = {"audiences": [audience]} if audience else {}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        made = self.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(request))
        return json.loads(made)["status"]["token"]

    def log_in(self, pool, token, home):
        (self.folder / "proof").write_text(token)
        environment = {"HOME": home, "PATH": os.environ["PATH"]}
        command = [FARCALL, "login", pool.url, "--id-token-file", self.folder / "proof"]
        return subprocess.run(
            list(map(str, command)), capture_output=True, text=True, env=environment
        )

    def test_a_service_account_logs_in_at_the_pool(self):
        self.make_reviewer()
        for kind, name in (("namespace", "team-a"), ("serviceaccount", "trainer")):
            told = {"apiVersion": "v1", "kind": kind.title(), "metadata": {"name": name}}
            if kind == "serviceaccount":
                told["kind"] = "ServiceAccount"
                told["metadata"]["namespace"] = "team-a"
            self.kubectl("apply", "-f", "-", stdin=json.dumps(told))
        store = tempfile.TemporaryDirectory()
        self.addCleanup(store.cleanup)
        role = "system:serviceaccounts:team-a=user"
        pool = Pool(
            f"{store.name}/pool.db",
            *("--accounts", *self.api_flags("reviewer"), "--kube-role", role),
        )
        self.addCleanup(pool.stop)
        done = self.log_in(pool, self.account_token("farcall"), store.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("user     k8s_team-a_trainer", done.stdout)
        self.assertIn("role     user", done.stdout)
        # What is for the API server is nobody else's business.
        done = self.log_in(pool, self.account_token(None), store.name)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("audience", done.stderr)
        done = self.log_in(pool, self.account_token("farcall")[:-8] + "AAAAAAAA", store.name)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the cluster does not know this token", done.stderr)
