"""The source witness reads hostile text in time that grows with its length: doubling it may not quadruple the work."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from refactorbench.audit.witnesses import languages, texts

TEXTS: dict[str, Callable[[int], bytes]] = {
    "newlines": lambda n: b"\n" * n,
    "spaces after fn": lambda n: b"{ fn a" + b" " * n,
    "open braces": lambda n: b"int f(int a) {;" * (n // 15),
    "open generics": lambda n: b"{" + b"fn a<" * (n // 5),
    "indented newlines": lambda n: b" \n\t" * (n // 3),
}


def read(text: bytes) -> None:
    for stack in ("rust", "python", "go", "typescript"):
        languages.defines(stack, text)
    languages.compiled_assembly(text)
    languages.c_functions(text)


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_text_is_read_in_linear_time(name: str) -> None:
    text = TEXTS[name](400_000)
    start = time.process_time()
    read(text)
    assert time.process_time() - start < 10  # seconds; the quadratic forms take minutes


def test_the_patterns_still_find_what_they_are_for() -> None:
    assert languages.defines("rust", b"\n\n  pub fn  a <T: X> (x: T) { }") and not languages.defines("rust", b"fn")
    assert languages.defines("typescript", b"\n\n  export async function f() {}")
    assert languages.c_functions(b"\n\nint f(int a) { if (a) { return 1; } return a; }\n\n")[0].name == b"f"
    assert texts._FETCH.search(b"curl https://x")
