"""How text from a tree is put before a model: as data, fenced, with everything visible that would not be seen."""

from __future__ import annotations

import re
import unicodedata

# Format, private, unassigned and surrogate characters, and blanks that look like others; the blank and the tab aside.
_INVISIBLE = ("Cf", "Cc", "Co", "Cn", "Cs", "Zl", "Zp")
_WORD = re.compile(r"\w+")
_ESCAPED = re.compile(r"⟨U\+[0-9A-F]{4,6}⟩")
LOOKALIKES = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH", "MATHEMATICAL")


def shown(text: str) -> str:
    """`text` with characters that show nothing, or that only look like Latin ones inside a word of Latin ones, as
    ⟨U+XXXX⟩; the same when done twice."""
    if text.isascii() and text.isprintable():
        return text
    text = "".join(_mark(c) if _is_invisible(c) else c for c in text)
    return text if text.isascii() else _WORD.sub(_unmixed, text)


def _mark(c: str) -> str:
    return f"⟨U+{ord(c):04X}⟩"


def _is_invisible(c: str) -> bool:
    if c in "\t\n" or " " <= c <= "~":
        return False
    kind = unicodedata.category(c)
    return kind in _INVISIBLE or (kind == "Zs" and c != " ") or (kind == "Mn" and unicodedata.combining(c) == 0)


def _unmixed(word: re.Match[str]) -> str:
    letters = word[0]
    if letters.isascii() or not any(c.isascii() and c.isalpha() for c in letters):
        return letters
    return "".join(_mark(c) if unicodedata.name(c, "").startswith(LOOKALIKES) else c for c in letters)


def marks(text: str) -> int:
    """How many characters of a shown text stand as ⟨U+XXXX⟩."""
    return len(_ESCAPED.findall(text))


def folded(text: str) -> str:
    """A shown text without white space: what quotes are compared by."""
    return "".join(shown(text).split())


class Fence:
    """Marks what comes from a tree. `nonce` is a word that nobody who wrote the tree could know; each line of a text is
    led by its number, so that no line of it can look like the fence's own."""

    def __init__(self, nonce: str) -> None:
        self.nonce = nonce

    def around(self, head: str, body: str = "") -> str:
        """Everything is inside: `head`, the harness's own, may hold names from a tree."""
        text = shown("\n".join(filter(None, (head, body))).replace("\t", "    ")).replace(self.nonce, "(fence)")
        hidden = marks(text)
        note = f"({hidden} invisible or look-alike characters are written as ⟨U+...⟩)\n" if hidden else ""
        return f"{note}<<{self.nonce} data\n{text}\n{self.nonce}>>"
