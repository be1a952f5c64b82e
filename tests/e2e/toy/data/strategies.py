"""Fuzz strategies for tally: any bytes, unlike the recorded checks."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from refactorbench.observe.model import Check, InputFile

ANY = st.binary(max_size=60)
PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60).map(str.encode)


def _piped(command: bytes, text: st.SearchStrategy[bytes]) -> st.SearchStrategy[Check]:
    return text.map(lambda t: Check("fuzz/x", "fuzz", "process", "bin/tally", (b"tally", command), t))


def _filed(command: bytes, text: st.SearchStrategy[bytes]) -> st.SearchStrategy[Check]:
    def make(t: bytes) -> Check:
        return Check("fuzz/x", "fuzz", "process", "bin/tally", (b"tally", command, b"f"), b"", (InputFile(b"f", t),))

    return text.map(make)


_words = st.lists(st.sampled_from((b"count", b"turn", b"sum", b"", b"no such file")), max_size=4)

STRATEGIES: dict[str, st.SearchStrategy[Check]] = {
    "count": _piped(b"count", ANY),
    "turn": _piped(b"turn", PLAIN),
    "count_file": _filed(b"count", PLAIN),
    "turn_file": _filed(b"turn", PLAIN),
    "arguments": _words.map(lambda w: Check("fuzz/x", "fuzz", "process", "bin/tally", (b"tally", *w), b"a b\n")),
}

DENY: dict[str, Callable[[Check], bool]] = {"long": lambda check: len(check.stdin) > 1000}
