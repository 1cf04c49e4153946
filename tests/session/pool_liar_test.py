#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host that tells the pool of twice its memory: what the host's own ledger refuses goes to another, and the pool finds out."""

import http.server
import json
import subprocess
import threading
import unittest
import urllib.request

from harness import PROGRAMS, until
from pool_case import MIB, PoolCase

FACTOR = 2


class Liar:
    """Between hosts and a pool: its REST, whose gRPC address is the liar's."""

    def __init__(self, pool):
        self.process = subprocess.Popen(
            [PROGRAMS / "pool_liar", pool.addresses()["grpc"], str(FACTOR)],
            stdout=subprocess.PIPE,
            text=True,
        )
        port = int(self.process.stdout.readline())

        class Rest(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                with urllib.request.urlopen(pool.url + self.path, timeout=60) as answer:
                    known = json.loads(answer.read())
                body = json.dumps({**known, "grpc": f"127.0.0.1:{port}"}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.rest = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Rest)
        self.url = "http://127.0.0.1:%d" % self.rest.server_port
        threading.Thread(target=self.rest.serve_forever, daemon=True).start()

    def stop(self):
        self.rest.shutdown()
        self.rest.server_close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class PoolLiarTest(PoolCase):
    def lying_host(self, pool, name):
        """What it has, and what it says that it has."""
        liar = Liar(pool)
        self.addCleanup(liar.stop)
        self.host(pool, name, through=liar.url)
        told = int(pool.hosts()[name]["gpus"][0]["memory_bytes"])
        return told // FACTOR, told

    def test_what_its_ledger_refuses_is_placed_elsewhere_and_it_is_cordoned(self):
        pool = self.serve()
        real, told = self.lying_host(pool, "liar")
        held = pool.post("/v1/claims", memory_bytes=str(real - 64 * MIB), wait_ms="20000")
        self.assertEqual((held["state"], held["host"]), ("bound", "liar"), "what it has it gives")
        # These would fit what it says, and each is tried there once.
        rest = [pool.post("/v1/claims", memory_bytes=str(128 * MIB))["id"] for _ in range(3)]
        until(lambda: pool.hosts()["liar"]["cordoned"], what="cordoned")
        self.assertIn("its ledger refused 3 claims", pool.hosts()["liar"]["reason"])
        self.assertEqual({pool.claim(claim)["state"] for claim in rest}, {"pending"})
        self.assertEqual(pool.claim(held["id"])["state"], "bound", "who is there stays")
        self.host(pool, "honest")
        for claim in rest:
            until(lambda: pool.claim(claim)["state"] == "bound", what="bound elsewhere")
            self.assertEqual(pool.claim(claim)["host"], "honest")
        self.assertGreater(told, real)


if __name__ == "__main__":
    unittest.main(verbosity=2)
