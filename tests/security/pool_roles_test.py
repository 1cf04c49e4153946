# SPDX-License-Identifier: Apache-2.0
"""Roles of a pool's users: which verb asks for which, on every REST route, and what a lost role ends."""

import unittest
import urllib.request

from pool_case import MIB
from accounts_case import LEAST, NONE, ROLES, AccountsCase


def may(role, least):
    if least == "anybody" or (least == "caller" and role is not None):
        return True
    return role in ROLES and least in ROLES and ROLES.index(role) >= ROLES.index(least)


class Roles(AccountsCase):
    def test_every_route_asks_for_its_role(self):
        pool = self.accounts_pool()
        self.join(pool)
        listed = {
            f"{method.upper()} {path}"
            for path, methods in pool.get("/openapi.json")["paths"].items()
            for method in methods
        }
        self.assertEqual(listed - set(LEAST), set(), "a route that this table does not know")
        tokens = {role: self.user(pool, "u-" + role, role) for role in ROLES}
        tokens[NONE] = self.user(pool, "u-none")
        tokens[None] = None
        own = {}
        for role, token in tokens.items():
            if role not in (None, "user", "admin", "operator"):  # while it may
                pool.post(f"/v1/users/u-{role}:grant", role="user")
            if token:
                own[role] = self.claim_of(pool, token)
            if role not in (None, "user", "admin", "operator"):
                pool.post(f"/v1/users/u-{role}:revoke", role="user")
        for route, least in LEAST.items():
            method, path = route.split(" ")
            for role, token in tokens.items():
                at = path
                if "/claims/" in path:
                    at = path.replace("{id}", own.get(role, "c-0"))
                else:
                    at = path.replace("{id}", "nobody").replace("{project}", "nothing")
                if at in ("/healthz", "/readyz", "/metrics") or "watch" in at:
                    status = self.status_of(pool, at, token)
                else:
                    body = None if method in ("GET", "DELETE") else {}
                    if route == "POST /v1/claims":
                        body = {"memory_bytes": "1"}
                    if method == "DELETE" and "/claims/" in path:
                        at = "/v1/claims/c-0"  # not the one that others of these are asked for
                    headers = {"Authorization": "Bearer " + token if token else ""}
                    status = pool.call(method, at, body, headers)[0]
                if may(role, least):
                    # Join shows a wrong token.
                    refused = status in (401, 403) and path != "/v1/join"
                    # Roles are an admin's in its own projects.
                    self.assertFalse(refused and ":grant" not in route, (route, role, status))
                else:
                    self.assertEqual(status, 401 if role is None else 403, (route, role))

    def status_of(self, pool, path, token):
        headers = self.as_(token) if token else {}
        try:
            request = urllib.request.Request(pool.url + path, headers=headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def test_others_claims_are_an_admins_and_an_operators(self):
        pool = self.accounts_pool()
        self.join(pool)
        alice, bob = self.user(pool, "alice", "user"), self.user(pool, "bob", "user")
        viewer, admin = self.user(pool, "eve", "viewer"), self.user(pool, "ann", "admin")
        self.projects(pool, "elsewhere")
        elsewhere = self.user(pool, "ed", "admin@elsewhere")
        claim = self.claim_of(pool, alice, wait_ms="20000")
        path = "/v1/claims/" + claim

        def ask(token):
            return [
                pool.call(method, path + verb, body, self.as_(token))[0]
                for method, verb, body in (
                    ("GET", "", None),
                    ("POST", ":explain", {}),
                    ("POST", ":renew", {}),
                    ("PATCH", "", {"share_milli": 10}),
                    ("POST", ":connect", {}),
                )
            ]

        self.assertEqual(ask(alice), [200] * 5)
        self.assertEqual(ask(elsewhere), [404] * 5)
        self.assertEqual(ask(viewer), [200, 200, 403, 403, 403])
        self.assertEqual(ask(admin), [200] * 5)
        self.assertEqual(ask(self.operator), [200] * 5)
        for token in (bob, viewer):
            self.assertNotEqual(
                self.program(pool, token, FARCALL_CLAIM=claim).process.returncode, 0
            )
        for token in (elsewhere, viewer):
            self.assertIn(pool.call("DELETE", path, headers=self.as_(token))[0], (403, 404))
        self.assertEqual(pool.call("DELETE", path, headers=self.as_(admin))[0], 200)

    def test_one_that_is_taken_away_ends_nothing_that_runs(self):
        pool = self.accounts_pool()
        self.join(pool)
        alice = self.user(pool, "alice", "user")
        claim = self.claim_of(pool, alice, wait_ms="20000")
        running = self.teller(pool, FARCALL_TOKEN=alice, FARCALL_CLAIM=claim)
        pool.post("/v1/users/alice:revoke", role="user")
        self.assertEqual(
            pool.call("POST", f"/v1/claims/{claim}:connect", {}, self.as_(alice))[0], 403
        )
        refused = self.program(pool, alice, FARCALL_CLAIM=claim)
        self.assertIn("claims.connect needs the role user", "\n".join(refused.err))
        self.assertEqual(self.say(running, f"take {MIB}"), "code 0")
        self.assertEqual(pool.claim(claim)["state"], "active")
        # Its holder may still give it back.
        self.assertEqual(
            pool.call("DELETE", "/v1/claims/" + claim, headers=self.as_(alice))[0], 200
        )

    def test_an_admin_gives_roles_in_its_own_projects(self):
        pool = self.accounts_pool()
        self.projects(pool, "research", "research/vision", "researchers", "sales")
        admin = self.as_(self.user(pool, "ann", "admin@research"))
        self.user(pool, "alice")

        def grant(role, project, verb="grant"):
            body = {"role": role, "project": project}
            return pool.call("POST", f"/v1/users/alice:{verb}", body, admin)[0]

        self.assertEqual(grant("user", "research"), 200)
        self.assertEqual(grant("admin", "research/vision"), 200)
        for role, project in (
            ("user", ""),
            ("user", "sales"),
            ("user", "researchers"),
            ("operator", ""),
        ):
            self.assertEqual(grant(role, project), 403, (role, project))
        self.assertEqual(grant("operator", "research"), 403)
        pool.post("/v1/users/alice:grant", role="user", project="sales")
        self.assertEqual(grant("user", "sales", "revoke"), 403)
        self.assertEqual(grant("admin", "research/vision", "revoke"), 200)
        overall = self.as_(self.user(pool, "al", "admin"))
        for verb in ("grant", "revoke"):
            body = {"role": "operator"}
            status = pool.call("POST", f"/v1/users/operator:{verb}", body, overall)[0]
            self.assertEqual(status, 403, verb)

    def test_claims_are_of_projects_in_which_their_user_has_a_role(self):
        pool = self.accounts_pool()
        self.projects(pool, "research", "research/vision", "sales")
        alice = self.user(pool, "alice", "user@research", "viewer@sales")
        claim = pool.claim(self.claim_of(pool, alice))
        self.assertEqual(claim["project"], "research", "its home")
        self.claim_of(pool, alice, project="research/vision")
        for project in ("sales", "default", "nothing"):
            body = {"memory_bytes": "1", "project": project}
            status, error = pool.call("POST", "/v1/claims", body, self.as_(alice))
            self.assertEqual((status, error["field"]), (403, "project"), project)
        # One of its token's project alone.
        narrow = pool.post("/v1/tokens", user="alice", project="research/vision")["token"]
        self.assertEqual(pool.claim(self.claim_of(pool, narrow))["project"], "research/vision")
        seen = pool.call("GET", "/v1/claims/" + claim["id"], headers=self.as_(narrow))[0]
        self.assertEqual(seen, 404, "its user's own, of another project")
        status, error = pool.call("DELETE", "/v1/projects/sales")
        self.assertEqual((status, error["field"]), (409, "name"), "roles name it")
        pool.post("/v1/users/alice:revoke", role="viewer", project="sales")
        self.assertEqual(pool.call("DELETE", "/v1/projects/sales")[0], 200)
        status, error = pool.call(
            "POST", "/v1/users/alice:grant", {"role": "user", "project": "no"}
        )
        self.assertEqual((status, error["field"]), (400, "project"))

    def test_a_user_of_a_removed_ones_name_has_nothing_of_theirs(self):
        pool = self.accounts_pool()
        old = self.user(pool, "alice", "user")
        claim = self.claim_of(pool, old)
        self.assertEqual(pool.call("DELETE", "/v1/users/alice")[0], 200)
        self.assertEqual(pool.call("GET", "/v1/claims", headers=self.as_(old))[0], 401)
        self.assertEqual(pool.claim(claim)["state"], "pending", "it goes on")
        new = self.user(pool, "alice", "user")
        path = "/v1/claims/" + claim
        for method, verb, body in (
            ("POST", ":connect", {}),
            ("PATCH", "", {"share_milli": 1}),
            ("DELETE", "", None),
        ):
            self.assertEqual(pool.call(method, path + verb, body, self.as_(new))[0], 403, verb)


if __name__ == "__main__":
    unittest.main()
