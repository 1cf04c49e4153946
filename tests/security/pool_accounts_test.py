# SPDX-License-Identifier: Apache-2.0
"""Users, roles and tokens of a pool that were made while it ran: who may do what, and until when."""

import json
import os
import re
import subprocess
import unittest
import urllib.request

from harness import FARCALL, until
from pool_case import MIB
from accounts_case import FIRST, LEAST, AccountsCase


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
            "alice  user  admin in a/b\n",
        )
        told("user", "revoke", "alice", "--role", "user")
        told("user", "add", "ci", "--machine")
        self.assertEqual(
            told("user", "list"), "alice  admin in a/b\nci  machine  no role\noperator  operator\n"
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
