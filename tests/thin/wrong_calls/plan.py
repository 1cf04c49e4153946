# SPDX-License-Identifier: Apache-2.0
"""Wrong calls of a mathematics library, from its headers' model and bases.yaml: for each function one right call, and for each
of its parameters values that are wrong by its role (null, negative, zero, one too small, an enumerator that is none)."""

from __future__ import annotations

import pathlib
import re
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent.parent / "codegen"))
from library_spec import CODEGEN, LibrarySpec  # noqa: E402

MAJORS = {
    "cublas": 13,
    "cublaslt": 13,
    "cusolver": 12,
    "cusparse": 12,
    "cufft": 12,
    "curand": 10,
    "cudnn": 9,
}
STRUCTS = (
    "cuComplex",
    "cuDoubleComplex",
    "float2",
    "double2",
    "__half",
)  # by value: ctypes has no such registers here
WIDE = ("int64_t", "size_t", "uint64_t", "long long", "unsigned long long", "long")
SIZE = re.compile(
    r"m|n|k|kl|ku|rows|cols|nrhs|nnz\w*|mb|nb|num|batch\w*|\w*[cC]ount|size|rank|n[xyz]|cwork|lwork|\w*[sS]izeIn\w*|degree"
)
LEADING = re.compile(r"ld\w*")
STEP = re.compile(r"inc\w*")
# Right calls have m = 16, n = 12 and k = 8, so that each of these is one less than what some matrix needs.
TOO_SMALL = (-1, 0, 7, 11, 15)


def spec_of(name: str, include: str, build: pathlib.Path) -> LibrarySpec:
    return LibrarySpec(
        CODEGEN / "spec" / "thin" / f"{name}.yaml",
        pathlib.Path(include),
        build / f"generated/{name}_model.json",
    )


class Plan:
    def __init__(self, name: str, spec: LibrarySpec):
        self.name, self.spec, self.model = name, spec, spec.model
        self.bases = yaml.safe_load((HERE / "bases.yaml").read_text())[name]
        self.exported = set(
            (CODEGEN / "exports" / f"{name}.{MAJORS[name]}.txt").read_text().split()
        )

    def _row(self, function: str, param) -> object:
        for functions, params, value, *types in self.bases["values"]:
            if re.fullmatch(functions, function) and re.fullmatch(params, param.name):
                if not types or re.fullmatch(types[0], param.type):
                    return value
        return None

    def enumerators(self, param) -> set:
        kind = param.type.replace("const ", "")
        return set(
            (
                self.model.enums.get(kind) or self.model.enums.get(self.model.canonical(kind)) or {}
            ).values()
        )

    def argument(self, function: str, param, plan) -> list | None:
        """[kind, value] for caller.py; None: a type that this cannot pass."""
        value = self._row(function, param)
        if isinstance(value, list):
            return value
        kind = param.type.replace("const ", "")
        canonical = self.model.canonical(param.type)
        if value is None and kind in self.bases["objects"]:
            return ["object", kind]
        if canonical in STRUCTS or kind in STRUCTS:
            return None
        if canonical in ("float", "double"):
            return [canonical, 0.5 if value is None else value]
        if plan is not None and plan.kind == "addresses":
            return ["addresses", 0]
        if "*" in canonical or "[" in canonical:
            if isinstance(value, str):
                return ["object", value]
            if plan is not None and plan.kind in ("new", "out_address", "out_object"):
                return ["host", "zero"]
            if re.search(r"\*\s*(const)?\s*(\*|\[)", canonical) or "[]" in param.type:
                return ["array", 0]
            host = plan is None or plan.kind not in ("dev", "target")
            if not host:
                return ["device", 0]
            element = canonical.replace("const", "").replace("*", "").strip()
            return ["host", element]
        if value is None and self.enumerators(param):
            value = min(self.enumerators(param))
        wide = (
            kind in WIDE
            or canonical in WIDE
            or canonical in ("unsigned long", "long", "long long", "unsigned long long")
        )
        return ["wide" if wide else "int", 1 if value is None else value]

    def wrong(self, param, argument: list) -> list:
        kind, value = argument
        if kind == "object":
            return [["null", "null"]]
        if kind in ("device", "host", "array", "addresses"):
            return [["null", "null"]]
        if kind in ("float", "double"):
            return []
        if self.enumerators(param):
            return [[str(bad), [kind, bad]] for bad in (-1, 9999)]
        if LEADING.fullmatch(param.name):
            return [[str(bad), [kind, bad]] for bad in TOO_SMALL if bad < value]
        if STEP.fullmatch(param.name):
            return [["0", [kind, 0]]]
        if SIZE.fullmatch(param.name):
            return [["-1", [kind, -1]]]
        return []

    def calls(self, only=".*") -> list:
        """[name, right arguments, [[what is wrong, {index: argument}], ...]]"""
        out = []
        for call in self.spec.calls.values():
            name = call.name
            hows = ("refused",) if self.bases.get("local") else ("refused", "local")
            if call.how in hows or name not in self.exported or not re.fullmatch(only, name):
                continue
            if any(re.fullmatch(pattern, name) for pattern in self.bases["skip"]):
                continue
            plans = call.plans or [None] * len(call.function.params)
            arguments = [
                self.argument(name, p, plan) for p, plan in zip(call.function.params, plans)
            ]
            if None not in arguments:
                out.append([name, arguments, self.cases(call.function.params, arguments)])
        return out

    def cases(self, params, arguments) -> list:
        singles, settings = [], []
        for index, (param, argument) in enumerate(zip(params, arguments)):
            singles += [
                (f"{param.name}={what}", index, bad) for what, bad in self.wrong(param, argument)
            ]
            for other in self.bases["settings"].get(param.type, ()):
                settings.append((f"{param.name}={other}, ", {index: ["int", other]}))
        cases = [[what, {index: bad}] for what, index, bad in singles]
        # Another side or operation: each leading dimension again.
        for prefix, setting in settings:
            cases += [
                [prefix + what, {**setting, index: bad}]
                for what, index, bad in singles
                if LEADING.fullmatch(params[index].name) and bad[1] > 0
            ]
        # Nothing to do: what is wrong still, or no longer. One of each kind.
        kinds: dict = {}
        for what, index, bad in singles:
            kinds.setdefault((arguments[index][0], what.split("=")[1]), (what, index, bad))
        for empty in (
            i for i, p in enumerate(params) if re.fullmatch("m|n|k|batchCount|batchSize", p.name)
        ):
            nothing = {empty: [arguments[empty][0], 0]}
            cases.append([f"{params[empty].name}=0", nothing])
            cases += [
                [f"{params[empty].name}=0, {what}", {**nothing, index: bad}]
                for what, index, bad in kinds.values()
                if index != empty
            ]
        # Two that are wrong: which of them the code tells of.
        if arguments and arguments[0][0] == "object":
            cases += [
                [f"{params[0].name}=null, {what}", {0: "null", index: bad}]
                for what, index, bad in singles
                if index
            ][:2]
        return cases
