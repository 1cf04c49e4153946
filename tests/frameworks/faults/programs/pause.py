# SPDX-License-Identifier: Apache-2.0
"""Meets the test at a point: says that it is there, goes on when the test has said so."""

import sys


def pause(name):
    print(f"at {name}", flush=True)
    sys.stdin.readline()
