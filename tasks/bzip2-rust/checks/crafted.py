"""Streams field by field, for damage and for readers in pieces: fields at and beyond their bounds with checksums that
are right, symbols in any order, cuts just behind a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from . import bitstream as bs
from . import payloads
from .bitstream import BLOCK_MAGIC, END_MAGIC, Block
from .source import Source, chance, edgy

MOST_SELECTORS = 18_002
BOUND = 2 * 1024 * 1024  # where a reader stops to believe in a run of zeros

# What may stand behind a stream, from nothing wrong to nearly another stream.
TAILS = (
    b"", b"\0", b"\n", b"B", b"BZ", b"BZh", b"BZh0", b"BZh1", b"BZh9", b"BZh:", b"bzh9", b"Bzh9", b"BZH9", b"BZ0",
    b"\xff", b"\0\0\0\0", b"BZh91AY&SY", b"BZh91AY&S", b"BZh9\x17rE8P\x90", b"BZh9\x17rE8P\x90\0\0\0\0",
    b"BZh5\x17rE8P\x90\0\0\0\1", b"garbage after it", b"x" * 4990, b"\0" * 5001,
)  # fmt: skip


def used_bytes(src: Source) -> list[int]:
    """Values of a block: a few, one, those at the ends of rows of sixteen, one per row, all."""
    kind = src.between(0, 5)
    if kind < 2:
        start, step = src.between(0, 255), src.pick((1, 1, 2, 15, 16, 17))
        return sorted({(start + i * step) & 255 for i in range(src.between(1, 8))})
    if kind == 2:
        return [src.pick((0, 1, 15, 16, 65, 127, 128, 240, 255))]
    if kind == 3:
        return sorted({16 * src.between(0, 15) + src.pick((0, 15)) for _ in range(src.between(1, 6))})
    return list(range(0, 256, 16)) if kind == 4 else list(range(256))


def lengths(src: Source, count: int) -> list[int]:
    """Code lengths for `count` symbols: complete, with gaps, overfull, at the bounds."""
    kind = src.between(0, 7)
    flat = bs.flat_lengths(count)
    if kind < 3:
        return flat
    if kind == 3:
        return bs.steep_lengths(count, src.pick((17, 18, 19, 20)))
    if kind == 4:
        return [min(20, n + src.between(0, 3)) for n in flat]
    if kind == 5:
        return [src.pick((1, 20, 20, 19))] * count
    if kind == 6:
        return bs.steep_lengths(count, 20)[::-1]
    return [edgy(src, 1, 20, 17) for _ in range(min(count, 40))] + [20] * (count - min(count, 40))


def lawless(src: Source) -> Block:
    """Symbols in any order, and an origin: whatever they come to is what the checksum says."""
    used = used_bytes(src)
    end = len(used) + 1
    symbols: list[int] = []
    for _ in range(src.between(0, 12)):
        if (symbols and symbols[-1] < 2 and end > 2) or (
            end > 2 and chance(src, 40)
        ):  # runs never join: they would grow
            symbols.append(edgy(src, 2, end - 1, 16, 17, 18, 32, 33))
        elif len(symbols) < 9 or end > 2:
            symbols += bs.zero_run(edgy(src, 1, 40, 4, 5, 8))
    column = bs.column_of(symbols, used)
    origin = edgy(src, 0, max(0, len(column) - 1))
    coded = bs.unrotated(column, origin)
    randomised = int(chance(src, 15))
    if randomised:
        coded = bytes(a ^ b for a, b in zip(coded, bs.random_mask(len(coded)), strict=True))
    data = bs.un_run_coded(coded)
    if not chance(src, 3):
        symbols.append(end)
    count = len(used) + 2
    tables = [lengths(src, count) for _ in range(src.between(2, 6))]
    needed = len(symbols) // bs.GROUP + 1
    selectors = [src.between(0, len(tables) - 1) for _ in range(needed + src.pick((0, 0, 1, 2)))]
    return Block(
        data or b"", coded, randomised, crc=None if data is not None else 0, origin=origin, used=used, symbols=symbols,
        tables=tables, selectors=selectors,
    )  # fmt: skip


def plain(src: Source, limit: int = 120) -> Block:
    """What a compressor could have written."""
    data = payloads.small(src, limit) or b"x"
    count = len(set(bs.run_coded(data))) + 2
    return Block(data, randomised=int(chance(src, 20)), tables=[bs.flat_lengths(count)] * src.between(2, 6))


def full(src: Source) -> tuple[Block, int]:
    """A block of one value with as many bytes as a level allows, give or take one, or near a power of two; its level."""
    level = src.pick((1, 1, 1, 2, 3))
    most = 100_000 * level
    count = src.pick(
        (most - 1, most, most + 1, most - 19, most - 20, 65_535, 65_536, 131_072, 262_143, 262_144, 270_000)
    )
    origin = src.pick((0, 0, count - 1, count, 10 + most, 11 + most))
    return bs.constant(src.pick((0, 0, 1, 4, 255)), count, origin=origin), level


def twisted(src: Source, block: Block, level: int) -> Block:
    """The block with one field at or beyond its bound."""
    coded = bs.run_coded(block.data) if block.coded is None else block.coded
    count = len(set(coded) if block.used is None else block.used) + 2
    tables = [list(t) for t in block.tables or [bs.flat_lengths(count)] * 2]
    kind = src.between(0, 10)
    if kind == 0:
        return replace(block, crc=block.stored_crc() ^ (1 << src.between(0, 31)))
    if kind == 1:
        most = 10 + 100_000 * level
        return replace(block, origin=edgy(src, 0, 0xFFFFFF, len(coded), len(coded) - 1, most, 1 << 23))
    if kind == 2:
        return replace(block, groups=src.between(0, 7))
    if kind == 3:
        needed = len(coded) // bs.GROUP + 1
        return replace(block, selector_count=edgy(src, 0, 40, needed))
    if kind == 4:
        return replace(block, surplus=src.pick((1, 2, 7, 8, 100, MOST_SELECTORS - 1, MOST_SELECTORS, 18_100, 32_700)))
    if kind == 5:
        return replace(block, selector_bits=[src.between(0, 6) for _ in range(src.between(1, 8))])
    if kind == 6:
        return replace(block, first_lengths=[edgy(src, 0, 31, 20) for _ in tables])
    if kind == 7:
        table, at = src.pick(tables), src.between(0, count - 1)
        table[at] = edgy(src, 0, 22, 20)
        return replace(block, tables=tables)
    if kind == 8:
        return replace(block, tables=[lengths(src, count) for _ in tables])
    if kind == 9:
        return replace(block, magic=BLOCK_MAGIC ^ (1 << src.between(0, 47)))
    return replace(block, randomised=1 - block.randomised)


def _blocks(src: Source) -> tuple[list[Block], int]:
    level = src.between(1, 9)
    if chance(src, 4):
        block, level = full(src)
        return [block], level
    blocks = [lawless(src) if chance(src, 50) else plain(src) for _ in range(src.pick((1, 1, 1, 2, 2, 3, 5)))]
    return blocks, level


def valid(src: Source) -> bytes:
    """Blocks with right checksums, whatever else they are."""
    blocks, level = _blocks(src)
    return bs.stream(blocks, level, fill=src.between(0, 1))


def crafted(src: Source) -> bytes:
    """One to five blocks, mostly with one field turned: of a block, of the head, of the end."""
    blocks, level = _blocks(src)
    head: int | bytes = level
    combined, end = bs.combined_crc(blocks), END_MAGIC
    where = src.between(0, 9)
    if where < 6:
        at = src.between(0, len(blocks) - 1)
        blocks[at] = twisted(src, blocks[at], level)
        combined = bs.combined_crc(blocks)
    elif where == 6:
        head = bytes([src.pick((0x2F, 0x30, 0x3A, 0x61, 0, 0xFF))])
    elif where == 7:
        combined ^= 1 << src.between(0, 31)
    elif where == 8:
        end ^= 1 << src.between(0, 47)
    data = bs.stream(blocks, head, combined, end=end)
    if chance(src, 8):
        bit = src.between(0, 23)
        data = bs.flip(data, bit)
    return data + (src.pick(TAILS) if chance(src, 15) else b"")


def tailed(src: Source) -> bytes:
    """One to three streams, some of them empty, and something behind, or between."""
    out = b""
    for _ in range(src.between(1, 3)):
        out += bs.stream([]) if chance(src, 15) else bs.compressed(payloads.small(src, 120), src.between(1, 9))
        if chance(src, 15):
            out += src.pick(TAILS[:12])
    return out + src.pick(TAILS)


def cut_behind_block(src: Source, sizes: Sequence[int] = (1, 5, 40, 300, 5000)) -> tuple[bytes, int]:
    """A stream cut at, or within some bytes of, the end of one of its blocks; how many bytes are in what is whole."""
    blocks = []
    for _ in range(src.between(1, 3)):
        size = max(1, src.pick(sizes) + src.between(0, 2) - 1)
        blocks.append(Block(payloads.run(src.between(0, 255), size) if size > 100 else payloads.text(size, size)))
    data = bs.stream(blocks, src.between(1, 9))
    kept = src.between(1, len(blocks))
    bits = 32 + sum(b.marks["end"] for b in blocks[:kept])
    cut = (bits + 7) // 8 + src.pick((0, 0, 0, 0, -1, 1, 2, 6, 10, 11))
    return data[:cut], sum(len(b.data) for b in blocks[:kept])
