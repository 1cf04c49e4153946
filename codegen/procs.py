# SPDX-License-Identifier: Apache-2.0
"""Which symbol answers cuGetProcAddress(name, version, flags): from the PFN typedefs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from model import ApiModel, Prototype

PER_THREAD_FLAG = 2


class ProcError(Exception):
    pass


@dataclass(frozen=True)
class ProcRow:
    name: str
    version: int
    flags: int
    symbol: str


def proc_rows(model: ApiModel, overrides: dict[str, str]) -> list[ProcRow]:
    """A row per prototype. `overrides`: "cuFoo_v3020" -> symbol, where nothing else decides."""
    symbols = defaultdict(list)
    for name, function in model.functions.items():
        symbols[function.parts.name, function.parts.per_thread].append(name)
    prototypes = defaultdict(list)
    for prototype in model.prototypes:
        prototypes[prototype.name, prototype.per_thread].append(prototype)
    rows = []
    for key, versions in prototypes.items():
        rows += _match(
            model,
            sorted(versions, key=lambda p: p.version),
            _by_version(symbols.get(key, [])),
            overrides,
        )
    missing = sorted(set(model.functions) - {row.symbol for row in rows})
    if missing:
        raise ProcError(
            f"no PFN typedef leads to {', '.join(missing)}: add it to codegen/spec/proc_overrides.yaml"
        )
    return sorted(rows, key=lambda row: (row.name, row.flags, row.version))


def _by_version(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: (len(name), name))


def _match(
    model: ApiModel, versions: list[Prototype], symbols: list[str], overrides: dict[str, str]
) -> list[ProcRow]:
    """The n-th version is the n-th symbol if their signatures agree; else the only one that fits."""
    rows = []
    for index, prototype in enumerate(versions):
        label = f"{prototype.name}_v{prototype.version}" + (
            "_" + prototype.per_thread if prototype.per_thread else ""
        )
        symbol = overrides.get(label)
        if symbol is None and len(versions) == len(symbols):
            symbol = _same(model, prototype, [symbols[index]])
        if symbol is None:
            symbol = _same(model, prototype, symbols)
        if symbol is None:
            raise ProcError(
                f"{label}: none or several of [{', '.join(symbols)}] have its signature "
                f"{prototype.signature}: add it to codegen/spec/proc_overrides.yaml"
            )
        flags = PER_THREAD_FLAG if prototype.per_thread else 0
        rows.append(ProcRow(prototype.name, prototype.version, flags, symbol))
    return rows


def _same(model: ApiModel, prototype: Prototype, symbols: list[str]) -> str | None:
    found = [
        name for name in symbols if model.signature(model.functions[name]) == prototype.signature
    ]
    return found[0] if len(found) == 1 else None
