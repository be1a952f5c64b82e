"""Recorded answers that are stored in a tree: 48-byte pieces of them, looked for in every layer.

Pieces are chosen by content (the smallest checksums at positions that the bytes themselves mark), so that an answer is
recognised wherever it stands. Pieces that many answers share, that State A's own tree holds, or that hardly vary, say
nothing about recording and are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from zlib import crc32

import msgspec

PIECE = 48  # bytes
PIECES_PER_ANSWER = 8
FEWEST_VALUES = 6  # distinct bytes in a piece
FEWEST_QUADS = 30  # distinct runs of four bytes in a piece, of 45: less is a pattern
MOST_SHARED = 2  # answers that may hold the same piece
FEWEST_TOLD = 2  # one piece stands in some table of an honest crate in twelve
FEWEST_ANSWERS = 20  # distinct ones stored in a tree that prove a table of answers

_MARK = re.compile(b"[" + b"".join(re.escape(bytes([b])) for b in range(1, 256, 4)) + b"]")


class Stored(msgspec.Struct, frozen=True):
    """`answer` is the number of a distinct recorded answer; its piece stands at `offset` of the scanned bytes."""

    answer: int
    offset: int


class AnswerIndex:
    """Pieces of distinct recorded answers."""

    def __init__(self, answers: Iterable[bytes]) -> None:
        self._piece: dict[int, int] = {}
        shared: dict[int, int] = {}
        seen: set[int] = set()
        for answer in answers:
            if len(answer) < PIECE or hash(answer) in seen:
                continue
            seen.add(hash(answer))
            for piece in _choose(answer):
                shared[piece] = shared.get(piece, 0) + 1
                self._piece[piece] = len(seen)
        self.answers = len(seen)
        for piece, count in shared.items():
            if count > MOST_SHARED:
                del self._piece[piece]

    def forget(self, data: bytes) -> None:
        """Drop every piece that stands in `data`: State A's own text is nobody's recorded answer."""
        for _, piece in self._hits(data):
            self._piece.pop(piece, None)

    def scan(self, data: bytes) -> list[Stored]:
        """The distinct answers a piece of which stands in `data`, each with its first offset."""
        first: dict[int, int] = {}
        for offset, piece in self._hits(data):
            first.setdefault(self._piece[piece], offset)
        return [Stored(a, o) for a, o in first.items()]

    def _hits(self, data: bytes) -> list[tuple[int, int]]:
        known = self._piece
        if not known or len(data) < PIECE:
            return []
        return [
            (m.start(), piece)
            for m in _MARK.finditer(data, 0, len(data) - PIECE + 1)
            if (piece := hash(data[m.start() : m.start() + PIECE])) in known
        ]


def _is_pattern(piece: bytes) -> bool:
    quads = {piece[i : i + 4] for i in range(len(piece) - 3)}
    return len(set(piece)) < FEWEST_VALUES or len(quads) < FEWEST_QUADS


def _choose(answer: bytes) -> list[int]:
    best: dict[int, int] = {}
    for m in _MARK.finditer(answer, 0, len(answer) - PIECE + 1):
        piece = answer[m.start() : m.start() + PIECE]
        if len(best) < PIECES_PER_ANSWER or crc32(piece) < max(best):
            if _is_pattern(piece):
                continue
            best[crc32(piece)] = hash(piece)
            if len(best) > PIECES_PER_ANSWER:
                del best[max(best)]
    return list(best.values())
