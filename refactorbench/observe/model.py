"""Checks and observations: what goes in, what came out, and their canonical bytes.

A *check* is an input for an observer. An *observation* is what the observer saw. Both are frozen and have one canonical
encoding (msgpack of the struct), whose sha256 identifies them. Paths, arguments and contents are bytes: nothing here
assumes text.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

SECOND = 1_000_000_000  # times are nanoseconds since 1970
INPUT_MTIME = 1_000_000_000 * SECOND  # inputs lie in the past, so a copied time differs from "now"
NOW = -(1 << 63)  # an mtime between the start and the end of the check

Observer = Literal["process", "tree"]


class InputFile(msgspec.Struct, frozen=True, array_like=True):
    """A file laid into the scratch directory before the check; `path` is relative to it."""

    path: bytes
    data: bytes = b""
    mode: int = 0o644
    kind: Literal["file", "dir", "link", "fifo"] = "file"
    target: bytes = b""  # of a symbolic link; for kind "file" with a target: a hard link to that path
    mtime: int = INPUT_MTIME


class Check(msgspec.Struct, frozen=True, array_like=True):
    """One input. `program` is a path in the product tree; `argv` includes argv[0]; `env` is the whole environment
    beyond the task's base environment; `rules` are names of normalisations (observe/rules.py).

    Observer `tree`: `argv` is (question, path, ...), see observe/tree.py; nothing is executed.
    """

    id: str
    module: str
    observer: Observer
    program: str
    argv: tuple[bytes, ...]
    stdin: bytes = b""
    files: tuple[InputFile, ...] = ()
    env: tuple[tuple[bytes, bytes], ...] = ()
    stdout: Literal["pipe", "full", "closed"] = "pipe"  # full: /dev/full
    stdin_kind: Literal["pipe", "closed", "file"] = "pipe"  # file: a seekable regular file
    rules: tuple[str, ...] = ()

    def input_digest(self) -> str:
        """sha256 of everything but the id and the module: two checks with the same input have the same digest."""
        return hashlib.sha256(encode(msgspec.structs.replace(self, id="", module=""))).hexdigest()


class OutputFile(msgspec.Struct, frozen=True, array_like=True):
    """One entry of the scratch directory after the check. `mtime` is nanoseconds since 1970, or NOW."""

    path: bytes
    kind: Literal["file", "dir", "link", "fifo", "other"]
    mode: int
    mtime: int
    data: bytes = b""
    target: bytes = b""


class Observation(msgspec.Struct, frozen=True, array_like=True):
    """What came out. `code` is the exit status or the signal number; `limit` names the limit that was hit.

    ended: exit | signal | limit (wall, cpu, output or disk limit reached; killed) | launch (could not be started).
    """

    ended: Literal["exit", "signal", "limit", "launch"]
    code: int
    stdout: bytes
    stderr: bytes
    files: tuple[OutputFile, ...]  # sorted by path, unchanged inputs included
    limit: str = ""
    wall_ms: int = msgspec.field(default=0)  # measured, never compared

    def digest(self) -> str:
        return hashlib.sha256(encode(msgspec.structs.replace(self, wall_ms=0))).hexdigest()


_encoder = msgspec.msgpack.Encoder()
_check_decoder = msgspec.msgpack.Decoder(Check)
_observation_decoder = msgspec.msgpack.Decoder(Observation)


def encode(value: Check | Observation) -> bytes:
    return _encoder.encode(value)


def decode_check(raw: bytes) -> Check:
    return _check_decoder.decode(raw)


def decode_observation(raw: bytes) -> Observation:
    return _observation_decoder.decode(raw)


def seconds(time: int) -> bytes:
    """A time in nanoseconds as seconds with nine decimals, as `stat` and `touch` write it: -5.5 for half a second
    before five seconds before 1970."""
    return b"%s%d.%09d" % (b"-" if time < 0 else b"", *divmod(abs(time), SECOND))
