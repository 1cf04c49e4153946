# SPDX-License-Identifier: Apache-2.0
"""Requests a claim, trains in it, and gives it back, with the client of `farcall-pool-client`.

    pip install farcall_pool_client-*.whl
    python3 train.py http://127.0.0.1:7719 pool://127.0.0.1:7718 -- python3 my_training.py

The command runs under `farcall run`. If the pool takes the place of its claim, the command gets
SIGTERM, so that it can save its work.
"""

import os
import subprocess
import sys

from farcall_pool import Pool, PoolError

url, endpoint, dashes, *command = sys.argv[1:]
assert dashes == "--" and command, __doc__
pool = Pool(url, token=os.environ.get("FARCALL_TOKEN"), ca=os.environ.get("FARCALL_POOL_CA"))
try:
    claim = pool.claims.request(
        memory_bytes=1 << 30, share_milli=250, preemptible=True, wait_ms=60_000
    )
except PoolError as error:
    sys.exit(f"the pool refused: {error}")
try:
    if claim["state"] == "pending":
        told = pool.claims.explain(id=claim["id"])
        sys.exit(f"no place: {told['why']}")
    print(f"{claim['id']}: {claim['memory_bytes'] >> 20} MiB on {claim['host']}", flush=True)
    run = ["farcall", "run", "--endpoint", endpoint, "--claim", claim["id"]]
    done = subprocess.run([*run, "--on-preempt", "TERM", "--", *command], check=False)
finally:
    released = pool.claims.release(id=claim["id"])
    print(f"{claim['id']}: {released['state']}", flush=True)
sys.exit(done.returncode)
