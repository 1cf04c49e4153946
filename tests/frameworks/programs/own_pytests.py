# SPDX-License-Identifier: Apache-2.0
"""Runs a file of tests by pytest and writes a JSON line per test as it begins and ends, so that a crash loses one test:
OUT MOST FILE. Of more than MOST tests (0: all) every so-manieth is taken; those that OUT has already are left out."""

import json
import os
import sys

import pytest


class Report:
    def __init__(self, out, most):
        self.out, self.most = out, most
        self.done = (
            {json.loads(line)["test"] for line in open(out, encoding="utf-8")}
            if os.path.exists(out)
            else set()
        )

    def tell(self, test, outcome, why=""):
        lines = [
            line.replace("\t", " ") for line in str(why).strip().splitlines() if line.strip()
        ] or [""]
        with open(self.out, "a", encoding="utf-8") as out:
            out.write(json.dumps({"test": test, "outcome": outcome, "why": lines[0][:300]}) + "\n")

    def pytest_collection_modifyitems(self, items):
        step = max(1, -(-len(items) // self.most)) if self.most else 1
        items[:] = [item for item in items[::step] if item.nodeid not in self.done]

    def pytest_collectreport(self, report):
        if report.failed:
            self.tell(
                report.nodeid,
                "failed",
                getattr(report.longrepr, "reprcrash", None)
                or str(report.longrepr).splitlines()[-1],
            )

    def pytest_runtest_logstart(self, nodeid):
        self.tell(nodeid, "started")

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            expected = hasattr(report, "wasxfail")
            self.tell(
                report.nodeid,
                "skipped",
                "its authors expect it to fail" if expected else report.longrepr[2],
            )
        elif report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.tell(report.nodeid, "failed", crash.message if crash else report.longrepr)
        elif report.when == "call":
            self.tell(report.nodeid, "passed")


if __name__ == "__main__":
    told = Report(sys.argv[1], int(sys.argv[2]))
    sys.exit(
        pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", sys.argv[3]], plugins=[told])
    )
