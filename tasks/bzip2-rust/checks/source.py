"""Where the generators' choices come from: a seeded random generator, or whatever else can choose and shrink."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Source(Protocol):
    """Choices; a source that shrinks moves towards `low`, the first item and zero bytes."""

    def between(self, low: int, high: int) -> int:
        """Return an integer in low..high, both included."""
        ...

    def pick(self, items: Sequence[T]) -> T: ...

    def blob(self, size: int) -> bytes: ...


class RandomSource:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def between(self, low: int, high: int) -> int:
        return self._rng.randint(low, high)

    def pick(self, items: Sequence[T]) -> T:
        return items[self._rng.randrange(len(items))]

    def blob(self, size: int) -> bytes:
        return self._rng.randbytes(size)


def chance(src: Source, percent: int) -> bool:
    """True in `percent` of a hundred draws; shrinks to False."""
    return src.between(0, 99) >= 100 - percent


def edgy(src: Source, low: int, high: int, *corners: int) -> int:
    """An integer in low..high: half of the time at a bound, a corner, or next to one; shrinks to `low`."""
    if chance(src, 50):
        at = src.pick((low, high, *corners)) + src.between(0, 2) - 1
        return min(max(at, low), high)
    return src.between(low, high)


def few(src: Source, items: Sequence[T], low: int, high: int) -> list[T]:
    """Return low..high picks, repetitions allowed."""
    return [src.pick(items) for _ in range(src.between(low, high))]
