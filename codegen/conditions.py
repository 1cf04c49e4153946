# SPDX-License-Identifier: Apache-2.0
"""Conditions on arguments, as C++ expressions."""

from __future__ import annotations


def is_one_of(name: str, numbers: list[int]) -> str:
    """A condition: a range for each run of numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [
        f"{name} == {first}" if first == last else f"IsFrom({first}, {name}, {last})"
        for first, last in runs
    ]
    return texts[0] if len(texts) == 1 else f"({' || '.join(texts)})"
