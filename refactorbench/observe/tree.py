"""The tree observer: questions about the files of a product, answered on the host without running anything.

argv is (question, path, ...), path relative to the product tree:

    entry PATH             kind, mode, and a link's target; a link itself is not followed
    elf PATH [FACT ...]    class, machine, type, soname, stack, textrel, or only the facts that are named
    symbols PATH NAME ...  for each name: its kind where the file exports it (defined, dynamic, bindable), else "absent"
    digest PATH            sha256 and size of the content
    list DIR               names directly below, sorted

The answer is one "key value" line per fact on stdout, exit 0; where there is nothing to answer with, one line that says
why (missing, outside, not a file, ...), exit 1. The tree is untrusted: links aren't followed out of it, nothing but
regular files is opened, and sizes, counts and names are bounded.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from refactorbench.errors import TaskError, did_you_mean
from refactorbench.observe.elf import Elf, Malformed
from refactorbench.observe.model import Check, Observation

MAX_ELF = 256 << 20  # bytes
MAX_DIGEST = 1 << 30  # bytes
MAX_NAMES = 10_000


class _NoAnswer(Exception):
    """Carries the line that is answered instead."""


def _escaped(name: bytes) -> str:
    return name.decode("latin-1").encode("unicode_escape").decode("ascii")


def _inside(product: Path, path: bytes, follow: bool) -> Path:
    """Return the real path of `path`; the last component is followed only on request. _NoAnswer when it leaves."""
    if b"\0" in path:
        raise _NoAnswer("missing")
    top = product.resolve()
    full = top / os.fsdecode(path.lstrip(b"/"))
    if follow:
        real = Path(os.path.realpath(full))  # unlike resolve() this doesn't raise on a loop of links
    else:
        full = Path(os.path.normpath(full))
        real = Path(os.path.realpath(full.parent)) / full.name
    if not real.is_relative_to(top):
        raise _NoAnswer("outside")
    return real


def _status(real: Path) -> os.stat_result:
    try:
        return real.lstat()
    except OSError:
        raise _NoAnswer("missing") from None


def _read(product: Path, path: bytes, limit: int) -> tuple[int, int]:
    """Return (descriptor, size) of a regular file; what is larger than `limit` isn't opened."""
    real = _inside(product, path, follow=True)
    info = _status(real)
    if not stat.S_ISREG(info.st_mode):
        raise _NoAnswer("not a file")
    if info.st_size > limit:
        raise _NoAnswer("too large")
    try:
        return os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), info.st_size
    except OSError:
        raise _NoAnswer("not readable") from None


def _kind(mode: int) -> str:
    names = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo"}
    return names.get(stat.S_IFMT(mode), "other")


def _entry(product: Path, path: bytes, _: tuple[bytes, ...]) -> list[str]:
    real = _inside(product, path, follow=False)
    info = _status(real)
    kind = _kind(info.st_mode)
    if kind == "link":
        return ["kind link", f"target {_escaped(os.fsencode(real.readlink()))}"]
    return [f"kind {kind}", f"mode {stat.S_IMODE(info.st_mode):04o}"]


def _load(product: Path, path: bytes) -> Elf:
    fd, _ = _read(product, path, MAX_ELF)
    with os.fdopen(fd, "rb") as f:
        data = f.read(MAX_ELF)
    try:
        return Elf(data)
    except Malformed:
        raise _NoAnswer("not elf") from None


def _elf(product: Path, path: bytes, wanted: tuple[bytes, ...]) -> list[str]:
    elf = _load(product, path)
    facts: dict[str, Callable[[], str]] = {
        "class": lambda: str(elf.bits),
        "machine": lambda: elf.machine,
        "type": lambda: elf.kind,
        "soname": lambda: _escaped(elf.soname) or "none",
        "stack": lambda: elf.stack,
        "textrel": lambda: "yes" if elf.textrel else "no",
    }
    lines = []
    for name in [w.decode("latin-1") for w in wanted] or list(facts):
        if name not in facts:
            raise TaskError(
                f"fact '{name}' of the tree question 'elf' doesn't exist{did_you_mean(name, facts)}, "
                f"so the check can't be answered: use one of {', '.join(facts)}"
            )
        lines.append(f"{name} {facts[name]()}")
    return lines


def _symbols(product: Path, path: bytes, wanted: tuple[bytes, ...]) -> list[str]:
    exported = {s.name: s.kind for s in _load(product, path).exported()}
    return [f"{_escaped(name)} {exported.get(name, 'absent')}" for name in wanted]


def _digest(product: Path, path: bytes, _: tuple[bytes, ...]) -> list[str]:
    fd, size = _read(product, path, MAX_DIGEST)
    with os.fdopen(fd, "rb") as f:
        return [f"sha256 {hashlib.file_digest(f, 'sha256').hexdigest()}", f"size {size}"]


def _list(product: Path, path: bytes, _: tuple[bytes, ...]) -> list[str]:
    real = _inside(product, path, follow=True)
    if not stat.S_ISDIR(_status(real).st_mode):
        raise _NoAnswer("not a directory")
    try:
        names = sorted(os.fsencode(p.name) for p in real.iterdir())
    except OSError:
        raise _NoAnswer("not readable") from None
    if len(names) > MAX_NAMES:
        raise _NoAnswer("too many names")
    return [f"name {_escaped(n)}" for n in names]


_QUESTIONS: dict[str, Callable[[Path, bytes, tuple[bytes, ...]], list[str]]] = {
    "entry": _entry,
    "elf": _elf,
    "symbols": _symbols,
    "digest": _digest,
    "list": _list,
}


def observe_tree(product: Path, check: Check) -> Observation:
    """Answer one tree check about `product`. TaskError for an unknown question; the tree itself raises nothing."""
    question = check.argv[0].decode("latin-1") if check.argv else ""
    if question not in _QUESTIONS or len(check.argv) < 2:
        raise TaskError(
            f"check {check.id}: argv {check.argv[:2]!r} is no tree question{did_you_mean(question, _QUESTIONS)}, "
            f"so it can't be answered: give one of {', '.join(_QUESTIONS)} and a path"
        )
    try:
        lines, code = _QUESTIONS[question](product, check.argv[1], check.argv[2:]), 0
    except _NoAnswer as e:
        lines, code = [str(e)], 1
    except Malformed:
        lines, code = ["malformed"], 1
    stdout = "".join(line + "\n" for line in lines).encode("ascii")
    return Observation("exit", code, stdout, b"", ())
