# SPDX-License-Identifier: Apache-2.0
"""spec/<library>.yaml and spec/<library>/*.yaml joined with the headers: a Call per exported name, or a failure."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import yaml

from model import ApiModel, Function, NameParts
from plans import Classifier, Plan, SpecError

CLASSES = ("local", "query", "post", "sync")
CALL_KEYS = {
    "class",
    "entry",
    "client",
    "server",
    "needs",
    "slow",
    "order",
    "renews",
    "capture",
    "effect",
    "waits",
    "quiet",
    "touches",
    "alike",
    "late",
    "as",
    "lower",
    "args",
    "outputs",
}
ORDERS = ("all", "streams")
EFFECTS = ("work", "placement", "ordered", "point", "state", "query")
CAPTURES = ("allowed", "unsafe", "begins", "ends")
TOUCHES = ("", "graphs", "libraries")
GROUP_KEYS = {"reason", "effect", "touches", "calls"}
NEEDS = {"nothing": "kNothing", "init": "kInit", "context": "kContext"}


@dataclass
class Call:
    """One exported name and how it is served."""

    function: Function
    klass: str = "unsupported"
    client: str = "none"  # generated, hand, none
    server: str = "none"  # generated, hand, none
    needs: str = "context"
    slow: bool = False
    by_streams: bool = False
    renews: bool = False
    capture: str = "allowed"
    effect: str = ""  # of those that make a record
    waits: bool = False
    quiet: bool = False
    touches: str = ""
    alike: int = 0  # bytes
    late: list[str] = field(default_factory=list)
    outputs_always: bool = False
    reason: str = ""
    base: str = ""  # the call a _ptsz/_ptds variant or an `as` is served as
    lower: str = ""  # "target(arguments)"
    own_entry: bool = False  # Entry_<name>, which enters by itself
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
    """`head` has the handles and structs; it and `parts` (by file name) have the calls: groups, unsupported."""

    def __init__(
        self, model: ApiModel, head: dict, file: str, parts: dict[str, dict] | None = None
    ):
        self.model, self.file = model, file
        self.parts = {file: head, **(parts or {})}
        self.classifier = Classifier(model, head.get("handles", {}))
        self.structs: dict[str, dict] = head.get("structs", {})
        self.calls: dict[str, Call] = {}
        self._load()

    def base_of(self, call: Call) -> Call:
        while call.base:
            call = self.calls[call.base]
        return call

    def lowered(self, call: Call) -> Call:
        """The call whose body does the work of `call`, a base."""
        return self.base_of(self.calls[call.lower.split("(")[0]]) if call.lower else call

    def _load(self) -> None:
        whole = self.file
        for self.file, part in self.parts.items():
            for group in part.get("groups", []):
                for name, row in group["calls"].items():
                    self._add(name, row or {}, group)
        for self.file, part in self.parts.items():
            for name in part.get("unsupported", []):
                self._known(name)
                if name in self.calls:
                    raise SpecError(
                        f"{self.file}: {name} is described twice, or is both supported and unsupported"
                    )
                self.calls[name] = Call(self.model.functions[name])
        self.file = whole
        self._add_variants()
        missing = sorted(set(self.model.functions) - set(self.calls))
        if missing:
            raise SpecError(
                f"{self.file}: no entry for {', '.join(missing)}: describe it under groups, or list it under "
                "unsupported"
            )
        for call in self.calls.values():
            self._check_targets(call)

    def _known(self, name: str) -> Function:
        if name not in self.model.functions:
            raise SpecError(f"{self.file}: {name}: the headers declare no such function")
        return self.model.functions[name]

    def _add(self, name: str, row: dict, group: dict) -> None:
        function = self._known(name)
        stray = sorted(set(group) - GROUP_KEYS)
        if stray:
            raise SpecError(
                f"{self.file}: {group['reason']}: unknown key '{stray[0]}', one of {', '.join(sorted(GROUP_KEYS))}"
            )
        unknown = sorted(set(row) - CALL_KEYS)
        if unknown:
            raise SpecError(
                f"{self.file}: {name}: unknown key '{unknown[0]}', one of {', '.join(sorted(CALL_KEYS))}"
            )
        if name in self.calls:
            raise SpecError(f"{self.file}: {name} is described twice")
        call = Call(
            function,
            reason=group["reason"],
            needs=row.get("needs", "context"),
            slow=bool(row.get("slow")),
            renews=bool(row.get("renews")),
            by_streams=row.get("order") == "streams",
            late=row.get("late", []),
            outputs_always=row.get("outputs") == "always",
            capture=row.get("capture", "allowed"),
            waits=bool(row.get("waits")),
            quiet=bool(row.get("quiet")),
            alike=row.get("alike", 0),
            base=row.get("as", ""),
            lower=row.get("lower", ""),
            own_entry=row.get("entry", "") == "hand",
            default_stream=self._names_no_stream(name),
        )
        if call.needs not in NEEDS:
            raise SpecError(f"{self.file}: {name}: needs '{call.needs}', one of {', '.join(NEEDS)}")
        if row.get("order", "all") not in ORDERS:
            raise SpecError(
                f"{self.file}: {name}: order '{row['order']}', one of {', '.join(ORDERS)}"
            )
        self.calls[name] = call
        if call.base or call.lower:
            call.klass = "as" if call.base else "lower"
            return
        self._set_sides(call, row)
        self._set_effect(call, row, group)
        if call.has_record and "generated" in (call.client, call.server):
            notes = row.get("args", {})
            call.plans = [
                self.classifier.plan(
                    param,
                    str(notes.get(param.name, "")),
                    f"{self.file}: {name}({param.type} {param.name})",
                )
                for param in function.params
            ]
        stray = sorted(set(row.get("args", {})) - {param.name for param in function.params})
        if stray:
            raise SpecError(f"{self.file}: {name}: no parameter '{stray[0]}'")

    def _names_no_stream(self, name: str) -> bool:
        """The call has a form for per-thread default streams, and no stream among its own arguments to tell."""
        functions = self.model.functions
        types = [self.model.canonical(param.type) for param in functions[name].params]
        return f"{name}_ptds" in functions or (
            f"{name}_ptsz" in functions and "CUstream_st *" not in types
        )

    def _set_sides(self, call: Call, row: dict) -> None:
        call.klass = row.get("class", "")
        if call.klass not in CLASSES:
            raise SpecError(
                f"{self.file}: {call.name}: class '{call.klass}', one of {', '.join(CLASSES)}"
            )
        hand = call.klass == "local"
        call.client = row.get("client", "hand" if hand else "generated")
        call.server = row.get("server", "none" if call.klass == "local" else "generated")
        if call.client == "generated" and call.server != "generated":
            raise SpecError(
                f"{self.file}: {call.name}: a generated client needs a generated server: the layouts are one"
            )

    def _set_effect(self, call: Call, row: dict, group: dict) -> None:
        """What both sides know of the call's nature: no list by name stands beside it."""
        if call.capture not in CAPTURES:
            raise SpecError(
                f"{self.file}: {call.name}: capture '{call.capture}', one of {', '.join(CAPTURES)}"
            )
        if not call.has_record:
            said = sorted({"effect", "waits", "quiet", "touches", "alike"} & set(row))
            if said:
                raise SpecError(f"{self.file}: {call.name}: {said[0]}, but it makes no record")
            return
        call.touches = row.get("touches", group.get("touches", ""))
        call.effect = row.get(
            "effect", "query" if call.klass == "query" else group.get("effect", "")
        )
        if call.effect not in EFFECTS:
            raise SpecError(
                f"{self.file}: {call.name}: effect '{call.effect}', one of {', '.join(EFFECTS)}: "
                "state it for the call or its group"
            )
        if call.touches not in TOUCHES:
            raise SpecError(
                f"{self.file}: {call.name}: touches '{call.touches}', only graphs or libraries"
            )

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
                variant = Call(
                    function, klass="as", base=base.name, needs=base.needs, reason=base.reason
                )
            self.calls[name] = variant

    def _check_targets(self, call: Call) -> None:
        target = call.base or call.lower.split("(")[0]
        if target and (target not in self.calls or not self.calls[target].supported):
            raise SpecError(f"{self.file}: {call.name}: served as {target}, which is not supported")
        if call.base and self.model.signature(call.function) != self.model.signature(
            self.calls[target].function
        ):
            raise SpecError(
                f"{self.file}: {call.name}: its parameters differ from those of {target}"
            )


def load_spec(path: Path, model: ApiModel) -> Spec:
    """`path` is the head; the calls are in the files of the folder of the same name."""
    parts = sorted(path.with_suffix("").glob("*.yaml"))
    return Spec(
        model,
        yaml.safe_load(path.read_text()),
        path.name,
        {f"{path.stem}/{part.name}": yaml.safe_load(part.read_text()) for part in parts},
    )
