"""What every module of checks is made of."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from refactorbench.observe.model import Check, InputFile

from .source import Source

Stdout = Literal["pipe", "full", "closed"]
Stdin = Literal["pipe", "closed", "file"]
STDOUTS: tuple[Stdout, ...] = ("pipe", "full", "closed")
DATA_STDINS: tuple[Stdin, ...] = ("pipe", "file")

BZIP2, BUNZIP2, BZCAT, RECOVER = "bin/bzip2", "bin/bunzip2", "bin/bzcat", "bin/bzip2recover"


@dataclass(frozen=True)
class Module:
    """`table` yields (slug, check) that are always asked; `draw` makes one check from a source of choices; `draws` of
    those go into the fixed checks."""

    name: str
    table: Callable[[random.Random], Iterator[tuple[str, Check]]]
    draws: int = 0
    draw: Callable[[Source], Check] | None = None


def run(
    program: str,
    *args: bytes,
    stdin: bytes = b"",
    files: Sequence[InputFile] = (),
    env: Sequence[tuple[bytes, bytes]] = (),
    stdout: Stdout = "pipe",
    stdin_kind: Stdin = "pipe",
    name: bytes | None = None,
) -> Check:
    """A process check; argv[0] is the program's base name unless `name` says otherwise."""
    argv0 = program.rpartition("/")[2].encode() if name is None else name
    return Check("", "", "process", program, (argv0, *args), stdin, tuple(files), tuple(env), stdout, stdin_kind)


def ask(question: bytes, path: bytes, *more: bytes) -> Check:
    """A question about the delivered tree."""
    return Check("", "", "tree", "", (question, path, *more))


def file(path: bytes, data: bytes = b"", mode: int = 0o644, mtime: int | None = None) -> InputFile:
    """`mtime` in nanoseconds."""
    return InputFile(path, data, mode) if mtime is None else InputFile(path, data, mode, mtime=mtime)


def folder(path: bytes, mode: int = 0o755) -> InputFile:
    return InputFile(path, b"", mode, "dir")


def link(path: bytes, target: bytes) -> InputFile:
    return InputFile(path, b"", 0o777, "link", target)


def hard_link(path: bytes, target: bytes) -> InputFile:
    return InputFile(path, target=target)
