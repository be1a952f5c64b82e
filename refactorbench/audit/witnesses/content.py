"""What bytes are and what source text spells out: text or not, string literals, lists of numbers, keys of xor-ed text.

Every pattern is linear in its input, whatever a submission writes: possessive, and ending at the end of the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from math import log2

from refactorbench.audit.witnesses import binaries

FEWEST_INTS = 8  # in one list
FEWEST_RETURNS = 3  # of a word that hidden source has many times
TEXT_SAMPLE = 1 << 16

_LITERAL = re.compile(
    rb"//[^\n]*|/\*.*?(?:\*/|\Z)|(?<!\w)b?r(?P<h>#*)\"(?P<raw>.*?)(?:\"(?P=h)|\Z)"
    rb"|\"(?P<text>(?:[^\"\\]|\\.)*+)(?:\"|\\?\Z)|'(?:[^'\\\n]|\\[^\n]{1,10}?)'",
    re.DOTALL,
)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|u\{?([0-9a-fA-F_]{1,6})\}?|([0-7]{1,3})|(\r?\n)[ \t]*|(.))", re.DOTALL)
_SIMPLE = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_LOW = bytes(range(128))
_PRINTABLE = bytes(range(32, 127)) + b"\t\n\r\f"
_NUMBER = rb"[-+]?(?:0[xX][0-9a-fA-F_]++|0b[01_]++|0o[0-7_]++|\d[\d_]*+)(?:[iu](?:8|16|32|64|size)|[uUlL]{1,3})?+\b"
_SEPARATOR = rb"(?:[\s,;]++|(?:\\n|\s)*+\.(?:byte|long|quad|word|short|int|value|[248]byte)\s++)"
_INTS = re.compile(rb"(?<![\w.])" + _NUMBER + rb"(?:" + _SEPARATOR + _NUMBER + rb")++")
_ONE = re.compile(rb"([-+]?)(0[xX][0-9a-fA-F_]+|0b[01_]+|0o[0-7_]+|\d[\d_]*)(?:[iu](?:8|16|32|64|size)|[uUlL]{1,3})?")
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TOLD = re.compile(rb"\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)|//[/!]?(?P<line>[^\n]*)|/\*(?P<block>.*?)(?:\*/|\Z)", re.DOTALL)
_STARRED = re.compile(rb"(?m)^[ \t]*+\*(?!/)")
_CHARS = re.compile(
    rb"(?<!\w)b?'(?:[^'\\\n]|\\(?:x[0-9a-fA-F]{2}|[^\nx]))'"
    rb"(?:[\s,]++b?'(?:[^'\\\n]|\\(?:x[0-9a-fA-F]{2}|[^\nx]))'){15,}+"
)
_CHAR = re.compile(rb"'([^'\\\n]|\\(?:x[0-9a-fA-F]{2}|[^\nx]))'")
_UPPER, _LOWER = bytes(range(65, 91)), bytes(range(97, 123))


def xor(data: bytes, key: bytes) -> bytes:
    if not key:
        raise ValueError("an empty key")
    stream = (key * (len(data) // len(key) + 1))[: len(data)]
    return (int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")).to_bytes(len(data), "little")


def literals(text: bytes) -> list[bytes]:
    """The string literals of C-like or Rust-like source, escapes undone, comments left out."""
    found = []
    for m in _LITERAL.finditer(text):
        if m["raw"] is not None:
            found.append(m["raw"])
        elif m["text"] is not None:
            found.append(_ESCAPE.sub(_unescape, m["text"]) if b"\\" in m["text"] else m["text"])
    return found


def comments(text: bytes) -> bytes:
    """What the comments of C-like source say, without their marks."""
    found = []
    for m in _TOLD.finditer(text):
        if m["line"] is not None:
            found.append(m["line"])
        elif m["block"] is not None:
            found.append(_STARRED.sub(b"", m["block"]))
    return b"\n".join(found)


def characters(text: bytes) -> bytes:
    """The lists of sixteen or more character literals, as the bytes that they spell."""
    return b"".join(_ESCAPE.sub(_unescape, c) for m in _CHARS.finditer(text) for c in _CHAR.findall(m[0]))


def rotation(by: int) -> bytes:
    """The table that turns letters on by so many places."""
    turned = _UPPER[by:] + _UPPER[:by] + _LOWER[by:] + _LOWER[:by]
    return bytes.maketrans(_UPPER + _LOWER, turned)


def turned(text: bytes) -> int:
    """By how many places letters must be turned on so that `text` says `return` again and again; 0 for none."""
    if b"return" in text or b";" not in text or b"{" not in text:
        return 0
    for by in range(1, 26):
        word = b"return".translate(rotation(26 - by))
        if text.count(word) >= FEWEST_RETURNS:
            return by
    return 0


def _unescape(m: re.Match[bytes]) -> bytes:
    hexed, uni, octal, newline, other = m.groups()
    if hexed:
        return bytes([int(hexed, 16)])
    if uni:
        point = int(uni.replace(b"_", b"") or b"0", 16)
        return chr(point).encode("utf-8", "replace") if point < 0x110000 else b"?"
    if octal:
        return bytes([int(octal, 8) & 255])
    return b"" if newline else _SIMPLE.get(other, other)


# name -> (bytes per number, byte order); a list is packed in the narrowest width that holds all of it


# name -> (bytes per number, byte order); a list is packed in the narrowest width that holds all of it
INT_FORMS = {f"ints{8 * w}{o}": (w, o) for w in (2, 4, 8) for o in ("le", "be")} | {"ints8": (1, "le")}


def int_lists(text: bytes) -> Iterator[tuple[int, int, list[int]]]:
    """Yield (offset, width in bytes, numbers) for every list of eight or more integers in source text."""
    blank = _COMMENT.sub(lambda m: re.sub(rb"[^\n]", b" ", m[0]), text)
    for run in _INTS.finditer(blank):
        if len(run[0]) < 2 * FEWEST_INTS:
            continue
        numbers = []
        for sign, digits in _ONE.findall(run[0]):
            plain = digits.replace(b"_", b"").lower()
            base = {b"0x": 16, b"0b": 2, b"0o": 8}.get(plain[:2], 10)
            value = int(plain[:40], base) if base == 10 else int(plain[2:40] or b"0", base)
            numbers.append(-value if sign == b"-" else value)
        if len(numbers) < FEWEST_INTS:
            continue
        top = max(max(numbers), 2 * -min(numbers) - 1)
        width = next((w for w in (1, 2, 4, 8) if top < 1 << 8 * w), 0)
        if width:
            yield run.start(), width, numbers


def pack_ints(text: bytes, form: str) -> bytes:
    """The numbers of every list whose width is that of `form`, one after another, as bytes."""
    width, order = INT_FORMS[form]
    mask = (1 << 8 * width) - 1
    byteorder = "little" if order == "le" else "big"
    return b"".join(
        (n & mask).to_bytes(width, byteorder)  # type: ignore[arg-type]
        for _, w, numbers in int_lists(text)
        if w == width
        for n in numbers
    )


def entropy(data: bytes) -> float:
    """Bits per byte, 0..8, of the byte counts."""
    return -sum(n / len(data) * log2(n / len(data)) for n in Counter(data).values())


def is_text(data: bytes) -> bool:
    """Text by content: no NUL and hardly any control bytes."""
    return b"\0" not in data and _controls(data) * 100 <= len(data)


def reads(data: bytes) -> bool:
    """Printable ASCII as a person writes it, but for a byte here and there."""
    return len(set(data)) > 9 and len(data.translate(None, _PRINTABLE)) * 32 <= len(data)


def is_clean(data: bytes) -> bool:
    """Nothing but text: nothing can hide in it below the letters."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return not _controls(data)


def _controls(data: bytes) -> int:
    return len(data.translate(None, bytes(range(32, 256)) + b"\t\n\r\f\x1b"))


def text_key(data: bytes) -> bytes:
    """The repeating key of up to 16 bytes under which `data` is plain ASCII text, b"" when there is none.

    ASCII bytes differ in their low seven bits only, whatever the key; the commonest byte of each column is a blank."""
    sample = data[:TEXT_SAMPLE]
    number = int.from_bytes(sample, "little")
    for k in range(1, binaries.MOST_KEY + 1):
        mixed = (number ^ number >> 8 * k).to_bytes(len(sample), "little")[: -k or None]
        if len(mixed.translate(None, _LOW)) * 100 > len(mixed):
            continue
        key = bytes(Counter(sample[i::k]).most_common(1)[0][0] ^ 0x20 for i in range(k))
        plain = xor(sample, key)
        if any(key) and len(plain.translate(None, _PRINTABLE)) * 100 <= len(plain):
            return key
    return b""
