# SPDX-License-Identifier: Apache-2.0
"""Each control that docs/guide/security.md claims names tests that are there. Needs no build."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/guide/security.md"


def controls():
    """(control, its tests) of every row of a table whose head is `| control | test |`."""
    table = False
    for line in PAGE.read_text().splitlines():
        if not line.startswith("|"):
            table = False
        elif line == "| control | test |":
            table = True
        elif table and not line.startswith("|---"):
            control, tests = line.strip("|").rsplit("|", 1)
            yield control.strip(), tests.strip()


def files(folder, pattern):
    return [path for path in (ROOT / folder).rglob(pattern) if "corpus" not in path.parts]


class Claims(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cases = []  # (suite, case) of googletest
        for path in files("tests", "*_test.cc") + files("tests", "*.cc"):
            cls.cases += re.findall(
                r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\(\s*(\w+),\s*(\w+)",
                path.read_text(),
                re.M,
            )

    def exists(self, name):
        if re.fullmatch(r"Shapes\.Wire\.\*", name):
            return (ROOT / "tests/codegen/CMakeLists.txt").exists()
        if match := re.fullmatch(r"fuzz\.replay_(\w+|\*)", name):
            return any((ROOT / "tests/fuzz/corpus").glob(match[1]))
        if match := re.fullmatch(r"fuzz_(\w+)", name):
            return (ROOT / f"tests/fuzz/{match[1]}_fuzz.cc").exists()
        if match := re.fullmatch(r"(\w+_test)", name):
            return any(
                f"add_executable({name}" in path.read_text()
                for path in files("tests", "CMakeLists.txt")
            )
        if match := re.fullmatch(r"([a-z0-9_]+)\.([a-z_]+)", name):
            area, suite = match.groups()
            return any((ROOT / "tests" / area).rglob(f"{suite}*")) or any(
                re.search(rf"\b{area}\.{suite}\b|\b{suite}\b", path.read_text())
                for path in files(f"tests/{area}", "CMakeLists.txt")
            )
        suite, _, case = name.partition(".")
        matches = lambda pattern, text: re.fullmatch(
            pattern.replace("...", "*").replace("*", r"\w*"), text
        )
        return any(
            matches(suite, has) and (not case or matches(case, tests)) for has, tests in self.cases
        ) or any(has.startswith(suite) and not case for has, _ in self.cases)

    def test_each_control_has_tests_that_exist(self):
        found = list(controls())
        self.assertGreater(len(found), 40)
        for control, tests in found:
            with self.subTest(control[:60]):
                names = re.findall(r"`([^`]+)`", tests)
                self.assertTrue(names, "no test is named")
                self.assertEqual([name for name in names if not self.exists(name)], [])


if __name__ == "__main__":
    unittest.main()
