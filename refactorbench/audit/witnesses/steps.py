"""The steps by which a file decodes, each a string that whoever re-opens a finding can do again.

"from:OFFSET" (only first: reading the file begins there), "at:OFFSET", "gzip", "zlib", "deflate", "xz", "bz2", "lzma",
"zstd" (by the command, where it exists), "zip:NAME", "tar:NAME", "pack:OFFSET", "base64:START:END", "base85:START:END",
"hex:START:END", "literals", "literal-lines", "ints8", "ints16le" ... "ints64be", "chars", "comments", "xor:HEXKEY",
"rot:N", "reverse", "utf16le", "utf16be", "text" (the printable runs of binary data), "png" (its rows without their
filter bytes), "lsb:msb:START", "lsb:lsb:START" (the lowest bit of every byte from there on, eight to a byte, the first
one high or low).
"""

from __future__ import annotations

import base64
import binascii
import bz2
import io
import lzma
import re
import struct
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from refactorbench.audit.witnesses import content, pictures

MOST = 64 << 20  # bytes of one layer
FEWEST_DAMAGED = 512  # bytes of a damaged stream that are worth looking at
RUN = re.compile(rb"[\t\n\r\f -~\x80-\xff]{200,}+")


class DecodeError(ValueError):
    """A step can't be done on these bytes; `work` bytes were read and made until that was seen."""

    def __init__(self, message: str, work: int = 0) -> None:
        super().__init__(message)
        self.work = work


def start_of(steps: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Where reading of the file begins, and the steps that are left to do."""
    if steps and steps[0].startswith("from:"):
        return int(steps[0][5:]), steps[1:]
    return 0, steps


def apply(steps: tuple[str, ...], data: bytes) -> bytes:
    """Do `steps` one after another. DecodeError when one can't be done."""
    for step in steps:
        data = one(step, data, MOST)[0]
    return bytes(data)


def one(step: str, data: bytes, most: int) -> tuple[bytes, bool]:
    """Return (decoded, complete). What "at" gives is a view: an embedded stream costs its own length only."""
    name, _, rest = step.partition(":")
    try:
        if name == "at":
            return memoryview(data)[int(rest) :], True  # type: ignore[return-value]
        if name in INFLATE:
            return INFLATE[name](data, most)
        data = bytes(data)
        if name in ("zip", "tar"):
            return (_zip_member if name == "zip" else _tar_member)(data, rest, most)
        if name == "pack":
            return _zlib(zlib.decompressobj(), memoryview(data)[int(rest) :], most)
        if name in ("base64", "base85", "hex"):
            start, end = (int(x) for x in rest.split(":"))
            return TEXT[name](data[start:end]), True
        return _plain(name, rest, data), True
    except DecodeError:
        raise
    except (ValueError, OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError,
            NotImplementedError, RuntimeError, KeyError, IndexError, struct.error,
            subprocess.SubprocessError) as e:  # fmt: skip
        raise DecodeError(f"{step}: {e}") from e


def _plain(name: str, rest: str, data: bytes) -> bytes:
    """Steps that give about as much as they take."""
    if name == "xor":
        return content.xor(data, bytes.fromhex(rest))
    if name == "rot":
        return data.translate(content.rotation(int(rest)))
    if name == "reverse":
        return data[::-1]
    if name in ("utf16le", "utf16be"):
        return data.decode("utf-16-" + name[-2:], "replace").encode()
    if name == "text":
        return b"\n".join(RUN.findall(data))
    if name in ("literals", "literal-lines"):
        return (b"" if name == "literals" else b"\n").join(content.literals(data))
    if name == "comments":
        return content.comments(data)
    if name == "chars":
        return content.characters(data)
    if name in content.INT_FORMS:
        return content.pack_ints(data, name)
    if name == "png":
        return pictures.png_rows(data)
    if name == "lsb":
        order, _, start = rest.partition(":")
        return pictures.low_bits(data[int(start) :], order == "msb")
    raise DecodeError(f"{name}: no such step")


_FIRST, _CHUNK = 4096, 1 << 18  # bytes fed at once: whatever follows a stream isn't copied for it


def _chunks(data: bytes | memoryview) -> Iterator[memoryview]:
    view, at, size = memoryview(data), 0, _FIRST
    while at < len(view):
        yield view[at : at + size]
        at += size
        size = min(4 * size, _CHUNK)


def _zlib(machine: Any, data: bytes | memoryview, most: int) -> tuple[bytes, bool]:
    """Inflate. A stream that is damaged from some place on, or only in its checksum, gives what precedes that."""
    out, got, fed = [], 0, 0
    for chunk in _chunks(data):
        before = machine.copy()
        fed += len(chunk)
        try:
            piece = machine.decompress(chunk, most + 1 - got)
        except zlib.error:
            piece = _until_damage(before, bytes(chunk), most + 1 - got)
            if not got and len(piece) < FEWEST_DAMAGED:
                raise DecodeError("nothing in the stream", fed) from None
            out.append(piece)
            break
        out.append(piece)
        got += len(piece)
        if machine.eof or got > most:
            break
    whole = b"".join(out)
    if not whole:
        raise DecodeError("nothing in the stream", fed)
    return whole[:most], len(whole) <= most


def packed_size(data: bytes, at: int, most: int) -> int:
    """Length of the zlib stream at `at`; 0 when it has no end or gives more than `most` bytes."""
    machine, fed, got = zlib.decompressobj(), 0, 0
    try:
        for chunk in _chunks(memoryview(data)[at:]):
            fed += len(chunk)
            got += len(machine.decompress(chunk, most + 1 - got))
            if machine.eof or got > most:
                break
    except zlib.error:
        return 0
    return fed - len(machine.unused_data) if machine.eof else 0


def _until_damage(machine: Any, chunk: bytes, most: int) -> bytes:
    """What comes out before the byte that can't be."""
    out, at, size = b"", 0, len(chunk)
    while size >= 1 and at < len(chunk) and len(out) < most:
        attempt = machine.copy()
        try:
            out += attempt.decompress(chunk[at : at + size], most - len(out))
        except zlib.error:
            size //= 2
        else:
            machine, at = attempt, at + size
    return out


def _unpack(machine: Any, data: bytes, most: int) -> tuple[bytes, bool]:
    """As `_zlib`, for bzip2 and xz."""
    out, got, fed = [], 0, 0
    for chunk in _chunks(data):
        fed += len(chunk)
        try:
            piece = machine.decompress(chunk, most + 1 - got)
        except (OSError, lzma.LZMAError, EOFError, ValueError) as e:
            if not got:
                raise DecodeError(str(e), fed) from e
            break
        out.append(piece)
        got += len(piece)
        if machine.eof or got > most:
            break
    if not got:
        raise DecodeError("nothing in the stream", fed)
    whole = b"".join(out)
    return whole[:most], got <= most


def _zstd(data: bytes, most: int) -> tuple[bytes, bool]:
    with subprocess.Popen(
        ["zstd", "-dcq"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as p:
        try:
            out = p.communicate(bytes(data), timeout=60)[0]
        finally:
            p.kill()
    if not out:
        raise DecodeError("nothing in the stream")
    return out[:most], len(out) <= most


INFLATE: dict[str, Callable[[bytes, int], tuple[bytes, bool]]] = {
    "gzip": lambda d, n: _zlib(zlib.decompressobj(31), d, n),
    "zlib": lambda d, n: _zlib(zlib.decompressobj(), d, n),
    "deflate": lambda d, n: _zlib(zlib.decompressobj(-15), d, n),
    "xz": lambda d, n: _unpack(lzma.LZMADecompressor(lzma.FORMAT_XZ, 256 << 20), d, n),
    "lzma": lambda d, n: _unpack(lzma.LZMADecompressor(lzma.FORMAT_ALONE, 256 << 20), d, n),
    "bz2": lambda d, n: _unpack(bz2.BZ2Decompressor(), d, n),
    "zstd": _zstd,
}


def _zip_member(data: bytes, name: str, most: int) -> tuple[bytes, bool]:
    with zipfile.ZipFile(io.BytesIO(data)) as z, z.open(name) as f:
        out = f.read(most + 1)
    return out[:most], len(out) <= most


def _tar_member(data: bytes, name: str, most: int) -> tuple[bytes, bool]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as t:
        member = t.extractfile(name)
        if member is None:
            raise DecodeError(f"{name} is no file")
        out = member.read(most + 1)
    return out[:most], len(out) <= most


def _from_base64(text: bytes) -> bytes:
    kept = re.sub(rb"[^A-Za-z0-9+/_-]", b"", text).translate(bytes.maketrans(b"-_", b"+/"))
    return binascii.a2b_base64(kept[: len(kept) // 4 * 4] if len(kept) % 4 == 1 else kept + b"=" * (-len(kept) % 4))


def _from_base85(text: bytes) -> bytes:
    try:
        return base64.b85decode(text)
    except ValueError:
        return base64.a85decode(text)


TEXT: dict[str, Callable[[bytes], bytes]] = {
    "base64": _from_base64,
    "base85": _from_base85,
    "hex": lambda t: bytes.fromhex(re.sub(rb"\\x|0x|%|[^0-9a-fA-F]", b"", t).decode("ascii")),
}
