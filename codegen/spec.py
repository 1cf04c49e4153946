# SPDX-License-Identifier: Apache-2.0
"""The annotations of spec/<library>.yaml, joined with the headers: a plan for each exported name. Whatever nobody settled fails here."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from model import ApiModel, Function, NameParts, Param

CLASSES = ("local", "query", "post", "sync")
CALL_KEYS = {"class", "client", "server", "needs", "slow", "capture", "late", "as", "lower", "args", "outputs"}
NEEDS = {"nothing": "kNothing", "init": "kInit", "context": "kContext"}
ROLES = ("in", "out", "inout", "opt", "new", "free", "h", "dev", "str", "stream", "device", "select")

# Canonical C type -> what crosses the wire.
SCALARS = {
    "char": "int8_t", "signed char": "int8_t", "unsigned char": "uint8_t", "short": "int16_t",
    "unsigned short": "uint16_t", "int": "int32_t", "unsigned int": "uint32_t", "long": "int64_t",
    "unsigned long": "uint64_t", "long long": "int64_t", "unsigned long long": "uint64_t", "float": "float",
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
    type: str                     # of the value itself: the pointee for pointers, as the header spells it
    wire: str = ""                # wire scalar, "" for a record
    record: str = ""              # canonical record name
    kinds: list[str] = field(default_factory=list)
    count: str = ""               # element count of an array, byte count of an address
    optional: bool = False
    free: bool = False
    select: str = ""
    is_enum: bool = False

    @property
    def to_wire(self) -> str:
        """The cast that Put needs: only an enum has no implicit one."""
        return f"static_cast<{self.wire}>" if self.is_enum else ""

    @property
    def name(self) -> str:
        return self.param.name

    @property
    def is_input(self) -> bool:
        return self.kind != "out"

    @property
    def is_output(self) -> bool:
        return self.kind in ("out", "inout")


@dataclass
class Call:
    """One exported name and how it is served."""

    function: Function
    klass: str = "unsupported"
    client: str = "none"     # generated, hand, none
    server: str = "none"     # generated, hand, none
    needs: str = "context"
    slow: bool = False
    capture_unsafe: bool = False
    late: list[str] = field(default_factory=list)
    outputs_always: bool = False
    reason: str = ""
    base: str = ""           # the call a _ptsz/_ptds variant or an `as` is served as
    lower: str = ""          # "target(arguments)"
    default_stream: bool = False  # takes `CUstream default_stream` after its own arguments
    plans: list[Plan] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def supported(self) -> bool:
        return self.klass != "unsupported"

    @property
    def per_thread(self) -> bool:
        return bool(self.function.parts.per_thread)

    @property
    def has_record(self) -> bool:
        return self.server != "none"

    @property
    def inputs(self) -> list[Plan]:
        return [plan for plan in self.plans if plan.is_input]

    @property
    def outputs(self) -> list[Plan]:
        return [plan for plan in self.plans if plan.is_output]

    @property
    def body(self) -> str:
        """The C++ function that does the work on the client."""
        if self.client == "hand":
            return f"Call_{self.name}"
        return ("Post_" if self.klass == "post" else "RoundTrip_") + self.name


class Spec:
    def __init__(self, model: ApiModel, data: dict, file: str):
        self.model, self.data, self.file = model, data, file
        self.handles: dict[str, str] = data.get("handles", {})
        self.structs: dict[str, dict] = data.get("structs", {})
        self.calls: dict[str, Call] = {}
        self._load()

    def base_of(self, call: Call) -> Call:
        while call.base:
            call = self.calls[call.base]
        return call

    def _load(self) -> None:
        for group in self.data["groups"]:
            for name, row in group["calls"].items():
                self._add(name, row or {}, group["reason"])
        for name in str(self.data.get("unsupported", "")).split():
            self._known(name)
            if name in self.calls:
                raise SpecError(f"{self.file}: {name} is both supported and unsupported")
            self.calls[name] = Call(self.model.functions[name])
        self._add_variants()
        missing = sorted(set(self.model.functions) - set(self.calls))
        if missing:
            raise SpecError(f"{self.file}: no entry for {', '.join(missing)}: describe it under groups, or list it under "
                            "unsupported")
        for call in self.calls.values():
            self._check_targets(call)

    def _known(self, name: str) -> Function:
        if name not in self.model.functions:
            raise SpecError(f"{self.file}: {name}: the headers declare no such function")
        return self.model.functions[name]

    def _add(self, name: str, row: dict, reason: str) -> None:
        function = self._known(name)
        unknown = sorted(set(row) - CALL_KEYS)
        if unknown:
            raise SpecError(f"{self.file}: {name}: unknown key '{unknown[0]}', one of {', '.join(sorted(CALL_KEYS))}")
        if name in self.calls:
            raise SpecError(f"{self.file}: {name} is described twice")
        call = Call(function, reason=reason, needs=row.get("needs", "context"), slow=bool(row.get("slow")),
                    late=row.get("late", []), outputs_always=row.get("outputs") == "always",
                    capture_unsafe=row.get("capture") == "unsafe", base=row.get("as", ""), lower=row.get("lower", ""),
                    default_stream=f"{name}_ptds" in self.model.functions)
        if call.needs not in NEEDS:
            raise SpecError(f"{self.file}: {name}: needs '{call.needs}', one of {', '.join(NEEDS)}")
        self.calls[name] = call
        if call.base or call.lower:
            call.klass = "as" if call.base else "lower"
            return
        self._set_sides(call, row)
        if call.has_record and "generated" in (call.client, call.server):
            call.plans = [self._plan(call, param, str(row.get("args", {}).get(param.name, "")))
                          for param in function.params]
        stray = sorted(set(row.get("args", {})) - {param.name for param in function.params})
        if stray:
            raise SpecError(f"{self.file}: {name}: no parameter '{stray[0]}'")

    def _set_sides(self, call: Call, row: dict) -> None:
        call.klass = row.get("class", "")
        if call.klass not in CLASSES:
            raise SpecError(f"{self.file}: {call.name}: class '{call.klass}', one of {', '.join(CLASSES)}")
        hand = call.klass in ("local", "query")
        call.client = row.get("client", "hand" if hand else "generated")
        call.server = row.get("server", "none" if call.klass == "local" else "generated")
        if call.client == "generated" and call.server != "generated":
            raise SpecError(f"{self.file}: {call.name}: a generated client needs a generated server: the layouts are one")

    def _add_variants(self) -> None:
        for name, function in self.model.functions.items():
            parts = NameParts.of(name)
            if not parts.per_thread or name in self.calls:
                continue
            base = self.calls.get(name[: -len(parts.per_thread) - 1])
            if base is None:
                continue
            variant = Call(function)
            if base.supported:
                variant = Call(function, klass="as", base=base.name, needs=base.needs, reason=base.reason)
            self.calls[name] = variant

    def _check_targets(self, call: Call) -> None:
        target = call.base or call.lower.split("(")[0]
        if target and (target not in self.calls or not self.calls[target].supported):
            raise SpecError(f"{self.file}: {call.name}: served as {target}, which is not supported")
        if call.base and self.model.signature(call.function) != self.model.signature(self.calls[target].function):
            raise SpecError(f"{self.file}: {call.name}: its parameters differ from those of {target}")

    # ---- Parameters

    def _plan(self, call: Call, param: Param, text: str) -> Plan:
        where = f"{self.file}: {call.name}({param.type} {param.name})"
        roles = _parse_roles(text, where)
        canonical = self.model.canonical(param.type)
        if canonical.endswith("*"):
            pointee = canonical[:-1].strip()
            handle = self.handles.get(pointee)
            if handle:
                return self._handle_plan(call, param, handle, roles)
            return self._pointer_plan(param, pointee, roles, where)
        return self._value_plan(param, canonical, roles, where)

    def _value_plan(self, param: Param, canonical: str, roles: dict[str, str], where: str) -> Plan:
        spelled = param.type.strip()
        if spelled.startswith("CUdeviceptr"):
            if "dev" not in roles:
                raise SpecError(f"{where}: a device address needs its extent: dev(<bytes>)")
            return Plan(param, "address", spelled, wire="uint64_t", count=roles["dev"])
        if spelled.startswith("CUdevice") and canonical == "int":
            return Plan(param, "device", spelled, wire="int32_t")
        wire = self.wire_scalar(canonical)
        if not wire:
            raise SpecError(f"{where}: a by-value {canonical} has no wire form: serve it by hand")
        return Plan(param, "value", spelled, wire=wire, is_enum=canonical in self.model.enums)

    def _handle_plan(self, call: Call, param: Param, kind: str, roles: dict[str, str]) -> Plan:
        if "free" in roles:
            return Plan(param, "handle", param.type, wire="uint64_t", kinds=[kind], free=True)
        if kind == "kStream" and "h" not in roles:
            return Plan(param, "stream", param.type, wire="uint64_t")
        kinds = roles["h"].split("|") if roles.get("h") else [kind]
        return Plan(param, "handle", param.type, wire="uint64_t", kinds=kinds, optional="opt" in roles)

    def _pointer_plan(self, param: Param, pointee: str, roles: dict[str, str], where: str) -> Plan:
        const = pointee.startswith("const ")
        bare = pointee.removeprefix("const ").strip()
        spelled = _pointee_spelling(param.type)
        optional = "opt" in roles
        handle = self.handles.get(bare.rstrip("* ").strip()) if bare.endswith("*") else None
        if handle:
            return self._handle_pointer(param, handle, roles, spelled, where)
        if const and bare == "char" and not roles.keys() - {"str", "opt"}:
            return Plan(param, "string", "const char*", optional=optional)
        wire, record = self.wire_scalar(bare), self._record(bare)
        if not wire and not record:
            raise SpecError(f"{where}: nobody classified this pointer: add a role for '{param.name}' under args, one of "
                            f"{', '.join(ROLES)}, or serve the call by hand")
        kind = next((role for role in ("in", "out", "inout") if role in roles), "")
        if not kind:
            if record and not const:
                raise SpecError(f"{where}: nobody classified this pointer: in, out or inout?")
            kind = "in" if const else "out"
        if kind == "in" and roles.get("in"):
            kind = "in_array"
        plan = Plan(param, kind, spelled, wire=wire, record=record, count=roles.get("in", ""), optional=optional,
                    select=roles.get("select", ""), is_enum=bare in self.model.enums)
        if record and self.model.records[record].is_union and not plan.select:
            raise SpecError(f"{where}: a union needs select(<parameter>)")
        return plan

    def _handle_pointer(self, param: Param, kind: str, roles: dict[str, str], spelled: str, where: str) -> Plan:
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


def load_spec(path: Path, model: ApiModel) -> Spec:
    return Spec(model, yaml.safe_load(path.read_text()), path.name)


def _pointee_spelling(spelled: str) -> str:
    text = spelled.strip()
    return text[:-1].strip().removeprefix("const ").strip() if text.endswith("*") else text


_ROLE = re.compile(r"\s*([a-z]+)")


def _parse_roles(text: str, where: str) -> dict[str, str]:
    """"in(n) opt" -> {"in": "n", "opt": ""}. Arguments may hold balanced parentheses."""
    roles, at = {}, 0
    while text[at:].strip():
        found = _ROLE.match(text, at)
        if not found or found[1] not in ROLES:
            raise SpecError(f"{where}: unknown role '{text[at:].strip()}', one of {', '.join(ROLES)}")
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
