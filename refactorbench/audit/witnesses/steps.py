"""The steps by which a file decodes, each a string that whoever re-opens a finding can do again.

"at:OFFSET", "gzip", "zlib", "deflate", "xz", "bz2", "lzma", "zstd" (by the command, where it exists), "zip:NAME",
"tar:NAME", "pack:OFFSET", "base64:START:END", "base85:START:END", "hex:START:END", "literals", "literal-lines",
"ints8", "ints16le" ... "ints64be", "xor:HEXKEY", "reverse", "utf16le", "utf16be", "text"
(the printable runs of binary data).
"""

from __future__ import annotations

import base64
import binascii
import bz2
import io
import lzma
import re
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable

from refactorbench.audit.witnesses import content

MOST = 64 << 20  # bytes of one layer
RUN = re.compile(rb"[\t\n\r\f -~\x80-\xff]{200,}+")


class DecodeError(ValueError):
    """A step can't be done on these bytes."""


def apply(steps: tuple[str, ...], data: bytes) -> bytes:
    """Do `steps` one after another. DecodeError when one can't be done."""
    for step in steps:
        data = one(step, data, MOST)[0]
    return data


def one(step: str, data: bytes, most: int) -> tuple[bytes, bool]:
    """Return (decoded, complete)."""
    name, _, rest = step.partition(":")
    try:
        if name in INFLATE:
            return INFLATE[name](data, most)
        if name in ("zip", "tar"):
            return (_zip_member if name == "zip" else _tar_member)(data, rest, most)
        if name == "at":
            return data[int(rest) :], True
        if name == "pack":
            return _inflate_object(zlib.decompressobj(), data[int(rest) :], most)
        if name in ("base64", "base85", "hex"):
            start, end = (int(x) for x in rest.split(":"))
            return TEXT[name](data[start:end]), True
        if name == "xor":
            return content.xor(data, bytes.fromhex(rest)), True
        if name == "reverse":
            return data[::-1], True
        if name in ("utf16le", "utf16be"):
            return data.decode("utf-16-" + name[-2:], "replace").encode(), True
        if name == "text":
            return b"\n".join(RUN.findall(data)), True
        if name in ("literals", "literal-lines"):
            return (b"" if name == "literals" else b"\n").join(content.literals(data)), True
        if name in content.INT_FORMS:
            return content.pack_ints(data, name), True
    except (ValueError, OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError,
            NotImplementedError, RuntimeError, KeyError, subprocess.SubprocessError) as e:  # fmt: skip
        raise DecodeError(f"{step}: {e}") from e
    raise DecodeError(f"{step}: no such step")


def _inflate_object(machine: object, data: bytes, most: int) -> tuple[bytes, bool]:
    out = machine.decompress(data, most + 1)  # type: ignore[attr-defined]
    if not out:
        raise DecodeError("nothing in the stream")
    return out[:most], len(out) <= most


def _zstd(data: bytes, most: int) -> tuple[bytes, bool]:
    with subprocess.Popen(
        ["zstd", "-dcq"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as p:
        try:
            out = p.communicate(data, timeout=60)[0]
        finally:
            p.kill()
    if not out:
        raise DecodeError("nothing in the stream")
    return out[:most], len(out) <= most


INFLATE: dict[str, Callable[[bytes, int], tuple[bytes, bool]]] = {
    "gzip": lambda d, n: _inflate_object(zlib.decompressobj(31), d, n),
    "zlib": lambda d, n: _inflate_object(zlib.decompressobj(), d, n),
    "deflate": lambda d, n: _inflate_object(zlib.decompressobj(-15), d, n),
    "xz": lambda d, n: _inflate_object(lzma.LZMADecompressor(lzma.FORMAT_XZ, 256 << 20), d, n),
    "lzma": lambda d, n: _inflate_object(lzma.LZMADecompressor(lzma.FORMAT_ALONE, 256 << 20), d, n),
    "bz2": lambda d, n: _inflate_object(bz2.BZ2Decompressor(), d, n),
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
