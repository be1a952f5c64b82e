"""Token fingerprints against State A: function bodies compared after renaming and reformatting.

k-grams of normalised tokens as in winnowing (Schleimer, Wilkerson, Aiken, SIGMOD 2003), all of them kept: State A's own
functions are few enough for exact containment. Only bodies of functions of the old language are compared, so
declarations, tables, strings and comments that a faithful port must carry can't match.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import msgspec

from refactorbench.audit.witnesses.languages import Function, Token, normal_form

GRAM = 16  # tokens
FEWEST_GRAMS = 40  # distinct, in a State A function that can be recognised alone
FUNCTION_SHARE = 0.8
FILE_SHARE = 0.6
FEWEST_FUNCTIONS = 2
FEWEST_SCATTERED = 3  # in a tree, however far apart
LONG_FUNCTION = 250  # distinct grams: one such function is enough


class Known(msgspec.Struct, frozen=True):
    path: str
    name: str
    grams: frozenset[int]


class Match(msgspec.Struct, frozen=True):
    """`functions` of State A's that stand in a text, and the first submission function that holds one."""

    path: str
    functions: tuple[str, ...]
    first: Function


def grams(function: Function) -> frozenset[int]:
    words = normal_form(function.tokens)
    return frozenset(crc32(b" ".join(words[i : i + GRAM])) for i in range(len(words) - GRAM + 1))


class Fingerprints:
    """State A's functions, those of kept files left out."""

    def __init__(self, functions: Iterable[tuple[str, Function]], kept: Iterable[Function] = ()) -> None:
        spared = {grams(f) for f in kept}
        made = [Known(path, f.name.decode("utf-8", "replace"), grams(f)) for path, f in functions]
        self.known = [k for k in made if len(k.grams) >= FEWEST_GRAMS and k.grams not in spared]
        self._files: dict[str, set[int]] = {}
        for k in self.known:
            self._files.setdefault(k.path, set()).update(k.grams)
        self._all: frozenset[int] = frozenset().union(*self._files.values())

    def pieces(self, tokens: Iterable[Token]) -> frozenset[int]:
        """Those grams of State A's functions that stand anywhere in `tokens`, headers and braces disregarded."""
        words = normal_form(tuple(tokens))
        return self._all.intersection(crc32(b" ".join(words[i : i + GRAM])) for i in range(len(words) - GRAM + 1))

    def scattered(self, numbers: Iterable[int], pieces: frozenset[int]) -> tuple[str, ...]:
        """What of State A stands in a tree whose texts hold these functions and pieces together, () when too little:
        three functions that are long enough in all, or three fifths of a whole file."""
        functions = [self.known[i] for i in sorted(set(numbers))]
        if len(functions) >= FEWEST_SCATTERED and sum(len(k.grams) for k in functions) >= LONG_FUNCTION:
            return tuple(k.name for k in functions)
        return tuple(
            path
            for path, whole in sorted(self._files.items())
            if len(whole) >= LONG_FUNCTION and len(whole & pieces) >= FILE_SHARE * len(whole)
        )

    def match(self, functions: list[Function]) -> Match | None:
        """The State A file whose code is most present in `functions`, None when none is recognised: two functions at
        80%, one long one at 80%, or 60% of a whole file."""
        return self.read(functions)[0]

    def read(self, functions: list[Function]) -> tuple[Match | None, list[int]]:
        """As `match`, and the numbers of all of State A's functions that stand in `functions` at 80%."""
        by_function = [(f, grams(f)) for f in functions]
        present: frozenset[int] = frozenset().union(*(g for _, g in by_function))
        if not present:
            return None, []
        best: dict[str, list[Known]] = {}
        held = [i for i, k in enumerate(self.known) if len(k.grams & present) >= FUNCTION_SHARE * len(k.grams)]
        for i in held:
            best.setdefault(self.known[i].path, []).append(self.known[i])
        hits = {p: ks for p, ks in best.items() if len(ks) >= FEWEST_FUNCTIONS or len(ks[0].grams) >= LONG_FUNCTION}
        for path, whole in self._files.items():
            if path not in hits and len(whole) >= LONG_FUNCTION and len(whole & present) >= FILE_SHARE * len(whole):
                hits[path] = [k for k in self.known if k.path == path]
        if not hits:
            return None, held
        path = max(hits, key=lambda p: (sum(len(k.grams) for k in hits[p]), p))
        wanted = frozenset().union(*(k.grams for k in hits[path]))
        first = max(by_function, key=lambda pair: len(pair[1] & wanted))[0]
        return Match(path, tuple(k.name for k in hits[path]), first), held
