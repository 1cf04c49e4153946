#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what a run of ctest ran, passed, failed and skipped, with the reasons of what it skipped.

    scripts/test_summary.py BUILD JUNIT     a build tree, and what `ctest --output-junit` wrote

Tests count under their first label. A program that could not be started counts as failed.
"""

import collections
import json
import re
import subprocess
import sys
import xml.etree.ElementTree

REASON = re.compile(r"^skipped:? +(.+)$", re.IGNORECASE | re.MULTILINE)
GTEST_REASON = re.compile(r":\d+: Skipped\n(.+)$", re.MULTILINE)
INNER = re.compile(r"\bskipped=(\d+)")  # unittest's own count, inside a test that passed
GTEST = re.compile(r"\[\s+SKIPPED \] (\d+) tests?")
FAILURE = re.compile(r"^(FAIL|ERROR): |: Failure$|^terminate called|Assertion .* failed")
SHOWN_LINES = 30  # of a failed test's output, and at most so many before them


def labels_of(build):
    """Test name -> its first label."""
    listed = subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    labels = {}
    for test in json.loads(listed)["tests"]:
        of_test = [
            value
            for entry in test.get("properties", [])
            if entry["name"] == "LABELS"
            for value in entry["value"]
        ]
        labels[test["name"]] = of_test[0] if of_test else test["name"].split(".")[0]
    return labels


def reason_of(case):
    """Why a test was skipped: what it printed, else what ctest says."""
    output = (case.findtext("system-out") or "").strip()
    if case.get("status") == "disabled":
        return "disabled"
    for pattern in (REASON, GTEST_REASON):
        found = pattern.findall(output)
        if found:
            return found[-1].strip()
    return output.splitlines()[-1] if output else "no reason given"


def outcome_of(case):
    if case.get("status") == "fail" or case.find("failure") is not None:
        return "failed"
    skipped = case.find("skipped")
    if skipped is not None and not skipped.get("message", "").startswith("SKIP_"):
        return "failed"
    return "passed" if case.get("status") == "run" else "skipped"


def telling(output):
    """Of a failed test's lines: where its first failure begins, and the end."""
    end = output[-SHOWN_LINES:]
    first = next((i for i, line in enumerate(output) if FAILURE.search(line)), len(output))
    begin = output[first : min(first + SHOWN_LINES, len(output) - len(end))]
    return begin + ["..."] * (len(begin) == SHOWN_LINES) + end


def summary(cases, labels):
    """The lines of the report, and the number of tests that failed."""
    areas = collections.defaultdict(collections.Counter)
    reasons = collections.defaultdict(list)
    failed, inner = [], []
    for case in cases:
        name, outcome = case.get("name"), outcome_of(case)
        for area in (labels.get(name, name.split(".")[0]), "all"):
            areas[area][outcome] += 1
            areas[area]["seconds"] += float(case.get("time") or 0)
        if outcome == "failed":
            failed.append((name, case.findtext("system-out") or ""))
        elif outcome == "skipped":
            reasons[reason_of(case)].append(name)
        else:
            output = case.findtext("system-out") or ""
            count = sum(map(int, INNER.findall(output) + GTEST.findall(output)))
            if count:
                inner.append(f"{name} ({count})")
    lines = [f"{'label':<14}{'run':>7}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}"]
    for area in sorted(areas, key=lambda area: (area == "all", area)):
        row = areas[area]
        lines.append(
            f"{area:<14}{row['passed'] + row['failed']:>7}{row['passed']:>8}"
            f"{row['failed']:>8}{row['skipped']:>9}{row['seconds']:>9.0f}"
        )
    if reasons:
        lines += ["", "skipped:"]
        for reason, names in sorted(reasons.items()):
            lines.append(f"  {', '.join(names)}: {reason[:200]}")
    if inner:
        lines += ["", "passed, with checks skipped inside: " + ", ".join(inner)]
    if failed:
        lines += ["", "failed:"]
    for name, output in failed:
        lines.append(f"  {name}")
        lines += [f"    | {line[:200]}" for line in telling(output.strip().splitlines())]
    return lines, len(failed)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, junit = sys.argv[1:]
    cases = xml.etree.ElementTree.parse(junit).getroot().findall("testcase")
    lines, failed = summary(cases, labels_of(build))
    print("\n".join(lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
