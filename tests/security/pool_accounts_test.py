# SPDX-License-Identifier: Apache-2.0
"""Users, roles and tokens of a pool that were made while it ran: who may do what, and until when."""

import json
import os
import re
import subprocess
import sys
import unittest
import urllib.request

from harness import FARCALL, HERE, run, until
from pool_case import MIB, PoolCase

FIRST = re.compile(r"the token of user 'operator', shown this once: (fcu_[0-9a-f]{64})$", re.M)
ROLES = ("viewer", "user", "admin", "operator")
NONE = "none"  # a user without a role

# The least role that each verb asks for; "caller": any good token; "anybody": none. Claims are the caller's own.
LEAST = {
    "POST /v1/claims": "user",
    "GET /v1/claims": "viewer",
    "GET /v1/claims?watch=1": "viewer",
    "POST /v1/claims:plan": "viewer",
    "GET /v1/claims/{id}": "viewer",
    "PATCH /v1/claims/{id}": "user",
    "DELETE /v1/claims/{id}": "caller",
    "POST /v1/claims/{id}:renew": "user",
    "POST /v1/claims/{id}:explain": "viewer",
    "POST /v1/claims/{id}:connect": "user",
    "GET /v1/queue": "viewer",
    "GET /v1/projects": "viewer",
    "GET /v1/projects/{project}": "viewer",
    "PUT /v1/projects/{project}": "operator",
    "DELETE /v1/projects/{project}": "operator",
    "GET /v1/hosts": "viewer",
    "GET /v1/hosts?watch=1": "viewer",
    "GET /v1/gpus": "viewer",
    "GET /v1/sessions": "operator",
    "POST /v1/hosts/{id}:drain": "operator",
    "POST /v1/hosts/{id}:cordon": "operator",
    "POST /v1/hosts/{id}:uncordon": "operator",
    "POST /v1/join-tokens": "operator",
    "POST /v1/join": "anybody",
    "GET /v1/pool": "anybody",
    "GET /v1/events": "viewer",
    "GET /v1/audit": "operator",
    "GET /v1/whoami": "caller",
    "POST /v1/users": "operator",
    "GET /v1/users": "admin",
    "DELETE /v1/users/{id}": "operator",
    "POST /v1/users/{id}:grant": "admin",
    "POST /v1/users/{id}:revoke": "admin",
    "POST /v1/tokens": "viewer",
    "GET /v1/tokens": "caller",
    "DELETE /v1/tokens/{id}": "caller",
    "GET /metrics": "viewer",
    "GET /openapi.json": "caller",
    "GET /healthz": "anybody",
    "GET /readyz": "anybody",
}


def may(role, least):
    if least == "anybody" or (least == "caller" and role is not None):
        return True
    return role in ROLES and least in ROLES and ROLES.index(role) >= ROLES.index(least)


class AccountsCase(PoolCase):
    def accounts_pool(self, *flags, **options):
        pool = self.serve("--accounts", *flags, **options)
        found = FIRST.search(pool.log_text())
        if found:
            self.operator = found[1]
        pool.token = self.operator
        return pool

    @staticmethod
    def as_(token):
        return {"Authorization": "Bearer " + token}

    def user(self, pool, name, *roles, **more):
        """A user and a token of theirs."""
        bindings = [
            dict(zip(("role", "project"), (role.split("@") + [""])[:2], strict=True))
            for role in roles
        ]
        pool.post("/v1/users", name=name, roles=bindings, **more)
        return pool.post("/v1/tokens", user=name)["token"]

    @staticmethod
    def projects(pool, *names):
        for name in names:
            status, told = pool.call("PUT", "/v1/projects/" + name, {})
            assert status == 200, told

    def claim_of(self, pool, token, **ask):
        status, claim = pool.call(
            "POST", "/v1/claims", {"memory_bytes": str(64 * MIB), **ask}, self.as_(token)
        )
        self.assertEqual(status, 201, claim)
        return claim["id"]

    def program(self, pool, token, **environment):
        return run(
            pool.endpoint,
            sys.executable,
            HERE / "programs/teller.py",
            environment={"FARCALL_TOKEN": token, "FARCALL_MEM": "64MiB", **environment},
        )

    def join(self, pool, name="one"):
        return self.host(pool, name, "--pool-token-file", self.join_token(pool))


class FirstOperator(AccountsCase):
    def test_a_new_store_gets_one_whose_token_is_shown_once(self):
        pool = self.accounts_pool()
        self.assertEqual(pool.call("GET", "/v1/claims", headers={"Authorization": ""})[0], 401)
        told = pool.get("/v1/whoami")
        self.assertEqual((told["user"], told["is_operator"]), ("operator", True), told)
        pool.stop()
        # Without the flag too: the store knows an operator.
        pool = self.serve()
        self.assertNotIn("shown this once", pool.log_text())
        self.assertEqual(pool.call("GET", "/v1/claims")[0], 401)
        self.assertEqual(
            pool.call("GET", "/v1/whoami", headers=self.as_(self.operator))[1]["user"], "operator"
        )

    def test_beyond_the_loopback_it_needs_no_flag(self):
        pool = self.serve("--plaintext", rest="0.0.0.0:0")
        self.assertRegex(pool.log_text(), FIRST)

    def test_on_the_loopback_nobody_needs_a_token(self):
        pool = self.serve()
        self.assertNotIn("shown this once", pool.log_text())
        self.assertTrue(pool.get("/v1/whoami")["is_operator"])
        token = self.user(pool, "alice", "viewer")
        told = pool.call("GET", "/v1/whoami", headers=self.as_(token))[1]
        self.assertEqual((told["user"], told["is_operator"]), ("alice", False))
        # What the pool made is never taken for nothing.
        pool.call("DELETE", "/v1/users/alice")
        self.assertEqual(pool.call("GET", "/v1/whoami", headers=self.as_(token))[0], 401)

    def test_the_store_has_no_secret_and_a_stolen_verifier_logs_nobody_in(self):
        pool = self.accounts_pool()
        token = self.user(pool, "alice", "user")
        pool.stop()
        store = b"".join(
            path.read_bytes()
            for path in self.store.parent.iterdir()
            if path.name.startswith("pool.db")
        )
        for secret in (token, self.operator):
            self.assertNotIn(secret.encode(), store)
            self.assertNotIn(secret.split("_")[1].encode(), store)
        (verifier, *_) = re.findall(rb"farcall-verifier-1 [0-9a-f]{64} [0-9a-f]{64}", store)
        pool = self.accounts_pool()
        for shown in (verifier.decode(), *verifier.decode().split()[1:]):
            for text in (shown, "fcu_" + shown):
                self.assertEqual(pool.call("GET", "/v1/whoami", headers=self.as_(text))[0], 401)


class Tokens(AccountsCase):
    def test_one_that_is_made_works_at_once_and_after_a_restart(self):
        pool = self.accounts_pool()
        self.join(pool)
        token = self.user(pool, "alice", "user")
        claim = self.claim_of(pool, token, wait_ms="20000")
        self.assertEqual(self.program(pool, token).process.returncode, 0)
        self.assertEqual(self.program(pool, token, FARCALL_CLAIM=claim).process.returncode, 0)
        addresses = pool.addresses()
        pool.stop()
        pool = self.accounts_pool(**addresses)
        status, told = pool.call("GET", "/v1/whoami", headers=self.as_(token))
        self.assertEqual((status, told["user"]), (200, "alice"))
        self.assertEqual(
            pool.call("GET", "/v1/claims/" + claim, headers=self.as_(token))[1]["id"], claim
        )

    def test_a_revoked_one_is_refused_at_once_everywhere_and_ends_nothing(self):
        pool = self.accounts_pool()
        self.join(pool)
        token = self.user(pool, "alice", "user")
        bearer = self.as_(token)
        claim = self.claim_of(pool, token, wait_ms="20000")
        running = self.teller(pool, FARCALL_TOKEN=token, FARCALL_CLAIM=claim)
        watched = urllib.request.urlopen(
            urllib.request.Request(pool.url + "/v1/claims?watch=1", headers=bearer), timeout=60
        )
        self.addCleanup(watched.close)
        self.assertTrue(watched.readline())
        (made,) = [t for t in pool.get("/v1/tokens")["tokens"] if t["user"] == "alice"]
        self.assertNotIn(token, json.dumps(made))
        self.assertEqual(pool.call("DELETE", "/v1/tokens/" + made["id"])[0], 200)
        self.assertEqual(pool.call("GET", "/v1/claims", headers=bearer)[0], 401)
        for environment in ({}, {"FARCALL_CLAIM": claim}):
            refused = self.program(pool, token, **environment)
            self.assertIn("the token is wrong, revoked or expired", "\n".join(refused.err))
        while watched.readline():  # what was watched ends
            pass
        self.assertEqual(self.say(running, f"take {MIB}"), "code 0")
        self.assertEqual(pool.claim(claim)["state"], "active")
        self.assertEqual(pool.call("DELETE", "/v1/tokens/" + made["id"])[0], 404)

    def test_one_that_has_expired_is_refused(self):
        pool = self.accounts_pool()
        self.user(pool, "alice", "user")
        token = pool.post("/v1/tokens", user="alice", expires_s="1")["token"]
        until(
            lambda: pool.call("GET", "/v1/claims", headers=self.as_(token))[0] == 401,
            what="it expires",
        )
        refused = self.program(pool, token)
        self.assertIn("the token is wrong, revoked or expired", "\n".join(refused.err))

    def test_one_of_another_pool_is_refused(self):
        pool = self.accounts_pool()
        token = self.user(pool, "alice", "operator")
        first, self.store = self.store, self.store.with_name("other.db")
        other = self.accounts_pool()
        self.user(other, "alice", "operator")
        self.assertNotEqual(first, self.store)
        self.assertEqual(other.call("GET", "/v1/claims", headers=self.as_(token))[0], 401)
        self.assertNotEqual(self.program(other, token).process.returncode, 0)

    def test_none_makes_one_that_may_do_more_or_longer(self):
        pool = self.accounts_pool()
        self.user(pool, "alice", "operator")
        self.projects(pool, "a", "a/b", "b")
        weak = pool.post("/v1/tokens", user="alice", role="user", expires_s="600", project="a")
        status, made = pool.call(
            "POST", "/v1/tokens", {"expires_s": "86400"}, self.as_(weak["token"])
        )
        self.assertEqual((status, made["role"], made["project"]), (200, "user", "a"), made)
        self.assertEqual(made["expires"], weak["expires"])
        for more in ({"role": "operator"}, {"project": "b"}, {"project": "a/b"}):
            made = pool.call("POST", "/v1/tokens", more, self.as_(weak["token"]))[1]
            self.assertEqual(made["role"], "user", made)
            self.assertIn(made["project"], ("a", "a/b"))
        told = pool.call("GET", "/v1/whoami", headers=self.as_(weak["token"]))[1]
        self.assertEqual(
            (told["is_operator"], told["roles"]), (False, [{"role": "user", "project": "a"}])
        )
        status, error = pool.call(
            "POST", "/v1/tokens", {"user": "operator"}, self.as_(weak["token"])
        )
        self.assertEqual((status, error["field"]), (403, "user"))

    def test_others_are_the_operators_to_see_and_to_revoke(self):
        pool = self.accounts_pool()
        alice, bob = self.user(pool, "alice", "user"), self.user(pool, "bob", "user")
        mine = pool.call("GET", "/v1/tokens", headers=self.as_(alice))[1]["tokens"]
        self.assertEqual([token["user"] for token in mine], ["alice"])
        self.assertEqual(
            pool.call("DELETE", "/v1/tokens/" + mine[0]["id"], headers=self.as_(bob))[0], 404
        )
        self.assertEqual(
            pool.call("DELETE", "/v1/tokens/" + mine[0]["id"], headers=self.as_(alice))[0], 200
        )
        self.assertEqual(pool.call("GET", "/v1/tokens", headers=self.as_(alice))[0], 401)

    def test_a_claims_may_only_connect_and_ends_with_it(self):
        pool = self.accounts_pool()
        self.join(pool)
        alice = self.user(pool, "alice", "user")
        claim, other = (self.claim_of(pool, alice, wait_ms="20000") for _ in range(2))
        status, made = pool.call("POST", "/v1/tokens", {"claim": claim}, self.as_(alice))
        self.assertEqual((status, made["token"][:4], made["expires"]), (200, "fcc_", "0"), made)
        bearer = self.as_(made["token"])
        for route, least in LEAST.items():
            method, path = route.split(" ")
            if least == "anybody" or path in ("/v1/claims/{id}:connect", "/v1/whoami"):
                continue
            body = None if method in ("GET", "DELETE") else {}
            path = path.replace("{id}", claim).replace("{project}", "default")
            status, told = pool.call(method, path, body, bearer)
            self.assertEqual((status, told["code"]), (403, "forbidden"), route)
        connect = "/v1/claims/{}:connect"
        self.assertEqual(pool.call("POST", connect.format(claim), {}, bearer)[0], 200)
        self.assertEqual(pool.call("POST", connect.format(other), {}, bearer)[0], 404)
        self.assertEqual(
            self.program(pool, made["token"], FARCALL_CLAIM=claim).process.returncode, 0
        )
        for environment in ({}, {"FARCALL_CLAIM": other}):
            self.assertNotEqual(
                self.program(pool, made["token"], **environment).process.returncode, 0
            )
        # Nobody makes one for another's.
        bob = self.user(pool, "bob", "user")
        self.assertEqual(pool.call("POST", "/v1/tokens", {"claim": claim}, self.as_(bob))[0], 403)
        self.assertEqual(
            pool.call("DELETE", "/v1/claims/" + claim, headers=self.as_(alice))[0], 200
        )
        until(
            lambda: pool.call("POST", connect.format(claim), {}, bearer)[0] == 401,
            what="it ends with its claim",
        )
        self.assertEqual(
            [token for token in pool.get("/v1/tokens")["tokens"] if token["claim"]], []
        )

    def test_of_a_claim_the_newest_eight_are_good(self):
        pool = self.accounts_pool()
        alice = self.user(pool, "alice", "user")
        claim = self.claim_of(pool, alice)
        made = [pool.post("/v1/tokens", claim=claim)["token"] for _ in range(9)]
        statuses = [pool.call("GET", "/v1/whoami", headers=self.as_(token))[0] for token in made]
        self.assertEqual(statuses, [401] + [200] * 8)


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


class BadInput(AccountsCase):
    NAMES = (
        "",
        "a b",
        "a\n",
        "\x1b[2J",
        "=1+1",
        "+1",
        "-1",
        "@sum",
        "a/b",
        "\u202e",
        "a" * 65,
        ".a",
        "é",
    )

    def test_names_with_control_characters_and_formulas_are_refused(self):
        pool = self.accounts_pool()
        self.user(pool, "alice", "user")
        for name in self.NAMES:
            for path, body in (
                ("/v1/users", {"name": name}),
                ("/v1/tokens", {"user": "alice", "name": name or " "}),
                ("/v1/users", {"name": "x", "roles": [{"role": "user", "project": name or " "}]}),
            ):
                if name == "a/b" and "roles" in body:
                    continue  # a child of a project
                status, error = pool.call("POST", path, body)
                self.assertEqual((status, error["code"]), (400, "invalid"), (path, body))
                self.assertNotRegex(error["message"], r"[\x00-\x1f\u202e]")
        self.assertEqual([u["name"] for u in pool.get("/v1/users")["users"]], ["alice", "operator"])

    def test_what_cannot_be_is_refused_with_what_would_be_right(self):
        pool = self.accounts_pool()
        self.user(pool, "alice", "user")
        for path, body, field in (
            ("/v1/users", {"name": "alice"}, "name"),
            ("/v1/users", {"name": "x", "roles": [{"role": "king"}]}, "role"),
            (
                "/v1/users",
                {"name": "x", "roles": [{"role": "operator", "project": "p"}]},
                "project",
            ),
            ("/v1/users/alice:grant", {"role": "none"}, "role"),
            ("/v1/users/alice:revoke", {"role": "viewer"}, "role"),
            ("/v1/users/bob:grant", {"role": "viewer"}, "name"),
            ("/v1/tokens", {"user": "bob"}, "user"),
            ("/v1/tokens", {"user": "alice", "expires_s": "-1"}, "expires_s"),
            ("/v1/tokens", {"user": "alice", "expires_s": str(2**62)}, "expires_s"),
            ("/v1/tokens", {"user": "alice", "role": "king"}, "role"),
            ("/v1/tokens", {"claim": "c-0"}, "claim"),
        ):
            status, error = pool.call("POST", path, body)
            self.assertGreaterEqual(status, 400, (path, body))
            self.assertEqual(error["field"], field, (path, body, error))

    def test_a_user_has_so_many_tokens(self):
        pool = self.accounts_pool()
        self.user(pool, "alice", "user")
        for _ in range(99):
            pool.post("/v1/tokens", user="alice")
        status, error = pool.call("POST", "/v1/tokens", {"user": "alice"})
        self.assertEqual((status, error["code"]), (429, "too_many"))

    def test_a_flood_of_one_user_is_bounded_and_others_are_served(self):
        pool = self.accounts_pool()
        alice, bob = self.user(pool, "alice", "user"), self.user(pool, "bob", "user")
        path, body = "/v1/claims", {"memory_bytes": str(1 << 50)}
        answers = [pool.call("POST", path, body, self.as_(alice))[0] for _ in range(80)]
        self.assertEqual(answers[:64], [201] * 64)
        self.assertEqual(set(answers[64:]), {429})
        # Another token of hers is no other user.
        more = pool.post("/v1/tokens", user="alice")["token"]
        self.assertEqual(pool.call("POST", path, body, self.as_(more))[0], 429)
        self.assertEqual(pool.call("POST", path, body, self.as_(bob))[0], 201)


class Commands(AccountsCase):
    def farcall(self, pool, *words, token=None):
        env = {
            key: value for key, value in os.environ.items() if not key.startswith("FARCALL_TOKEN")
        }
        env.update(FARCALL_POOL=pool.url, FARCALL_TOKEN=token or self.operator)
        return subprocess.run(
            [FARCALL, "pool", *words], capture_output=True, text=True, env=env, timeout=60
        )

    def test_login_keeps_a_token_for_its_pool_alone(self):
        pool = self.accounts_pool()
        alice = self.user(pool, "alice", "viewer")
        folder = self.store.parent
        env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
        env["XDG_CONFIG_HOME"] = str(folder)
        kept = folder / "farcall/pool-login"

        def farcall(*words, typed="", **more):
            return subprocess.run(
                [FARCALL, *words],
                capture_output=True,
                text=True,
                input=typed,
                env={**env, **more},
                timeout=60,
            )

        wrong = farcall("login", pool.url, typed="fcu_" + "0" * 64 + "\n")
        self.assertEqual((wrong.returncode, kept.exists()), (1, False), wrong.stderr)
        done = farcall("login", pool.url, typed=alice + "\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("user     alice\nrole     viewer\n", done.stdout)
        self.assertEqual(kept.stat().st_mode & 0o777, 0o600)
        self.assertEqual(farcall("whoami").stdout, done.stdout)
        self.assertEqual(farcall("pool", "list").returncode, 0)
        # So does a program that `farcall run` starts with an endpoint of that pool; it is not told
        # the token itself, and with a token of its own it has that one.
        show = ("--no-check", "--endpoint", pool.endpoint, "--", "env")
        found = dict(line.split("=", 1) for line in farcall("run", *show).stdout.splitlines())
        self.assertEqual(found["FARCALL_TOKEN_FILE"], str(kept))
        self.assertEqual(kept.read_text().splitlines()[0], alice)
        self.assertNotIn(alice, found.values())
        own = farcall("run", *show, FARCALL_TOKEN="other").stdout
        self.assertNotIn("FARCALL_TOKEN_FILE", own)
        self.assertIn(
            "the pool answers", farcall("doctor", "-v", "--endpoint", pool.endpoint).stdout
        )
        # Who is given another token, or asks another pool, does not use it.
        told = farcall("whoami", "--json", FARCALL_TOKEN=self.operator).stdout
        self.assertEqual(json.loads(told)["user"], "operator")
        self.store = self.store.with_name("other.db")
        other = self.accounts_pool()
        self.assertNotEqual(farcall("pool", "list", "--pool", other.url).returncode, 0)
        self.assertNotIn(
            "FARCALL_TOKEN_FILE",
            farcall("run", "--no-check", "--endpoint", other.endpoint, "--", "env").stdout,
        )
        kept.chmod(0o644)
        open_to_all = farcall("whoami")
        self.assertIn("may be read by others", open_to_all.stderr)
        self.assertEqual(len(open_to_all.stderr.splitlines()), 1)
        self.assertEqual(farcall("logout").returncode, 0)
        self.assertFalse(kept.exists())
        far = farcall("login", "http://pool.example:7719", typed=alice + "\n")
        self.assertEqual(far.returncode, 2, far.stderr)
        self.assertIn("https://", far.stderr)

    def test_users_and_tokens_by_the_command_line(self):
        pool = self.accounts_pool()

        self.projects(pool, "a", "a/b")

        def told(*words, **more):
            done = self.farcall(pool, *words, **more)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            return done.stdout

        self.assertEqual(told("user", "add", "alice", "--role", "user"), "alice  user\n")
        self.assertEqual(
            told("user", "grant", "alice", "--role", "admin", "--project", "a/b"),
            "alice  user  admin@a/b\n",
        )
        told("user", "revoke", "alice", "--role", "user")
        told("user", "add", "ci", "--machine")
        self.assertEqual(
            told("user", "list"), "alice  admin@a/b\nci  machine  no role\noperator  operator\n"
        )
        file = self.store.with_name("alice.token")
        self.assertEqual(told("token", "new", str(file), "--user", "alice", "--expires", "1h"), "")
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        alice = file.read_text().strip()
        self.assertRegex(told("token", "new", "--user", "ci"), "^fcs_[0-9a-f]{64}\n$")
        listed = told("token", "list", token=alice)
        self.assertRegex(listed, r"^[0-9a-f]{16}  alice  until \d{4}-\d\d-\d\d \d\d:\d\d\n$")
        told("token", "revoke", listed.split()[0], token=alice)
        refused = self.farcall(pool, "token", "list", token=alice)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("the token is wrong", refused.stderr)
        told("user", "remove", "alice")
        for words in (
            ("user", "add", "a b"),
            ("user", "grant", "ci", "--role", "king"),
            ("user", "grant", "ci"),
            ("token", "new", "--expires", "soon"),
        ):
            done = self.farcall(pool, *words)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)


if __name__ == "__main__":
    unittest.main()
