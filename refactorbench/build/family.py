"""Whose a process is where the trace doesn't say: it can be gone before strace has looked up its host pid.

The clone that made it then shows the sandbox's number only. The kernel counts up in both numberings, so the process is
one of the clones between the two nearest that do have a translation. Where those belong to different programs, what the
process did counts for each of them: nobody's foreign work is put down to a compiler alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Generic, TypeVar

from refactorbench.build.trace import Call

FORKS = ("clone", "clone3", "fork", "vfork")
T = TypeVar("T")


class Family(Generic[T]):
    """Parents of type T by process, told while `calls` are replayed in order."""

    def __init__(self, calls: Iterable[Call]) -> None:
        calls = list(calls)
        forks = [c for c in calls if c.name in FORKS and c.value is not None and c.value > 0]
        pids = {c.pid for c in calls}
        self._known = sorted((c.inner, c.value or 0) for c in forks if c.inner is not None)
        unsaid = [c.value or 0 for c in forks if c.inner is None]
        self._translates = bool(self._known) or not pids.issuperset(unsaid)
        self._in_order = all(one[1] < two[1] for one, two in pairwise(self._known))  # False where the host began anew
        self._numbers = sorted(unsaid)
        self._strays = sorted(pids - {host for _, host in self._known} - {c.pid for c in calls[:1]})
        self._nameless: list[tuple[int | None, T]] = []  # (number, None if the call never returned; parent)

    def cloned(self, call: Call, parent: T) -> int | None:
        """The host pid of what `call` made, None when the trace doesn't tell."""
        if call.inner is not None or (call.ok and not self._translates):
            return call.value
        if call.ok or (call.value is None and not call.error.startswith("ERESTART")):
            self._nameless.append((call.value, parent))
        return None

    def parents(self, pid: int) -> list[T]:
        """Whom a process without a known clone may belong to; [] for the first process of all."""
        below = [pair for pair in self._known if pair[1] < pid][-1:] if self._in_order else []
        above = [pair for pair in self._known if pair[1] > pid][:1] if self._in_order else []
        low, high = [*below, (0, 0)][0], [*above, (1 << 62, 1 << 62)][0]
        numbers = [n for n in self._numbers if low[0] < n < high[0]]
        strays = [p for p in self._strays if low[1] < p < high[1]]
        if self._in_order and len(numbers) == len(strays) and pid in strays:
            numbers = [numbers[strays.index(pid)]]
        fitting = [parent for number, parent in self._nameless if number is None or number in numbers]
        return fitting or [parent for _, parent in self._nameless]
