# SPDX-License-Identifier: Apache-2.0
"""The round-trip test of each generated call: arguments, what is seen, what comes back."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from plans import Plan
from spec import Spec
from structs import Field, RecordCodec
from views import CallView

ELEMENTS = 2  # of each array


@dataclass
class WireTest:
    """The statements of one test, in order."""

    call: CallView
    name: str
    prepare: list[str] = field(default_factory=list)  # locals of the caller
    arguments: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)  # of the recording function
    seen: list[str] = field(default_factory=list)  # inside the recording function
    after: list[str] = field(default_factory=list)


def wire_tests(spec: Spec, calls: list[CallView], codecs: list[RecordCodec]) -> list[WireTest]:
    by_record = {codec.record: codec for codec in codecs}
    tests = []
    for call in calls:
        if call.server != "generated":
            continue
        selected = [plan for plan in call.plans if plan.select]
        cases = by_record[selected[0].record].cases if selected else [None]
        for case in cases:
            suffix = f"_{case.field.name}" if case else ""
            tests.append(_Builder(spec, call, by_record, case).build(call.name + suffix))
    return tests


class _Builder:
    def __init__(self, spec: Spec, call: CallView, codecs: dict[str, RecordCodec], case):
        self.spec, self.call, self.codecs, self.case = spec, call, codecs, case
        arrays = [plan.count for plan in call.plans if plan.kind in ("in_array", "handles")]
        self.counts = {name for count in arrays for name in re.findall(r"\w+", count)}
        self.selectors = {plan.select for plan in call.plans if plan.select}

    def build(self, name: str) -> WireTest:
        test = WireTest(self.call, name)
        for index, plan in enumerate(self.call.plans, 1):
            test.parameters.append(_parameter(plan))
            getattr(self, "_" + plan.kind)(test, plan, index)
        return test

    def _value(self, test: WireTest, plan: Plan, index: int) -> None:
        value = f"static_cast<{plan.type}>({self._number(plan.type, 30 * index + 7)})"
        if plan.name in self.counts:
            value = str(ELEMENTS)
        if plan.name in self.selectors:
            value = self.case.value
        if plan.pitch:
            value = str(1 << 20)
        if plan.flags or plan.most:  # what the client lets through
            value = f"static_cast<{plan.type}>({plan.flags or plan.most})"
        test.arguments.append(value)
        test.seen.append(f"EXPECT_EQ({plan.name}, {value});")

    def _device(self, test: WireTest, plan: Plan, index: int) -> None:
        test.arguments.append(str(index))
        test.seen.append(f"EXPECT_EQ({plan.name}, {index} + kDeviceShift);")

    def _address(self, test: WireTest, plan: Plan, index: int) -> None:
        value = f"{hex(0x200000000000 + 0x10000 * index)}u"
        if plan.type.endswith("*"):
            value = f"reinterpret_cast<{plan.type}>({value})"
        test.arguments.append(value)
        test.seen.append(f"EXPECT_EQ({plan.name}, {value});")

    def _handle(self, test: WireTest, plan: Plan, index: int) -> None:
        value = f"LiveHandle<{plan.type}>(HandleKind::{plan.kinds[-1]}, {index})"
        test.arguments.append(value)
        test.seen.append(f"EXPECT_EQ({plan.name}, Native({value}));")
        if plan.free:
            test.after += [
                "ASSERT_EQ(erased.size(), 1u);",
                "ASSERT_EQ(freed_on_client.size(), 1u);",
                f"EXPECT_EQ(erased[0].wire, reinterpret_cast<uint64_t>({value}));",
                f"EXPECT_EQ(freed_on_client[0].kind, HandleKind::{plan.kinds[0]});",
            ]

    def _stream(self, test: WireTest, plan: Plan, index: int) -> None:
        value = f"LiveHandle<CUstream>(HandleKind::kStream, {index})"
        test.arguments.append(value)
        test.seen.append(f"EXPECT_EQ({plan.name}, Native({value}));")

    def _handles(self, test: WireTest, plan: Plan, index: int) -> None:
        values = [
            f"LiveHandle<{plan.type}>(HandleKind::{plan.kinds[0]}, {10 * index + i})"
            for i in range(self._elements(plan))
        ]
        test.prepare.append(f"{plan.type} {plan.name}[] = {{{', '.join(values)}}};")
        test.arguments.append(plan.name)
        test.seen += [
            f"EXPECT_EQ({plan.name}[{i}], Native({value}));" for i, value in enumerate(values)
        ]

    def _in_array(self, test: WireTest, plan: Plan, index: int) -> None:
        values = [
            f"static_cast<{plan.type}>({10 * index + i})" for i in range(self._elements(plan))
        ]
        test.prepare.append(f"{plan.type} {plan.name}[] = {{{', '.join(values)}}};")
        test.arguments.append(plan.name)
        test.seen += [f"EXPECT_EQ({plan.name}[{i}], {value});" for i, value in enumerate(values)]

    def _number(self, spelled: str, wanted: int) -> int:
        """`wanted`, or one of the values an enum really has."""
        values = list(self.spec.model.enums.get(self.spec.model.canonical(spelled), {}).values())
        return values[wanted % len(values)] if values else wanted

    def _elements(self, plan: Plan) -> int:
        """The array's length if each count is ELEMENTS."""
        helpers = {"AtMost": min, "Minus": lambda a, b: max(a - b, 0)}
        names = {name: ELEMENTS for name in self.counts if name not in helpers}
        return eval(plan.count, {"__builtins__": {}}, helpers | names)

    def _string(self, test: WireTest, plan: Plan, index: int) -> None:
        test.arguments.append(f'"text {index}"')
        test.seen.append(f'EXPECT_STREQ({plan.name}, "text {index}");')

    def _new(self, test: WireTest, plan: Plan, index: int) -> None:
        native = f"reinterpret_cast<{plan.type}>({hex(0x7000 + 16 * index)})"
        test.prepare.append(f"{plan.type} {plan.name} = nullptr;")
        test.arguments.append(f"&{plan.name}")
        test.seen.append(f"*{plan.name} = {native};")
        test.after += [
            "ASSERT_EQ(inserted.size(), 1u);",
            f"EXPECT_EQ(inserted[0].kind, HandleKind::{plan.kinds[0]});",
            f"EXPECT_EQ(inserted[0].wire, reinterpret_cast<uint64_t>({plan.name}));",
            f"EXPECT_EQ(inserted[0].native, {native});",
        ]

    def _out(self, test: WireTest, plan: Plan, index: int) -> None:
        test.prepare.append(f"{plan.type} {plan.name}{{}};")
        test.arguments.append(f"&{plan.name}")
        for target, value in self._members(plan, index):
            test.seen.append(f"{target.format('(*' + plan.name + ')')} = {value};")
            test.after.append(f"EXPECT_EQ({target.format(plan.name)}, {value});")

    def _in(self, test: WireTest, plan: Plan, index: int) -> None:
        test.prepare.append(f"{plan.type} {plan.name}{{}};")
        test.arguments.append(f"&{plan.name}")
        for target, value in self._members(plan, index):
            test.prepare.append(f"{target.format(plan.name)} = {value};")
            test.seen.append(f"EXPECT_EQ({target.format('(*' + plan.name + ')')}, {value});")

    def _inout(self, test: WireTest, plan: Plan, index: int) -> None:
        self._in(test, plan, index)
        for target, value in self._members(plan, index + 1):
            test.seen.append(f"{target.format('(*' + plan.name + ')')} = {value};")
            test.after.append(f"EXPECT_EQ({target.format(plan.name)}, {value});")
        for target, value in self._members(plan, index):
            test.after.append(f"{target.format(plan.name)} = {value};")

    def _members(self, plan: Plan, index: int) -> list[tuple[str, str]]:
        """(member with {} for the object, value) of what crosses."""
        if not plan.record:
            return [("{}", f"static_cast<{plan.type}>({self._number(plan.type, 40 * index + 9)})")]
        if plan.select:
            return self._fields([self.case.field], "{}", index)
        return self._fields(self.codecs[plan.record].fields, "{}", index)

    def _fields(self, fields: list[Field], target: str, index: int) -> list[tuple[str, str]]:
        members = []
        for number, item in enumerate(fields, 1):
            member, value = f"{target}.{item.name}", 20 * index + number
            places = [f"{member}[{i}]" for i in range(item.count)] if item.count else [member]
            for i, place in enumerate(places):
                if item.kind == "record":
                    inner = self.codecs[self.spec.model.canonical(item.type)].fields
                    members += self._fields(inner, place, index + i)
                elif item.kind == "address":
                    members.append(
                        (place, f"reinterpret_cast<void*>({hex(0x200000000000 + value)})")
                    )
                elif item.kind == "scalar":
                    number_here = self._number(item.type, value + i)
                    members.append((place, f"static_cast<{item.type}>({number_here})"))
        return members


def _parameter(plan: Plan) -> str:
    return f"{plan.param.type} {plan.name}".replace(" *", "*")
