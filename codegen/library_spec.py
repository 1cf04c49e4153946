# SPDX-License-Identifier: Apache-2.0
"""A mathematics library: its headers and spec/<library>.yaml to one Plan a parameter. docs/reference/thin.md says how to add one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

import ids as id_list
import parse_headers
from conditions import is_one_of
from model import ApiModel, Function, Param

CODEGEN = Path(__file__).resolve().parent
KEYS = {
    "library", "id", "headers", "functions", "first", "sonames", "needs", "status", "version", "objects",
    "streams", "roles", "hand", "local", "file", "refused", "slow", "blocks", "cached", "namespace", "libraries", "quick", "server_include", "client_include",
    "contents", "fresh", "tried", "custom",
    "apart", "contextless", "names", "server_version",
    "waits", "checks", "after", "first_api", "right", "idle", "conditions", "proves", "no_handle",
}  # fmt: skip
STATUSES = ("type", "missing", "handle", "value", "failed", "memory", "unsupported", "internal")
KINDS = (
    "value", "object", "object?", "new", "end", "end?", "stream", "dev", "scalar", "in", "in_bytes", "str", "out",
    "out_bytes", "inout", "result", "result_bytes", "scalar_bytes", "host_room",
    "update", "convert", "any_bytes", "any_scalar", "inout_bytes", "target", "addresses", "out_address", "out_object",
)  # fmt: skip
# Decoded first, so that an extent may name any of them.
PLAIN = ("object", "object?", "new", "end", "stream", "value")


# Values that cannot be negative unless `conditions` says otherwise.
SIGNED = ("int", "int64_t", "long", "long long", "short")


class LibraryError(Exception):
    pass


@dataclass(frozen=True)
class Plan:
    """How one parameter travels; `extent` is an expression over the function's plain parameters."""

    name: str
    type: str
    kind: str
    extent: str = ""
    kinds: tuple[str, ...] = ()  # of objects: the constants of their kinds
    needed: bool = False  # refused if it is null
    may_be_null: bool = False  # of `end?`: ending null succeeds and does nothing

    @property
    def pointee(self) -> str:
        text = self.type.rstrip()
        text = text[: text.rindex("*")].strip() if "*" in text else text[: text.index("[")].strip()
        return re.sub(r"^const\s+|\s+const$", "", text)

    @property
    def value_type(self) -> str:
        return re.sub(r"^const\s+", "", self.type)

    @property
    def bytes(self) -> str:
        """How many bytes lie behind the pointer, in C++."""
        if self.kind.endswith("_bytes") or self.kind in (
            "host_room",
            "any_scalar",
        ):  # any_*: the client's side only
            return f"static_cast<uint64_t>({self.extent})"
        one = f"sizeof({self.pointee})"
        return f"Times({self.extent}, {one})" if self.extent else one


@dataclass
class Call:
    function: Function
    plans: list[Plan] = field(default_factory=list)
    # generated; hand: the client's side; custom: both sides by hand; local: nothing leaves; refused;
    # create, set, destroy: of a descriptor whose content is sent once (client-shim/thin/content.h)
    # apart: both sides by hand, on the toolchain's helper (server/toolchain/)
    how: str = "generated"
    partner: str = ""  # create: what destroys such an object
    waits: bool = False  # whatever it answers
    right: str = (
        ""  # at the call: an expression of its values that must hold, or one of them is invalid
    )
    # What must hold for the call to be posted: one that fails waits for what the library says of it.
    conditions: tuple[str, ...] = ()
    no_handle: str = (
        ""  # the code of a null or ended handle, where it is not the library's usual one
    )
    proves: tuple[str, str] = (
        "",
        "",
    )  # a function that takes the same, and how many pointers it has more
    check: str = ""  # on the server, ahead of the call: an expression that must hold
    after: str = ""  # on the server, when the call has succeeded
    fresh: bool = False
    tried: bool = False
    handles: tuple[str, ...] = ()  # types whose objects have a stream
    slow: bool = False
    blocks: bool = False
    cached: bool = False
    idle: bool = False  # puts no work on the device

    @property
    def works(self) -> bool:
        """Whether a call puts work on the device, as far as anybody says: the server admits and meters it."""
        is_content = self.how in ("create", "destroy") or (self.how == "set" and not self.fresh)
        return not (self.idle or self.cached or is_content or self.how == "apart")

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def posts(self) -> bool:
        """Whether the generator writes an entry that posts, in some pointer mode at least."""
        return self.how == "generated" and self.klass in (
            "post",
            "wait (device pointer mode: post)",
        )

    @property
    def generated(self) -> bool:
        return self.how == "generated"

    @property
    def served(self) -> bool:
        return self.how in ("generated", "hand", "create", "set", "destroy")

    @property
    def in_table(self) -> bool:
        return self.served or self.how == "custom"

    @property
    def target(self) -> str:
        """Of a setter: the descriptor it changes."""
        return next(
            plan.name for plan in self.of_kind("object", "object?") if plan.type not in self.handles
        )

    @property
    def described(self) -> str:
        """The descriptors of the call, for an expression of the client's."""
        return (
            "{"
            + ", ".join(
                plan.name
                for plan in self.of_kind("object", "object?")
                if plan.type not in self.handles
            )
            + "}"
        )

    @property
    def shared_extent(self) -> str:
        """What several scalars of the client's side have for their size: worked out once."""
        extents = [plan.extent for plan in self.of_kind("any_bytes")]
        return (
            extents[0].replace("$", self.described)
            if len(extents) > 1 and len(set(extents)) == 1
            else ""
        )

    @property
    def ordered(self) -> list[Plan]:
        """Handles, objects, values, pointers, and last the pointers whose extents name others."""
        pointers = [plan.name for plan in self.plans if plan.kind not in PLAIN]

        def rank(plan: Plan) -> int:
            if plan.kind in PLAIN:
                handle = plan.kind == "object" and plan.type in self.handles
                return -1 if handle else int(PLAIN.index(plan.kind) >= 3)
            return 3 if set(re.findall(r"\w+", plan.extent)) & set(pointers) else 2

        return sorted(self.plans, key=rank)

    @property
    def plain(self) -> list[Plan]:
        return [plan for plan in self.ordered if plan.kind in PLAIN]

    @property
    def pointers(self) -> list[Plan]:
        return [plan for plan in self.ordered if plan.kind not in PLAIN]

    @property
    def counted(self) -> list[Plan]:
        """Pointers of which a like says whether they are null (client-shim/thin/call.h)."""
        return [
            plan
            for plan in self.pointers
            if not plan.kind.startswith(("out", "result", "host_room"))
        ]

    def of_kind(self, *kinds: str) -> list[Plan]:
        return [plan for plan in self.plans if plan.kind in kinds]

    @property
    def klass(self) -> str:
        if self.how == "custom":
            return "by hand"
        if self.how in ("create", "destroy"):
            return "local"
        if self.how == "set":
            return "question" if not self.fresh else "wait"
        if self.how == "apart":
            return "wait"
        if not self.served:
            return self.how
        if self.cached:
            return "question"
        if self.waits:
            return "wait"
        if self.of_kind("result", "result_bytes", "inout", "inout_bytes"):
            return "wait (device pointer mode: post)"
        return (
            "wait"
            if self.of_kind("out", "out_bytes", "out_address", "out_object", "update")
            else "post, the first of its like waits"
            if self.tried
            else "post"
        )


@dataclass(frozen=True)
class Object:
    type: str
    kind: int
    constant: str
    set_stream: str = ""
    set_mode: str = ""
    mode_type: str = ""
    content: bool = False
    host: int = 0  # the kind of those that write host memory


class LibrarySpec:
    def __init__(
        self, path: Path, include: Path | None, model_cache: Path | None, clang: str | None = None
    ):
        self.data = yaml.safe_load(path.read_text())
        self.file = path.name
        unknown = sorted(set(self.data) - KEYS)
        if unknown:
            raise LibraryError(
                f"{self.file}: unknown key '{unknown[0]}', one of {', '.join(sorted(KEYS))}"
            )
        self.name: str = self.data["library"]
        self.constant: str = self.data["namespace"]
        self.file_name: str = self.data.get("file", self.name)
        self.headers: list[str] = self.data["headers"]
        self.sonames: dict[int, str] = self.data["sonames"]
        self.ids = id_list.load_ids(CODEGEN / "ids" / f"{self.name}.ids")
        self.status: dict[str, str] = self.data["status"]
        missing = [key for key in STATUSES if key not in self.status]
        if missing:
            raise LibraryError(f"{self.file}: status lacks {', '.join(missing)}")
        self.model = ApiModel()
        if include is not None:
            library = parse_headers.Library(
                tuple(self.headers),
                (),
                "FARCALL_READS_HEADERS",
                self.data["functions"],
                self.data["first"],
            )
            self.model = parse_headers.load_model(include, model_cache, clang, library)
        self.first_header: str = self.data.get("first_api", "")
        self.first = ApiModel()
        if include is not None and self.first_header:
            library = parse_headers.Library(
                (self.first_header,),
                (),
                "FARCALL_READS_HEADERS",
                self.data["functions"],
                self.data["first"],
            )
            self.first = parse_headers.load_model(
                include, model_cache.with_name(f"{self.name}_first_model.json"), clang, library
            )
        self.objects = {
            name: Object(
                name,
                row["kind"],
                f"k{self.constant}_{name}",
                row.get("stream", ""),
                *row.get("mode", ("", "")),
                content=row.get("content", False),
                host=row.get("host", 0),
            )
            for name, row in self.data.get("objects", {}).items()
        }
        self.aliases: dict[str, tuple[str, ...]] = {}
        for name, row in self.data.get("objects", {}).items():
            also = tuple(row.get("also", ()))
            self.aliases[name] = (f"kKind_{name}",) + tuple(
                other if "(" in other else f"kKind_{other}" for other in also
            )
        self.foreign = {
            name: (row["library"], row["kind"])
            for name, row in self.data.get("libraries", {}).items()
        }
        self.calls: dict[str, Call] = {}
        if include is not None:
            for function in self.model.functions.values():
                self.calls[function.name] = self._call(function)
            self._pair()
            for call in self.calls.values():
                self._prove(call)

    def _prove(self, call: Call) -> None:
        """A question whose success means that another function takes the same objects and values."""
        for pattern, text in self.data.get("proves", ()):
            found = re.fullmatch(pattern, call.name)
            if found is None:
                continue
            other = self.calls.get(found.expand(text))
            if other is None:
                continue
            if [(p.name, p.type) for p in call.plain] != [
                (p.name, p.type) for p in other.plain
            ] or not other.tried:
                raise LibraryError(
                    f"{self.file}: {call.name} does not take what {other.name} does, or that is not tried"
                )
            call.proves = (other.name, f"{len(other.counted) - len(call.counted)}")
            return

    def _pair(self) -> None:
        """What makes an object of contents, with what destroys one."""
        ends = {
            self._object_type(call.of_kind("end")[0]): call.name
            for call in self.calls.values()
            if call.how == "destroy"
        }
        for call in self.calls.values():
            if call.how == "create":
                call.partner = ends[self._object_type(call.of_kind("new")[0])]

    def _listed(self, key: str, name: str) -> bool:
        return any(re.fullmatch(pattern, name) for pattern in self.data.get(key, ()))

    def _found(self, key: str, name: str) -> str:
        return next(
            (text for pattern, text in self.data.get(key, ()) if re.fullmatch(pattern, name)), ""
        )

    def by_hand(self, name: str) -> bool:
        """A name that no header declares and client-shim/<library>/ defines; or one of the first API."""
        return self._listed("names", name) or name in self.first_names

    @property
    def first_names(self) -> list[str]:
        return sorted(set(self.first.functions) - set(self.model.functions))

    def _call(self, function: Function) -> Call:
        call = Call(function)
        call.idle = self._listed("idle", function.name)
        if self._listed("local", function.name):
            call.how = "local"
            return call
        if self._listed("apart", function.name):
            call.how = "apart"
            return call
        if self._listed("refused", function.name):
            call.how = "refused"
            return call
        if self._listed("custom", function.name):
            call.how = "custom"
            call.slow = self._listed("slow", function.name)
            return call
        if self._listed("hand", function.name):
            call.how = "hand"
        if function.returns != self.status["type"]:
            raise LibraryError(
                f"{self.file}: {function.name} returns {function.returns}: write it by hand"
            )
        call.plans = [self._plan(function, param) for param in function.params]
        call.handles = tuple(name for name, row in self.objects.items() if row.set_stream)
        if self._listed("contents", function.name):
            call.how = "set"
            call.fresh = self._listed("fresh", function.name)
        for plan in call.of_kind("new", "end"):
            if call.how == "generated" and self.objects[self._object_type(plan)].content:
                call.how = "create" if plan.kind == "new" else "destroy"
        call.tried = self._listed("tried", function.name)
        call.slow = self._listed("slow", function.name) or (
            bool(call.of_kind("new", "end")) and not self._listed("quick", function.name)
        )
        call.blocks = self._listed("blocks", function.name)
        call.cached = self._listed("cached", function.name)
        call.waits = self._listed("waits", function.name)
        call.check = self._found("checks", function.name)
        call.right = self._found("right", function.name)
        call.after = self._found("after", function.name)
        call.no_handle = self._found("no_handle", function.name)
        if call.posts:
            call.conditions = tuple(self._conditions(call))
        return call

    def _conditions(self, call: Call):
        """Of each parameter the first line of `conditions` that fits, else what its role says."""
        names = {plan.name for plan in call.plans}
        for plan, param in zip(call.plans, call.function.params):
            condition = self._condition(call, plan, names) or self._condition_of_role(plan, param)
            if condition and condition != "true":
                yield condition

    def _condition(self, call: Call, plan: Plan, names: set[str]) -> str:
        for row in self.data.get("conditions", ()):
            functions, params, condition = row[0], row[1], row[2]
            types = row[3] if len(row) > 3 else ".*"
            # One line serves like functions: it is for those that have what it names.
            wanted = set(
                re.findall(
                    r"\b[a-zA-Z]\w*",
                    re.sub(r"\b(true|nullptr|[A-Z][A-Z0-9_]{3,})\b|\w+\(", "", condition),
                )
            )
            if (
                re.fullmatch(functions, call.name)
                and re.fullmatch(params, plan.name)
                and re.fullmatch(types, plan.type)
                and wanted <= names
            ):
                condition = condition.replace("$", plan.name)
                return f"({condition})" if "||" in condition else condition
        return ""

    def _condition_of_role(self, plan: Plan, param: Param) -> str:
        canonical = self.model.canonical(plan.type)
        if plan.kind == "value":
            enumerators = self.enumerators(plan.type)
            if enumerators:
                return is_one_of(plan.name, enumerators)
            return f"{plan.name} >= 0" if canonical in SIGNED else ""
        if plan.kind in (*PLAIN, "convert", "host_room") or plan.needed:
            return ""
        return f"{plan.name} != nullptr"

    def enumerators(self, spelled: str) -> list[int]:
        kind = re.sub(r"^const\s+", "", spelled)
        found = self.model.enums.get(kind) or self.model.enums.get(self.model.canonical(kind)) or {}
        return sorted(set(found.values()))

    def _plan(self, function: Function, param: Param) -> Plan:
        role = self._role(function, param)
        found = re.fullmatch(r"(\w+\??)(?:\((.*)\))?(!?)", role)
        if found is None or found[1] not in KINDS:
            raise LibraryError(
                f"{self.file}: {function.name}: role '{role}', one of {', '.join(KINDS)}"
            )
        kind, extent = found[1], found[2] or ""
        may_be_null = kind == "end?"
        if may_be_null:
            kind = "end"
        kinds: tuple[str, ...] = ()
        if kind in ("object", "object?", "new", "end"):
            kinds = self.aliases[self._object_type(param)]
        plan = Plan(param.name, param.type, kind, extent, kinds, bool(found[3]), may_be_null)
        if kind in ("out", "inout", "update", "result") and "*" in self.model.canonical(
            plan.pointee
        ):
            raise LibraryError(
                f"{self.file}: {function.name}({param.type} {param.name}): what is written is a pointer: out_address or out_object"
            )
        return plan

    def _object_type(self, param: Param | Plan) -> str:
        return re.sub(r"\bconst\b|\*|\[\]", "", param.type).strip()

    def _role(self, function: Function, param: Param) -> str:
        where = f"{self.file}: {function.name}({param.type} {param.name})"
        for row in self.data.get("roles", ()):
            functions, names, role = row[0], row[1], row[2]
            types = row[3] if len(row) > 3 else ".*"
            if (
                re.fullmatch(functions, function.name)
                and re.fullmatch(names, param.name)
                and re.fullmatch(types, param.type)
            ):
                return role
        if param.type.replace("const ", "") in self.objects:
            return "object"
        if param.type == "cudaStream_t":
            return "stream"
        canonical = self.model.canonical(param.type)
        if "*" not in canonical and "[" not in canonical:
            return "value"
        raise LibraryError(
            f"{where}: nobody classified this pointer: a line under roles says how it travels"
        )

    def by_id(self) -> list[Call | None]:
        """Row 0 is the question that opens the library."""
        return [None] + [self.calls.get(name) for name in self.ids]
