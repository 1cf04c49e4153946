# SPDX-License-Identifier: Apache-2.0
"""The generated files: one function and one template each. Paths are below build/generated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import jinja2

from model import ApiModel
from procs import ProcRow
from spec import Call, Spec
from structs import RecordCodec, record_codecs
from views import CallView, EntryView, call_views, entry_views, wrap
from wire_tests import wire_tests


@dataclass
class Inputs:
    """All that an output may use."""

    model: ApiModel
    ids: dict[str, int]
    procs: list[ProcRow]
    spec: Spec

    def __post_init__(self):
        self.codecs: list[RecordCodec] = record_codecs(self.spec)
        self.calls: list[CallView] = call_views(self.spec, self.codecs)
        self.entries: list[EntryView] = entry_views(self.spec)

    def by_id(self) -> list[tuple[str, Call | None]]:
        """Every id's name with its call; None if these headers do not declare it."""
        return [(name, self.spec.calls.get(name)) for name in self.ids]


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.globals["wrap"] = wrap
    return environment


_ENVIRONMENT = _environment()


def render(template: str, **values) -> str:
    return _ENVIRONMENT.get_template(template).render(**values)


def call_id(inputs: Inputs) -> str:
    return render("call_id.h.j2", ids=inputs.ids)


def proc_table(inputs: Inputs) -> str:
    functions = inputs.model.functions
    return render(
        "proc_table.inc.j2", rows=[r for r in inputs.procs if not functions[r.symbol].graphics]
    )


def default_entries(inputs: Inputs) -> str:
    return render(
        "default_entries.cc.j2", names=sorted(inputs.ids), source="cuda.ids", not_supported=801
    )


def exports_map(inputs: Inputs) -> str:
    return render("exports.map.j2", names=sorted(inputs.ids))


def call_info(inputs: Inputs) -> str:
    rows = [_info_row(inputs.spec, name, call) for name, call in inputs.by_id()]
    return render("call_info.h.j2", rows=rows)


def _info_row(spec: Spec, name: str, call: Call | None) -> str:
    if call is None or not call.supported:
        return f"{{}},  // {name}"
    base = spec.base_of(call)
    target = spec.lowered(base)
    needs = {"nothing": "kNothing", "init": "kInit", "context": "kContext"}[base.needs]
    fields = [f".call_class = CallClass::k{target.klass.capitalize()}"]
    if needs != "kContext":
        fields.append(f".needs = CallNeeds::{needs}")
    if base.capture != "allowed":
        fields.append(f".capture = CallCapture::k{base.capture.capitalize()}")
    if target.effect:
        fields.append(f".effect = CallEffect::k{target.effect.capitalize()}")
    flags = {
        "waits": target.waits,
        "quiet": target.quiet,
        "renews": target.renews,
        "slow": target.slow,
        "by_streams": target.by_streams,
        "touches_graphs": target.touches == "graphs",
        "touches_libraries": target.touches == "libraries",
    }
    fields += [f".{flag} = true" for flag, value in flags.items() if value]
    if target.alike:
        fields.append(f".alike_bytes = {target.alike}")
    if target.has_record:
        fields.append(f".record = CallId::{target.name}")
    return f"{{{', '.join(fields)}}},  // {name}"


def structs(inputs: Inputs) -> str:
    return render("cuda_structs.h.j2", codecs=inputs.codecs)


def client_calls_header(inputs: Inputs) -> str:
    return render(
        "client_calls.h.j2", calls=[call for call in inputs.calls if call.server == "generated"]
    )


def client_handwritten(inputs: Inputs) -> str:
    return render(
        "client_handwritten.h.j2", calls=[call for call in inputs.calls if call.client == "hand"]
    )


def client_calls(inputs: Inputs) -> str:
    return render_client_calls([call for call in inputs.calls if call.server == "generated"])


def render_client_calls(calls: list[CallView]) -> str:
    return render("client_calls.cc.j2", calls=calls)


def client_entries(inputs: Inputs) -> str:
    declared = {entry.name for entry in inputs.entries}
    return render_client_entries(
        inputs.entries, [name for name in inputs.ids if name not in declared]
    )


def render_client_entries(entries: list[EntryView], foreign: list[str]) -> str:
    return render("client_entries.cc.j2", entries=entries, foreign=foreign)


def _driver_names(inputs: Inputs) -> list[str]:
    functions = inputs.model.functions.values()
    return [f.name for f in functions if not f.graphics and not f.parts.per_thread]


def driver_api_header(inputs: Inputs) -> str:
    return render("driver_api.h.j2", names=_driver_names(inputs))


def driver_api(inputs: Inputs) -> str:
    return render("driver_api.cc.j2", names=_driver_names(inputs))


def server_handwritten(inputs: Inputs) -> str:
    return render(
        "server_handwritten.h.j2",
        hand=[call for call in inputs.calls if call.server == "hand"],
        generated=[call for call in inputs.calls if call.server == "generated"],
    )


def server_calls(inputs: Inputs) -> str:
    calls = [call for call in inputs.calls if call.server == "generated"]
    return render_server_calls(inputs, calls, _dispatch_rows(inputs))


def render_server_calls(inputs: Inputs, calls: list[CallView], rows: list[str] = ()) -> str:
    arrays = any(plan.kind == "in_array" for call in calls for plan in call.plans)
    return render(
        "server_calls.cc.j2",
        calls=calls,
        arrays=arrays,
        resolvers=[codec for codec in inputs.codecs if codec.addresses],
        rows=rows,
    )


def _dispatch_rows(inputs: Inputs) -> list[str]:
    rows = []
    for name, call in inputs.by_id():
        serve = f"Serve_{name}" if call and call.has_record else "nullptr"
        rows.append(f'{{"{name}", {serve}}},')
    return rows


def wire_test(inputs: Inputs) -> str:
    return render_wire_test(inputs, inputs.calls)


def render_wire_test(inputs: Inputs, calls: list[CallView]) -> str:
    return render("wire_test.cc.j2", tests=wire_tests(inputs.spec, calls, inputs.codecs))


OUTPUTS: dict[str, Callable[[Inputs], str]] = {
    "proto/call_id.h": call_id,
    "cuda-abi/proc_table.inc": proc_table,
    "cpu-device/default_entries.cc": default_entries,
    "exports.map": exports_map,
    "proto/call_info.h": call_info,
    "proto/cuda_structs.h": structs,
    "client/handwritten.h": client_handwritten,
    "client/calls.h": client_calls_header,
    "client/cuda_calls.cc": client_calls,
    "client/cuda_entries.cc": client_entries,
    "server/driver_api.h": driver_api_header,
    "server/driver_api.cc": driver_api,
    "server/handwritten.h": server_handwritten,
    "server/cuda_calls.cc": server_calls,
    "tests/wire_test.cc": wire_test,
}
