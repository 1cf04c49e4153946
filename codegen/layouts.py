# SPDX-License-Identifier: Apache-2.0
"""The wire layout of each generated call as one line: what an old client and a new server share."""

from __future__ import annotations

from plans import Plan
from spec import Spec
from structs import Field, RecordCodec
from views import CallView


def layout_lines(spec: Spec, calls: list[CallView], codecs: list[RecordCodec]) -> list[str]:
    by_record = {codec.record: codec for codec in codecs}
    lines = []
    for call in sorted(calls, key=lambda call: call.name):
        if call.server != "generated":
            continue
        body = " ".join(_plan(spec, plan, by_record) for plan in call.inputs)
        reply = " ".join(_plan(spec, plan, by_record) for plan in call.outputs)
        lines.append(f"{call.name}: {body or 'nothing'}" + (f" -> {reply}" if reply else ""))
    return lines


def _plan(spec: Spec, plan: Plan, codecs: dict[str, RecordCodec]) -> str:
    if plan.kind in ("handle", "new"):
        return "|".join(plan.kinds)
    if plan.kind == "handles":
        return f"{plan.kinds[0]}[]"
    if plan.kind in ("stream", "string", "address", "device"):
        return plan.kind
    if plan.kind == "in_array":
        return f"{plan.wire}[]"
    text = _record(spec, codecs[plan.record], codecs) if plan.record else plan.wire
    return "?" + text if plan.optional and plan.kind == "in" else text


def _record(spec: Spec, codec: RecordCodec, codecs: dict[str, RecordCodec]) -> str:
    if codec.cases is not None:
        cases = (f"{case.value}: {_field(spec, case.field, codecs)}" for case in codec.cases)
        return "union{" + ", ".join(cases) + "}"
    fields = (_field(spec, field, codecs) for field in codec.fields if field.kind != "omit")
    return "{" + " ".join(fields) + "}"


def _field(spec: Spec, field: Field, codecs: dict[str, RecordCodec]) -> str:
    if field.kind == "record":
        text = _record(spec, codecs[spec.model.canonical(field.type)], codecs)
    else:
        text = field.wire
    return f"{text}[{field.count}]" if field.count else text
