# SPDX-License-Identifier: Apache-2.0
"""The wheel farcall-pool-client, made of what `farcall pool openapi` prints, and its example."""

import importlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from harness import FARCALL, HERE, until
from pool_case import MIB, PoolCase

ROOT = HERE.parent.parent


class PoolClient(PoolCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        document = pathlib.Path(folder.name, "pool.json")
        document.write_text(subprocess.check_output([FARCALL, "pool", "openapi"], text=True))
        build = [sys.executable, ROOT / "deploy/pool_client/build.py", "--openapi", document]
        cls.wheel = subprocess.check_output([*build, "--target", folder.name], text=True).strip()
        sys.path.insert(0, cls.wheel)
        cls.addClassCleanup(sys.path.remove, cls.wheel)
        cls.client = importlib.import_module("farcall_pool")

    def pool_and_client(self, *flags):
        pool = self.serve(*flags)
        self.host(pool, "one")
        return pool, self.client.Pool(pool.url)

    def test_a_claim_is_requested_changed_and_released(self):
        _, client = self.pool_and_client()
        claim = client.claims.request(memory_bytes=256 * MIB, share_milli=250, wait_ms=20_000)
        self.assertEqual((claim["state"], claim["memory_bytes"]), ("bound", 256 * MIB))
        changed = client.claims.update(id=claim["id"], share_milli=400)
        self.assertEqual(changed["request"]["share_milli"], 400)
        (listed,) = client.claims.list(limit=10)["claims"]
        self.assertEqual(listed["id"], claim["id"])
        self.assertIn("on one", client.claims.explain(id=claim["id"])["why"])
        self.assertEqual(client.claims.release(id=claim["id"])["id"], claim["id"])
        self.assertEqual(client.projects.set(name="research", weight=2)["weight"], 2)
        (gpu,) = client.gpus.list()["gpus"]
        self.assertGreater(gpu["memory_bytes"], 0)

    def test_what_is_refused_names_field_and_remedy(self):
        _, client = self.pool_and_client()
        with self.assertRaises(self.client.PoolError) as refused:
            client.claims.request(project="nobody")
        self.assertEqual((refused.exception.status, refused.exception.field), (400, "project"))
        self.assertIn("farcall pool project list", refused.exception.hint)
        with self.assertRaises(TypeError):
            client.claims.request(memory=5)
        with self.assertRaises(TypeError):
            client.claims.get()

    def test_changes_are_watched(self):
        _, client = self.pool_and_client()
        claim = client.claims.request(memory_bytes=64 * MIB, wait_ms=20_000)
        told = client.watch("claims", name=claim["id"])
        kinds = [next(told), next(told), next(told)]
        self.assertEqual([kind for kind, _ in kinds], ["all", "claim", "synced"])
        client.claims.release(id=claim["id"])
        self.assertEqual(next(told)[1]["id"], claim["id"])
        told.close()

    def test_its_example_trains_in_a_claim_and_gives_it_back(self):
        pool, client = self.pool_and_client("--min-run", "0", "--preempt-grace", "30")
        env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
        env["PATH"] = f"{FARCALL.parent}:{env['PATH']}"
        env["PYTHONPATH"] = self.wheel
        train = subprocess.Popen(
            [sys.executable, ROOT / "examples/pool/train.py", pool.url, pool.endpoint, "--"]
            + [sys.executable, HERE / "programs/saves_on_signal.py"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.addCleanup(train.kill)
        claimed, ready = train.stdout.readline(), train.stdout.readline()
        self.assertIn("1024 MiB on one", claimed)
        self.assertEqual(ready, "ready\n")
        # Another takes the whole GPU, for which it is told to leave.
        client.claims.request(queue_priority=10)
        out, err = train.communicate(timeout=60)
        self.assertEqual(train.returncode, 0, err)
        id = claimed.partition(":")[0]
        self.assertEqual(out.splitlines()[0], "saved 7", err)
        self.assertRegex(out.splitlines()[1], rf"{id}: (releasing|released)")
        until(lambda: client.claims.get(id=id)["state"] == "released", what="its end")


if __name__ == "__main__":
    unittest.main(verbosity=2)
