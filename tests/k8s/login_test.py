# SPDX-License-Identifier: Apache-2.0
"""Logins of Kubernetes' service accounts at a pool, by TokenReviews of an API server that does what
a test says: who gets in, as whom, with which roles."""

import os
import pathlib
import subprocess
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "session"), str(TESTS / "security")]
import api_stub  # noqa: E402
from accounts_case import AccountsCase  # noqa: E402
from harness import FARCALL  # noqa: E402

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ROLES = ("--kube-role", "system:serviceaccounts:team-a=user@research")


def proof(name):
    return f"head.{name}.signature"


class Logins(AccountsCase):
    def setUp(self):
        super().setUp()
        self.folder = self.store.parent
        self.api = api_stub.ApiStub(self.folder, None)
        self.addCleanup(lambda: self.api.server and self.api.stop())
        self.api.post = self.review
        (self.folder / "account").write_text(api_stub.TOKEN + "\n")
        self.accounts = {}  # token -> status of its review
        self.reviews = []
        self.know("trainer", "team-a")
        self.know("stranger", "team-b")
        self.pool = self.accounts_pool(*self.flags(), *ROLES)
        self.pool.call("PUT", "/v1/projects/research", {})

    def flags(self):
        flags = ("--kube-api", f"https://127.0.0.1:{self.api.port}", "--kube-ca", self.api.files[0])
        return tuple(map(str, (*flags, "--kube-token-file", self.folder / "account")))

    def know(self, name, space, uid=None, **more):
        user = {
            "username": f"system:serviceaccount:{space}:{name}",
            "uid": uid or f"uid-of-{name}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{space}"],
        }
        self.accounts[proof(name)] = {
            "authenticated": True,
            "user": user,
            "audiences": ["farcall"],
        } | more

    def review(self, path, body):
        if path != REVIEWS:
            return 404, {"kind": "Status", "message": path}
        self.reviews.append(body["spec"])
        unknown = {"user": {}, "error": "invalid bearer token"}
        return 201, body | {"status": self.accounts.get(body["spec"]["token"], unknown)}

    def log_in(self, token):
        return self.pool.call("POST", "/v1/login", {"id_token": token}, {"Authorization": ""})

    def refused(self, token, status, words):
        got, told = self.log_in(token)
        self.assertEqual(got, status, told)
        self.assertIn(words, told["message"])

    def test_an_account_is_a_user_with_the_roles_of_its_namespace(self):
        status, told = self.log_in(proof("trainer"))
        self.assertEqual(status, 200, told)
        self.assertEqual(self.reviews, [{"token": proof("trainer"), "audiences": ["farcall"]}])
        who = self.pool.call("GET", "/v1/whoami", headers=self.as_(told["token"]))[1]
        self.assertEqual(who["user"], "k8s_team-a_trainer")
        self.assertEqual(who["roles"], [{"role": "user", "project": "research"}])

    def test_the_command_keeps_a_token_of_the_pool(self):
        (self.folder / "proof").write_text(proof("trainer") + "\n")
        home = self.folder / "home"
        home.mkdir()
        command = [FARCALL, "login", self.pool.url, "--id-token-file", self.folder / "proof"]
        dropped = ("FARCALL_TOKEN", "FARCALL_TOKEN_FILE", "XDG_CONFIG_HOME")
        environment = {key: value for key, value in os.environ.items() if key not in dropped}
        environment["HOME"] = str(home)
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, env=environment
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("user     k8s_team-a_trainer", done.stdout)
        kept = next(home.rglob("pool-login")).read_text()
        self.assertTrue(kept.startswith("fcu_"))
        self.assertNotIn(proof("trainer"), kept)

    def test_who_is_not_proven_does_not_get_in(self):
        self.refused(proof("nobody"), 401, "the cluster does not know this token")
        self.refused(proof("stranger"), 403, "none of the groups of 'k8s_team-b_stranger'")
        asked = len(self.reviews)
        for token in ("", "head.signature", "he ad.x.signature", "a.b." + "c" * 20000):
            self.refused(token, 401, "no token of a Kubernetes service account")
        self.assertEqual(len(self.reviews), asked)  # that is seen without the API server

    def test_a_token_for_another_audience_or_of_a_person_does_not_do(self):
        self.know("other", "team-a", audiences=["https://kubernetes.default.svc"])
        self.refused(proof("other"), 401, "not for audience 'farcall'")
        self.know("old", "team-a", audiences=None)  # of an API server that knows no audiences
        self.refused(proof("old"), 401, "not for audience 'farcall'")
        for name in ("alice", "system:serviceaccount:team-a", "system:serviceaccount:a/b:c"):
            self.accounts[proof("person")] = {
                "authenticated": True,
                "user": {"username": name, "uid": "1", "groups": ["system:serviceaccounts:team-a"]},
                "audiences": ["farcall"],
            }
            self.refused(proof("person"), 401, "is no service account")

    def test_an_account_made_anew_is_not_the_one_of_before(self):
        self.assertEqual(self.log_in(proof("trainer"))[0], 200)
        self.know("trainer", "team-a", uid="another")
        self.refused(proof("trainer"), 409, "is not the one of that name")

    def test_an_api_server_that_is_away_is_said_so(self):
        self.api.stop()
        self.refused(proof("trainer"), 503, "API server")

    def test_wrong_flags_are_told_in_a_line(self):
        for flags, words in (
            (("--kube-role", "a=user"), "need --kube-api"),
            (self.flags(), "--kube-api needs --kube-role"),
            ((*self.flags(), "--kube-role", "a"), "--kube-role: "),
            (("--kube-api", "http://x", *ROLES), "--kube-api: "),
            ((*self.flags(), *ROLES, "--kube-audience", ""), "--kube-audience '': "),
            (("--kube-api", "https://x", "--kube-ca", "/none", *ROLES), "--kube-ca '/none'"),
        ):
            with self.subTest(flags=flags):
                done = subprocess.run(
                    [str(FARCALL), "pool", "serve", "--store", str(self.store) + "2", *flags],
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
