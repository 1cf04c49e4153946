#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies and the work that does not need them: uploads whose lanes stand still, downloads of a stream that does."""

import subprocess
import unittest

from harness import Client, Server, link_proxy


class Overlap(unittest.TestCase):
    def test_other_streams_pass_an_upload(self):
        with Server() as server:
            proxy = link_proxy.LinkProxy(("127.0.0.1", server.port))
            # Over the proxy whatever else the server offers.
            client = Client(
                proxy.url,
                "overlap",
                stdin=subprocess.PIPE,
                environment={"FARCALL_TRANSPORT": "tcp"},
            )
            client.wait_line("warm")
            proxy.hold_lanes()
            client.process.stdin.write("\n")
            client.process.stdin.flush()
            client.wait_line("passed")
            self.assertIn("passed the upload", client.out, client.err)
            proxy.restore()
            self.assertEqual(client.wait(), 0, client.out + client.err)
            self.assertIn("ok", client.out)
            proxy.close()

    def test_a_stream_that_stands_still_does_not_hold_up_others_downloads(self):
        with Server() as server:
            client = Client(server.url, "downloads")
            self.assertEqual(client.wait(), 0, client.out + client.err)
            self.assertEqual(client.out, ["ok"])


if __name__ == "__main__":
    unittest.main()
