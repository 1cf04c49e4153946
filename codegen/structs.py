# SPDX-License-Identifier: Apache-2.0
"""Records that cross the wire field by field: which they are, and how each field is written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from plans import SpecError
from spec import Spec

_ARRAY = re.compile(r"^(?P<element>.+?)\s*\[(?P<count>\d+)\]$")


@dataclass
class Field:
    name: str
    kind: str  # scalar, record, omit, address
    type: str  # to convert to, as the header spells it
    wire: str = ""
    count: int = 0  # > 0: fixed array
    extent: str = ""  # address: the field that holds its bytes


@dataclass
class Case:
    value: str  # enumerator
    field: Field


@dataclass
class RecordCodec:
    record: str
    fields: list[Field]
    selector: str = ""  # a union: the type of what selects
    cases: list[Case] | None = None

    @property
    def addresses(self) -> list[Field]:
        return [field for field in self.fields if field.kind == "address"]


def record_codecs(spec: Spec) -> list[RecordCodec]:
    """The codecs of every record a call uses, those used by others first."""
    found: dict[str, RecordCodec] = {}
    for call in spec.calls.values():
        for plan in call.plans:
            if plan.record:
                _add(spec, plan.record, found)
    return list(found.values())


def _add(spec: Spec, name: str, found: dict[str, RecordCodec]) -> None:
    if name in found:
        return
    record, notes = spec.model.records[name], spec.structs.get(name, {})
    fields = {
        param.name: _field(spec, name, param, notes)
        for param in record.fields
        if not record.is_union or param.name in notes.get("cases", {}).values()
    }
    for field in fields.values():
        if field.kind == "record":
            _add(spec, spec.model.canonical(field.type), found)
    if not record.is_union:
        found[name] = RecordCodec(name, list(fields.values()))
        return
    if "switch" not in notes:
        raise SpecError(
            f"{spec.file}: union {name}: which member counts? Say switch and cases under structs"
        )
    cases = [Case(value, fields[member]) for value, member in notes["cases"].items()]
    found[name] = RecordCodec(name, [], notes["switch"], cases)


def _field(spec: Spec, record: str, param, notes: dict) -> Field:
    array = _ARRAY.match(param.type)
    spelled, count = (array["element"], int(array["count"])) if array else (param.type, 0)
    canonical = spec.model.canonical(spelled)
    if param.name in notes.get("omit", []):
        return Field(param.name, "omit", param.type)
    if param.name in notes.get("address", {}):
        return Field(
            param.name, "address", param.type, "uint64_t", extent=notes["address"][param.name]
        )
    wire = spec.classifier.wire_scalar(canonical)
    if wire:
        return Field(param.name, "scalar", spelled, wire, count)
    if canonical in spec.model.records and not spec.model.records[canonical].is_union:
        return Field(param.name, "record", spelled, "", count)
    raise SpecError(
        f"{spec.file}: {record}.{param.name} ({param.type}): nobody classified this field: omit or address "
        "under structs, or serve the call by hand"
    )
