# SPDX-License-Identifier: Apache-2.0
"""Logins at an OpenID provider (Authlib's): who gets in, as whom, with which roles, and which
tokens of a provider do not do."""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest
import urllib.parse
import urllib.request

from harness import BUILD, FARCALL, until

try:
    from oidc_provider import CLIENT, Provider
except ImportError:
    # Authlib is in the venv that scripts/setup makes.
    here = pathlib.Path(__file__).resolve()
    python = here.parents[2] / "build/.venv/bin/python3"
    if python.exists() and pathlib.Path(sys.prefix).resolve() != python.parents[1].resolve():
        os.execv(python, [python, "-W", "ignore", here, *sys.argv[1:]])
    print("needs authlib and flask: ./scripts/setup installs them", file=sys.stderr)
    sys.exit(77)

from accounts_case import AccountsCase

ROLES = ("--oidc-role", "ml=user@research", "--oidc-role", "ops=operator")


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


class OidcCase(AccountsCase):
    def setUp(self):
        super().setUp()
        self.provider = Provider()
        self.addCleanup(self.provider.close)
        self.provider.people["alice"] = {"groups": ["ml", "other"]}
        self.provider.people["root"] = {"groups": ["ops"]}
        self.provider.people["nobody"] = {"groups": ["other"]}

    def oidc_pool(self, *flags, **options):
        pool = self.accounts_pool(
            *("--oidc-issuer", self.provider.issuer, "--oidc-client-id", CLIENT),
            *ROLES,
            *flags,
            **options,
        )
        self.projects(pool, "research")
        return pool

    def log_in(self, pool, id_token):
        return pool.call("POST", "/v1/login", {"id_token": id_token}, {"Authorization": ""})

    def token(self, pool, name, **more):
        status, told = self.log_in(pool, self.provider.id_token(name, **more))
        self.assertEqual(status, 200, told)
        return told["token"]

    def who(self, pool, token):
        return pool.call("GET", "/v1/whoami", headers=self.as_(token))[1]


class Logins(OidcCase):
    def test_groups_give_roles_and_a_login_gives_a_token_that_programs_use(self):
        pool = self.oidc_pool()
        self.join(pool)
        token = self.token(pool, "alice")
        told = self.who(pool, token)
        self.assertEqual(
            (told["user"], told["is_operator"], told["roles"]),
            ("alice", False, [{"role": "user", "project": "research"}]),
        )
        claim = self.claim_of(pool, token, project="research", wait_ms="20000")
        self.assertEqual(self.program(pool, token, FARCALL_CLAIM=claim).process.returncode, 0)
        self.assertTrue(self.who(pool, self.token(pool, "root"))["is_operator"])
        # Each login is the same user, whose claims are still its own.
        again = self.token(pool, "alice")
        self.assertEqual(pool.call("GET", "/v1/claims/" + claim, headers=self.as_(again))[0], 200)
        self.assertEqual(pool.get("/v1/pool")["oidc_issuer"], self.provider.issuer)

    def test_who_leaves_a_group_loses_its_role_at_the_next_login_and_keeps_what_was_granted(self):
        pool = self.oidc_pool()
        token = self.token(pool, "alice")
        pool.post("/v1/users/alice:grant", role="viewer")
        self.provider.people["alice"]["groups"] = []
        self.token(pool, "alice")
        self.assertEqual(self.who(pool, token)["roles"], [{"role": "viewer", "project": ""}])

    def test_without_a_group_of_the_pool_nobody_gets_in(self):
        pool = self.oidc_pool()
        status, told = self.log_in(pool, self.provider.id_token("nobody"))
        self.assertEqual((status, told["code"]), (403, "forbidden"))
        self.assertIn("none of the groups of 'nobody'", told["message"])

    def test_a_name_that_is_somebody_elses_is_not_theirs(self):
        pool = self.oidc_pool()
        pool.post("/v1/users", name="root", roles=[{"role": "operator"}])
        status, told = self.log_in(pool, self.provider.id_token("root"))
        self.assertEqual(status, 409, told)
        self.token(pool, "alice")
        # The provider gives the name to another person.
        status, told = self.log_in(pool, self.provider.id_token("alice", sub="another"))
        self.assertEqual(status, 409, told)

    def test_users_and_their_provider_outlive_the_controller(self):
        pool = self.oidc_pool()
        token = self.token(pool, "alice")
        addresses = pool.addresses()
        pool.stop()
        pool = self.oidc_pool(**addresses)
        self.assertEqual(self.who(pool, token)["user"], "alice")
        self.assertEqual(self.log_in(pool, self.provider.id_token("alice", sub="x"))[0], 409)
        self.token(pool, "alice")

    def test_the_audit_names_who_logged_in_and_not_by_what(self):
        pool = self.oidc_pool()
        id_token = self.provider.id_token("alice")
        self.log_in(pool, id_token)
        told = pool.get("/v1/audit")
        entries = [row["entry"] for row in told["entries"] if row["entry"]["verb"] == "login"]
        self.assertEqual(len(entries), 1, told)
        self.assertNotIn(id_token[:40], json.dumps(told))

    def test_es256_and_a_new_key_are_found(self):
        pool = self.oidc_pool()
        self.token(pool, "alice")
        asked = self.provider.asked_for_keys
        self.token(pool, "alice")
        self.assertEqual(
            self.provider.asked_for_keys, asked, "keys that are known are not asked for"
        )
        self.provider.new_key("ES256")
        # The pool asks for keys at most once in 10 s.
        until(
            lambda: self.log_in(pool, self.provider.id_token("alice"))[0] == 200,
            what="the provider's new key known to the pool",
        )


class Refused(OidcCase):
    def test_tokens_that_do_not_do(self):
        pool = self.oidc_pool()
        provider, now = self.provider, int(time.time())
        claims = provider.claims("alice")
        good = provider.sign(claims)
        head, body, signature = good.split(".")
        stranger = Provider()
        self.addCleanup(stranger.close)
        stranger.people["alice"] = {}
        kid = provider.key.as_dict()["kid"]
        public = json.dumps(provider.public_keys()["keys"][0]).encode()
        hs = part({"alg": "HS256", "kid": kid}) + "." + body
        mac = hmac.new(public, hs.encode(), hashlib.sha256).digest()
        forged = hs + "." + base64.urlsafe_b64encode(mac).rstrip(b"=").decode()
        cases = {
            "alg none": (part({"alg": "none"}) + "." + body + ".", 400),
            "alg none, no dot": (part({"alg": "none"}) + "." + body, 401),
            "HS256 by the public key": (forged, 400),
            "no algorithm": (part({"kid": kid}) + "." + body + "." + signature, 401),
            "another body": (
                head + "." + part({**claims, "groups": ["ops"]}) + "." + signature,
                401,
            ),
            "another key": (stranger.sign(claims), 401),
            "another key under that name": (stranger.sign(claims, kid=kid), 401),
            "another audience": (provider.id_token("alice", aud="another"), 401),
            "several, not ours": (provider.id_token("alice", aud=[CLIENT, "another"]), 401),
            "another issuer": (provider.id_token("alice", iss="https://issuer.example"), 401),
            "expired": (provider.id_token("alice", exp=now - 3600), 401),
            "never expires": (
                provider.sign({k: v for k, v in claims.items() if k != "exp"}),
                401,
            ),
            "not yet": (provider.id_token("alice", nbf=now + 3600), 401),
            "a name that is none": (
                provider.id_token("alice", preferred_username="=cmd()|alice@x"),
                400,
            ),
            "nobody's": (provider.id_token("alice", sub=""), 401),
            "a body that is no object": (provider.sign({}, key=None)[:-1] + "A", 401),
            "empty": ("", 401),
            "dots": ("..", 401),
            "long": ("a" * 20000, 401),
        }
        for what, (token, wanted) in cases.items():
            with self.subTest(what):
                status, told = self.log_in(pool, token)
                self.assertEqual(status, wanted, told)
                self.assertNotIn("token", {k for k, v in told.items() if v})
        self.assertEqual([user["name"] for user in pool.get("/v1/users")["users"]], ["operator"])
        self.assertEqual(self.log_in(pool, good)[0], 200)
        # Several audiences, of which the pool's client is the one that asked.
        several = provider.id_token("alice", aud=[CLIENT, "another"], azp=CLIENT)
        self.assertEqual(self.log_in(pool, several)[0], 200)

    def test_a_provider_that_is_away_is_told_of(self):
        pool = self.oidc_pool()
        id_token = self.provider.id_token("alice")
        self.provider.close()
        status, told = self.log_in(pool, id_token)
        self.assertEqual((status, told["code"]), (503, "unavailable"))
        self.assertEqual(pool.call("GET", "/v1/whoami")[0], 200, "others go on")

    def test_a_pool_without_a_provider_says_so(self):
        pool = self.accounts_pool()
        status, told = self.log_in(pool, self.provider.id_token("alice"))
        self.assertEqual(status, 400)
        self.assertIn("no OpenID provider", told["message"])

    def test_flags_that_do_not_do(self):
        for words, says in (
            (("--oidc-issuer", "http://idp.example"), "https://, or http:// on this machine"),
            (("--oidc-issuer", "https://idp.example"), "needs --oidc-client-id"),
            (("--oidc-client-id", "x"), "need --oidc-issuer"),
            (
                ("--oidc-issuer", "https://idp.example", "--oidc-client-id", "x"),
                "needs --oidc-role",
            ),
            (
                (
                    *("--oidc-issuer", "https://idp.example", "--oidc-client-id", "x"),
                    *("--oidc-role", "ml:user"),
                ),
                "write GROUP=ROLE or GROUP=ROLE@PROJECT",
            ),
        ):
            ran = subprocess.run(
                [FARCALL, "pool", "serve", *words], capture_output=True, text=True, timeout=30
            )
            self.assertEqual(ran.returncode, 2, ran.stderr)
            self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
            self.assertIn(says, ran.stderr)


class CommandLine(OidcCase):
    def start(self, pool, *flags):
        return subprocess.Popen(
            [FARCALL, "login", pool.url, *flags],
            env={"PATH": os.environ["PATH"], "HOME": self.home.as_posix()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def setUp(self):
        super().setUp()
        self.home = pathlib.Path(self.store.parent) / "home"
        self.home.mkdir()

    def kept(self):
        return (self.home / ".config/farcall/pool-login").read_text().splitlines()

    def test_the_device_flow(self):
        pool = self.oidc_pool()
        login = self.start(pool, "--oidc")
        code = re.search(r"enter the code (\S+)", login.stderr.readline())[1]
        form = urllib.parse.urlencode({"user_code": code, "person": "alice"}).encode()
        urllib.request.urlopen(self.provider.issuer + "/device", form).read()
        out, err = login.communicate(timeout=60)
        self.assertEqual(login.returncode, 0, err)
        self.assertIn("user     alice", out)
        self.assertEqual(self.who(pool, self.kept()[0])["user"], "alice")

    def test_a_person_who_says_no(self):
        pool = self.oidc_pool()
        login = self.start(pool, "--oidc")
        code = re.search(r"enter the code (\S+)", login.stderr.readline())[1]
        form = urllib.parse.urlencode({"user_code": code, "person": "alice", "deny": "1"}).encode()
        urllib.request.urlopen(self.provider.issuer + "/device", form).read()
        _, err = login.communicate(timeout=60)
        self.assertEqual(login.returncode, 1)
        self.assertIn("the provider refused", err)

    def test_a_browser_with_pkce(self):
        pool = self.oidc_pool()
        login = self.start(pool, "--browser")
        login.stderr.readline()
        address = login.stderr.readline().strip()
        query = urllib.parse.parse_qs(urllib.parse.urlparse(address).query)
        self.assertEqual(query["code_challenge_method"], ["S256"])
        # A page that guesses gets nowhere.
        guess = query["redirect_uri"][0] + "?code=x&state=guess"
        with self.assertRaises(urllib.error.HTTPError):
            urllib.request.urlopen(guess)
        with urllib.request.urlopen(address) as page:  # the provider sends it back here
            self.assertIn(b"close this page", page.read())
        out, err = login.communicate(timeout=60)
        self.assertEqual(login.returncode, 0, err)
        self.assertIn("user     alice", out)
        self.assertEqual(self.who(pool, self.kept()[0])["user"], "alice")


assert BUILD
if __name__ == "__main__":
    unittest.main()
