"""What an agent may use: nested limits, each with its owner, and a clock that a restart doesn't set back.

An attempt is one start, a run all of its attempts together, a task what every run of it is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable
from typing import Literal

import msgspec

from refactorbench.agents.records import Clock, Entry, Replied

What = Literal["wall", "active", "tokens", "cost", "turns"]
UNITS: dict[What, str] = {
    "wall": "s of wall time", "active": "s of active time", "tokens": "tokens", "cost": "US dollars", "turns": "turns"
}  # fmt: skip
Owner = Literal["task", "run", "attempt"]
Reason = Literal["time", "tokens", "cost", "turns"]
TIMES: tuple[What, ...] = ("wall", "active")
REASONS: dict[What, Reason] = {"wall": "time", "active": "time", "tokens": "tokens", "cost": "cost", "turns": "turns"}


class Limit(msgspec.Struct, frozen=True):
    """What `owner` may use at most. `reserve` of it is left unused, for what the owner does after."""

    owner: Owner
    what: What
    most: float
    reserve: float = 0.0

    def __str__(self) -> str:
        return f"the {self.owner}'s limit of {self.most:g} {UNITS[self.what]}"


class Used(msgspec.Struct, frozen=True):
    """Of each kind: seconds, tokens, US dollars, turns."""

    wall: float = 0.0
    active: float = 0.0
    tokens: float = 0.0
    cost: float = 0.0
    turns: float = 0.0


class Timer:
    """Goes on from `before`; `waited` is told of time that was the provider's. `now` is a monotonic clock."""

    def __init__(self, before: Clock = Clock(), now: Callable[[], float] = time.monotonic) -> None:  # noqa: B008
        self._before, self.now, self._start, self._waited = before, now, now(), 0.0

    def waited(self, seconds: float) -> None:
        self._waited += seconds

    def clock(self) -> Clock:
        return Clock(
            round(self._before.wall_s + self.now() - self._start, 3), round(self._before.waited_s + self._waited, 3)
        )


def used(entries: Iterable[Entry], clock: Clock) -> Used:
    """What a run has used so far, by its journal and its clock. Attempts that were thrown away count too."""
    replies = [e for e in entries if isinstance(e, Replied)]
    tokens = sum(e.turn.usage.total + e.turn.discarded.total for e in replies)
    return Used(clock.wall_s, clock.active_s, tokens, sum(e.cost for e in replies), len(replies))


class Budget:
    """`before` is what the run had used when this attempt began: an attempt's limits count from there."""

    def __init__(self, limits: Iterable[Limit], before: Used = Used()) -> None:  # noqa: B008
        self.limits, self._before = tuple(limits), before

    def reached(self, u: Used, kinds: Container[What] = REASONS) -> Limit | None:
        """The first limit of these kinds that is used up but for its reserve."""
        return next((m for m in self.limits if m.what in kinds and self._left(m, u) <= 0), None)

    def seconds_left(self, u: Used, kinds: tuple[What, ...] = TIMES) -> float:
        """Until the nearest limit on time of these kinds, at least 0."""
        return min((self._left(m, u) for m in self.limits if m.what in kinds), default=float("inf"))

    def nearest(self, u: Used) -> Limit:
        """The limit on time that comes first; there is one."""
        return min((m for m in self.limits if m.what in TIMES), key=lambda m: self._left(m, u))

    def _left(self, m: Limit, u: Used) -> float:
        before = float(getattr(self._before, m.what)) if m.owner == "attempt" else 0.0
        return max(0.0, m.most - m.reserve - (float(getattr(u, m.what)) - before))

    def sentence(self, u: Used) -> str:
        """What is left, for the agent. It doesn't see where one attempt ends and the next one goes on."""
        parts = []
        for m in (m for m in self.limits if m.owner != "attempt"):
            left = self._left(m, u)
            amount = f"{left / 3600:.2f} of {m.most / 3600:g} hours" if m.what in TIMES else f"{left:g} of"
            kind = {"wall": "wall time", "active": "working time"}.get(m.what) or f"{m.most:g} {UNITS[m.what]}"
            parts.append(f"{amount} {kind} left ({m.owner})")
        return "; ".join(parts) or "no limit is set"
