"""Read the output of `strace -f -y -s 4096` as calls, one by one, whatever the traced programs called their files.

Strings in a trace are C-escaped and paths of descriptors have `<` and `>` escaped, so a line can't be forged by a file
name; a line that doesn't parse is counted, never guessed at. Calls that were cut in two ("unfinished", "resumed") are
put together and stand where they began.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

SYSCALL = re.compile(rb"(\d+) +([a-z_][a-z0-9_]*)\(")
RESUMED = re.compile(rb"(\d+) +<\.\.\. ([a-z_][a-z0-9_]*) resumed>")
NOTICE = re.compile(rb"(\d+) +(---|\+\+\+) ")
UNFINISHED = b" <unfinished ...>"
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"(?:\.\.\.)?|/\*.*?\*/|<[^<>]*>|[\[{(]|[\]})]|,|[^"\[\](){},</]+|/|<')
ESCAPE = re.compile(rb'\\([0-7]{1,3}|x[0-9a-fA-F]{2}|.)', re.DOTALL)
RESULT = re.compile(
    rb" *= (-?\d+|0x[0-9a-f]+|\?)(<[^<>]*>)?(\(deleted\))?(?: ([A-Z][A-Z0-9_]*))?"
    rb"(?: /\* (\d+) in strace's PID NS \*/)?"
)
DESCRIPTOR = re.compile(rb"(-?\d+|AT_FDCWD)(?:<([^<>]*)>)?(\(deleted\))?")
SIMPLE = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f", b"a": b"\a", b"b": b"\b"}


class Call(msgspec.Struct, frozen=True):
    """One call. `line` is where it began (1-based), `args` are raw, `value` is None when it never returned;
    `result_path` is the resolved path of a returned descriptor; `deleted`: that path no longer leads to the file;
    `inner`: a pid as the sandbox numbers it, None unless strace translated it into `value`."""

    line: int
    pid: int
    name: str
    args: tuple[bytes, ...]
    value: int | None
    error: str
    result_path: str
    deleted: bool
    text: str
    inner: int | None = None

    @property
    def ok(self) -> bool:
        return self.value is not None and self.value >= 0


class Trace(msgspec.Struct):
    """All calls in the order in which they began; `malformed` lines were not understood; `missing`: no trace at all."""

    calls: list[Call]
    malformed: int
    lines: int
    missing: bool


def unescape(raw: bytes) -> bytes:
    """Undo C escapes: octal, hexadecimal and the letters that strace writes."""

    def one(match: re.Match[bytes]) -> bytes:
        code = match[1]
        if code[:1].isdigit():
            return bytes([int(code, 8) & 0xFF])
        if code[:1] == b"x" and len(code) == 3:
            return bytes([int(code[1:], 16)])
        return SIMPLE.get(code, code)

    return ESCAPE.sub(one, raw) if b"\\" in raw else raw


def string(raw: bytes) -> str | None:
    """The text of a quoted argument (file system encoding), None where the argument is no string (NULL, an address)."""
    raw = raw.removesuffix(b"...")
    if len(raw) < 2 or raw[:1] != b'"' or raw[-1:] != b'"':
        return None
    return os.fsdecode(unescape(raw[1:-1]))


def strings(raw: bytes) -> tuple[str, ...]:
    """The texts of an array argument such as execve's argv."""
    found = (string(m[0]) for m in re.finditer(rb'"(?:[^"\\]|\\.)*"', raw))
    return tuple(s for s in found if s is not None)


def descriptor(raw: bytes) -> tuple[str, bool] | None:
    """(path, deleted) of an argument like `3</path>` or `AT_FDCWD</path>`; None for anything else."""
    match = DESCRIPTOR.fullmatch(raw)
    if not match or match[2] is None:
        return None
    return os.fsdecode(unescape(match[2])), bool(match[3])


def _split(body: bytes) -> tuple[tuple[bytes, ...], bytes] | None:
    """Split `a, "b, c", [d, e]) = 0` into its arguments and what follows the closing parenthesis."""
    args: list[bytes] = []
    depth, start, position = 0, 0, 0
    while position < len(body):
        match = TOKEN.match(body, position)
        if match is None:
            return None
        token = match[0]
        if token in (b"[", b"{", b"("):
            depth += 1
        elif token in (b"]", b"}", b")"):
            if depth == 0:
                if token != b")":
                    return None
                last = body[start:position].strip()
                return (*args, *([last] if last or args else [])), body[match.end() :]
            depth -= 1
        elif token == b"," and depth == 0:
            args.append(body[start:position].strip())
            start = match.end()
        position = match.end()
    return None


def _call(line: int, pid: int, name: bytes, body: bytes, text: bytes) -> Call | None:
    parts = _split(body)
    if parts is None:
        return None
    args, rest = parts
    match = RESULT.match(rest)
    if match is None:
        return None
    value = None if match[1] == b"?" else int(match[5] or match[1], 0)
    path = os.fsdecode(unescape(match[2][1:-1])) if match[2] else ""
    error = (match[4] or b"").decode() if value is None or value < 0 else ""
    said = text.decode(errors="backslashreplace")
    inner = int(match[1], 0) if match[5] else None
    return Call(line, pid, name.decode(), args, value, error, path, bool(match[3]), said, inner)


class _Open(msgspec.Struct):
    """A call that was cut; `body` are its arguments so far."""

    line: int
    pid: int
    name: bytes
    body: bytes
    text: bytes


def _assemble(lines: Iterable[bytes], trace: Trace, only: frozenset[str] | None) -> Iterator[Call]:
    pending: dict[int, _Open] = {}
    for number, raw in enumerate(lines, 1):
        trace.lines = number
        line = raw.rstrip(b"\n")
        begin = SYSCALL.match(line)
        if begin and only is not None and begin[2].decode() not in only:
            continue
        if begin:
            pid, name, body = int(begin[1]), begin[2], line[begin.end() :]
            if body.endswith(UNFINISHED):
                pending[pid] = _Open(number, pid, name, body.removesuffix(UNFINISHED), line)
                continue
            call = _call(number, pid, name, body, line)
        elif resumed := RESUMED.match(line):
            if only is not None and resumed[2].decode() not in only:
                continue
            half = _half(pending, int(resumed[1]), resumed[2])
            if half is None:
                trace.malformed += 1
                continue
            call = _call(half.line, half.pid, half.name, half.body + line[resumed.end() :], half.text)
        elif NOTICE.match(line):
            continue
        else:
            call = None
        if call is None:
            trace.malformed += 1
        else:
            yield call
    for half in pending.values():  # never returned: killed meanwhile, still an attempt
        cut = _split(half.body + b")")
        args = cut[0] if cut else ()
        text = half.text.decode(errors="backslashreplace")
        yield Call(half.line, half.pid, half.name.decode(), args, None, "", "", False, text)


def _half(pending: dict[int, _Open], pid: int, name: bytes) -> _Open | None:
    """The cut call that a "resumed" line ends. After an execve by a thread the line carries the leader's pid."""
    if pid in pending and pending[pid].name == name:
        return pending.pop(pid)
    if name in (b"execve", b"execveat"):
        others = [p for p, half in pending.items() if half.name == name]
        if len(others) == 1:
            half = pending.pop(others[0])
            return _Open(half.line, pid, half.name, half.body, half.text)
    return None


def read_trace(path: Path, only: Iterable[str] | None = None) -> Trace:
    """Parse a trace file; with `only`, calls of other names are skipped unread. Never raises for what is in it."""
    trace = Trace([], 0, 0, not path.is_file())
    if trace.missing:
        return trace
    names = None if only is None else frozenset(only)
    with path.open("rb") as f:
        trace.calls = sorted(_assemble(f, trace, names), key=lambda call: call.line)
    return trace


def line_text(path: Path, line: int) -> str:
    """Line `line` (1-based) of a trace as text, "" when there is none."""
    with path.open("rb") as f:
        for number, raw in enumerate(f, 1):
            if number == line:
                return raw.rstrip(b"\n").decode(errors="backslashreplace")
    return ""
