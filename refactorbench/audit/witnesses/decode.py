"""Layers of a file: what stands in it after unpacking, decoding and xor against known headers (steps.py).

Everything is bounded, in units that any machine counts alike: what a bound cut off is told, never silent. A layer costs
its own bytes, the bytes that were read to get at it, and a little for being there at all.
"""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
import zlib
from collections import deque
from collections.abc import Iterator
from itertools import product

import msgspec

from refactorbench.audit.witnesses import binaries, content, languages, pictures, steps
from refactorbench.audit.witnesses.content import is_text

FEWEST_BYTES = 64  # of decoded text
FEWEST_DEFLATED = 512
FEWEST_CARRIER = 4096
FEWEST_KEYED_TEXT = 512
PROBES = 16  # beginnings of streams that are tried for each that is followed
PROBE = 4096  # bytes of a stream that are tried before it is followed


class Bounds(msgspec.Struct, frozen=True):
    """Sizes in bytes; part of what a CLEAN answer covers. `file` and `tree` bound the work."""

    depth: int = 4
    layer: int = steps.MOST
    file: int = 96 << 20  # beyond its own size
    tree: int = 384 << 20
    streams: int = 4096  # embedded streams and archive members followed per blob


LAYER_COST = 1024
SMALLEST_SHARE = 1 << 20  # what one layer may always use of a file's work, so that a bomb leaves room for the rest


class Layer(msgspec.Struct, frozen=True):
    steps: tuple[str, ...]
    data: bytes


class Cut(msgspec.Struct, frozen=True):
    """A bound that was hit while decoding a file."""

    steps: tuple[str, ...]
    bound: str


_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/_-]{16,}+={0,2}+[\s\"',;\\]{0,16}+)++")
_BASE85 = re.compile(rb"[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]{320,}+")
_ASCII85 = re.compile(rb"[!-uz]{320,}+")
_HEX = re.compile(rb"(?:(?:\\x|0x|%)?[0-9a-fA-F]{2}[\s:,-]{0,8}+)++")
_GIT_OBJECT = re.compile(rb"(?:blob|commit|tag) \d+\0")
_TEXT_FORMS = (("base64", _BASE64, 64), ("hex", _HEX, 128), ("base85", _BASE85, 320), ("base85", _ASCII85, 320))
_STREAM = re.compile(
    rb"\x1f\x8b\x08|BZh[1-9]1AY&SY|\xfd7zXZ\x00|PK\x03\x04|\x28\xb5\x2f\xfd|PACK\x00\x00\x00[\x02\x03]"
    rb"|\x78[\x01\x5e\x9c\xda]"
)
_STREAM_STEP = {b"\x1f": "gzip", b"B": "bz2", b"\xfd": "xz", b"\x28": "zstd", b"\x78": "zlib"}


class Decoder:
    """Yields a file's layers, the file itself first, broad before deep. Afterwards `cuts` are the bounds that were hit
    in this file and `opened` the steps of layers that something came out of; `spent` is the work over all files."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.cuts: list[Cut] = []
        self.opened: set[tuple[str, ...]] = set()
        self.spent = 0
        self._until = 0  # of `spent`, for this file

    @property
    def exhausted(self) -> bool:
        return self.spent >= self.bounds.tree

    def layers(self, data: bytes) -> Iterator[Layer]:
        self.cuts, self.opened = [], set()
        self.spent += len(data) + LAYER_COST
        self._until = min(self.spent + self.bounds.file, self.bounds.tree)
        seen = {hash(data)}
        todo = deque([Layer((), data)])
        while todo:
            layer = todo.popleft()
            yield layer
            ways = self._candidates(layer)
            if _depth(layer.steps) >= self.bounds.depth:
                if any(_weighty(more, layer.data) for more in ways):
                    self._cut(layer.steps, f"depth {self.bounds.depth}")
                continue
            for more in ways:
                found = self.follow(layer, more)
                if found is not None and hash(found.data) not in seen:
                    seen.add(hash(found.data))
                    self.opened.add(layer.steps)
                    todo.append(found)
                if self.cuts and self.cuts[-1].bound.startswith("work"):
                    break

    def _cut(self, path: tuple[str, ...], bound: str) -> None:
        self.cuts.append(Cut(path, bound))

    def follow(self, layer: Layer, more: tuple[str, ...]) -> Layer | None:
        """The layer that `more` steps lead to, None when they can't be done or nothing much comes out."""
        path = layer.steps + more
        left = (self._until or self.bounds.tree) - self.spent
        if left <= 0:
            self._cut(path, f"work: {self.bounds.file} bytes per file, {self.bounds.tree} per tree")
            return None
        most = min(self.bounds.layer, max(left // 4, SMALLEST_SHARE))
        data, complete = layer.data, True
        try:
            for step in more:
                data, complete = steps.one(step, data, most)
        except steps.DecodeError as e:
            self.spent += e.work + LAYER_COST
            if more[-1] == "zstd":  # the only one that depends on what is installed
                self._cut(path, "zstd could not be unpacked here")
            return None
        if not complete:
            self._cut(path, f"layer {most} bytes")
        self.spent += len(data) + LAYER_COST
        return Layer(path, bytes(data)) if len(data) >= 32 else None

    def _candidates(self, layer: Layer) -> Iterator[tuple[str, ...]]:
        data = layer.data
        if layer.steps and layer.steps[-1] == "comments":
            return  # whatever is encoded in them stands in the text itself too
        yield from self.archives(data)
        if is_text(data):
            yield from _text_candidates(layer.steps, data)
        if not content.is_clean(data):
            yield from self._binary_candidates(data)

    def _binary_candidates(self, data: bytes) -> Iterator[tuple[str, ...]]:
        for n, key in enumerate(binaries.xor_keys(data), 1):
            yield (f"xor:{key.hex()}",)
            if n == binaries.MOST_KEYS:
                self._cut((), f"{n} keys")
        if len(data) >= FEWEST_KEYED_TEXT and (key := content.text_key(data)):
            yield (f"xor:{key.hex()}",)
        zeros = data.count(0)
        if len(data) < 3 * zeros < 2 * len(data):
            yield ("utf16be" if data[0::2].count(0) > data[1::2].count(0) else "utf16le",)
        if not is_text(data) and steps.RUN.search(data):
            yield ("text",)
        if binaries.reversed_code(data):
            yield ("reverse",)
        yield from _below(data)
        if len(data) >= FEWEST_DEFLATED and content.entropy(data) > 6:
            yield ("deflate",)

    def archives(self, data: bytes) -> Iterator[tuple[str, ...]]:
        """Steps into streams and archive members that begin in `data`."""
        if data[:3] == b"\x5d\0\0":
            yield ("lzma",)
        if git := _GIT_OBJECT.match(data):
            yield (f"at:{git.end()}",)
        if data[257:262] == b"ustar":
            yield from self._members("tar", data)
        followed, zipped = 0, False
        for tried, m in enumerate(_STREAM.finditer(data)):
            if tried >= PROBES * self.bounds.streams:
                self._cut((), f"{tried} beginnings of streams")
                return
            name = _STREAM_STEP.get(m[0][:1], "")
            if m[0][:2] == b"PK":
                if not zipped:  # one directory lists all members
                    yield from self._members("zip", data)
                zipped = True
            elif m[0][:4] == b"PACK":
                yield from self._pack(data, m.start())
            elif _begins(name, data[m.start() : m.start() + PROBE]):
                followed += 1
                if followed > self.bounds.streams:
                    self._cut((), f"{self.bounds.streams} embedded streams")
                    return
                yield (*(() if m.start() == 0 else (f"at:{m.start()}",)), name)

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
            self._cut((), f"{self.bounds.streams} archive members")
        for name in names[: self.bounds.streams]:
            yield (f"{form}:{name}",)

    def _pack(self, data: bytes, start: int) -> Iterator[tuple[str, ...]]:
        """The undeltified objects of a git pack."""
        count = int.from_bytes(data[start + 8 : start + 12], "big")
        at = start + 12
        for n in range(count):
            if n >= self.bounds.streams:
                self._cut((), f"{self.bounds.streams} objects of a pack")
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
            if kind in (1, 2, 3, 4):
                yield (f"pack:{at}",)
            size = steps.packed_size(data, at, self.bounds.layer)
            if not size:
                return
            at += size


def _below(data: bytes) -> Iterator[tuple[str, ...]]:
    """Steps to what hides below bytes of a picture or sound: followed only where that is something."""
    if data.startswith(pictures.PNG):
        yield ("png",)
    if len(data) >= FEWEST_CARRIER and not is_text(data):
        for order, start in product(("msb", "lsb"), range(8)):
            plane = pictures.low_bits(data[start:], order == "msb")
            if content.reads(plane[FEWEST_BYTES:PROBE]) or binaries.find(plane):
                yield (f"lsb:{order}:{start}",)


def _begins(name: str, start: bytes) -> bool:
    """Whether a stream can begin with `start`; copying all that follows two matching bytes would be slow."""
    if name not in ("gzip", "zlib"):
        return True
    try:
        return bool(zlib.decompressobj(31 if name == "gzip" else 15).decompress(start, 1))
    except zlib.error:
        return False


def _depth(path: tuple[str, ...]) -> int:
    return sum(not s.startswith("at:") for s in path)


def _weighty(more: tuple[str, ...], data: bytes) -> bool:
    """Worth telling when it isn't followed: an archive or stream, or an encoding that makes up most of the text."""
    name, _, rest = more[-1].partition(":")
    if name in steps.TEXT:
        start, end = (int(x) for x in rest.split(":"))
        return 2 * (end - start) > len(data)
    return name in steps.INFLATE or name in ("zip", "tar", "pack")


def _text_candidates(path: tuple[str, ...], data: bytes) -> Iterator[tuple[str, ...]]:
    for name, pattern, fewest in _TEXT_FORMS:
        for m in pattern.finditer(data):
            if m.end() - m.start() >= fewest and (name != "base85" or not _BASE64.fullmatch(m[0])):
                yield (f"{name}:{m.start()}:{m.end()}",)
    if (
        b'"' in data
        and not {"literals", "literal-lines"} & set(path)
        and sum(map(len, content.literals(data))) >= FEWEST_BYTES
    ):
        yield ("literals",)
        yield ("literal-lines",)
    if by := content.turned(data):
        yield (f"rot:{by}",)
    if data.count(b"nruter") >= content.FEWEST_RETURNS:
        yield ("reverse",)
    if b";" in data and (b"//" in data or b"/*" in data) and languages.may_define(content.comments(data)):
        yield ("comments",)
    if data.count(b"'") >= FEWEST_BYTES and len(content.characters(data)) >= FEWEST_BYTES:
        yield ("chars",)
    totals = dict.fromkeys((1, 2, 4, 8), 0)
    for _, width, numbers in content.int_lists(data):
        totals[width] += width * len(numbers)
    for form, (width, _) in sorted(content.INT_FORMS.items()):
        if totals[width] >= FEWEST_BYTES:
            yield (form,)
