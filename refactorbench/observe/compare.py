"""Comparison of two observations: strict bytes in every dimension; what differs, and a stable name for how.

Dimensions: ended, code, limit, stdout, stderr, and each file's existence, kind, mode, mtime, data and target. The time
a check took is never compared.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec

from refactorbench.observe.model import Observation, OutputFile
from refactorbench.observe.rules import find

SIGNATURE_PARTS = 12

_QUOTED = re.compile(r"(?<!\w)'[^']*'|\"[^\"]*\"|`[^`']*'")
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")


class Difference(msgspec.Struct, frozen=True):
    """One dimension in which two observations differ; `expected` and `got` hold the values (texts are ASCII).

    dimension: ended | code | limit | stdout | stderr | file. kind: changed, and for files missing | extra | kind |
    mode | mtime | data | target. `path` is the file's, else empty.
    """

    dimension: str
    kind: str
    expected: bytes
    got: bytes
    path: bytes = b""


class Comparison(msgspec.Struct, frozen=True):
    """`forgiven`: per rule the number of differences that it took away (0 where it changed nothing)."""

    differences: tuple[Difference, ...]
    forgiven: dict[str, int]

    @property
    def equal(self) -> bool:
        return not self.differences


def _ended(o: Observation) -> bytes:
    return f"{o.ended} {o.limit or o.code}".encode()


def _file_differences(expected: OutputFile, got: OutputFile) -> Iterable[Difference]:
    if expected.kind != got.kind:
        yield Difference("file", "kind", expected.kind.encode(), got.kind.encode(), expected.path)
        return
    if expected.mode != got.mode:
        yield Difference("file", "mode", b"%04o" % expected.mode, b"%04o" % got.mode, expected.path)
    if expected.mtime != got.mtime:
        yield Difference("file", "mtime", b"%d" % expected.mtime, b"%d" % got.mtime, expected.path)
    if expected.data != got.data:
        yield Difference("file", "data", expected.data, got.data, expected.path)
    if expected.target != got.target:
        yield Difference("file", "target", expected.target, got.target, expected.path)


def _strict(expected: Observation, got: Observation) -> tuple[Difference, ...]:
    found: list[Difference] = []
    if expected.ended != got.ended:
        found.append(Difference("ended", "changed", _ended(expected), _ended(got)))
    elif expected.code != got.code:
        found.append(Difference("code", "changed", b"%d" % expected.code, b"%d" % got.code))
    elif expected.limit != got.limit:
        found.append(Difference("limit", "changed", expected.limit.encode(), got.limit.encode()))
    if expected.stderr != got.stderr:
        found.append(Difference("stderr", "changed", expected.stderr, got.stderr))
    if expected.stdout != got.stdout:
        found.append(Difference("stdout", "changed", expected.stdout, got.stdout))
    if expected.files == got.files:
        return tuple(found)
    want = {f.path: f for f in expected.files}
    have = {f.path: f for f in got.files}
    for path in sorted(want.keys() | have.keys()):
        if path not in have:
            found.append(Difference("file", "missing", want[path].kind.encode(), b"", path))
        elif path not in want:
            found.append(Difference("file", "extra", b"", have[path].kind.encode(), path))
        else:
            found.extend(_file_differences(want[path], have[path]))
    return tuple(found)


def compare(expected: Observation, got: Observation, rules: Iterable[str] = ()) -> Comparison:
    """Compare under the named rules, applied to both sides in their order. TaskError for an unknown rule."""
    functions = [(name, find(name)) for name in rules]
    found = _strict(expected, got)
    forgiven = {name: 0 for name, _ in functions}
    for name, rule in functions:
        if not found:
            break
        expected, got = rule(expected)[0], rule(got)[0]
        left = _strict(expected, got)
        forgiven[name] += max(0, len(found) - len(left))
        found = left
    return Comparison(found, forgiven)


def differences(expected: Observation, got: Observation, rules: Iterable[str] = ()) -> tuple[Difference, ...]:
    """Return every difference, the most telling dimension first; an empty tuple means equal."""
    return compare(expected, got, rules).differences


def _shape(expected: bytes, got: bytes) -> str:
    if not got:
        return "emptied"
    if not expected:
        return "appeared"
    if expected.startswith(got):
        return "truncated"
    return "extended" if got.startswith(expected) else "changed"


def _message(expected: bytes, got: bytes) -> str:
    """Eight hexadecimal digits that stand for the first line of `got` that differs, its names and numbers masked."""
    wanted = expected.splitlines()
    for i, line in enumerate(got.splitlines()):
        if i >= len(wanted) or line != wanted[i]:
            text = _NUMBER.sub("#", _QUOTED.sub("''", line.decode("latin-1")))
            return hashlib.sha256(text.encode()).hexdigest()[:8]
    return "-"


def _part(d: Difference) -> str:
    if d.dimension in ("ended", "code", "limit"):
        return f"{d.dimension}:{d.expected.decode()}>{d.got.decode()}"
    if d.dimension == "stderr":
        return f"stderr:{_shape(d.expected, d.got)}:{_message(d.expected, d.got)}"
    if d.dimension == "stdout":
        return f"stdout:{_shape(d.expected, d.got)}"
    # names of files come from the input, so only the suffix tells something about the defect
    suffix = _NUMBER.sub("#", PurePosixPath(d.path.decode("latin-1")).suffix)
    detail = ":" + _shape(d.expected, d.got) if d.kind == "data" else ""
    if d.kind in ("mode", "kind"):
        detail = f":{d.expected.decode()}>{d.got.decode()}"
    return f"file.{d.kind}:{suffix}{detail}"


def signature(found: Iterable[Difference]) -> str:
    """Return the stable name of a failure: dimensions, kinds and masked hints, never the literal output.

    Runs of one defect share it also where sizes, numbers or names differ; "" for no difference.
    """
    parts = sorted({_part(d) for d in found})
    if len(parts) > SIGNATURE_PARTS:
        rest = hashlib.sha256("\n".join(parts[SIGNATURE_PARTS:]).encode()).hexdigest()[:8]
        parts = [*parts[:SIGNATURE_PARTS], f"and {len(parts) - SIGNATURE_PARTS} more:{rest}"]
    return ";".join(parts)
