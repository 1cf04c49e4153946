# SPDX-License-Identifier: Apache-2.0
"""Writing what was generated."""

from __future__ import annotations

from pathlib import Path


def write_if_changed(path: Path, text: str) -> None:
    """Keeps the time of an unchanged file, so that nothing that includes it is rebuilt."""
    if not path.is_file() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
