# SPDX-License-Identifier: Apache-2.0
"""Runs test modules of a package and writes a JSON line per test as it ends, so that a crash loses one test: OUT MODULE..."""

import importlib
import json
import sys
import types
import unittest

import pytest


class Report(unittest.TextTestResult):
    def tell(self, test, outcome, why=""):
        if isinstance(why, tuple):  # what unittest has of an exception
            why = f"{why[0].__name__}: {why[1]}"
        lines = [
            line.replace("\t", " ") for line in str(why).strip().splitlines() if line.strip()
        ] or [""]
        out.write(json.dumps({"test": test.id(), "outcome": outcome, "why": lines[0][:300]}) + "\n")
        out.flush()

    def startTest(self, test):
        super().startTest(test)
        self.tell(test, "started")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell(test, "failed", err)

    def addError(self, test, err):
        if issubclass(err[0], pytest.skip.Exception):
            return self.addSkip(test, str(err[1]))
        super().addError(test, err)
        self.tell(test, "failed", err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell(test, "skipped", reason)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.tell(test, "skipped", "its authors expect it to fail")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.tell(test, "failed", "passes where its authors expect it to fail")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.tell(test, "failed", err)


class OfFunction(unittest.FunctionTestCase):
    """A test that is a plain function, as pytest has them, by its whole name."""

    def __init__(self, name, function):
        super().__init__(function)
        self.name = name

    def id(self):
        return self.name


def load(name):
    module, _, last = name.rpartition(".")
    owner = sys.modules.get(module)
    if owner is None and last.startswith("test_"):
        try:
            owner = importlib.import_module(module)
        except ImportError:  # a class's name, or what the loader tells better
            owner = None
    function = getattr(owner, last, None)
    if isinstance(owner, types.ModuleType) and isinstance(function, types.FunctionType):
        return OfFunction(name, function)
    return unittest.defaultTestLoader.loadTestsFromName(name)


if __name__ == "__main__":
    with open(sys.argv[1], "a", encoding="utf-8") as out:
        tests = unittest.TestSuite(load(name) for name in sys.argv[2:])
        unittest.TextTestRunner(verbosity=2, resultclass=Report).run(tests)
