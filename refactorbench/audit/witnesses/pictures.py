"""Data below the picture: rows of a PNG file, lowest bits of bytes, what follows the end of a media file."""

from __future__ import annotations

import re
import struct
import zlib

PNG = b"\x89PNG\r\n\x1a\n"
MOST_PIXELS = 64 << 20  # bytes
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_BIT = bytes(0x30 | i & 1 for i in range(256))  # a byte -> the digit of its lowest bit
_MIRROR = bytes(int(f"{i:08b}"[::-1], 2) for i in range(256))
_JPEG_MARK = re.compile(rb"\xff+[\x01-\xcf\xd8-\xfe]")  # in entropy-coded data: neither a stuffed zero nor a restart
_RIFF = re.compile(rb"RIFF(....)(?:WAVE|WEBP|AVI )", re.DOTALL)


def png_rows(data: bytes) -> bytes:
    """The rows of a PNG file as they were packed, without their filter bytes. ValueError for anything else."""
    body, end = _png_chunks(data)
    if not end or len(body) < 2 or body[0][0] != b"IHDR":
        raise ValueError("no whole PNG file")
    width, _, depth, colour = struct.unpack(">IIBB", body[0][1][:10])
    row = (width * depth * _CHANNELS[colour] + 7) // 8
    machine = zlib.decompressobj()
    packed = machine.decompress(b"".join(chunk for name, chunk in body if name == b"IDAT"), MOST_PIXELS)
    return b"".join(packed[i + 1 : i + 1 + row] for i in range(0, len(packed), row + 1)) if row else b""


def _png_chunks(data: bytes) -> tuple[list[tuple[bytes, bytes]], int]:
    """(name and body of each chunk, where the file ends; 0 when it doesn't)."""
    found, at = [], len(PNG)
    while data.startswith(PNG) and at + 12 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        name = data[at + 4 : at + 8]
        found.append((name, data[at + 8 : at + 8 + size]))
        at += 12 + size
        if name == b"IEND":
            return found, min(at, len(data))
    return found, 0


def low_bits(data: bytes, high_first: bool) -> bytes:
    """The lowest bit of every byte, eight to a byte."""
    whole = len(data) // 8 * 8
    if not whole:
        return b""
    packed = int(data[:whole].translate(_BIT), 2).to_bytes(whole // 8, "big")
    return packed if high_first else packed.translate(_MIRROR)


def media_end(data: bytes) -> int:
    """Where the picture or sound that `data` begin with says that it ends; 0 where that isn't known."""
    if data.startswith(PNG):
        return _png_chunks(data)[1]
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg_end(data)
    riff = _RIFF.match(data)
    return 8 + int.from_bytes(riff[1], "little") if riff else 0


def _jpeg_end(data: bytes) -> int:
    at = 2
    while mark := _JPEG_MARK.search(data, at):
        if data[mark.end() - 1] == 0xD9:
            return mark.end()
        size = int.from_bytes(data[mark.end() : mark.end() + 2], "big")
        at = mark.end() + max(size, 2)
    return 0
