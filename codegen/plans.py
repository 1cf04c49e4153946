# SPDX-License-Identifier: Apache-2.0
"""How one parameter crosses the wire: by its type and, where that is silent, by its roles."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from model import ApiModel, Param

ROLES = (
    "in",
    "out",
    "inout",
    "opt",
    "new",
    "free",
    "h",
    "dev",
    "align",
    "pitch",
    "rows",
    "most",
    "flags",
    "str",
    "stream",
    "device",
    "select",
)

# Canonical C type -> what crosses the wire.
SCALARS = {
    "char": "int8_t",
    "signed char": "int8_t",
    "unsigned char": "uint8_t",
    "short": "int16_t",
    "unsigned short": "uint16_t",
    "int": "int32_t",
    "unsigned int": "uint32_t",
    "long": "int64_t",
    "unsigned long": "uint64_t",
    "long long": "int64_t",
    "unsigned long long": "uint64_t",
    "float": "float",
    "double": "double",
}


class SpecError(Exception):
    pass


@dataclass
class Plan:
    """How one parameter crosses. `kind` decides the template's code:
    value, device, stream, handle, handles, new, address, string, in, in_array, out, inout."""

    param: Param
    kind: str
    type: str  # of the value itself: the pointee for pointers, as the header spells it
    wire: str = ""  # wire scalar, "" for a record
    record: str = ""  # canonical record name
    kinds: list[str] = field(default_factory=list)
    count: str = ""  # element count of an array, byte count of an address
    align: str = ""  # of an address or a pitch, in bytes
    pitch: str = ""  # of a pitch: the bytes of a row
    rows: str = ""  # of a pitch: one row has none
    most: str = ""  # of a value: the largest that CUDA documents
    flags: str = ""  # of a value: the bits that CUDA documents
    optional: bool = False
    free: bool = False
    select: str = ""
    is_enum: bool = False

    @property
    def to_wire(self) -> str:
        """The cast that Put needs: only an enum has no implicit one."""
        return f"static_cast<{self.wire}>" if self.is_enum else ""

    @property
    def invalid_handle(self) -> str:
        """CUDA's code for a handle that names nothing: graphs are mere values to it."""
        if self.kinds == ["kContext"]:
            return "CUDA_ERROR_INVALID_CONTEXT"
        graphs = {"kGraph", "kGraphExec", "kGraphNode"}
        return (
            "CUDA_ERROR_INVALID_VALUE" if graphs >= set(self.kinds) else "CUDA_ERROR_INVALID_HANDLE"
        )

    @property
    def name(self) -> str:
        return self.param.name

    @property
    def is_input(self) -> bool:
        return self.kind != "out"

    @property
    def is_output(self) -> bool:
        return self.kind in ("out", "inout")


class Classifier:
    """Turns parameters into plans. A parameter that neither type nor role settles fails."""

    def __init__(self, model: ApiModel, handles: dict[str, str]):
        self.model, self.handles = model, handles

    def plan(self, param: Param, text: str, where: str) -> Plan:
        """`text` is the annotation, "" for none; `where` opens each message."""
        roles = _parse_roles(text, where)
        canonical = self.model.canonical(param.type)
        if canonical.endswith("*"):
            pointee = canonical[:-1].strip()
            handle = self.handles.get(pointee)
            if handle:
                return self._handle_plan(param, handle, roles)
            return self._pointer_plan(param, pointee, roles, where)
        return self._value_plan(param, canonical, roles, where)

    def _value_plan(self, param: Param, canonical: str, roles: dict[str, str], where: str) -> Plan:
        spelled = param.type.strip()
        if spelled.startswith("CUdeviceptr"):
            if "dev" not in roles:
                raise SpecError(f"{where}: a device address needs its extent: dev(<bytes>)")
            return Plan(
                param,
                "address",
                spelled,
                wire="uint64_t",
                count=roles["dev"],
                align=roles.get("align", ""),
            )
        if spelled.startswith("CUdevice") and canonical == "int":
            return Plan(param, "device", spelled, wire="int32_t")
        wire = self.wire_scalar(canonical)
        if not wire:
            raise SpecError(f"{where}: a by-value {canonical} has no wire form: serve it by hand")
        pitch = roles.get("pitch", "")
        return Plan(
            param,
            "value",
            spelled,
            wire=wire,
            is_enum=canonical in self.model.enums,
            pitch=pitch,
            rows=roles.get("rows", "1"),
            align=roles.get("align", "") if pitch else "",
            most=roles.get("most", ""),
            flags=roles.get("flags", ""),
        )

    def _handle_plan(self, param: Param, kind: str, roles: dict[str, str]) -> Plan:
        if "free" in roles:
            return Plan(param, "handle", param.type, wire="uint64_t", kinds=[kind], free=True)
        if kind == "kStream" and "h" not in roles:
            return Plan(param, "stream", param.type, wire="uint64_t")
        kinds = roles["h"].split("|") if roles.get("h") else [kind]
        return Plan(
            param, "handle", param.type, wire="uint64_t", kinds=kinds, optional="opt" in roles
        )

    def _pointer_plan(self, param: Param, pointee: str, roles: dict[str, str], where: str) -> Plan:
        const = pointee.startswith("const ")
        bare = pointee.removeprefix("const ").strip()
        spelled = _pointee_spelling(param.type)
        optional = "opt" in roles
        if "dev" in roles:
            return Plan(param, "address", param.type, wire="uint64_t", count=roles["dev"])
        handle = self.handles.get(bare.rstrip("* ").strip()) if bare.endswith("*") else None
        if handle:
            return self._handle_pointer(param, handle, roles, spelled, where)
        if const and bare == "char" and not roles.keys() - {"str"}:
            return Plan(param, "string", "const char*")
        wire, record = self.wire_scalar(bare), self._record(bare)
        if not wire and not record:
            raise SpecError(
                f"{where}: nobody classified this pointer: add a role for '{param.name}' under args, one of "
                f"{', '.join(ROLES)}, or serve the call by hand"
            )
        kind = next((role for role in ("in", "out", "inout") if role in roles), "")
        if not kind:
            if record and not const:
                raise SpecError(f"{where}: nobody classified this pointer: in, out or inout?")
            kind = "in" if const else "out"
        if kind == "in" and roles.get("in"):
            kind = "in_array"
            if record:
                raise SpecError(f"{where}: an array of records has no wire form: serve it by hand")
        plan = Plan(
            param,
            kind,
            spelled,
            wire=wire,
            record=record,
            count=roles.get("in", ""),
            optional=optional,
            select=roles.get("select", ""),
            is_enum=bare in self.model.enums,
        )
        if record and self.model.records[record].is_union and not plan.select:
            raise SpecError(f"{where}: a union needs select(<parameter>)")
        return plan

    def _handle_pointer(
        self, param: Param, kind: str, roles: dict[str, str], spelled: str, where: str
    ) -> Plan:
        if "new" in roles:
            return Plan(param, "new", spelled, wire="uint64_t", kinds=[kind])
        if roles.get("in"):
            return Plan(param, "handles", spelled, wire="uint64_t", kinds=[kind], count=roles["in"])
        raise SpecError(f"{where}: nobody classified this pointer: new, or in(<count>)?")

    def wire_scalar(self, canonical: str) -> str:
        """The wire form of a scalar or enum; "" for anything else."""
        return "int32_t" if canonical in self.model.enums else SCALARS.get(canonical, "")

    def _record(self, canonical: str) -> str:
        record = self.model.records.get(canonical)
        return canonical if record and record.complete else ""


def _pointee_spelling(spelled: str) -> str:
    text = spelled.strip()
    return text[:-1].strip().removeprefix("const ").strip() if text.endswith("*") else text


_ROLE = re.compile(r"\s*([a-z]+)")


def _parse_roles(text: str, where: str) -> dict[str, str]:
    """ "in(n) opt" -> {"in": "n", "opt": ""}. Arguments may hold balanced parentheses."""
    roles, at = {}, 0
    while text[at:].strip():
        found = _ROLE.match(text, at)
        if not found or found[1] not in ROLES:
            raise SpecError(
                f"{where}: unknown role '{text[at:].strip()}', one of {', '.join(ROLES)}"
            )
        at, argument = found.end(), ""
        if at < len(text) and text[at] == "(":
            depth, start = 1, at + 1
            while depth and at + 1 < len(text):
                at += 1
                depth += {"(": 1, ")": -1}.get(text[at], 0)
            if depth:
                raise SpecError(f"{where}: '{text}': a parenthesis is not closed")
            argument, at = text[start:at].strip(), at + 1
        roles[found[1]] = argument
    return roles
