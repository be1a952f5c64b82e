"""How much of State A's C shows through a text of another language with C's operators: what a translation line by line
leaves alone, whatever the names, the layout, the types and the casts.

A function is read as a row of words: operators, control flow, names as I, constants as N; casts, declarations without
a value, brackets and method names vanish, and the step of a for loop stands behind its body. Rows are compared by their
pieces of twelve words. An honest port of the same algorithms shares up to a quarter of a function's pieces; a
transliteration half and more. It is a matter of judgement all the same, so a LEAD at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from zlib import crc32

import msgspec

from refactorbench.audit.witnesses.languages import Function, Token, tokens

GRAM = 12  # words
FEWEST_GRAMS = 50  # distinct, of a function that can be recognised
SHARE = 0.4  # of a function's pieces
FEWEST_FUNCTIONS = 3
LEAST = 0.05  # of all that can be recognised: among thousands of functions some are alike by chance

_LOOPS = frozenset((b"for", b"while", b"loop", b"do"))
_FLOW = {
    b"if": b"?",
    b"else": b":",
    b"return": b"R",
    b"break": b"B",
    b"continue": b"C",
    b"switch": b"S",
    b"match": b"S",
}
_SILENT = frozenset(b"let mut unsafe pub const static register case default ref".split())
_OPERATORS = frozenset(b"+ - * / % | ^ << >> < > <= >= == != && || = += -= *= /= %= &= |= ^= <<= >>= ~ & !".split())
_CONSTANT = re.compile(rb"(?:[A-Z][A-Z0-9_]*|[Tt]rue|[Ff]alse|null|nullptr|null_mut|None|nil)$")
_BEFORE_OPERAND = frozenset((b"return", b"in", b"if", b"while", b"match", b"mut", b"else"))
_NUMBERS = re.compile(rb"(?:-?\b[0-9][0-9a-zA-Z_]*+\s*+,\s*+){16,}+")


class Likeness(msgspec.Struct, frozen=True):
    """State A's functions that a tree resembles, and the file that holds most of them."""

    functions: tuple[str, ...]
    path: str


class Resemblance:
    """State A's functions as rows; those that are too short to be told apart are left out."""

    def __init__(self, functions: Iterable[tuple[str, Function]]) -> None:
        made = (
            (f"{f.name.decode('utf-8', 'replace')} of {p}", pieces(_steps_last(list(f.tokens)))) for p, f in functions
        )
        self.known = [(name, grams) for name, grams in made if len(grams) >= FEWEST_GRAMS]
        self._all: frozenset[int] = frozenset().union(*(grams for _, grams in self.known))

    def find(self, texts: Iterable[tuple[str, bytes]]) -> Likeness | None:
        """`texts`: path and content of a tree's source files. None when too few functions show through."""
        held = {path: self._all & pieces(tokens(_NUMBERS.sub(b"0,", text))) for path, text in texts}
        whole: frozenset[int] = frozenset().union(*held.values())
        found = [(name, grams) for name, grams in self.known if len(grams & whole) >= SHARE * len(grams)]
        size = sum(len(grams) for _, grams in self.known)
        if len(found) < FEWEST_FUNCTIONS or sum(len(grams) for _, grams in found) < LEAST * size:
            return None
        sought = frozenset().union(*(grams for _, grams in found))
        path = max(held, key=lambda p: (len(held[p] & sought), p))
        return Likeness(tuple(name for name, _ in found), path)


def pieces(code: list[Token]) -> frozenset[int]:
    words = _words(code)
    return frozenset(crc32(b" ".join(words[i : i + GRAM])) for i in range(len(words) - GRAM + 1))


def _words(code: list[Token]) -> list[bytes]:
    """The row of words, statements without an effect left out."""
    row: list[bytes] = []
    statement: list[bytes] = []
    before = Token("sign", b"(", 0)
    i = 0
    while i < len(code):
        t, after = code[i], code[i + 1].text if i + 1 < len(code) else b""
        if t.text == b";":
            if any(w not in (b"I", b"N") for w in statement):
                row += statement
            statement = []
        elif t.text == b"as" or (t.text == b"!=" and after == b"0"):
            i += 1  # the type, or the nought that Rust wants to see
        else:
            statement += _word(t, before, after)
        before = code[min(i, len(code) - 1)]
        i += 1
    return row + statement


def _word(t: Token, before: Token, after: bytes) -> tuple[bytes, ...]:
    if t.kind == "name" and (before.text == b":" or (before.text == b"." and after == b"(")):
        return ()  # a type or a method
    if t.text in (b"*", b"&"):
        binary = before.text in (b")", b"]") or (before.kind != "sign" and before.text not in _BEFORE_OPERAND)
        return (t.text,) if binary else ()
    return _plain(t.kind, t.text)


@lru_cache(1 << 16)
def _plain(kind: str, text: bytes) -> tuple[bytes, ...]:
    """The words of a token that stand whatever surrounds it."""
    if kind in ("number", "char"):
        return (b"N",)
    if kind == "string":
        return (b"T",)
    if kind == "name":
        if text in _SILENT:
            return ()
        return (b"L",) if text in _LOOPS else (_FLOW[text],) if text in _FLOW else (_name(text),)
    if text in (b"++", b"--"):
        return (text[:1] + b"=", b"N")
    return (text,) if text in _OPERATORS else ()


def _name(text: bytes) -> bytes:
    return b"N" if _CONSTANT.match(text) else b"I"


def _steps_last(code: list[Token]) -> list[Token]:
    """C's tokens with the header of each for loop as Rust writes it: start; L test; body; step."""
    out: list[Token] = []
    i = 0
    while i < len(code):
        header = _header(code, i) if code[i].text == b"for" else None
        if header is None:
            out.append(code[i])
            i += 1
            continue
        first, second, closing = header
        end = _body_end(code, closing + 1)
        out += [*code[i + 2 : first + 1], code[i], *code[first + 1 : second + 1], *_steps_last(code[closing + 1 : end])]
        out += [*code[second + 1 : closing], code[second]]
        i = end
    return out


def _header(code: list[Token], at: int) -> tuple[int, int, int] | None:
    """Where the two semicolons and the closing parenthesis of the for loop at `at` are."""
    depth, semicolons = 0, []
    for i in range(at + 1, len(code)):
        text = code[i].text
        depth += (text == b"(") - (text == b")")
        if text == b";" and depth == 1:
            semicolons.append(i)
        if depth == 0:
            return (semicolons[0], semicolons[1], i) if len(semicolons) == 2 else None
    return None


def _body_end(code: list[Token], at: int) -> int:
    """Where the statement that begins at `at` has ended."""
    depth = 0
    for i in range(at, len(code)):
        text = code[i].text
        depth += (text in (b"{", b"(")) - (text in (b"}", b")"))
        if depth == 0 and text in (b"}", b";"):
            return i + 1
    return len(code)
