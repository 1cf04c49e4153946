# SPDX-License-Identifier: Apache-2.0
"""Generated but committed: goldens, to read and to notice drift by, and the coverage page."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Callable

import outputs
import wrap_markdown
from layouts import layout_lines
from outputs import Inputs
from spec import Call

ROOT = Path(__file__).resolve().parent.parent

# One of each shape.
GOLDEN_CALLS = (
    "cuCtxGetLimit",  # a scalar comes back
    "cuCtxGetStreamPriorityRange",  # optional outputs
    "cuProfilerStart",  # no arguments
    "cuMemcpyDtoDAsync_v2",  # addresses with extents, a stream
    "cuMemsetD2D16Async",  # an extent to compute
    "cuStreamCreateWithPriority",  # a handle the client assigns
    "cuStreamDestroy_v2",  # a handle that ends
    "cuKernelGetFunction",  # a round trip that creates
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",  # a function or a kernel
    "cuStreamSetAttribute",  # a union
    "cuGraphExecUpdate_v2",  # a record comes back, also with an error
    "cuGraphAddEmptyNode",  # an array of handles
)
GOLDEN_ENTRIES = (
    "cuCtxGetLimit",
    "cuMemcpyPeer",
    "cuMemcpyPeer_ptds",
    "cuMemcpyHtoD_v2_ptds",
    "cuLaunchKernel_ptsz",
    "cuStreamDestroy",
    "cuWaitExternalSemaphoresAsync",
)


def _golden_calls(inputs: Inputs) -> list:
    by_name = {call.name: call for call in inputs.calls}
    return [by_name[name] for name in GOLDEN_CALLS]


def golden_client(inputs: Inputs) -> str:
    return outputs.render_client_calls(_golden_calls(inputs))


def golden_server(inputs: Inputs) -> str:
    return outputs.render_server_calls(inputs, _golden_calls(inputs))


def golden_entries(inputs: Inputs) -> str:
    by_name = {entry.name: entry for entry in inputs.entries}
    return outputs.render_client_entries([by_name[name] for name in GOLDEN_ENTRIES], ["cuGLInit"])


def golden_wire_test(inputs: Inputs) -> str:
    return outputs.render_wire_test(inputs, _golden_calls(inputs)[:4])


def golden_layouts(inputs: Inputs) -> str:
    lines = layout_lines(inputs.spec, inputs.calls, inputs.codecs)
    return (
        "# SPDX-License-Identifier: Apache-2.0\n"
        "# call: body -> reply. A released line never changes: another layout is another call id.\n"
        + "".join(f"{line}\n" for line in lines)
    )


# ---- docs/reference/coverage.md


def coverage(inputs: Inputs) -> str:
    traced = traced_calls()
    rows = [_coverage_row(inputs, name, call, traced) for name, call in inputs.by_id()]
    counts = Counter(row["class"] for row in rows)
    late = [call for call in inputs.spec.calls.values() if call.late]
    page = outputs.render(
        "coverage.md.j2",
        rows=rows,
        counts=counts,
        late=late,
        unsupported=[row["name"] for row in rows if row["class"] == "unsupported"],
    )
    return wrap_markdown.wrap(page)


def traced_calls() -> dict[str, list[str]]:
    """Exported name -> the tests that call it: of tests/api_trace, on a device and through Farcall; of tests/session/driver, through Farcall."""
    traced: dict[str, list[str]] = {}
    patterns = {
        "api_trace": r'\bT\(\s*(?:"[^"]*"|\w+),\s*(cu\w+)',
        "session/driver": r"\bD\((cu\w+)\)\(",
    }
    for folder, pattern in patterns.items():
        for source in sorted((ROOT / "tests" / folder).glob("*.cc")):
            for name in sorted(set(re.findall(pattern, source.read_text()))):
                traced.setdefault(name, []).append(f"{folder}/{source.stem}")
    return traced


def _coverage_row(
    inputs: Inputs, name: str, call: Call | None, traced: dict[str, list[str]]
) -> dict[str, str]:
    if call is None or not call.supported:
        return {
            "name": name,
            "class": "unsupported",
            "served": "",
            "client": "",
            "server": "",
            "test": "",
        }
    base = inputs.spec.base_of(call)
    target = inputs.spec.lowered(base)
    served = "" if target is call else target.name
    sides = (
        {"client": target.client, "server": target.server}
        if target is call
        else {"client": "", "server": ""}
    )
    tests = ["wire"] if target is call and call.server == "generated" else []
    tests += traced.get(name, [])
    test = ", ".join(tests)
    return {"name": name, "class": target.klass, "served": served, "test": test, **sides}


COMMITTED: dict[str, Callable[[Inputs], str]] = {
    "codegen/golden/client/cuda_calls.cc": golden_client,
    "codegen/golden/client/cuda_entries.cc": golden_entries,
    "codegen/golden/server/cuda_calls.cc": golden_server,
    "codegen/golden/tests/wire_test.cc": golden_wire_test,
    "codegen/golden/layouts.txt": golden_layouts,
    "docs/reference/coverage.md": coverage,
}
