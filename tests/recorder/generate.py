# SPDX-License-Identifier: Apache-2.0
"""The recorder's entries, one per function of cuda.h, from the code generator's model of the headers."""

import json
import pathlib
import re
import sys

import jinja2

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "codegen"))
from model import ApiModel, Function, Param  # noqa: E402

SCALARS = {
    "int",
    "unsigned int",
    "unsigned long long",
    "unsigned long",
    "long long",
    "long",
    "unsigned char",
    "unsigned short",
    "float",
    "char",
    "short",
    "double",
}
# Calls whose host bytes are an argument: (pointer, byte count).
HOST_BYTES = {"srcHost": "ByteCount"}
# Arrays of handles that are arguments, and the parameter that counts them.
HANDLE_ARRAYS = {
    "dependencies": "numDependencies",
    "from": "numDependencies",
    "to": "numDependencies",
}
# Structures that are answered in, but also hold arguments.
READ_RECORDS = {"instantiateParams"}
# Differ from run to run.
MEASURED = {"float", "double"}


class Entries:
    def __init__(self, model: ApiModel):
        self.model = model

    def is_handle(self, canonical: str) -> bool:
        record = canonical[:-1].strip()
        return (
            canonical.endswith(" *")
            and record in self.model.records
            and not self.model.records[record].complete
        )

    def is_scalar(self, canonical: str) -> bool:
        return (
            canonical in SCALARS or canonical in self.model.enums or canonical.startswith("enum ")
        )

    def value(self, name: str, expression: str, spelled: str) -> str | None:
        """The statement that logs a value of a scalar, handle or address type."""
        plain = re.sub(r"\bconst\b", "", spelled).strip()
        canonical = self.model.canonical(plain)
        if plain in ("CUdeviceptr", "CUdeviceptr_v2"):
            return f'RecorderAddress(line, "{name}", {expression});'
        if self.is_handle(canonical):
            return f'RecorderHandle(line, "{name}", "{canonical[:-1].strip()}", {expression});'
        if canonical in ("float", "double"):
            return f'RecorderReal(line, "{name}", {expression});'
        if self.is_scalar(canonical):
            return f'RecorderNumber(line, "{name}", {expression});'
        return None

    def argument(self, function: Function, param: Param) -> list[str]:
        name, spelled = param.name, param.type
        direct = self.value(name, name, spelled)
        if direct:
            return [direct]
        canonical = self.model.canonical(spelled)
        if canonical == "const char *":
            return [f'RecorderText(line, "{name}", {name});']
        names = {other.name for other in function.params}
        if HOST_BYTES.get(name) in names:
            return [f'RecorderBytes(line, "{name}", {name}, {HOST_BYTES[name]});']
        pointee = spelled.strip()[:-1].strip() if spelled.strip().endswith("*") else ""
        if HANDLE_ARRAYS.get(name) in names and pointee.startswith("const "):
            kind = self.model.canonical(pointee[6:])[:-1].strip()
            return [f'RecorderHandles(line, "{name}", "{kind}", {name}, {HANDLE_ARRAYS[name]});']
        if pointee.startswith("const ") or name in READ_RECORDS:
            fields = self.fields(name, self.model.canonical(pointee.removeprefix("const ")))
            if fields:
                return [
                    f'RecorderPointer(line, "{name}", {name});',
                    f"if ({name} != 0 && answer == CUDA_SUCCESS) {{",
                    *("  " + field for field in fields),
                    "}",
                ]
        elif pointee:
            out = self.value(f"*{name}", f"*{name}", pointee)
            if out and self.model.canonical(pointee) not in MEASURED | {"char", "unsigned char"}:
                return [
                    f"if ({name} != 0 && answer == CUDA_SUCCESS) {out}",
                    f'else RecorderPointer(line, "{name}", {name});',
                ]
        if canonical.endswith("*") or "(*" in canonical or self.is_function(canonical):
            return [f'RecorderPointer(line, "{name}", (const void*){name});']
        return [f'RecorderOpaque(line, "{name}");']

    @staticmethod
    def is_function(canonical: str) -> bool:
        return "(" in canonical

    def fields(self, name: str, record: str) -> list[str]:
        """One statement per scalar, handle, address or pointer member; nested structures are left out."""
        found = self.model.records.get(record)
        if found is None or not found.complete or found.is_union:
            return []
        rows = []
        for field in found.fields:
            if not field.name or field.name.startswith("reserved"):
                continue
            row = self.value(f"{name}.{field.name}", f"{name}->{field.name}", field.type)
            if row is None and field.type.strip().endswith("*"):
                row = f'RecorderPointer(line, "{name}.{field.name}", {name}->{field.name});'
            if row:
                rows.append(row)
        return rows

    def entry(self, function: Function) -> dict:
        statements = [row for param in function.params for row in self.argument(function, param)]
        names = {param.name for param in function.params}
        if "kernelParams" in names and "extra" in names:
            kernel = function.params[1 if function.parts.name == "cuLaunchKernelEx" else 0].name
            if (
                self.model.canonical(next(p.type for p in function.params if p.name == kernel))
                == "CUfunc_st *"
            ):
                statements.append(f"RecorderParameters(line, {kernel}, kernelParams, extra);")
        elif "kernelParams" in names and function.params[0].name == "f":
            statements.append("RecorderParameters(line, f, kernelParams, 0);")
        return {
            "name": function.name,
            "returns": function.returns,
            "statements": statements,
            "declaration": ", ".join(declare(p) for p in function.params),
            "arguments": ", ".join(p.name for p in function.params),
            "proc": function.parts.name == "cuGetProcAddress",
        }


def declare(param: Param) -> str:
    if "(*)" in param.type:
        return param.type.replace("(*)", f"(*{param.name})", 1)
    return f"{param.type} {param.name}"


def main() -> None:
    stored, out = sys.argv[1:]
    model = ApiModel.from_json(json.loads(pathlib.Path(stored).read_text())["model"])
    entries = Entries(model)
    functions = [entries.entry(f) for f in model.functions.values() if not f.graphics]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pathlib.Path(out).write_text(
        environment.get_template("entries.c.j2").render(functions=functions)
    )


if __name__ == "__main__":
    main()
