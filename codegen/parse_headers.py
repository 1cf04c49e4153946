# SPDX-License-Identifier: Apache-2.0
"""CUDA's headers -> ApiModel, by clang's AST. The model lives in the build tree only."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from model import ApiModel, Function, Param, Prototype, Record

CACHE_FORMAT = 3
GRAPHICS_HEADERS = (
    "cudaGL.h",
    "cudaGLTypedefs.h",
    "cudaEGL.h",
    "cudaEGLTypedefs.h",
    "cudaVDPAU.h",
    "cudaVDPAUTypedefs.h",
)
GRAPHICS_SENTINEL = "FarcallGraphicsHeadersFollow"
COMPILERS = (
    "clang++",
    "clang++-19",
    "clang++-18",
    "clang++-17",
    "clang++-16",
    "clang++-15",
    "clang++-14",
)

# The graphics headers these need may be absent; only a few scalar types of them matter.
GRAPHICS_TYPES = {
    "GL/gl.h": "typedef unsigned GLuint; typedef unsigned GLenum; typedef int GLint;",
    "EGL/egl.h": "typedef int EGLint; typedef unsigned EGLBoolean; typedef void* EGLDisplay;",
    "EGL/eglext.h": "typedef void* EGLImageKHR; typedef void* EGLStreamKHR;"
    "typedef void* EGLSyncKHR;",
    "vdpau/vdpau.h": "#include <stdint.h>\n"
    "typedef uint32_t VdpDevice; typedef uint32_t VdpVideoSurface;\n"
    "typedef uint32_t VdpOutputSurface; typedef uint32_t VdpFuncId; typedef int VdpStatus;\n"
    "typedef VdpStatus VdpGetProcAddress(VdpDevice, VdpFuncId, void**);",
}

_PROTOTYPE = re.compile(r"^PFN_(?P<name>cu\w+?)_v(?P<version>\d+)(?:_(?P<per_thread>ptds|ptsz))?$")


class ParseError(Exception):
    pass


@dataclass(frozen=True)
class Library:
    """Which headers are a library's, and how to know that they are."""

    headers: tuple[str, ...]
    graphics: tuple[str, ...]
    define: str  # without it the header renames its functions by macro
    function: str  # a regular expression for the names of its functions
    first: str  # a function that any version declares


CUDA = Library(
    ("cuda.h", "cudaProfiler.h", "cudaTypedefs.h", "cudaProfilerTypedefs.h"),
    GRAPHICS_HEADERS,
    "__CUDA_API_VERSION_INTERNAL",
    "^cu[A-Z]",
    "cuInit",
)
NVML = Library(("nvml.h",), (), "NVML_NO_UNVERSIONED_FUNC_DEFS", "^nvml[A-Z]", "nvmlInit_v2")


def load_model(
    include_dir: Path, cache: Path, clang: str | None = None, library: Library = CUDA
) -> ApiModel:
    """The model of the headers in `include_dir`; from `cache` if no header has changed."""
    key = _cache_key(include_dir, library)
    if cache.is_file():
        stored = json.loads(cache.read_text())
        if stored.get("key") == key:
            return ApiModel.from_json(stored["model"])
    model = parse(include_dir, clang or _find_clang(), library)
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(json.dumps({"key": key, "model": model.to_json()}))
    return model


def parse(include_dir: Path, clang: str, library: Library = CUDA) -> ApiModel:
    with tempfile.TemporaryDirectory() as scratch:
        tree, headers = _dump_ast(include_dir, clang, Path(scratch), library)
    model = ApiModel(headers=headers)
    before: dict = {}
    for node in _declarations(tree):
        if node["kind"] == "FunctionDecl" and not re.match(library.function, node.get("name", "")):
            continue
        if node["kind"] == "TypedefDecl" and _names(node, before):
            _add_record(model, {**before, "name": node["name"]})
        before = node
        _HANDLERS.get(node["kind"], lambda *_: None)(model, node)
    _resolve_prototypes(model)
    if library.first not in model.functions:
        raise ParseError(
            f"{include_dir}: the headers declare no {library.first}: not CUDA's headers, or unreadable ones"
        )
    return model


def _cache_key(include_dir: Path, library: Library) -> str:
    digest = hashlib.sha256(f"{CACHE_FORMAT} {include_dir}".encode())
    for name in library.headers + library.graphics:
        path = include_dir / name
        digest.update(name.encode() + (path.read_bytes() if path.is_file() else b"-"))
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()


def _find_clang() -> str:
    for name in COMPILERS:
        if shutil.which(name):
            return name
    raise ParseError(
        "clang++ (14 or newer) not found: it reads CUDA's headers; install the clang package"
    )


def _dump_ast(
    include_dir: Path, clang: str, scratch: Path, library: Library
) -> tuple[dict, list[str]]:
    """Preprocesses, which drops the comments (three quarters of the dump), then dumps the AST."""
    for name, text in GRAPHICS_TYPES.items():
        path = scratch / "graphics" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#pragma once\n{text}\n")
    source = scratch / "all.cc"
    source.write_text(
        _includes(include_dir, library.headers)
        + f"struct {GRAPHICS_SENTINEL};\n"
        + "".join(f"#include <{name}>\n" for name in GRAPHICS_TYPES if library.graphics)
        + _includes(include_dir, library.graphics)
    )
    preprocessed = scratch / "all.ii"
    depfile = scratch / "all.d"
    _run(
        [
            clang,
            "-E",
            "-x",
            "c++",
            f"-D{library.define}",
            f"-I{scratch}/graphics",
            "-isystem",
            str(include_dir),
            "-MD",
            "-MF",
            str(depfile),
            str(source),
            "-o",
            str(preprocessed),
        ]
    )
    dump = _run(
        [clang, "-fsyntax-only", "-w", "-x", "c++", "-Xclang", "-ast-dump=json", str(preprocessed)]
    )
    headers = [
        h
        for h in depfile.read_text().replace("\\\n", " ").split()[1:]
        if not h.startswith(str(scratch))
    ]
    return json.loads(dump), headers


def _includes(include_dir: Path, names: tuple[str, ...]) -> str:
    return "".join(f"#include <{name}>\n" for name in names if (include_dir / name).is_file())


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise ParseError(f"{command[0]} cannot read the headers:\n{done.stderr[:2000]}")
    return done.stdout


def _declarations(node: dict):
    for child in node.get("inner", ()):
        if child["kind"] == "LinkageSpecDecl":
            yield from _declarations(child)
        else:
            yield child


def _add_function(model: ApiModel, node: dict) -> None:
    name = node["name"]
    params = tuple(
        Param(p.get("name", ""), p["type"]["qualType"])
        for p in node.get("inner", ())
        if p["kind"] == "ParmVarDecl"
    )
    returns = node["type"]["qualType"].split(" (", 1)[0]
    model.functions.setdefault(
        name, Function(name, returns, params, GRAPHICS_SENTINEL in model.records)
    )


def _add_typedef(model: ApiModel, node: dict) -> None:
    qualified = node["type"]["qualType"]
    # An unnamed enum or struct takes the typedef's name; clang already spells it so.
    if qualified != node["name"]:
        model.typedefs[node["name"]] = qualified
    # `typedef enum {...} name;`
    unnamed = f"unnamed@{_owned(node)}"
    if unnamed in model.enums:
        model.enums[node["name"]] = model.enums.pop(unnamed)
    found = _PROTOTYPE.match(node["name"])
    if found:
        model.prototypes.append(
            Prototype(found["name"], int(found["version"]), found["per_thread"] or "", qualified)
        )


def _owned(typedef: dict) -> str:
    """The id of the enumeration that a typedef names, else empty."""
    found = (child.get("ownedTagDecl", {}) for child in typedef.get("inner", ()))
    return next((tag["id"] for tag in found if tag.get("kind") == "EnumDecl"), "")


def _add_record(model: ApiModel, node: dict) -> None:
    name = node.get("name", "")
    if not name:
        return
    known = model.records.get(name)
    if known and known.complete:
        return
    fields = []
    for child in node.get("inner", ()):
        if child["kind"] == "FieldDecl":
            fields.append(Param(child.get("name", ""), child["type"]["qualType"]))
    model.records[name] = Record(
        name, node.get("tagUsed") == "union", bool(node.get("completeDefinition")), tuple(fields)
    )


def _names(typedef: dict, record: dict) -> bool:
    """`typedef struct {...} name;`: the record has no name but this one."""
    spelled = typedef["type"]["qualType"].split()[-1]
    return (
        record.get("kind") == "CXXRecordDecl"
        and "name" not in record
        and spelled.split("::")[-1] == typedef["name"]
    )


def _add_enum(model: ApiModel, node: dict) -> None:
    values, following = {}, 0
    for child in node.get("inner", ()):
        if child["kind"] != "EnumConstantDecl":
            continue
        following = _constant(child, following)
        values[child["name"]] = following
        following += 1
    model.enums[node.get("name") or f"unnamed@{node['id']}"] = values


def _constant(node: dict, default: int) -> int:
    """The value clang evaluated for an enumerator's initialiser, if it has one."""
    for child in node.get("inner", ()):
        if child["kind"] == "ConstantExpr" and "value" in child:
            return int(child["value"])
        value = _constant(child, None)
        if value is not None:
            return value
    return default


def _resolve_prototypes(model: ApiModel) -> None:
    model.prototypes = [
        Prototype(
            p.name, p.version, p.per_thread, model.canonical(p.signature).replace("(*)(", "(", 1)
        )
        for p in model.prototypes
    ]


_HANDLERS = {
    "FunctionDecl": _add_function,
    "TypedefDecl": _add_typedef,
    "CXXRecordDecl": _add_record,
    "EnumDecl": _add_enum,
}
