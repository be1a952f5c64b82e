"""Frames between the host and a worker: a Check goes out, an Observation comes back; little-endian, versioned, capped.

    request   u32 size, then: u32 version, stdin kind, stdout kind; str id, program; strs argv, env; blob stdin;
              u32 files, each: u32 kind, u32 mode, i64 mtime, str path, str target, blob data
    response  u64 size, then: u32 0, ended, code, wall_ms, stdout size, stderr size, files; 8 bytes limit; stdout;
              stderr; each file: u32 kind, mode, path size, target size, data size; i64 mtime; path; target; data
              or: u32 1, text                    (the harness failed on this check)

A blob is u32 size, the bytes, a NUL; a str is a blob without NUL inside; strs are u32 count and that many str.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from typing import Literal

from refactorbench.errors import HarnessError, TaskError
from refactorbench.observe.model import INPUT_MTIME, Check, InputFile, Observation, OutputFile

WIRE_VERSION = 1
REQUEST_MAX = 512 << 20
RESPONSE_MAX = 2 << 30

_STDIN = {"pipe": 0, "closed": 1, "file": 2}
_STDOUT = {"pipe": 0, "full": 1, "closed": 2}
_ENDED: tuple[Literal["exit", "signal", "limit", "launch"], ...] = ("exit", "signal", "limit", "launch")
_KIND_IN = {"file": 0, "dir": 1, "link": 2, "fifo": 3}
_HARD_LINK = 5
_KIND_OUT: tuple[Literal["file", "dir", "link", "fifo", "other"], ...] = ("file", "dir", "link", "fifo", "other")

_u32 = struct.Struct("<I")
_three = struct.Struct("<III")
_input = struct.Struct("<IIq")
_head = struct.Struct("<IIiIIII8s")
_entry = struct.Struct("<IIIIIq")
RESPONSE_SIZE = struct.Struct("<Q")


def _blob(data: bytes) -> bytes:
    return _u32.pack(len(data)) + data + b"\0"


def _text(check: Check, what: str, data: bytes) -> bytes:
    if b"\0" in data:
        raise TaskError(f"check {check.id}: {what} {data!r} holds a NUL byte, which no program can receive")
    return _blob(data)


def _places(check: Check) -> Iterator[InputFile]:
    """The check's files and the directories above them, parents first; TaskError for a path that leaves the scratch."""
    kinds = {f.path: f.kind for f in check.files}
    if len(kinds) != len(check.files):
        raise TaskError(f"check {check.id}: two of its files have the same path: keep one of them")
    folders = {f.path: f for f in check.files if f.kind == "dir"}
    for file in check.files:
        parts = file.path.split(b"/")
        if not all(parts) or b"." in parts or b".." in parts:
            raise TaskError(f"check {check.id}: file path {file.path!r} must be a plain path relative to the scratch")
        for depth in range(1, len(parts)):
            above = b"/".join(parts[:depth])
            if kinds.get(above, "dir") != "dir":
                raise TaskError(f"check {check.id}: {file.path!r} lies below {above!r}, which is no directory")
            folders.setdefault(above, InputFile(above, mode=0o755, kind="dir", mtime=INPUT_MTIME))
    yield from (folders[path] for path in sorted(folders))
    yield from (f for f in check.files if f.kind != "dir")


def _file(check: Check, file: InputFile) -> Iterable[bytes]:
    kind = _HARD_LINK if file.kind == "file" and file.target else _KIND_IN[file.kind]
    yield _input.pack(kind, file.mode, file.mtime)
    yield _text(check, "path", file.path)
    yield _text(check, "link target", file.target)
    yield _blob(file.data)


def encode_request(check: Check, environment: dict[bytes, bytes]) -> bytes:
    """One request frame; `environment` is what the check's own `env` is laid over. TaskError for impossible checks."""
    env = {**environment, **dict(check.env)} if check.env else environment
    pieces = [_three.pack(WIRE_VERSION, _STDIN[check.stdin_kind], _STDOUT[check.stdout])]
    pieces += [_text(check, "id", check.id.encode()), _text(check, "program", b"/product/" + check.program.encode())]
    pieces += [_u32.pack(len(check.argv)), *(_text(check, "argument", a) for a in check.argv)]
    pieces += [_u32.pack(len(env)), *(_text(check, "variable", k + b"=" + v) for k, v in env.items())]
    pieces.append(_blob(check.stdin))
    files = list(_places(check)) if check.files else []
    pieces.append(_u32.pack(len(files)))
    for file in files:
        pieces += _file(check, file)
    body = b"".join(pieces)
    if len(body) > REQUEST_MAX:
        raise TaskError(f"check {check.id} is {len(body)} bytes as a request; at most {REQUEST_MAX} fit")
    return _u32.pack(len(body)) + body


def decode_response(body: memoryview, check_id: str) -> Observation:
    """`body` without its size. HarnessError when the worker says that it failed, or when the frame is broken."""
    if body[:4] == b"\1\0\0\0":
        raise HarnessError(f"check {check_id}: {bytes(body[4:]).decode(errors='replace')}; run it again")
    try:
        _, ended, code, wall, out_size, err_size, count, limit = _head.unpack_from(body)
        at = _head.size
        out = bytes(body[at : at + out_size])
        at += out_size
        err = bytes(body[at : at + err_size])
        at += err_size
        files = []
        for _ in range(count):
            kind, mode, path_size, target_size, size, mtime = _entry.unpack_from(body, at)
            at += _entry.size
            path = bytes(body[at : at + path_size])
            at += path_size
            target = bytes(body[at : at + target_size])
            at += target_size
            files.append(OutputFile(path, _KIND_OUT[kind], mode, mtime, bytes(body[at : at + size]), target))
            at += size
        if at != len(body):
            raise ValueError(f"{len(body) - at} bytes left")
        how = _ENDED[ended]
    except (struct.error, IndexError, ValueError) as e:
        raise HarnessError(f"check {check_id}: the worker's answer is broken ({e}); run it again") from e
    why = os.strerror(code) if how == "launch" else limit.rstrip(b"\0").decode()
    return Observation(how, code, out, err, tuple(files), why, wall)
