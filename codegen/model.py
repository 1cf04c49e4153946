# SPDX-License-Identifier: Apache-2.0
"""The API model: what the headers say, as plain data. Everything else is derived from it."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field

_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*\b")
_NOISE = re.compile(r"\b(struct|union|enum)\s+")
_SUFFIX = re.compile(r"^(?P<name>\w+?)(?:_v(?P<version>\d+))?(?:_(?P<per_thread>ptds|ptsz))?$")


@dataclass(frozen=True)
class Param:
    name: str
    type: str  # as the header spells it


@dataclass(frozen=True)
class Function:
    name: str
    returns: str
    params: tuple[Param, ...]
    graphics: bool = False  # of cudaGL.h, cudaEGL.h or cudaVDPAU.h: cuda.h does not declare it

    @property
    def parts(self) -> "NameParts":
        return NameParts.of(self.name)


@dataclass(frozen=True)
class NameParts:
    """cuMemcpyHtoD_v2_ptds -> (cuMemcpyHtoD, 2, ptds)."""

    name: str
    version: int
    per_thread: str

    @staticmethod
    def of(exported: str) -> "NameParts":
        found = _SUFFIX.match(exported)
        return NameParts(found["name"], int(found["version"] or 1), found["per_thread"] or "")


@dataclass(frozen=True)
class Record:
    """A struct or union. `fields` is empty and `complete` false for an opaque handle's type."""

    name: str
    is_union: bool
    complete: bool
    fields: tuple[Param, ...]


@dataclass(frozen=True)
class Prototype:
    """A PFN_<name>_v<version>[_ptds|_ptsz] typedef: the signature that callers of that version expect."""

    name: str
    version: int
    per_thread: str
    signature: str  # canonical


@dataclass
class ApiModel:
    functions: dict[str, Function] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    enums: dict[str, dict[str, int]] = field(default_factory=dict)
    typedefs: dict[str, str] = field(default_factory=dict)
    prototypes: list[Prototype] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)  # every header read, for the depfile

    def canonical(self, spelled: str) -> str:
        """The type with each typedef resolved: CUstream -> CUstream_st *."""
        text = _NOISE.sub("", spelled)
        for _ in range(16):
            resolved = _IDENTIFIER.sub(
                lambda m: _NOISE.sub("", self.typedefs.get(m[0], m[0])), text
            )
            if resolved == text:
                break
            text = resolved
        text = re.sub(r"(?<![(])\s*\*\s*", " *", text)
        return re.sub(r"\* \*", "**", text).strip()

    def signature(self, function: Function) -> str:
        params = ", ".join(self.canonical(p.type) for p in function.params)
        return f"{self.canonical(function.returns)} ({params})"

    def to_json(self) -> dict:
        return asdict(self)

    @staticmethod
    def from_json(data: dict) -> "ApiModel":
        def params(rows):
            return tuple(Param(**row) for row in rows)

        return ApiModel(
            functions={
                k: Function(v["name"], v["returns"], params(v["params"]), v["graphics"])
                for k, v in data["functions"].items()
            },
            records={
                k: Record(v["name"], v["is_union"], v["complete"], params(v["fields"]))
                for k, v in data["records"].items()
            },
            enums=data["enums"],
            typedefs=data["typedefs"],
            prototypes=[Prototype(**row) for row in data["prototypes"]],
            headers=data["headers"],
        )
