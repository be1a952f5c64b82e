"""Layers of a file: what stands in it after unpacking, decoding and xor against known headers.

A *step* is a string that can be done again by whoever re-opens a finding: "at:OFFSET", "gzip", "zlib", "deflate", "xz",
"bz2", "lzma", "zstd" (by the command, where it exists), "zip:NAME", "tar:NAME", "pack:OFFSET", "base64:START:END",
"base85:START:END", "hex:START:END", "literals", "literal-lines", "ints8", "ints16le" ... "ints64be", "xor:HEXKEY",
"reverse", "utf16le", "utf16be", "text" (the printable runs of binary data). Everything is bounded: what a bound cut off
is told, never silent.
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
from collections import Counter
from collections.abc import Callable, Iterator
from math import log2

import msgspec

from refactorbench.audit.witnesses import binaries

FEWEST_INTS = 8  # in one list
FEWEST_BYTES = 64  # of decoded text
FEWEST_DEFLATED = 512
FEWEST_KEYED_TEXT = 512
TEXT_SAMPLE = 1 << 16


class Bounds(msgspec.Struct, frozen=True):
    """Sizes in bytes; part of what a CLEAN answer covers."""

    depth: int = 4
    layer: int = 64 << 20
    tree: int = 512 << 20
    streams: int = 4096  # embedded streams and archive members followed per blob


class Layer(msgspec.Struct, frozen=True):
    steps: tuple[str, ...]
    data: bytes


class Cut(msgspec.Struct, frozen=True):
    """A bound that was hit while decoding a file."""

    steps: tuple[str, ...]
    bound: str


class DecodeError(ValueError):
    """A step can't be done on these bytes."""


# possessive and ending at \Z: every pattern is linear, whatever a submission writes
_LITERAL = re.compile(
    rb"//[^\n]*|/\*.*?(?:\*/|\Z)|(?<!\w)b?r(?P<h>#*)\"(?P<raw>.*?)(?:\"(?P=h)|\Z)"
    rb"|\"(?P<text>(?:[^\"\\]|\\.)*+)(?:\"|\\?\Z)|'(?:[^'\\\n]|\\[^\n]{1,10}?)'",
    re.DOTALL,
)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|u\{?([0-9a-fA-F_]{1,6})\}?|([0-7]{1,3})|(\r?\n)[ \t]*|(.))", re.DOTALL)
_SIMPLE = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/_-]{16,}+={0,2}+[\s\"',;\\]{0,16}+)++")
_BASE85 = re.compile(rb"[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]{320,}+")
_ASCII85 = re.compile(rb"[!-uz]{320,}+")
_HEX = re.compile(rb"(?:(?:\\x|0x|%)?[0-9a-fA-F]{2}[\s:,]{0,8}+)++")
_RUN = re.compile(rb"[\t\n\r\f -~\x80-\xff]{200,}+")
_GIT_OBJECT = re.compile(rb"(?:blob|commit|tag) \d+\0")
_LOW = bytes(range(128))
_PRINTABLE = bytes(range(32, 127)) + b"\t\n\r\f"
_TEXT_FORMS = (("base64", _BASE64, 64), ("hex", _HEX, 128), ("base85", _BASE85, 320), ("base85", _ASCII85, 320))
_NUMBER = rb"[-+]?(?:0[xX][0-9a-fA-F_]++|0b[01_]++|0o[0-7_]++|\d[\d_]*+)(?:[iu](?:8|16|32|64|size)|[uUlL]{1,3})?+\b"
_SEPARATOR = rb"(?:[\s,;]++|(?:\\n|\s)*+\.(?:byte|long|quad|word|short|int|value|[248]byte)\s++)"
_INTS = re.compile(rb"(?<![\w.])" + _NUMBER + rb"(?:" + _SEPARATOR + _NUMBER + rb")++")
_ONE = re.compile(rb"([-+]?)(0[xX][0-9a-fA-F_]+|0b[01_]+|0o[0-7_]+|\d[\d_]*)(?:[iu](?:8|16|32|64|size)|[uUlL]{1,3})?")
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_STREAM = re.compile(
    rb"\x1f\x8b\x08|BZh[1-9]1AY&SY|\xfd7zXZ\x00|PK\x03\x04|\x28\xb5\x2f\xfd|PACK\x00\x00\x00[\x02\x03]"
    rb"|\x78[\x01\x5e\x9c\xda]"
)
_STREAM_STEP = {b"\x1f": "gzip", b"B": "bz2", b"\xfd": "xz", b"\x28": "zstd", b"\x78": "zlib"}


def apply(steps: tuple[str, ...], data: bytes, bounds: Bounds | None = None) -> bytes:
    """Do `steps` one after another. DecodeError when one can't be done."""
    for step in steps:
        data = _step(step, data, (bounds or Bounds()).layer)[0]
    return data


def _step(step: str, data: bytes, most: int) -> tuple[bytes, bool]:
    """Return (decoded, complete)."""
    name, _, rest = step.partition(":")
    try:
        if name in _INFLATE:
            return _INFLATE[name](data, most)
        if name in ("zip", "tar"):
            return (_zip_member if name == "zip" else _tar_member)(data, rest, most)
        if name == "at":
            return data[int(rest) :], True
        if name == "pack":
            return _inflate_object(zlib.decompressobj(), data[int(rest) :], most)
        if name in ("base64", "base85", "hex"):
            start, end = (int(x) for x in rest.split(":"))
            return _TEXT[name](data[start:end]), True
        if name == "xor":
            return xor(data, bytes.fromhex(rest)), True
        if name == "reverse":
            return data[::-1], True
        if name in ("utf16le", "utf16be"):
            return data.decode("utf-16-" + name[-2:], "replace").encode(), True
        if name == "text":
            return b"\n".join(_RUN.findall(data)), True
        if name in ("literals", "literal-lines"):
            return (b"" if name == "literals" else b"\n").join(literals(data)), True
        if name in _INT_FORMS:
            return _pack_ints(data, name), True
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


_INFLATE: dict[str, Callable[[bytes, int], tuple[bytes, bool]]] = {
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


_TEXT: dict[str, Callable[[bytes], bytes]] = {
    "base64": _from_base64,
    "base85": _from_base85,
    "hex": lambda t: bytes.fromhex(re.sub(rb"\\x|0x|%|[^0-9a-fA-F]", b"", t).decode("ascii")),
}


def xor(data: bytes, key: bytes) -> bytes:
    if not key:
        raise DecodeError("an empty key")
    stream = (key * (len(data) // len(key) + 1))[: len(data)]
    return (int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")).to_bytes(len(data), "little")


def literals(text: bytes) -> list[bytes]:
    """The string literals of C-like or Rust-like source, escapes undone, comments left out."""
    found = []
    for m in _LITERAL.finditer(text):
        if m["raw"] is not None:
            found.append(m["raw"])
        elif m["text"] is not None:
            found.append(_ESCAPE.sub(_unescape, m["text"]) if b"\\" in m["text"] else m["text"])
    return found


def _unescape(m: re.Match[bytes]) -> bytes:
    hexed, uni, octal, newline, other = m.groups()
    if hexed:
        return bytes([int(hexed, 16)])
    if uni:
        point = int(uni.replace(b"_", b"") or b"0", 16)
        return chr(point).encode("utf-8", "replace") if point < 0x110000 else b"?"
    if octal:
        return bytes([int(octal, 8) & 255])
    return b"" if newline else _SIMPLE.get(other, other)


# name -> (bytes per number, byte order); a list is packed in the narrowest width that holds all of it
_INT_FORMS = {f"ints{8 * w}{o}": (w, o) for w in (2, 4, 8) for o in ("le", "be")} | {"ints8": (1, "le")}


def int_lists(text: bytes) -> Iterator[tuple[int, int, list[int]]]:
    """Yield (offset, width in bytes, numbers) for every list of eight or more integers in source text."""
    blank = _COMMENT.sub(lambda m: re.sub(rb"[^\n]", b" ", m[0]), text)
    for run in _INTS.finditer(blank):
        if len(run[0]) < 2 * FEWEST_INTS:
            continue
        numbers = []
        for sign, digits in _ONE.findall(run[0]):
            plain = digits.replace(b"_", b"").lower()
            base = {b"0x": 16, b"0b": 2, b"0o": 8}.get(plain[:2], 10)
            value = int(plain[:40], base) if base == 10 else int(plain[2:40] or b"0", base)
            numbers.append(-value if sign == b"-" else value)
        if len(numbers) < FEWEST_INTS:
            continue
        top = max(max(numbers), 2 * -min(numbers) - 1)
        width = next((w for w in (1, 2, 4, 8) if top < 1 << 8 * w), 0)
        if width:
            yield run.start(), width, numbers


def _pack_ints(text: bytes, form: str) -> bytes:
    width, order = _INT_FORMS[form]
    mask = (1 << 8 * width) - 1
    byteorder = "little" if order == "le" else "big"
    return b"".join(
        (n & mask).to_bytes(width, byteorder)  # type: ignore[arg-type]
        for _, w, numbers in int_lists(text)
        if w == width
        for n in numbers
    )


def entropy(data: bytes) -> float:
    """Bits per byte, 0..8, of the byte counts."""
    return -sum(n / len(data) * log2(n / len(data)) for n in Counter(data).values())


def is_text(data: bytes) -> bool:
    """Text by content: no NUL and hardly any control bytes."""
    return b"\0" not in data and _controls(data) * 100 <= len(data)


def is_clean(data: bytes) -> bool:
    """Nothing but text: nothing can hide in it below the letters."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return not _controls(data)


def _controls(data: bytes) -> int:
    return len(data.translate(None, bytes(range(32, 256)) + b"\t\n\r\f\x1b"))


def text_key(data: bytes) -> bytes:
    """The repeating key of up to 16 bytes under which `data` is plain ASCII text, b"" when there is none.

    ASCII bytes differ in their low seven bits only, whatever the key; the commonest byte of each column is a blank."""
    sample = data[:TEXT_SAMPLE]
    number = int.from_bytes(sample, "little")
    for k in range(1, binaries.MOST_KEY + 1):
        mixed = (number ^ number >> 8 * k).to_bytes(len(sample), "little")[: -k or None]
        if len(mixed.translate(None, _LOW)) * 100 > len(mixed):
            continue
        key = bytes(Counter(sample[i::k]).most_common(1)[0][0] ^ 0x20 for i in range(k))
        plain = xor(sample, key)
        if any(key) and len(plain.translate(None, _PRINTABLE)) * 100 <= len(plain):
            return key
    return b""


class Decoder:
    """Yields a file's layers, the file itself first. Afterwards `cuts` are the bounds that were hit in this file and
    `opened` the steps of layers that something came out of; `spent` counts decoded bytes over all files."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.cuts: list[Cut] = []
        self.opened: set[tuple[str, ...]] = set()
        self.spent = 0

    def layers(self, data: bytes) -> Iterator[Layer]:
        self.cuts, self.opened = [], set()
        seen = {hash(data)}
        todo = [Layer((), data)]
        while todo:
            layer = todo.pop()
            yield layer
            steps = list(self._candidates(layer))
            if _depth(layer.steps) >= self.bounds.depth:
                if any(_weighty(more, layer.data) for more in steps):
                    self.cuts.append(Cut(layer.steps, f"depth {self.bounds.depth}"))
                continue
            for more in steps:
                found = self.follow(layer, more)
                if found is not None and hash(found.data) not in seen:
                    seen.add(hash(found.data))
                    self.opened.add(layer.steps)
                    todo.append(found)

    def follow(self, layer: Layer, more: tuple[str, ...]) -> Layer | None:
        """The layer that `more` steps lead to, None when they can't be done or nothing much comes out."""
        steps = layer.steps + more
        if self.spent >= self.bounds.tree:
            self.cuts.append(Cut(steps, f"tree {self.bounds.tree} bytes"))
            return None
        data, complete = layer.data, True
        try:
            for step in more:
                data, complete = _step(step, data, self.bounds.layer)
        except DecodeError:
            if more[-1] == "zstd":  # the only one that depends on what is installed
                self.cuts.append(Cut(steps, "zstd could not be unpacked here"))
            return None
        if not complete:
            self.cuts.append(Cut(steps, f"layer {self.bounds.layer} bytes"))
        self.spent += len(data)
        return Layer(steps, data) if len(data) >= 32 else None

    def _candidates(self, layer: Layer) -> Iterator[tuple[str, ...]]:
        data = layer.data
        yield from self.archives(data)
        if is_text(data):
            yield from _text_candidates(layer.steps, data)
        if not is_clean(data):
            yield from self._binary_candidates(data)

    def _binary_candidates(self, data: bytes) -> Iterator[tuple[str, ...]]:
        for key in binaries.xor_keys(data):
            yield (f"xor:{key.hex()}",)
        if len(data) >= FEWEST_KEYED_TEXT and (key := text_key(data)):
            yield (f"xor:{key.hex()}",)
        zeros = data.count(0)
        if len(data) < 3 * zeros < 2 * len(data):
            yield ("utf16be" if data[0::2].count(0) > data[1::2].count(0) else "utf16le",)
        if not is_text(data) and _RUN.search(data):
            yield ("text",)
        if binaries.reversed_code(data):
            yield ("reverse",)
        if len(data) >= FEWEST_DEFLATED and entropy(data) > 6:
            yield ("deflate",)

    def archives(self, data: bytes) -> Iterator[tuple[str, ...]]:
        """Steps into streams and archive members that begin in `data`."""
        if data[:3] == b"\x5d\0\0":
            yield ("lzma",)
        if git := _GIT_OBJECT.match(data):
            yield (f"at:{git.end()}",)
        if data[257:262] == b"ustar":
            yield from self._members("tar", data)
        for n, m in enumerate(_STREAM.finditer(data)):
            if n >= self.bounds.streams:
                self.cuts.append(Cut((), f"{self.bounds.streams} embedded streams"))
                return
            where = () if m.start() == 0 else (f"at:{m.start()}",)
            if m[0][:2] == b"PK":
                if n == 0 or m.start() == 0:
                    yield from self._members("zip", data)
            elif m[0][:4] == b"PACK":
                yield from self._pack(data, m.start())
            else:
                yield (*where, _STREAM_STEP[m[0][:1]])

    def _members(self, form: str, data: bytes) -> Iterator[tuple[str, ...]]:
        try:
            if form == "zip":
                with zipfile.ZipFile(io.BytesIO(data)) as z:
                    names = [i.filename for i in z.infolist() if not i.is_dir()]
            else:
                with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as t:
                    names = [i.name for i in t if i.isfile()]
        except (zipfile.BadZipFile, tarfile.TarError, ValueError, OSError, EOFError, NotImplementedError):
            return
        if len(names) > self.bounds.streams:
            self.cuts.append(Cut((), f"{self.bounds.streams} archive members"))
        for name in names[: self.bounds.streams]:
            yield (f"{form}:{name}",)

    def _pack(self, data: bytes, start: int) -> Iterator[tuple[str, ...]]:
        """The undeltified objects of a git pack."""
        count = int.from_bytes(data[start + 8 : start + 12], "big")
        at = start + 12
        for n in range(count):
            if n >= self.bounds.streams:
                self.cuts.append(Cut((), f"{self.bounds.streams} objects of a pack"))
                return
            kind = data[at] >> 4 & 7 if at < len(data) else 0
            while at < len(data) and data[at] & 0x80:
                at += 1
            at += 1
            if kind == 7:
                at += 20
            elif kind == 6:
                while at < len(data) and data[at] & 0x80:
                    at += 1
                at += 1
            machine = zlib.decompressobj()
            try:
                while not machine.eof:
                    chunk = machine.unconsumed_tail or data[at : at + self.bounds.layer]
                    if not machine.decompress(chunk, 1 << 20) and not machine.unconsumed_tail and not machine.eof:
                        return
            except zlib.error:
                return
            if kind in (1, 2, 3, 4):
                yield (f"pack:{at}",)
            at += len(data[at : at + self.bounds.layer]) - len(machine.unused_data)


def _depth(steps: tuple[str, ...]) -> int:
    return sum(not s.startswith("at:") for s in steps)


def _weighty(more: tuple[str, ...], data: bytes) -> bool:
    """Worth telling when it isn't followed: an archive or stream, or an encoding that makes up most of the text."""
    name, _, rest = more[-1].partition(":")
    if name in _TEXT:
        start, end = (int(x) for x in rest.split(":"))
        return 2 * (end - start) > len(data)
    return name in _INFLATE or name in ("zip", "tar", "pack")


def _text_candidates(steps: tuple[str, ...], data: bytes) -> Iterator[tuple[str, ...]]:
    for name, pattern, fewest in _TEXT_FORMS:
        for m in pattern.finditer(data):
            if m.end() - m.start() >= fewest and (name != "base85" or not _BASE64.fullmatch(m[0])):
                yield (f"{name}:{m.start()}:{m.end()}",)
    if (
        b'"' in data
        and not {"literals", "literal-lines"} & set(steps)
        and sum(map(len, literals(data))) >= FEWEST_BYTES
    ):
        yield ("literals",)
        yield ("literal-lines",)
    totals = dict.fromkeys((1, 2, 4, 8), 0)
    for _, width, numbers in int_lists(data):
        totals[width] += width * len(numbers)
    for form, (width, _) in sorted(_INT_FORMS.items()):
        if totals[width] >= FEWEST_BYTES:
            yield (form,)
