# SPDX-License-Identifier: Apache-2.0
"""The permanent ids of the calls: append-only, each batch of lines sealed by a hash over all before.

A line is "<id> <exported name>"; "# seal <ids> <hash>" closes what one release added. An id is for
ever: a changed layout is a new name with a new id, never an edit.
"""

from __future__ import annotations

import hashlib
from pathlib import Path


class IdError(Exception):
    pass


def load_ids(path: Path) -> dict[str, int]:
    """Name -> id. Fails if a sealed line was changed, moved or removed."""
    ids: dict[str, int] = {}
    digest, sealed = hashlib.sha256(), 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split()
        if line.startswith("# seal "):
            if words[2:] != [str(len(ids)), digest.hexdigest()[:16]]:
                raise IdError(
                    f"{path.name}:{number}: an existing id line changed before this seal: ids are for ever, "
                    "append new ones with generate.py --add-ids"
                )
            sealed = len(ids)
        elif line and not line.startswith("#"):
            if len(words) != 2 or words[0] != str(len(ids) + 1):
                raise IdError(
                    f"{path.name}:{number}: '{line}': expected '{len(ids) + 1} <name>', ids count up from 1"
                )
            if words[1] in ids:
                raise IdError(f"{path.name}:{number}: {words[1]} already has id {ids[words[1]]}")
            ids[words[1]] = len(ids) + 1
            digest.update(line.encode() + b"\n")
    if sealed != len(ids):
        raise IdError(
            f"{path.name}: {len(ids) - sealed} ids after the last seal: append ids with generate.py --add-ids"
        )
    return ids


def append_ids(path: Path, names: list[str]) -> list[str]:
    """Gives each name without an id the next one and seals the list. Returns the names added."""
    ids = load_ids(path) if path.exists() else {}
    added = [name for name in names if name not in ids]
    if not added:
        return []
    text = (
        path.read_text()
        if path.exists()
        else (
            "# SPDX-License-Identifier: Apache-2.0\n"
            "# <id> <exported name>, for ever: append with generate.py --add-ids.\n"
        )
    )
    for name in added:
        ids[name] = len(ids) + 1
        text += f"{ids[name]} {name}\n"
    digest = hashlib.sha256("".join(f"{value} {name}\n" for name, value in ids.items()).encode())
    path.write_text(f"{text}# seal {len(ids)} {digest.hexdigest()[:16]}\n")
    return added
