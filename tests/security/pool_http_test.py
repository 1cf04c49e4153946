# SPDX-License-Identifier: Apache-2.0
"""A pool's HTTP under silent and slow peers: others are answered meanwhile, and so are health checks."""

import json
import resource
import select
import socket
import statistics
import time
import unittest
import urllib.request

from harness import until
from pool_case import PoolCase

MANY = 200
HEAD = b"POST /v1/claims HTTP/1.1\r\nHost: pool\r\n"


class SlowPeers(PoolCase):
    def setUp(self):
        super().setUp()
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2
        )
        self.sockets = []
        self.addCleanup(lambda: [each.close() for each in self.sockets])

    def address(self, url):
        host, port = url.split("://")[-1].rsplit(":", 1)
        return host, int(port)

    def flood(self, address, said, count=MANY):
        for _ in range(count):
            peer = socket.create_connection(address, timeout=60)
            self.sockets.append(peer)
            if said:
                peer.sendall(said)

    def check_answers(self, pool, health):
        """An honest client and a health check get in, again and again."""
        seconds = []
        for _ in range(9):
            begun = time.monotonic()
            with urllib.request.urlopen(f"http://{health}/healthz", timeout=60) as answer:
                self.assertEqual(answer.read(), b"ok\n")
            with urllib.request.urlopen(f"http://{health}/readyz", timeout=60) as answer:
                self.assertEqual(answer.read(), b"ready\n")
            self.assertEqual(pool.call("POST", "/v1/claims", {"memory_bytes": "1"})[0], 201)
            self.assertEqual(pool.call("GET", "/v1/hosts")[0], 200)
            seconds.append(time.monotonic() - begun)
        self.assertLess(statistics.median(seconds), 1, seconds)

    def health(self, pool):
        return pool.get("/v1/pool")["health"]

    def test_whoever_is_slow_is_slow_alone(self):
        pool = self.serve(token="secret")
        health, address = self.health(pool), self.address(pool.url)
        body = HEAD + b"Content-Length: 60000\r\n\r\n" + b"x" * 100
        for what in (b"", b"GET /heal", HEAD, body):
            with self.subTest(what=what[:20]):
                self.flood(address, what)
                self.check_answers(pool, health)
        self.flood(self.address("tcp://" + health), b"GET /healthz HTTP/1.1\r\n")
        self.check_answers(pool, health)

    def test_a_head_has_a_deadline_in_all(self):
        pool = self.serve()
        address = self.address(pool.url)
        self.flood(address, b"", 10)
        end = time.monotonic() + 60
        # A byte now and then is no reason to wait on.
        open_still = set(self.sockets)
        for byte in HEAD + b"X-Slow: " + b"x" * 1000:
            for each in list(open_still):
                try:
                    each.sendall(bytes([byte]))
                except OSError:
                    open_still.discard(each)
            ended, _, _ = select.select(list(open_still), [], [], 0.3)
            for each in ended:
                try:
                    if not each.recv(100):
                        open_still.discard(each)
                except OSError:
                    open_still.discard(each)
            if not open_still or time.monotonic() > end:
                break
        self.assertEqual(open_still, set(), "closed, though they spoke")

    def test_more_than_can_wait_make_room_for_one_another(self):
        pool = self.serve()
        health = self.health(pool)
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.flood(self.address(pool.url), HEAD, min(1500, soft - 200))
        self.check_answers(pool, health)

    def test_what_is_no_request_is_refused(self):
        pool = self.serve()
        for said, status in (
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"411"),
            (HEAD + b"Content-Length: 99999999\r\n\r\n", b"413"),
            (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", b"400"),
            (HEAD + b"Content-Length: -1\r\n\r\n", b"400"),
            (HEAD + b"Content-Type: Multipart/form-data; boundary=b\r\n\r\n", b"415"),
            (HEAD + b"Content-Type: text/plain\r\nContent-Type: a/b\r\n\r\n", b"415"),
            (b"GET / HTTP/1.1\r\nX: " + b"x" * 20000, b"431"),
        ):
            with socket.create_connection(self.address(pool.url), timeout=60) as peer:
                peer.sendall(said)
                self.assertEqual(peer.recv(100).split(b" ")[1], status, said[:100])
        # Two requests in one go, and one in pieces.
        with socket.create_connection(self.address(pool.url), timeout=60) as peer:
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: p\r\n\r\n" * 2)
            answers = b""
            until(lambda: select.select([peer], [], [], 1)[0], what="an answer")
            while answers.count(b"ok\n") < 2:
                answers += peer.recv(4096)
        with socket.create_connection(self.address(pool.url), timeout=60) as peer:
            request = (
                HEAD + b"Content-Length: 21\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
            )
            for byte in request:
                peer.sendall(bytes([byte]))
            self.assertIn(b" 100 ", peer.recv(100))
            peer.sendall(b'{"memory_bytes": ')
            time.sleep(0.2)
            peer.sendall(b'"1"}')
            answer = b""
            while more := peer.recv(65536):
                answer += more
            self.assertEqual(json.loads(answer[answer.index(b"{") :])["state"], "pending")

    def test_a_body_is_json_whatever_its_type_says(self):
        pool = self.serve()
        long = {"nonsense": "x" * 10000}  # more than the library takes of a form
        for kind in (
            "application/json",
            "application/x-www-form-urlencoded",
            "Application/X-WWW-Form-URLEncoded;charset=UTF-8",
            "text/plain",
            "",
        ):
            status, answer = pool.call("POST", "/v1/claims", long, {"Content-Type": kind})
            self.assertEqual((status, answer["field"]), (400, "body"), kind)
            asked = {"memory_bytes": str(64 << 20)}
            status, answer = pool.call("POST", "/v1/claims", asked, {"Content-Type": kind})
            self.assertEqual((status, answer["state"]), (201, "pending"), kind)

    def test_one_who_waits_leaves_others_a_thread(self):
        pool = self.serve(token="secret")
        host, port = self.address(pool.url)
        body = b'{"memory_bytes": "1", "wait_ms": "30000"}'
        request = (
            HEAD + b"Authorization: Bearer secret\r\nContent-Length: %d\r\n\r\n" % len(body)
        ) + body
        self.flood((host, port), request, 100)
        self.check_answers(pool, self.health(pool))


if __name__ == "__main__":
    unittest.main()
