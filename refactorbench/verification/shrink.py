"""Minimising a counterexample: structure first (files, variables, arguments), then bytes; greedy and deterministic.

A candidate replaces the input only if it is smaller and a probe says that it fails in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from refactorbench.observe.model import Check, InputFile

MAX_RUNS = 400
FILLER = b"a"

Probe = Callable[[Check], int]  # cost in runs when the candidate fails in the same way, else minus the cost
_DEFAULTS: dict[str, Any] = {"stdout": "pipe", "stdin_kind": "pipe"}


def size(check: Check) -> int:
    """Bytes of input: arguments, variables, stdin, paths and contents of files."""
    return (
        sum(len(a) + 1 for a in check.argv)
        + sum(len(k) + len(v) + 2 for k, v in check.env)
        + len(check.stdin)
        + sum(len(f.path) + len(f.data) + len(f.target) + 1 for f in check.files)
    )


def _oddness(check: Check) -> int:
    odd = sum(getattr(check, name) != value for name, value in _DEFAULTS.items())
    plain = InputFile(b"")
    for f in check.files:
        odd += (f.mode != plain.mode) + (f.mtime != plain.mtime)
    # how far the bytes are from the filler: makes replacing them an improvement
    return odd + sum(len(b) - b.count(FILLER) for b in (check.stdin, *(f.data for f in check.files)))


def weight(check: Check) -> tuple[int, int]:
    """What shrinking lowers: size, then how unusual the input is."""
    return size(check), _oddness(check)


class Shrinker:
    """Shrinks `check` with at most `max_runs` runs of the probe (an expensive probe may count for several)."""

    def __init__(self, check: Check, probe: Probe, max_runs: int = MAX_RUNS) -> None:
        self.best = check
        self.runs = 0
        self._probe = probe
        self._max_runs = max_runs
        self._tried = {check.input_digest()}

    def run(self) -> Check:
        """Return the smallest input found; the original when nothing smaller fails in the same way."""
        before = None
        while before != self.best and not self._spent:
            before = self.best
            for candidates in (_fewer_files, _fewer_variables, _fewer_arguments, _plainer):
                self._greedy(candidates)
            self._bytes("stdin")
            for i in range(len(self.best.files)):
                self._bytes("data", i)
            for i in range(1, len(self.best.argv)):
                self._bytes("argv", i)
        return self.best

    @property
    def _spent(self) -> bool:
        return self.runs >= self._max_runs

    def _try(self, candidate: Check) -> bool:
        if self._spent or weight(candidate) >= weight(self.best):
            return False
        digest = candidate.input_digest()
        if digest in self._tried:
            return False
        self._tried.add(digest)
        cost = self._probe(candidate)
        self.runs += abs(cost)
        if cost > 0:
            self.best = candidate
        return cost > 0

    def _greedy(self, candidates: Callable[[Check], Iterator[Check]]) -> None:
        found = True
        while found and not self._spent:
            found = any(self._try(c) for c in candidates(self.best))

    def _bytes(self, where: str, i: int = 0) -> None:
        """Cut ever smaller pieces out of one byte string, then replace pieces by the filler."""
        self._cut(where, i, b"")
        if where != "argv":
            self._cut(where, i, FILLER)

    def _cut(self, where: str, i: int, fill: bytes) -> None:
        piece = len(_get(self.best, where, i))
        while piece and not self._spent:
            at = 0
            while at < len(data := _get(self.best, where, i)) and not self._spent:
                old = data[at : at + piece]
                new = data[:at] + fill * len(old) + data[at + piece :]
                if not self._try(_put(self.best, where, i, new)) or fill:
                    at += piece
            piece //= 2


def _get(check: Check, where: str, i: int) -> bytes:
    if where == "stdin":
        return check.stdin
    return check.files[i].data if where == "data" else check.argv[i]


def _put(check: Check, where: str, i: int, value: bytes) -> Check:
    if where == "stdin":
        return msgspec.structs.replace(check, stdin=value)
    if where == "data":
        file = msgspec.structs.replace(check.files[i], data=value)
        return msgspec.structs.replace(check, files=(*check.files[:i], file, *check.files[i + 1 :]))
    return msgspec.structs.replace(check, argv=(*check.argv[:i], value, *check.argv[i + 1 :]))


def _without(items: tuple[Any, ...], first: int) -> Iterator[tuple[Any, ...]]:
    """`items` without runs of its members from `first` on, long runs before short ones."""
    run = len(items) - first
    while run:
        for at in range(first, len(items) - run + 1, run):
            yield items[:at] + items[at + run :]
        run //= 2


def _fewer_files(check: Check) -> Iterator[Check]:
    for files in _without(check.files, 0):
        yield msgspec.structs.replace(check, files=files)


def _fewer_variables(check: Check) -> Iterator[Check]:
    for env in _without(check.env, 0):
        yield msgspec.structs.replace(check, env=env)


def _fewer_arguments(check: Check) -> Iterator[Check]:
    for argv in _without(check.argv, 1):
        yield msgspec.structs.replace(check, argv=argv)


def _plainer(check: Check) -> Iterator[Check]:
    for name, value in _DEFAULTS.items():
        yield msgspec.structs.replace(check, **{name: value})
    for i, f in enumerate(check.files):
        plain = InputFile(b"")
        for file in (
            msgspec.structs.replace(f, mode=plain.mode, mtime=plain.mtime),
            msgspec.structs.replace(f, mtime=plain.mtime),
        ):
            yield msgspec.structs.replace(check, files=(*check.files[:i], file, *check.files[i + 1 :]))
