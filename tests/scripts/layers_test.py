#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/check_layers.py: the tree keeps the rule, and what breaks it is found, with its line and the rule."""

import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_layers  # noqa: E402


def finding(file, written):
    return check_layers.violation(file, 7, check_layers.source_path(written), written)


class Layers(unittest.TestCase):
    def test_the_tree_keeps_the_rule(self):
        run = subprocess.run(
            [sys.executable, ROOT / "scripts/check_layers.py"], capture_output=True, text=True
        )
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_an_upward_include_is_found_with_its_line_and_the_rule(self):
        line = finding("server/control/lease.h", "server/supervisor/supervisor.h")
        self.assertEqual(
            line,
            'server/control/lease.h:7: includes "server/supervisor/supervisor.h": '
            "server/control may include proto",
        )

    def test_client_and_server_never_include_each_other(self):
        self.assertIsNotNone(
            finding("client-shim/core/session/session.cc", "server/state/session.h")
        )
        self.assertIsNotNone(
            finding("server/calls/memory/memory.cc", "client-shim/core/session/session.h")
        )

    def test_quota_includes_nothing_of_the_server(self):
        self.assertIsNotNone(finding("quota/scheduling/pace.h", "server/control/lease.h"))

    def test_a_generated_header_is_of_its_layer(self):
        self.assertIsNotNone(finding("transport/url.h", "generated/server/driver_api.h"))
        self.assertIsNone(finding("server/memory/device_memory.h", "generated/server/driver_api.h"))

    def test_a_generated_header_is_named_as_one(self):
        line = finding("server/memory/device_memory.h", "server/driver_api.h")
        self.assertIn('a generated header is "generated/server/driver_api.h"', line)

    def test_the_product_includes_nothing_of_the_tests(self):
        self.assertIsNotNone(finding("proto/codec.h", "tests/wire/wire_fixture.h"))
        self.assertIsNone(finding("tests/unit/proto/a.cc", "tests/wire/wire_fixture.h"))

    def test_folders_that_include_each_other_are_found(self):
        edges = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
        self.assertEqual(check_layers.cycles(edges), [{"a", "b", "c"}])
        planted = [
            ("settings/one/a.h", 1, "settings/two/b.h", "b.h"),
            ("settings/two/b.h", 1, "settings/one/a.h", "a.h"),
        ]
        self.assertEqual(
            check_layers.check(planted),
            ["these folders include each other: settings/one, settings/two"],
        )


if __name__ == "__main__":
    unittest.main()
