# SPDX-License-Identifier: Apache-2.0
"""What the templates see: plans joined with the C++ spelling of their parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from model import Param
from plans import Plan, SpecError
from spec import NEEDS, Call, Spec
from structs import RecordCodec

LINE = 100
BODY_ROOM = 512  # client-shim/core/roles.h, BodyRoom
RESERVED = {"call", "error", "body", "room", "reply", "outputs"}


def wrap(prefix: str, items: list[str], suffix: str) -> str:
    """prefix + items joined by commas + suffix, broken as the house's clang-format would."""
    line = prefix + ", ".join(items) + suffix
    if len(line) <= LINE or not items:
        return line
    indent = len(prefix) - len(prefix.lstrip())
    column = len(prefix)
    lines, current = [], prefix
    if column > LINE // 2 or column + max(len(item) for item in items) + len(suffix) + 1 > LINE:
        column = indent + 4
        lines, current = [prefix], " " * column
    for index, item in enumerate(items):
        piece = item + ("," if index + 1 < len(items) else suffix)
        space = "" if current.endswith("(") or not current.strip() else " "
        if len(current) + len(space) + len(piece) > LINE:
            lines.append(current)
            current, space = " " * column, ""
        current += space + piece
    return "\n".join(lines + [current])


def declare(param: Param) -> str:
    return f"{house_type(param.type)} {param.name}"


def house_type(spelled: str) -> str:
    """clang's `int *` as the house writes it: `int*`."""
    return spelled.replace(" *", "*")


@dataclass
class CallView:
    """A call with a body of its own on the client or the server."""

    call: Call
    resolvers: dict[str, str]  # parameter -> statement that resolves addresses inside its record

    def __getattr__(self, name):
        return getattr(self.call, name)

    @property
    def record_body(self) -> str:
        """The generated function that appends this call's record."""
        return ("Post_" if self.call.klass == "post" else "RoundTrip_") + self.call.name

    @property
    def own_signature(self) -> list[str]:
        return [declare(param) for param in self.call.function.params]

    @property
    def signature(self) -> list[str]:
        extra = (
            ["CUstream default_stream"]
            if self.call.default_stream and self.call.client == "hand"
            else []
        )
        return self.own_signature + extra

    @property
    def created(self) -> list[Plan]:
        return [plan for plan in self.call.plans if plan.kind == "new"]

    @property
    def freed(self) -> list[Plan]:
        return [plan for plan in self.call.plans if plan.free]

    @property
    def uses_error(self) -> bool:
        return bool(
            self.created
            or self.freed
            or any(plan.kind in ("stream", "device") for plan in self.call.plans)
        )

    @property
    def returns_error(self) -> bool:
        return self.call.outputs_always or not (self.created or self.call.outputs)

    @cached_property
    def grows(self) -> bool:
        """True if the body's size is not known here, so that it is built on the heap."""
        kinds = {plan.kind for plan in self.call.inputs}
        records = any(plan.record for plan in self.call.inputs)
        if not records and not kinds & {"string", "in_array", "handles"}:
            if 16 * len(self.call.inputs) > BODY_ROOM:
                raise SpecError(
                    f"{self.call.name}: its body may exceed the {BODY_ROOM} bytes of BodyRoom"
                )
            return False
        return True

    @property
    def resolves(self) -> bool:
        return any(
            plan.kind in ("handle", "handles", "stream", "device", "address", "new")
            or plan.name in self.resolvers
            for plan in self.call.inputs
        )

    @property
    def just_sends(self) -> bool:
        """True if nothing is left to do after the record: its code is the call's."""
        return not (self.created or self.freed or self.call.outputs)

    @property
    def send(self) -> list[str]:
        """The arguments of Post or RoundTrip."""
        body = (
            "{}"
            if not self.call.inputs
            else "body.bytes()"
            if self.grows
            else "Written(room, body)"
        )
        return [f"CallId::{self.call.name}", body] + (
            [] if self.call.klass == "post" else ["&reply"]
        )

    @property
    def native_arguments(self) -> list[str]:
        return [_native(plan) for plan in self.call.plans]


def _native(plan: Plan) -> str:
    if plan.kind in ("in", "inout"):
        return f"has_{plan.name} ? &{plan.name} : nullptr" if plan.optional else f"&{plan.name}"
    if plan.kind == "address" and plan.type.endswith("*"):
        return f"reinterpret_cast<{house_type(plan.type)}>({plan.name})"
    return {
        "out": f"&{plan.name}",
        "new": f"&{plan.name}",
        "string": f"{plan.name}.c_str()",
        "in_array": f"{plan.name}.data()",
        "handles": f"{plan.name}.data()",
    }.get(plan.kind, plan.name)


def call_views(spec: Spec, codecs: list[RecordCodec]) -> list[CallView]:
    views = []
    for call in spec.calls.values():
        if call.client == "none" and call.server == "none":
            continue
        for plan in call.plans:
            if plan.name in RESERVED:
                raise SpecError(
                    f"{call.name}: parameter '{plan.name}' collides with a local of the generated code"
                )
        views.append(CallView(call, _resolvers(spec, call, codecs)))
    return views


def _resolvers(spec: Spec, call: Call, codecs: list[RecordCodec]) -> dict[str, str]:
    with_addresses = {codec.record for codec in codecs if codec.addresses}
    found = {}
    for plan in call.plans:
        if plan.record in with_addresses and plan.is_input:
            found[plan.name] = f"ResolveFields(call, &{plan.name});"
        for codec in codecs:
            if codec.record != plan.record or not codec.cases or not plan.is_input:
                continue
            for case in codec.cases:
                if spec.model.canonical(case.field.type) in with_addresses:
                    found[plan.name] = (
                        f"if ({plan.select} == {case.value}) {{\n"
                        f"    ResolveFields(call, &{plan.name}.{case.field.name});\n  }}"
                    )
    return found


# ---- Entries


@dataclass
class EntryView:
    """One exported C function."""

    call: Call
    base: Call
    spec: Spec

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def needs(self) -> str:
        return NEEDS[self.base.needs]

    @property
    def parameters(self) -> list[str]:
        names = [param.name for param in self.base.function.params]
        return [
            declare(Param(name, param.type))
            for name, param in zip(names, self.call.function.params)
        ]

    @property
    def enters_itself(self) -> bool:
        """Of the call's own entry; a variant's is like all others."""
        return self.call.own_entry

    @property
    def target(self) -> str:
        if self.enters_itself:
            return f"Entry_{self.call.name}"
        return self.spec.lowered(self.base).body

    @property
    def arguments(self) -> list[str]:
        default = "CU_STREAM_PER_THREAD" if self.call.per_thread else "nullptr"
        if self.base.lower:
            arguments = [
                part.strip()
                for part in self.base.lower.split("(", 1)[1].rsplit(")", 1)[0].split(",")
            ]
        else:
            arguments = [param.name for param in self.base.function.params]
            arguments += ["default_stream"] if self.base.default_stream else []
        streams = {
            param.name
            for param in self.base.function.params
            if self.spec.model.canonical(param.type) == "CUstream_st *"
        }
        return [
            (
                default
                if argument == "default_stream"
                else (
                    f"PerThread({argument})"
                    if self.call.per_thread and argument in streams
                    else argument
                )
            )
            for argument in arguments
        ]


def entry_views(spec: Spec) -> list[EntryView]:
    return [
        EntryView(call, spec.base_of(call), spec)
        for call in spec.calls.values()
        if not call.function.graphics
    ]
