# SPDX-License-Identifier: Apache-2.0
"""The lines of a recording libcuda, and the calls they stand for. lines.h says what a line holds."""

import dataclasses
import pathlib

LEGACY, OWN = 1, 2  # CU_STREAM_LEGACY, CU_STREAM_PER_THREAD


@dataclasses.dataclass
class Call:
    number: int  # of its line
    pid: int
    thread: int
    name: str
    result: int
    arguments: dict[str, str]

    def __str__(self):
        return f"{self.number}: {self.name} -> {self.result} " + " ".join(
            f"{k}={v}" for k, v in self.arguments.items()
        )

    @property
    def base(self) -> str:
        return self.name.removesuffix("_ptsz").removesuffix("_ptds")

    @property
    def default_stream(self) -> int:
        return LEGACY if self.name == self.base else OWN

    def number_of(self, argument: str) -> int:
        """A number, an address or a handle, as an integer; 0 for a null pointer."""
        kind, value = self.arguments[argument].split(":", 1)
        return 0 if kind == "p" else int(value.rsplit(":", 1)[-1], 0)


def session_of(calls: list[Call]) -> list[Call]:
    """The calls of the one process of the server that serves a session, from its begin."""
    begin = next(c for c in calls if c.name == "cuThreadExchangeStreamCaptureMode")
    return [c for c in calls if c.pid == begin.pid and c.number >= begin.number]


def read_log(path: pathlib.Path) -> list[Call]:
    calls = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        pid, thread, name, result, *rest = line.split(" ")
        arguments = dict(item.split("=", 1) for item in rest)
        calls.append(Call(number, int(pid), int(thread), name, int(result), arguments))
    return calls
