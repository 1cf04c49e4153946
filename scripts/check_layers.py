#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include "..." of the tree against LAYERS, and that no folders include each other.

scripts/check_layers.py             prints a line for each violation; exit status 1 if there are any
scripts/check_layers.py --graph     prints the folders, each with those it includes
"""

import os
import re
import subprocess
import sys

# Folder: what it may include beside itself. The longest name that fits a file is its folder. `generated` is
# <build>/generated; its folders are those of GENERATED. Each include of it begins so.
LAYERS = {
    # Without anything of ours.
    "sync": "",
    "settings": "",
    "toolkit": "",
    # The wire, and what carries it.
    "proto": "",
    "transport": "proto",
    "listener": "transport proto",
    # Arithmetic of sharing.
    "quota": "proto",
    # CUDA.
    "cuda-abi": "",
    "cpu-device": "cuda-abi toolkit",
    # The client's libraries.
    "client-shim": "transport proto cuda-abi",
    # The server, from below.
    "server/control": "proto",
    "server/confine": "proto",
    "server/device": "transport proto quota cuda-abi",
    "server/leases": "server/control quota proto",
    "server/memory": "server/device server/control quota proto",
    "server/state": "server/memory server/leases server/device transport proto cuda-abi",
    "server/calls": "server/state server/memory server/device proto cuda-abi cpu-device/images cpu-device/ptx",
    "server/library": "server/state server/memory server/device toolkit proto",
    "server/toolchain": "server/library server/state server/confine toolkit proto",
    "server/nvml": "server/memory server/device proto",
    "server/session": "server/calls server/library server/nvml server/state server/memory server/leases "
    "server/device transport proto",
    "server/worker": "server/session server/nvml server/state server/memory server/leases server/device "
    "server/control server/confine transport proto quota toolkit cuda-abi",
    # The supervisor's parts; it includes all of them.
    "server/supervisor/options": "server/worker quota transport proto",
    "server/supervisor/images": "server/state proto",
    "server/supervisor/processes": "server/worker server/control transport proto",
    "server/supervisor/sharing": "server/supervisor/options server/worker server/leases server/control quota proto ",
    "server/supervisor/services": "server/supervisor/options server/supervisor/processes "
    "server/worker server/device "
    "server/control listener transport quota proto",
    "server/supervisor/sessions": "server/supervisor/options server/supervisor/images "
    "server/supervisor/processes server/supervisor/sharing server/supervisor/services server/worker server/nvml "
    "server/library server/leases server/state server/device server/control transport proto quota",
    "server/supervisor": "server/supervisor/sessions server/supervisor/options "
    "server/supervisor/images server/supervisor/processes "
    "server/supervisor/sharing server/supervisor/services server/worker server/nvml server/library server/state "
    "server/leases server/device server/control listener transport proto quota",
    "server/tls_gateway": "server/worker server/control listener transport proto",
    "server/control_plane": "server/worker server/control proto",
    # The pool, from below: its core knows nobody, and no part of it the server.
    "pool/process": "",
    "pool/core/model": "proto",
    "pool/core/placing": "pool/core/model proto",
    "pool/core": "pool/core/placing pool/core/model proto",
    "pool/oidc": "pool/core/model transport proto",
    "pool/tls": "listener transport proto",
    "pool/client": "transport proto",
    "pool/http": "listener transport proto",
    "pool/convert": "pool/core transport proto",
    "pool/store": "proto",
    "pool/access": "pool/core/model proto",
    "pool/record": "pool/convert pool/store pool/core proto",
    "pool/controller": "pool/record pool/access pool/convert pool/store pool/core proto",
    "pool/service": "pool/controller pool/access pool/convert pool/oidc pool/core proto",
    "pool/rest": "pool/service pool/http transport proto",
    "pool/grpc": "pool/service pool/tls proto",
    "pool/data_port": "pool/service listener transport proto",
    "pool": "pool/rest pool/grpc pool/data_port pool/controller pool/oidc pool/core pool/tls pool/process "
    "listener transport proto",
    # Kubernetes: what a kubelet and an API server are asked, with the pool's client.
    "pool/k8s/api": "pool/client transport proto",
    "pool/k8s/process": "pool/k8s/api pool/client pool/http pool/process transport proto",
    "pool/k8s/pods": "pool/k8s/api pool/core/model proto",
    "pool/k8s/claims": "pool/k8s/process pool/k8s/pods pool/k8s/api pool/client proto",
    "pool/k8s": "pool/k8s/claims pool/k8s/process pool/k8s/pods pool/k8s/api pool/client pool/http pool/process "
    "pool/core transport proto",
    "server/pool_agent": "pool/client pool/tls pool/core server/worker server/state server/control proto",
    # Programs.
    "bench": "pool server/leases cpu-device/exec quota transport proto",
    "cli": "bench pool server client-shim/audit client-shim/core listener transport proto",
}
# What all may include.
COMMON = ("settings", "sync")
# These may include anything: tests look at what they test.
FREE = ("tests", "examples", "codegen", "build")
# Generated headers, of <build>/generated: of which folder each is. Others are of the one that has their name.
GENERATED = {
    "server/driver_api.h": "server/device/driver_api.h",
    "server/handwritten.h": "server/calls/handwritten.h",
    "server/nvml_api.h": "server/nvml/nvml_api.h",
    "client": "client-shim",
}

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
SOURCE = re.compile(r"\.(cc|h|cu|cuh|c|inc|in)$")


def is_below(path, folder):
    return path == folder or path.startswith(folder + "/")


def folder_of(path):
    """The name in LAYERS that a file falls under; None: it is free."""
    fits = [name for name in LAYERS if is_below(path, name)]
    return max(fits, key=len) if fits else None


def source_path(written):
    """Where in the tree a header would be that is written so."""
    path = written.removeprefix("generated/")
    for name, stands_for in GENERATED.items():
        if is_below(path, name):
            return stands_for + path[len(name) :]
    return path


def includes(root, files):
    """(file, line, what it includes as a path of the tree, as written) of each include."""
    known = set(files)
    for file in files:
        with open(os.path.join(root, file), errors="replace") as source:
            for number, line in enumerate(source, 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                written = match.group(1)
                beside = os.path.normpath(os.path.join(os.path.dirname(file), written))
                if written in known or beside not in known:
                    yield file, number, source_path(written), written
                else:
                    yield file, number, beside, written


def is_unmarked(written):
    """Whether a header of one of our folders is named that is not in the tree, and so must be generated."""
    folder = written.split("/")[0]
    return (
        "/" in written
        and os.path.isdir(os.path.join(ROOT, folder))
        and not os.path.exists(os.path.join(ROOT, written))
    )


def violation(file, number, target, written):
    """The line that says which rule an include breaks; None: it breaks none."""
    if is_unmarked(written):
        return (
            f'{file}:{number}: includes "{written}", which is not in the tree: '
            f'a generated header is "generated/{written}"'
        )
    source = folder_of(file)
    if source is None or any(is_below(file, free) for free in FREE):
        return None
    if any(is_below(target, free) for free in ("tests", "examples")):
        return f'{file}:{number}: includes "{written}": the product includes nothing of tests or examples'
    folder = folder_of(target)
    if folder is None or folder == source:
        return None
    allowed = LAYERS[source].split()
    # A name stands for what is below it too.
    if any(is_below(target, name) for name in [*allowed, *COMMON]):
        return None
    return f'{file}:{number}: includes "{written}": {source} may include {", ".join(allowed) or "nothing"}'


def cycles(edges):
    """The groups of folders that include each other, of {folder: {folder}}."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = set()
            while node not in group:
                group.add(stack.pop())
            on_stack.difference_update(group)
            if len(group) > 1:
                found.append(group)

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def folder_graph(all_includes):
    edges = {}
    for file, _, target, _ in all_includes:
        source, folder = os.path.dirname(file), os.path.dirname(target)
        if folder and source != folder and not any(is_below(file, free) for free in FREE):
            edges.setdefault(source, set()).add(folder)
    return edges


def check(all_includes):
    findings = [line for include in all_includes if (line := violation(*include))]
    table = {
        name: {other for other in LAYERS for one in allowed.split() if is_below(other, one)}
        - {name}
        for name, allowed in LAYERS.items()
    }
    for group in cycles(table):
        findings.append(
            "scripts/check_layers.py: the table lets these include each other: "
            + ", ".join(sorted(group))
        )
    for group in cycles(folder_graph(all_includes)):
        findings.append("these folders include each other: " + ", ".join(sorted(group)))
    return findings


def main():
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    files = [
        file
        for file in listed.stdout.splitlines()
        if SOURCE.search(file) and os.path.isfile(os.path.join(ROOT, file))
    ]
    all_includes = list(includes(ROOT, files))
    if "--graph" in sys.argv:
        graph = folder_graph(all_includes)
        for folder in sorted(graph):
            print(folder, "->", ", ".join(sorted(graph[folder])))
        print(
            len(graph),
            "folders that include others,",
            sum(map(len, graph.values())),
            "edges,",
            len(cycles(graph)),
            "groups that include each other",
        )
        return 0
    findings = check(all_includes)
    for finding in findings:
        print("  " + finding, file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
