# SPDX-License-Identifier: Apache-2.0
"""The generated files: one function per file, each from one template. Paths are relative to build/generated."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import jinja2

from model import ApiModel
from procs import ProcRow


@dataclass
class Inputs:
    """All that an output may use."""

    model: ApiModel
    ids: dict[str, int]
    procs: list[ProcRow]


def _environment() -> jinja2.Environment:
    return jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
                              undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
                              keep_trailing_newline=True, autoescape=False)


_ENVIRONMENT = _environment()


def _render(template: str, **values) -> str:
    return _ENVIRONMENT.get_template(template).render(**values)


def call_id(inputs: Inputs) -> str:
    return _render("call_id.h.j2", ids=inputs.ids)


def proc_table(inputs: Inputs) -> str:
    functions = inputs.model.functions
    return _render("proc_table.inc.j2", rows=[r for r in inputs.procs if not functions[r.symbol].graphics])


def default_entries(inputs: Inputs) -> str:
    return _render("default_entries.cc.j2", names=sorted(inputs.ids))


def exports_map(inputs: Inputs) -> str:
    return _render("exports.map.j2", names=sorted(inputs.ids))


OUTPUTS: dict[str, Callable[[Inputs], str]] = {
    "proto/call_id.h": call_id,
    "cuda-abi/proc_table.inc": proc_table,
    "cpu-device/default_entries.cc": default_entries,
    "exports.map": exports_map,
}
