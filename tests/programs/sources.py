# SPDX-License-Identifier: Apache-2.0
"""Which files of a folder are CUDA programs of one source file, and how each is compiled. Nothing here names a program."""

import pathlib
import re
import subprocess

MAIN = re.compile(r"^\s*(?:int|void|auto)\s+main\s*\(", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
CUDA = re.compile(r"cuda|cublas|cufft|curand|cusparse|cusolver|cudnn|<<<")
SOURCES = (".cu", ".cpp", ".cc")
# The library that each header of the toolkit belongs to; those that Farcall does not replace are named too, so that
# a program which needs one is told apart from one that does not compile.
LIBRARIES = {
    "cublas": "cublas",
    "cublasLt": "cublasLt",
    "cublasXt": "cublas",
    "cufft": "cufft",
    "cufftw": "cufftw",
    "curand": "curand",
    "cusparse": "cusparse",
    "cusolver": "cusolver",
    "cudnn": "cudnn",
    "nvrtc": "nvrtc",
    "nvJitLink": "nvJitLink",
    "nvml": "nvidia-ml",
    "cuda.h": "cuda",
}
FOREIGN = re.compile(
    r"^(npp|nvjpeg|cufile|mpi|nccl|nvshmem|cutensor|cudss|cusolverMp|cufftMp|nvcomp|GL/|GLUT|opencv|windows)",
    re.I,
)


class Program:
    """One source file with a main(), relative to the folder that was given."""

    def __init__(self, root, file):
        self.root, self.file = root, file
        self.name = str(file.relative_to(root).with_suffix(""))
        self.text = file.read_text(errors="replace")
        self.includes = INCLUDE.findall(self.text)


def programs(root):
    """All programs below `root`, by path."""
    for file in sorted(p for p in root.rglob("*") if p.suffix in SOURCES and p.is_file()):
        text = file.read_text(errors="replace")
        if MAIN.search(text) and CUDA.search(text):
            yield Program(root, file)


def headers(root):
    """path -> all headers of the folder, for includes that a program's own build system would find."""
    return [p for p in root.rglob("*") if p.suffix in (".h", ".hpp", ".cuh", ".hxx")]


def include_folders(program, known):
    """Folders of the tree that hold what the program includes, the nearest for each; followed through the headers."""
    found, todo, seen = [], [(program.file, program.text)], set()
    while todo:
        source, text = todo.pop()
        for name in INCLUDE.findall(text):
            if name in seen:
                continue
            seen.add(name)
            parts = pathlib.PurePath(name).parts
            choices = [h for h in known if h.parts[-len(parts) :] == parts]
            if not choices:
                continue
            near = max(choices, key=lambda h: len(common(h, source)))
            folder = pathlib.Path(*near.parts[: -len(parts)])
            if folder not in found:
                found.append(folder)
            todo.append((near, near.read_text(errors="replace")))
    return found


def common(left, right):
    both = []
    for a, b in zip(left.parts, right.parts):
        if a != b:
            break
        both.append(a)
    return both


def libraries(program):
    found = []
    for name in program.includes:
        stem = pathlib.PurePath(name).name
        for prefix, library in LIBRARIES.items():
            if (
                stem == prefix
                or re.match(prefix + r"(_|\.|\d|X|v|Dn|Sp|Rf|Mg)", stem)
                and library != "cuda"
            ):
                found.append(library)
    return list(dict.fromkeys(found))


def foreign(program):
    """A header of something that is neither the toolkit's replaced libraries nor the program's own, if any."""
    return next((name for name in program.includes if FOREIGN.match(name)), None)


def compile_program(program, known, binary, arch, limit_s):
    """None, or the compiler's first error. PTX of one architecture, and a shared cudart, which thin mode replaces."""
    command = [
        "nvcc",
        "-x",
        "cu",
        "-std=c++17",
        "-O2",
        "-w",
        "-cudart",
        "shared",
        f"-gencode=arch=compute_{arch},code=compute_{arch}",
        "-o",
        binary,
        program.file,
        *(f"-I{folder}" for folder in include_folders(program, known)),
        *(f"-l{name}" for name in libraries(program)),
        "-lcuda",
        "-Xcompiler",
        "-fopenmp",
    ]
    try:
        done = subprocess.run(
            command,
            cwd=program.file.parent,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not compiled within {limit_s} s"
    if done.returncode == 0:
        return None
    said = [
        line
        for line in (done.stdout + done.stderr).splitlines()
        if re.search(r"error|undefined|No such file|cannot find", line)
    ]
    return re.sub(r"/\S*/", "", (said or ["nvcc failed"])[0])[:140]
