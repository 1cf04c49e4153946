# SPDX-License-Identifier: Apache-2.0
"""Whether two calls are the same but for the values of handles and addresses.

A handle or address of one log has exactly one partner in the other, bound where the two are first seen together:
    handles    one to one per kind; a call that stores a new handle (*argument) binds anew, for drivers reuse values
    streams    0 is the default stream of the entry's flavour; the worker's stream for a thread stands for that thread's own
    addresses  by allocation of the direct log: the allocation has one base in the other log, and offsets agree
    pointers   null or not: they are of different processes
"""

import copy
import dataclasses

from call_log import LEGACY, OWN, Call


# A kernel may be launched in a function's place, and a driver may make one where the other was.
SAME_SPACE = {"CUkern_st": "CUfunc_st"}


class Difference(Exception):
    pass


@dataclasses.dataclass
class Allocation:
    base: int
    size: int
    partner: int | None = None
    is_global: bool = False  # of a module, whose end the log does not tell


class Bindings:
    def __init__(self):
        self.forward: dict[tuple[str, int], int] = {}
        self.backward: dict[tuple[str, int], int] = {}
        self.allocations: list[Allocation] = []
        self.own_streams: set[int] = set()  # of the remote log

    def snapshot(self) -> "Bindings":
        return copy.deepcopy(self)

    def allocate(self, base: int, size: int, is_global: bool = False) -> None:
        self.free(base)
        self.allocations.append(Allocation(base, size, is_global=is_global))

    def know_global(self, base: int, size: int) -> None:
        if not any(a.base == base and a.size == size for a in self.allocations):
            self.allocate(base, size, is_global=True)

    def free(self, base: int) -> None:
        self.allocations = [
            a for a in self.allocations if not a.base <= base < a.base + max(a.size, 1)
        ]

    def _allocation(self, address: int) -> Allocation | None:
        return next(
            (a for a in self.allocations if a.base <= address < a.base + max(a.size, 1)), None
        )

    def handle(self, kind: str, here: int, there: int, is_new: bool) -> bool:
        kind = SAME_SPACE.get(kind, kind)
        if is_new:
            self.backward.pop((kind, self.forward.pop((kind, here), 0)), None)
            self.forward.pop((kind, self.backward.pop((kind, there), 0)), None)
        if here == 0 or there == 0:
            return here == there
        if (kind, here) not in self.forward and (kind, there) not in self.backward:
            self.forward[kind, here], self.backward[kind, there] = there, here
        return self.forward.get((kind, here)) == there

    def address(self, here: int, there: int) -> bool:
        found = self._allocation(here)
        if found is None:
            return here == there
        base = there - (here - found.base)
        if found.partner is None:
            for other in self.allocations:
                if other.partner is None or other.is_global:
                    continue
                if base < other.partner + other.size and other.partner < base + found.size:
                    return False  # two live allocations in one place
            found.partner = base
        return found.partner == base

    def is_address(self, value: int) -> bool:
        return self._allocation(value) is not None

    def stream(self, here: int, there: int, default: int) -> bool:
        here = here or default
        if here == OWN:
            return there in self.own_streams
        if here == LEGACY or there == LEGACY:
            return here == there
        return self.handle("CUstream_st", here, there, False)

    def value(self, name: str, here: str, there: str, default: int) -> bool:
        kind, _, text = here.partition(":")
        other_kind, _, other_text = there.partition(":")
        if kind != other_kind:
            return False
        if kind == "a":
            return self.address(int(text, 0), int(other_text, 0))
        if kind == "h":
            (type_name, number), (other_type, other) = text.split(":"), other_text.split(":")
            if type_name == "CUstream_st" and not name.startswith("*"):
                return self.stream(int(number, 0), int(other, 0), default)
            return type_name == other_type and self.handle(
                type_name, int(number, 0), int(other, 0), name.startswith("*")
            )
        if kind == "k":
            (size, number), (other_size, other) = text.split(":"), other_text.split(":")
            if size == other_size == "8" and self.is_address(int(number, 0)):
                return self.address(int(number, 0), int(other, 0))
        return text == other_text

    def same(self, name: str, arguments: dict[str, str], there: Call, default: int) -> None:
        """Raises Difference unless `there` is a call of `name` with these arguments, and perhaps more."""
        if name != there.name:
            raise Difference(f"expected {name}, found {there.name}")
        for argument, value in arguments.items():
            if argument not in there.arguments:
                raise Difference(f"{name}: {argument} is not there")
            if not self.value(argument, value, there.arguments[argument], default):
                raise Difference(
                    f"{name}: {argument} is {value} here, {there.arguments[argument]} there"
                )
