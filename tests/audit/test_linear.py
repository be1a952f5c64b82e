"""The source witness reads hostile text in time that grows with its length: doubling it may not quadruple the work."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable

import pytest

from refactorbench.audit.witnesses import binaries, decode, languages, texts

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


AR = b"!<arch>\n" + b"x/".ljust(48) + b"60        `\n"
ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, 4096, 0)
FORGED = {"archives in archives": AR * 8000, "many tables of sections": ELF * 8000, "modules": b"\0asm\1\0\0\0" * 60000}


@pytest.mark.parametrize("name", FORGED)
def test_forged_headers_cost_their_length(name: str) -> None:
    start = time.process_time()
    assert binaries.find(FORGED[name]) is None
    assert time.process_time() - start < 10  # seconds; each header may point at all of the others


def test_streams_by_the_thousand_are_not_copied_for_each() -> None:
    blob = zlib.compress(b"some text that is long enough to be a layer of its own") * 4000 + bytes(16 << 20)
    decoder = decode.Decoder(decode.Bounds())
    start = time.process_time()
    found = [decoder.follow(decode.Layer((), blob), step) for step in decoder.archives(blob)]
    assert len(found) == 4000 and all(found)
    assert time.process_time() - start < 4  # seconds; 16 MiB copied 4,000 times take longer


def test_the_patterns_still_find_what_they_are_for() -> None:
    assert languages.defines("rust", b"\n\n  pub fn  a <T: X> (x: T) { }") and not languages.defines("rust", b"fn")
    assert languages.defines("typescript", b"\n\n  export async function f() {}")
    assert languages.c_functions(b"\n\nint f(int a) { if (a) { return 1; } return a; }\n\n")[0].name == b"f"
    assert texts._FETCH.search(b"curl https://x")
