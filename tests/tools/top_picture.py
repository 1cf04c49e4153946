#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws `farcall top` with three tenants, from the real program in a pseudo-terminal.

  FARCALL_BUILD=build/release tests/tools/top_picture.py docs/guide/top.svg

Starts a server on the CPU device, three programs that work on it with different shares, and takes the screen after some
updates. The figures are this machine's; the layout is the program's.
"""

import html
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/session"), str(ROOT / "tests/cli")]
from harness import FARCALL, HERE, Client, Server  # noqa: E402
from top_test import Terminal  # noqa: E402

COLUMNS, ROWS, CELL, LINE, MARGIN = 128, 14, 7.8, 18, 14
COLORS = {
    "1": 'font-weight="bold"',
    "2": 'fill="#8b949e"',
    "31": 'fill="#ff7b72"',
    "32": 'fill="#7ee787"',
    "33": 'fill="#e3b341"',
}
TENANTS = (
    ("ada", "50%", 700, "train.py"),
    ("ben", "30%", 400, "serve.py"),
    ("cyd", "10%", 246, "notebook.py"),
)
PART = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


def spans(line):
    """(attributes, text) of one line of the screen."""
    color, at = "", 0
    for found in PART.finditer(line):
        if line[at : found.start()]:
            yield color, line[at : found.start()]
        if found.group(2) == "m":
            color = COLORS.get(found.group(1), "")
        at = found.end()
    if line[at:]:
        yield color, line[at:]


def svg(lines):
    width, height = COLUMNS * CELL + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" role="img" aria-label="farcall top">',
        '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
        '<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13" fill="#e6edf3" xml:space="preserve">',
    ]
    for row, line in enumerate(lines):
        column = 0
        for color, text in spans(line):
            if text.strip():
                x = MARGIN + column * CELL
                parts.append(
                    f'<text x="{x:.1f}" y="{MARGIN + (row + 1) * LINE - 5}" textLength="{len(text) * CELL:.1f}" {color}>{html.escape(text)}</text>'
                )
            column += len(text)
    return "\n".join([*parts, "</g>", "</svg>", ""])


def screen(terminal):
    terminal.read()
    frames = [frame for frame in terminal.raw.split("\x1b[H") if "\x1b[J" in frame]
    lines = frames[-1].split("\x1b[J")[0].replace("\x1b[K", "").split("\r\n")
    while lines and not PART.sub("", lines[-1]).strip():
        lines.pop()
    return lines


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        control = f"{folder}/control.sock"
        environment = {"FARCALL_CPU_MEM": "2GiB"}
        with Server(
            "--control", control, "--mem", "720MiB", "--max-share", "90%", environment=environment
        ) as server:
            clients = []
            for user, share, mebibytes, name in TENANTS:
                script = pathlib.Path(folder, name)
                script.write_text((HERE / "programs/worker.py").read_text())
                clients.append(
                    Client(
                        server.url,
                        sys.executable,
                        script,
                        mebibytes,
                        stdin=subprocess.PIPE,
                        environment={"USER": user, "FARCALL_SHARE": share},
                    )
                )
            for client in clients:
                client.wait_line("works")
            terminal = Terminal(
                [str(FARCALL), "top", "--control", control, "--interval", "0.5"],
                columns=COLUMNS,
                rows=ROWS,
            )
            try:
                for _ in range(60):
                    time.sleep(0.25)
                    terminal.read()
                pathlib.Path(sys.argv[1]).write_text(svg(screen(terminal)))
            finally:
                terminal.end()
                for client in clients:
                    client.kill()


if __name__ == "__main__":
    main()
