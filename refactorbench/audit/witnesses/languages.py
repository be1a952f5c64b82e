"""What language text is in, by content: C function bodies, target code, compiler-written assembly.

A stack's name (task.toml `from_stack`, `to_stack`) is looked up in `DEFINES`; `old_functions` finds function bodies of
the old language in any text, whatever its name and whatever surrounds them.
"""

from __future__ import annotations

import re

import msgspec

_TOKEN = re.compile(
    rb"""(?P<skip>\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|(?m:^[ \t]*\#(?:[^\\\n]|\\\r?\n|\\.)*))
    |(?P<string>(?:L|u8|u|U)?"(?:[^"\\\n]|\\.|\\\n)*(?:"|\n|\Z))
    |(?P<char>L?'(?:[^'\\\n]|\\[^\n]{1,10}?)')
    |(?P<number>\.?\d(?:[eEpP][-+]|[\w.])*)
    |(?P<name>[A-Za-z_$]\w*!?)
    |(?P<sign>->|=>|::|\+\+|--|<<=?|>>=?|[-+*/%&|^!=<>]=|&&|\|\||.)""",
    re.DOTALL | re.VERBOSE,
)
_MAYBE = re.compile(rb"\)[^(){}]{0,2000}\{")  # without it no function of C begins: most texts end here
_NOT_A_NAME = frozenset(
    b"if while for switch return sizeof else do catch match loop unsafe move defined foreach elsif unless until".split()
)
_OTHER_LANGUAGE = frozenset(
    b"fn function func def class impl let pub => -> :: trait lambda var val macro_rules! sub my".split()
)
_MOST_NAMES = 7  # in a row: static inline const unsigned long long int; prose has more
_KEYWORDS = frozenset(
    b"if else while for do switch case default break continue return goto sizeof struct union enum static const "
    b"unsigned signed int char short long void float double".split()
)


class Token(msgspec.Struct, frozen=True):
    kind: str
    text: bytes
    offset: int


class Function(msgspec.Struct, frozen=True):
    """A C function definition: `tokens` are those of its body, `line` (1-based) is where its header's name stands."""

    name: bytes
    line: int
    offset: int
    end: int
    tokens: tuple[Token, ...]


def tokens(text: bytes) -> list[Token]:
    """C-like tokens without comments, white space and preprocessor lines."""
    found = []
    for m in _TOKEN.finditer(text):
        kind = m.lastgroup or "sign"
        if kind != "skip":
            found.append(Token(kind, m[0], m.start()))
    return found


def may_define(text: bytes) -> bool:
    """False where no function of C can begin: cheap to ask."""
    return b";" in text and _MAYBE.search(text) is not None


def c_functions(text: bytes) -> list[Function]:
    """Every definition with a C header (`type name(arguments) {`, also K&R and macro-wrapped names) in `text`."""
    if not may_define(text):
        return []
    stream = tokens(text)
    closing = _braces(stream)
    found = []
    i = 0
    while i < len(stream):
        if stream[i].text == b"{" and i and (name := _header(stream, i)) is not None:
            end = closing.get(i)
            if end is not None and end - i >= 3:
                line = text.count(b"\n", 0, name.offset) + 1
                found.append(Function(name.text, line, name.offset, stream[end].offset + 1, tuple(stream[i + 1 : end])))
                i = end
        i += 1
    return found


def c_unit(text: bytes, functions: list[Function]) -> bool:
    """True when `text` is a C translation unit as a whole: what stands between its functions is no prose."""
    if not functions or b"```" in text:
        return False
    names = 0
    inside = iter([*functions, Function(b"", 0, len(text), len(text), ())])
    here = next(inside)
    for t in tokens(text):
        while t.offset >= here.end and here.end < len(text):
            here = next(inside)
        names = names + 1 if t.kind == "name" and t.offset < here.offset else 0
        if names > _MOST_NAMES:
            return False
    return True


def _braces(stream: list[Token]) -> dict[int, int]:
    """Where each brace is closed; one that isn't has no entry."""
    open_, found = [], {}
    for i, token in enumerate(stream):
        if token.text == b"{":
            open_.append(i)
        elif token.text == b"}" and open_:
            found[open_.pop()] = i
    return found


def _group_start(stream: list[Token], closing: int) -> int | None:
    """Index of the parenthesis that `closing` closes; None when it isn't within 400 tokens or holds a brace."""
    depth = 0
    for i in range(closing, max(-1, closing - 400), -1):
        text = stream[i].text
        if text == b")":
            depth += 1
        elif text == b"(":
            depth -= 1
            if not depth:
                return i
        elif text in (b"{", b"}"):
            return None
    return None


def _header(stream: list[Token], brace: int) -> Token | None:
    """The function's name when a C function header ends just before `brace`, else None."""
    at = _skip_old_style(stream, brace - 1)
    if stream[at].text != b")":
        return None
    start = _group_start(stream, at)
    if not start:
        return None
    arguments = stream[start + 1 : at]
    if any(t.text in _OTHER_LANGUAGE or t.text == b":" for t in arguments):
        return None
    name = start - 1
    if stream[name].text == b")":  # int MACRO(name) (arguments)
        inner = _group_start(stream, name)
        if inner is None or name - inner != 2 or not inner:
            return None
        name = inner + 1
        before = inner - 2
    else:
        before = name - 1
    called = stream[name]
    if (
        called.kind != "name"
        or called.text in _NOT_A_NAME
        or called.text.endswith(b"!")
        or b"$" in called.text
        or before < 0
    ):
        return None
    kind = stream[before]
    if not (kind.text == b"*" or (kind.kind == "name" and kind.text not in _NOT_A_NAME | {b"new", b"case", b"goto"})):
        return None
    for i in range(before, max(-1, before - 12), -1):
        if stream[i].text in (b";", b"}", b"{"):
            break
        if stream[i].text in _OTHER_LANGUAGE or stream[i].text in (b"=", b"."):
            return None
    return called


def _skip_old_style(stream: list[Token], at: int) -> int:
    """Step over K&R parameter declarations: `int f(a, b) int a; char *b; {`."""
    back = at
    while back > 0 and at - back < 60 and (stream[back].kind == "name" or stream[back].text in (b";", b"*", b",")):
        back -= 1
    return back if stream[at].text == b";" and stream[back].text == b")" else at


def normal_form(body: tuple[Token, ...]) -> list[bytes]:
    """A body's tokens after renaming: names become I, numbers N, strings S, runs of literal data vanish."""
    out: list[bytes] = []
    for t in body:
        if t.kind in ("number", "char"):
            word = b"N"
        elif t.kind == "string":
            word = b"S"
        elif t.kind == "name" and t.text not in _KEYWORDS:
            word = b"I"
        else:
            word = t.text
        if word == b"," and out and out[-1] in (b"N", b"S"):
            continue  # a list of data counts as one item, however long
        if word in (b"N", b"S") and out and out[-1] in (b"N", b"S"):
            continue
        out.append(word)
    return out


def _rust(text: bytes) -> bool:
    return bool(re.search(rb"\bfn\s++\w++\s*+(?:<[^>{;]{0,2000}+>\s*+)?\(", text)) and b"{" in text


def _python(text: bytes) -> bool:
    return bool(re.search(rb"(?m)^[ \t]*(?:def|class)\s+\w+.*:\s*(?:#.*)?$", text))


def _go(text: bytes) -> bool:
    return bool(re.search(rb"(?m)^package\s+\w+", text)) and bool(re.search(rb"(?m)^func\s", text))


def _typescript(text: bytes) -> bool:
    return bool(re.search(rb"(?m)^[ \t]*+(?:export\s+)?(?:async\s+)?function\s+\w+|=>\s*\{", text))


# stack name in lower case -> does this text define code of it?
DEFINES = {
    "c": lambda text: bool(c_functions(text)),
    "rust": _rust,
    "python": _python,
    "go": _go,
    "typescript": _typescript,
    "javascript": _typescript,
}


def defines(stack: str, text: bytes) -> bool | None:
    """Whether `text` defines code of `stack` (the first word of it counts); None where the language isn't known."""
    word = re.split(r"[\s(/,0-9]", stack.strip().lower(), maxsplit=1)[0]
    return bool(DEFINES[word](text)) if word in DEFINES else None


_MNEMONIC = re.compile(
    rb"(?m)^[ \t]+(?:(?:lock|rep[nz]?e?|notrack)\s+)?"
    rb"(?:[a-z][a-z0-9.]{1,12})[ \t]+(?:[%$*(\[.\-\w]).*$|"
    rb"^[ \t]+(?:retq?|leave|endbr64|cltq|cqto|nop|ud2|syscall)[ \t]*$"
)
_LABEL = re.compile(rb"(?m)^[ \t]*+\.(?:text|section|globl|global)\b")
_ASSEMBLY_MARKS = {
    "ident": re.compile(rb"\.ident\s+\\?[\"'](?:GCC|clang|Ubuntu|Debian|rustc)"),
    "function labels": re.compile(rb"(?m)^[ \t]*+\.L(?:FB|FE|func_begin|func_end)\d+:"),
    "block labels": re.compile(rb"(?m)^[ \t]*+\.LBB\d+_\d+:"),
    "numbered labels": re.compile(rb"(?m)^[ \t]*+\.L\d+:"),
    "padding": re.compile(rb"\.p2align 4,,10|\.p2align\s+4, 0x90|\.align 16, 0x90"),
}
_WEAK_MARKS = {
    "frames": re.compile(rb"\.cfi_startproc"),
    "types": re.compile(rb"\.type\s+[\w.$]+,\s*[@%]function"),
    "sizes": re.compile(rb"\.size\s+[\w.$]+,\s*\.-"),
    "stack note": re.compile(rb"\.note\.GNU-stack"),
}
FEWEST_INSTRUCTIONS = 40
_REPEATED = {"block labels": 4, "numbered labels": 8}


def compiled_assembly(text: bytes) -> tuple[int, tuple[str, ...]] | None:
    """(instruction lines, marks) when `text` is assembly that a compiler wrote: 40 instruction lines, a mark that
    compilers alone leave (their identification, their label scheme, their padding) and one more; else None."""
    if b"\t" not in text and b" " not in text:
        return None
    strong = tuple(n for n, p in _ASSEMBLY_MARKS.items() if _at_least(p, text, _REPEATED.get(n, 1)))
    weak = tuple(n for n, p in _WEAK_MARKS.items() if p.search(text))
    if not strong or len(strong) + len(weak) < 2:
        return None
    count = instruction_lines(text)
    return (count, strong + weak) if count >= FEWEST_INSTRUCTIONS else None


def instruction_lines(text: bytes) -> int:
    """Lines that read as `mnemonic operands`, only counted where a label or a section is declared as well."""
    if not _LABEL.search(text):
        return 0
    return sum(1 for _ in _MNEMONIC.finditer(text))


def _at_least(pattern: re.Pattern[bytes], text: bytes, n: int) -> bool:
    return sum(1 for _, _ in zip(range(n), pattern.finditer(text), strict=False)) >= n


def line_of(text: bytes, offset: int) -> int:
    return text.count(b"\n", 0, offset) + 1
