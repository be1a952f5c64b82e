"""Writes .bz2 streams that no compressor would write, field by field, and finds the fields of those that it does."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

BLOCK_MAGIC = 0x314159265359
END_MAGIC = 0x177245385090
GROUP = 50  # symbols that share a selector
# How far apart the bytes are that an old compressor flipped in a randomised block: the first of the format's 512 steps.
RANDOM_STEPS = (619, 720, 127, 481, 931, 816, 813, 233, 566, 247)


_TURNED = bytes(int(f"{i:08b}"[::-1], 2) for i in range(256))


def crc(data: bytes) -> int:
    """The format's checksum: zlib's with the bits of every byte, and of the result, turned round."""
    return int(f"{zlib.crc32(data.translate(_TURNED)):032b}"[::-1], 2)


class Bits:
    """A growing string of bits, first bit first."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.length = 0

    def put(self, value: int, width: int) -> None:
        """Append the low `width` bits of `value`."""
        if width:
            self._parts.append(f"{value & ((1 << width) - 1):0{width}b}")
            self.length += width

    def to_bytes(self, fill: int = 0) -> bytes:
        """Return the bytes; the last is filled up with zeros, or with ones."""
        text = "".join(self._parts) + str(fill) * (-self.length % 8)
        return int(text or "0", 2).to_bytes(len(text) // 8, "big")


def run_coded(data: bytes, longest: int = 255) -> bytes:
    """The format's first stage: four equal bytes are followed by a count of how many more there are."""
    out = bytearray()
    i = 0
    while i < len(data):
        n = 1
        while n < longest and i + n < len(data) and data[i + n] == data[i]:
            n += 1
        out += data[i : i + 1] * n if n < 4 else data[i : i + 1] * 4 + bytes([n - 4])
        i += n
    return bytes(out)


def rotated(block: bytes) -> tuple[bytes, int]:
    """Burrows-Wheeler: (last column, row of the original). For small blocks only: quadratic."""
    if not block:
        return b"", 0
    n = len(block)
    twice = block + block
    order = sorted(range(n), key=lambda i: twice[i : i + n])
    return bytes(block[(i - 1) % n] for i in order), order.index(0)


def _successors(column: Sequence[int]) -> list[int]:
    """Row -> the row that follows it when the column is read as text."""
    return sorted(range(len(column)), key=column.__getitem__)


def unrotated(column: bytes, origin: int) -> bytes:
    """The text that a reader gets, also where the column is no rotation of any: then one cycle goes round."""
    if not column:
        return b""
    follows = _successors(column)
    at, out = follows[origin], bytearray()
    for _ in range(len(column)):
        out.append(column[at])
        at = follows[at]
    return bytes(out)


def one_cycle(column: bytearray) -> None:
    """Swap neighbours, few of them, so that the column becomes that of a text; equal bytes alone can prevent it."""
    follows = _successors(column)
    cycle = [-1] * len(column)
    count = 0
    for i in range(len(column)):
        at = i
        while cycle[at] < 0:
            cycle[at] = count
            at = follows[at]
        count += cycle[i] == count
    parent = list(range(count))

    def root(c: int) -> int:
        while parent[c] != c:
            c = parent[c] = parent[parent[c]]
        return c

    for i in range(len(column) - 1):
        a, b = root(cycle[i]), root(cycle[i + 1])
        if a != b and column[i] != column[i + 1]:  # swapping these joins their two cycles
            column[i], column[i + 1] = column[i + 1], column[i]
            parent[a] = b


def un_run_coded(coded: bytes) -> bytes | None:
    """The data; None when they end after four equal bytes, where their count is missing."""
    out = bytearray()
    at = 0
    while at < len(coded):
        four = coded[at : at + 4]
        if len(four) == 4 and four == four[:1] * 4:
            if at + 4 == len(coded):
                return None
            out += four + four[:1] * coded[at + 4]
            at += 5
        else:
            out += four[:1]
            at += 1
    return bytes(out)


def column_of(symbols: Sequence[int], used: Sequence[int]) -> bytes:
    """What moved_to_front was given, up to the first end symbol."""
    front, out = list(used), bytearray()
    zeros, weight = 0, 1
    for symbol in (*symbols, len(used) + 1):
        if symbol < 2:
            zeros += weight << symbol
            weight <<= 1
            continue
        out += bytes([front[0]]) * zeros
        zeros, weight = 0, 1
        if symbol == len(used) + 1:
            break
        front.insert(0, front.pop(symbol - 1))
        out.append(front[0])
    return bytes(out)


def zero_run(count: int) -> list[int]:
    """Bijective base two, lowest digit first: 0 and 1 for digits one and two."""
    out = []
    while count:
        out.append(1 - (count & 1))
        count = (count - 1) >> 1
    return out


def constant(value: int, count: int, **fields: Any) -> Block:
    """A block of `count` equal bytes after the run coding, of whatever count, in hardly any symbols."""
    coded = bytes([value]) * count
    data = un_run_coded(coded)
    block: dict[str, Any] = {"origin": 0, "crc": None if data is not None else 0, "tables": [[2, 2, 1]] * 2, **fields}
    return Block(data or b"", coded, used=[value], symbols=[*zero_run(count), 2], **block)


def moved_to_front(column: bytes, used: Sequence[int]) -> list[int]:
    """Symbols with zero runs in bijective base two, the end symbol last."""
    front = list(used)
    out: list[int] = []
    zeros = 0

    def flush() -> None:
        nonlocal zeros
        out.extend(zero_run(zeros))
        zeros = 0

    for byte in column:
        at = front.index(byte)
        if at == 0:
            zeros += 1
            continue
        flush()
        out.append(at + 1)
        front.insert(0, front.pop(at))
    flush()
    return [*out, len(used) + 1]


def flat_lengths(count: int) -> list[int]:
    """A complete code for `count` symbols whose lengths differ by one at most."""
    width = max(1, (count - 1).bit_length())
    short = (1 << width) - count
    return [width - 1 if i < short and width > 1 else width for i in range(count)]


def steep_lengths(count: int, longest: int = 20) -> list[int]:
    """1, 2, 3 ... and `longest` for the rest: complete for longest + 1 symbols."""
    return [min(i + 1, longest) for i in range(count)]


def codes(lengths: Sequence[int]) -> list[int]:
    out = [0] * len(lengths)
    value = 0
    for width in range(1, max(lengths) + 1):
        for i, n in enumerate(lengths):
            if n == width:
                out[i] = value
                value += 1
        value <<= 1
    return out


def random_mask(size: int) -> bytes:
    """Which bytes of a randomised block are flipped, as far as RANDOM_STEPS reach."""
    mask = bytearray(size)
    at = -2
    for step in RANDOM_STEPS:
        at += step
        if 0 <= at < size:
            mask[at] = 1
    return bytes(mask)


@dataclass
class Block:
    """One block; every field that is None follows from the data. `coded` is the data after the run coding."""

    data: bytes
    coded: bytes | None = None
    randomised: int = 0
    crc: int | None = None
    origin: int | None = None
    used: Sequence[int] | None = None
    symbols: Sequence[int] | None = None
    tables: Sequence[Sequence[int]] | None = None
    selectors: Sequence[int] | None = None
    groups: int | None = None  # the number written, where it isn't the number of tables
    surplus: int = 0  # selectors beyond these that repeat the last
    selector_count: int | None = None
    selector_bits: Sequence[int] | None = None  # unary values written, where they aren't what the selectors ask for
    first_lengths: Sequence[int] | None = None
    magic: int = BLOCK_MAGIC
    marks: dict[str, int] = field(default_factory=dict)  # field -> its bit offset in the block, after writing

    def stored_crc(self) -> int:
        return crc(self.data) if self.crc is None else self.crc

    def _contents(self) -> tuple[Sequence[int], list[int], int]:
        coded = run_coded(self.data) if self.coded is None else self.coded
        if self.randomised:
            coded = bytes(a ^ b for a, b in zip(coded, random_mask(len(coded)), strict=True))
        column, origin = rotated(coded) if self.symbols is None or self.origin is None else (b"", 0)
        used = sorted(set(coded)) if self.used is None else self.used
        symbols = moved_to_front(column, used) if self.symbols is None else list(self.symbols)
        return used, symbols, origin if self.origin is None else self.origin

    def write(self, bits: Bits) -> None:
        start = bits.length
        used, symbols, origin = self._contents()

        def mark(name: str) -> None:
            self.marks[name] = bits.length - start

        bits.put(self.magic, 48)
        mark("crc")
        bits.put(self.stored_crc(), 32)
        mark("randomised")
        bits.put(self.randomised, 1)
        mark("origin")
        bits.put(origin, 24)
        mark("used")
        present = set(used)
        rows = [any(16 * r + c in present for c in range(16)) for r in range(16)]
        for row in rows:
            bits.put(row, 1)
        for r in range(16):
            for c in range(16):
                if rows[r]:
                    bits.put(16 * r + c in present, 1)
        tables = self.tables or [flat_lengths(len(used) + 2)] * 2
        needed = (len(symbols) + GROUP - 1) // GROUP
        selectors = list(self.selectors) if self.selectors is not None else [i % len(tables) for i in range(needed)]
        mark("groups")
        bits.put(len(tables) if self.groups is None else self.groups, 3)
        mark("selector_count")
        bits.put(len(selectors) + self.surplus if self.selector_count is None else self.selector_count, 15)
        mark("selectors")
        self._put_selectors(bits, selectors, len(tables))
        bits.put(0, self.surplus)
        mark("tables")
        for i, lengths in enumerate(tables):
            _put_lengths(bits, lengths, None if self.first_lengths is None else self.first_lengths[i])
        mark("symbols")
        code_tables = [codes(t) for t in tables]
        for i, symbol in enumerate(symbols):
            t = selectors[i // GROUP] if i // GROUP < len(selectors) else 0
            bits.put(code_tables[t][symbol], tables[t][symbol])
        mark("end")

    def _put_selectors(self, bits: Bits, selectors: Iterable[int], tables: int) -> None:
        if self.selector_bits is not None:
            for value in self.selector_bits:
                bits.put((1 << (value + 1)) - 2, value + 1)
            return
        front = list(range(tables))
        for selector in selectors:
            at = front.index(selector)
            bits.put((1 << (at + 1)) - 2, at + 1)  # `at` ones and a zero
            front.insert(0, front.pop(at))


def _put_lengths(bits: Bits, lengths: Sequence[int], first: int | None) -> None:
    current = lengths[0] if first is None else first
    bits.put(current, 5)
    for n in lengths:
        while current < n:
            bits.put(0b10, 2)
            current += 1
        while current > n:
            bits.put(0b11, 2)
            current -= 1
        bits.put(0, 1)


def combined_crc(blocks: Sequence[Block]) -> int:
    total = 0
    for block in blocks:
        total = ((total << 1) & 0xFFFFFFFF | total >> 31) ^ block.stored_crc()
    return total


def stream(
    blocks: Sequence[Block],
    level: int | bytes = 9,
    combined: int | None = None,
    fill: int = 0,
    end: int = END_MAGIC,
) -> bytes:
    """A whole stream; `level` may be a byte that is no level; `combined` replaces the checksum over the blocks."""
    bits = Bits()
    for block in blocks:
        block.write(bits)
    bits.put(end, 48)
    bits.put(combined_crc(blocks) if combined is None else combined, 32)
    head = b"BZh" + (level if isinstance(level, bytes) else b"%d" % level)
    return head + bits.to_bytes(fill)


def flip(data: bytes, bit: int) -> bytes:
    """Return `data` with one bit turned over; `bit` counts from the first bit of the first byte, and round the end."""
    out = bytearray(data)
    bit %= 8 * len(data)
    out[bit // 8] ^= 0x80 >> (bit % 8)
    return bytes(out)


def put(data: bytes, bit: int, width: int, value: int) -> bytes:
    """Return `data` with `width` bits at `bit` replaced by `value`."""
    total = int.from_bytes(data, "big")
    shift = len(data) * 8 - bit - width
    mask = ((1 << width) - 1) << shift
    return ((total & ~mask) | (value << shift)).to_bytes(len(data), "big")


def compressed(data: bytes, level: int = 9) -> bytes:
    return bz2.compress(data, level)
