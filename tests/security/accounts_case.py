# SPDX-License-Identifier: Apache-2.0
"""A pool whose users and tokens are made while it runs, for the suites of accounts and of roles."""

import re
import sys

from harness import HERE, run
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
    "POST /v1/gangs": "user",
    "POST /v1/gangs:plan": "viewer",
    "GET /v1/gangs/{id}": "viewer",
    "DELETE /v1/gangs/{id}": "caller",
    "GET /v1/queue": "viewer",
    "GET /v1/projects": "viewer",
    "GET /v1/projects/{project}": "viewer",
    "PUT /v1/projects/{project}": "operator",
    "DELETE /v1/projects/{project}": "operator",
    "GET /v1/hosts": "viewer",
    "GET /v1/hosts?watch=1": "viewer",
    "GET /v1/gpus": "viewer",
    "GET /v1/sessions": "viewer",
    "POST /v1/hosts/{id}:drain": "operator",
    "POST /v1/hosts/{id}:cordon": "operator",
    "POST /v1/hosts/{id}:uncordon": "operator",
    "PUT /v1/hosts/{id}/labels": "operator",
    "POST /v1/apply": "operator",
    "POST /v1/join-tokens": "operator",
    "GET /v1/join-tokens": "operator",
    "DELETE /v1/join-tokens/{id}": "operator",
    "GET /v1/groups": "viewer",
    "GET /v1/groups/{id}": "viewer",
    "PUT /v1/groups/{id}": "operator",
    "DELETE /v1/groups/{id}": "operator",
    "POST /v1/reservations": "operator",
    "GET /v1/reservations": "viewer",
    "GET /v1/reservations/{id}": "viewer",
    "DELETE /v1/reservations/{id}": "operator",
    "POST /v1/join": "anybody",
    "GET /v1/pool": "anybody",
    "GET /v1/events": "viewer",
    "GET /v1/audit": "operator",
    "GET /v1/snapshot": "operator",
    "GET /v1/whoami": "caller",
    "POST /v1/users": "operator",
    "GET /v1/users": "admin",
    "DELETE /v1/users/{id}": "operator",
    "POST /v1/users/{id}:grant": "admin",
    "POST /v1/users/{id}:revoke": "admin",
    "POST /v1/login": "anybody",
    "POST /v1/tokens": "viewer",
    "GET /v1/tokens": "caller",
    "DELETE /v1/tokens/{id}": "caller",
    "GET /metrics": "viewer",
    "GET /openapi.json": "caller",
    "GET /healthz": "anybody",
    "GET /readyz": "anybody",
}


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
