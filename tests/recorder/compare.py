# SPDX-License-Identifier: Apache-2.0
"""Walks a direct and a remote log side by side, by the rules of rules.py."""

import collections
from typing import Any

import rules
from call_log import Call, session_of
from equivalence import Bindings, Difference


def by_name(table: dict[str, set[str]]) -> dict[str, str]:
    return {name: reason for reason, names in table.items() for name in names}


def rows_by_name(table: dict[str, dict[str, Any]]) -> dict[str, tuple[str, Any]]:
    return {name: (reason, row) for reason, rows in table.items() for name, row in rows.items()}


class Comparison:
    def __init__(self, direct: list[Call], remote: list[Call]):
        self.counts: collections.Counter[str] = collections.Counter()
        self.matched: collections.Counter[str] = (
            collections.Counter()
        )  # direct names whose call arrived
        self.bindings = Bindings()
        self.direct = direct
        self.remote = self._session(remote)
        self.position = 0
        self._client, self._waits, self._remembered = (
            by_name(rules.CLIENT),
            by_name(rules.WAITS),
            by_name(rules.REMEMBERED),
        )
        self._deferred, self._discarded = (
            rows_by_name(rules.DEFERRED),
            rows_by_name(rules.DISCARDED),
        )
        self._overtaken = by_name(rules.OVERTAKEN)
        self._followed, self._lowered = rows_by_name(rules.FOLLOWED), rows_by_name(rules.LOWERED)
        self._preceded = rows_by_name(rules.PRECEDED)
        self._late: list[
            tuple[Call, int]
        ] = []  # deferred calls that have not arrived, and the remote handle each ends

    def run(self) -> None:
        for call in self.direct:
            try:
                self._direct(call)
            except Difference as error:
                near = "\n".join(
                    f"  remote {c}"
                    for c in self.remote[max(self.position - 3, 0) : self.position + 5]
                )
                raise Difference(f"{error}\n  direct {call}\n{near}") from error
        self._take_late()
        if self._late:
            raise Difference(f"never arrived: {self._late[0][0]}")
        if self.position != len(self.remote):
            raise Difference(f"nobody asked for remote {self.remote[self.position]}")

    def unused(self) -> list[str]:
        tables = (
            rules.CLIENT,
            rules.REMEMBERED,
            rules.WAITS,
            rules.DEFERRED,
            rules.DISCARDED,
            rules.FOLLOWED,
            rules.PRECEDED,
            rules.LOWERED,
            rules.OVERTAKEN,
            rules.ADDED,
        )
        known = [reason for table in tables for reason in table]
        known += [
            rules.NOTHING,
            rules.REFUSED,
            rules.REPORT,
            rules.OWN_EVENTS,
            rules.OWN_STREAMS,
            rules.OWN_LISTS,
        ]
        return [reason for reason in known if self.counts[reason] == 0]

    def _session(self, remote: list[Call]) -> list[Call]:
        """The calls for the program: without the reports before and beside the session, and without the server's own."""
        of_session = session_of(remote)
        self.counts[rules.REPORT] += len(remote) - len(of_session)
        own, lists = own_events(of_session), own_lists(of_session)
        added = by_name(rules.ADDED)
        kept = []
        for call in of_session:
            if call.name == "cuStreamCreate" or self._flushes(call):
                self.counts[rules.OWN_STREAMS] += 1
                if call.arguments.get("Flags") == "n:0":
                    self.bindings.own_streams.add(call.number_of("*phStream"))
            elif call.number in own:
                self.counts[rules.OWN_EVENTS] += 1
            elif call.number in lists:
                self.counts[rules.OWN_LISTS] += 1
            elif call.name in added:
                self.counts[added[call.name]] += 1
            else:
                kept.append(call)
        return kept

    @staticmethod
    def _flushes(call: Call) -> bool:
        return call.name == "cuStreamSynchronize"  # a program's wait is parked, never passed on

    def _next(self) -> Call | None:
        self._take_late()
        return self.remote[self.position] if self.position < len(self.remote) else None

    def _direct(self, call: Call) -> None:
        base = call.base
        if base in self._preceded:
            reason, ahead = self._preceded[base]
            while (there := self._next()) is not None and there.name == ahead:
                self.counts[reason] += 1
                self.position += 1
        if call.result == 0 and "*dptr" in call.arguments and "*bytes" in call.arguments:
            self.bindings.know_global(call.number_of("*dptr"), call.number_of("*bytes"))
        if base in self._client:
            self.counts[self._client[base]] += 1
        elif base in self._waits:
            self.counts[self._waits[base]] += 1
        elif call.result != 0:
            self._failed(call)
        elif self._asks_for_nothing(call):
            self.counts[rules.NOTHING] += 1
        elif base in self._remembered and not self._arrives(call) and not self._arrives_later(call):
            self.counts[self._remembered[base]] += 1
        elif base in self._deferred:
            self._defer(call)
        else:
            self._expect(call)
        self._note_memory(call)

    def _defer(self, call: Call) -> None:
        argument = self._deferred[call.base][1]
        kind = call.arguments[argument].split(":")[1]
        partner = self.bindings.forward.get((kind, call.number_of(argument)))
        if partner is None:
            raise Difference(f"{call.name}: {argument} has no partner")
        self._late.append((call, partner))

    def _take_late(self) -> None:
        while self.position < len(self.remote):
            there = self.remote[self.position]
            found = [
                item
                for item in self._late
                if item[0].base == there.name
                and there.result == 0
                and there.number_of(self._deferred[there.name][1]) == item[1]
            ]
            if not found:
                return
            self._late.remove(found[0])
            self.matched[found[0][0].name] += 1
            self.counts[self._deferred[there.name][0]] += 1
            self.position += 1

    @staticmethod
    def _asks_for_nothing(call: Call) -> bool:
        sizes = {
            "cuMemcpy": ("ByteCount", "pCopy.WidthInBytes", "pCopy.Height", "pCopy.Depth"),
            "cuModuleEnumerate": ("numFunctions",),
            "cuLibraryEnumerate": ("numKernels",),
        }
        return any(
            call.arguments.get(size) == "n:0"
            for prefix, names in sizes.items()
            if call.base.startswith(prefix)
            for size in names
        )

    def _failed(self, call: Call) -> None:
        """Either nothing arrives, or the same call fails the same way."""
        there = self._next()
        if (
            there is not None
            and there.result == call.result
            and there.name in {e[0] for e in self._expected(call)}
        ):
            self.position += 1
            self.matched[call.name] += 1
        elif call.base in self._discarded and self._is_discarded(call):
            reason, names = self._discarded[call.base]
            self.counts[reason] += 1
            self.position += len(names)
        else:
            self.counts[rules.REFUSED] += 1

    def _is_discarded(self, call: Call) -> bool:
        names = self._discarded[call.base][1]
        arrived = self.remote[self.position : self.position + len(names)]
        if [c.name for c in arrived] != list(names) or any(c.result != 0 for c in arrived):
            return False
        here, there = call.number_of("hStream"), arrived[0].number_of("hStream")
        return self.bindings.snapshot().stream(here, there, call.default_stream)

    def _expected(self, call: Call) -> list[tuple[str, dict[str, str]]]:
        way = self._lowered.get(call.base, (None, None))[1]
        return [(call.base, call.arguments)] if way is None else way(call)

    def _arrives(self, call: Call) -> bool:
        there = self._next()
        return there is not None and self._same(call, there)

    def _arrives_later(self, call: Call) -> bool:
        """A remembered call of a kind that others may overtake, where nothing before it names what it makes: it is taken now."""
        if call.base not in self._overtaken:
            return False
        passed = set()
        for at in range(self.position, len(self.remote)):
            there = self.remote[at]
            if there.name == call.base and self._same(call, there):
                if {
                    value for argument, value in there.arguments.items() if argument.startswith("*")
                } & passed:
                    return False
                self.remote.insert(self.position, self.remote.pop(at))
                return True
            passed |= set(there.arguments.values())
        return False

    def _same(self, call: Call, there: Call) -> bool:
        try:
            for name, arguments in self._expected(call):
                self.bindings.snapshot().same(name, arguments, there, call.default_stream)
        except Difference:
            return False
        return there.result == 0

    def _expect(self, call: Call) -> None:
        expected = self._expected(call)
        for name, arguments in expected:
            if name in self._overtaken:
                self._bring_forward(name, arguments, call)
            there = self._next()
            if there is None:
                raise Difference(f"{name} never arrives")
            if there.result != call.result:
                raise Difference(f"{there.name} returns {there.result}")
            self.bindings.same(name, arguments, there, call.default_stream)
            self.position += 1
        if call.base in self._lowered:
            self.counts[self._lowered[call.base][0]] += 1
        if call.base in self._followed:
            reason, follower = self._followed[call.base]
            while (there := self._next()) is not None and there.name == follower:
                self.counts[reason] += 1
                self.position += 1
        if expected:
            self.matched[call.name] += 1

    def _bring_forward(self, name: str, arguments: dict[str, str], call: Call) -> None:
        """If the next such call comes later, and nothing before it names what it makes, it is taken now."""
        self.counts[self._overtaken[name]] += 1
        there = self._next()
        if there is None or there.name == name:
            return
        passed = set()
        for at in range(self.position, len(self.remote)):
            there = self.remote[at]
            if there.name == name:
                made = {
                    value for argument, value in there.arguments.items() if argument.startswith("*")
                }
                if there.result == call.result and not made & passed:
                    self.remote.insert(self.position, self.remote.pop(at))
                return
            passed |= set(there.arguments.values())

    def _note_memory(self, call: Call) -> None:
        if call.result != 0:
            return
        sizes = {"cuMemAlloc_v2": "bytesize", "cuMemAllocAsync": "bytesize"}
        if call.base in sizes:
            self.bindings.allocate(call.number_of("*dptr"), call.number_of(sizes[call.base]))
        elif call.base == "cuMemAllocPitch_v2":
            self.bindings.allocate(
                call.number_of("*dptr"), call.number_of("*pPitch") * call.number_of("Height")
            )
        elif call.base in ("cuMemFree_v2", "cuMemFreeAsync"):
            self.bindings.free(call.number_of("dptr"))


def own_events(calls: list[Call]) -> set[int]:
    """The numbers of calls about events of the server's own: those it polls. A program's event is never polled (D4)."""
    lives: dict[int, list[Call]] = {}
    polled: set[int] = set()
    own: set[int] = set()

    def end(event: int) -> None:
        life = lives.pop(event, [])
        if event in polled:
            own.update(call.number for call in life)
        polled.discard(event)

    for call in calls:
        if call.name == "cuEventCreate" and call.result == 0:
            end(call.number_of("*phEvent"))
            lives[call.number_of("*phEvent")] = [call]
        elif "hEvent" in call.arguments and call.arguments["hEvent"].startswith("h:"):
            event = call.number_of("hEvent")
            lives.setdefault(event, []).append(call)
            if call.name == "cuEventQuery":
                polled.add(event)
            if call.name == "cuEventDestroy_v2":
                end(event)
    for event in list(lives):
        end(event)
    return own


def own_lists(calls: list[Call]) -> set[int]:
    """The numbers of calls that list what an image holds, directly behind its load."""
    own: set[int] = set()
    behind: dict[int, Call] = {}  # by thread
    for call in calls:
        before = behind.get(call.thread)
        if (
            call.name.endswith(
                ("GetFunctionCount", "GetKernelCount", "EnumerateFunctions", "EnumerateKernels")
            )
            and before is not None
            and (before.number in own or before.name in ("cuModuleLoadDataEx", "cuLibraryLoadData"))
        ):
            own.add(call.number)
        behind[call.thread] = call
    return own
