"""Module decompress-corrupt: damaged, cut and foreign streams: what is written before the error, and what is said."""

from __future__ import annotations

import random
from collections.abc import Iterator

from refactorbench.observe.model import Check

from . import bitstream as bs
from . import crafted as made
from . import payloads
from .bitstream import Block
from .common import BUNZIP2, BZCAT, BZIP2, DATA_STDINS, Module, file, run
from .decompress import TEXT, joined, unusual
from .source import Source, chance

SMALL = bs.compressed(b"hello, block sorting world; hello, world\n")
PACKED_TWICE = bs.compressed(b"first of two\n") + bs.compressed(b"second of two\n", 1)


def fields() -> Iterator[tuple[str, bytes]]:
    """One field of a hand-written stream at a time outside what the format allows, or at its bound."""
    symbols = len(set(bs.run_coded(TEXT))) + 2
    flat = bs.flat_lengths(symbols)
    yield "crc", bs.stream([Block(TEXT, crc=1)])
    yield "combined", bs.stream([Block(TEXT)], combined=5)
    yield "crc-second", bs.stream([Block(TEXT), Block(TEXT, crc=9)])
    for origin in (0, len(TEXT) - 1, len(TEXT), 100_010, 900_010, 900_011, 0xFFFFFF):
        yield f"origin-{origin}", bs.stream([Block(TEXT, origin=origin)])
        yield f"origin-{origin}-level-1", bs.stream([Block(TEXT, origin=origin)], level=1)
    yield "nothing-used", bs.stream([Block(b"", used=[], symbols=[1], tables=[[1, 1]] * 2)])
    yield "no-symbols", bs.stream([Block(b"", used=[65], symbols=[2], origin=0, tables=[[2, 2, 1]] * 2)])
    for groups in (0, 1, 7):
        yield f"groups-{groups}", bs.stream([Block(TEXT, groups=groups)])
    for count in (0, 1, 2):
        yield f"selector-count-{count}", bs.stream([Block(TEXT, selector_count=count)])
    yield "selector-value", bs.stream([Block(TEXT, selector_bits=[0, 2, 0, 0, 0, 0])])
    yield "selector-value-second", bs.stream([Block(TEXT, tables=[flat] * 3, selector_bits=[1, 3, 0, 0, 0, 0])])
    yield "too-few-selectors", bs.stream([Block(TEXT, selectors=[0])])
    for first in (0, 21, 31):
        yield f"first-length-{first}", bs.stream([Block(TEXT, first_lengths=[first, 5])])
        yield f"first-length-second-{first}", bs.stream([Block(TEXT, first_lengths=[5, first])])
    yield "length-0", bs.stream([Block(TEXT, tables=[[0, *flat[1:]]] * 2)])
    yield "length-21", bs.stream([Block(TEXT, tables=[[*flat[:-1], 21]] * 2)])
    yield "overfull", bs.stream([Block(TEXT, tables=[[1] * symbols] * 2)])
    yield "overfull-mixed", bs.stream([Block(TEXT, tables=[[1, 1, 1, *flat[3:]]] * 2)])
    yield "open", bs.stream([Block(TEXT, tables=[[20] * symbols] * 2)])
    for level in (b"0", b":", b"a", b"\x00", b"\xff", b"/"):
        yield f"level-{level[0]}", bs.stream([Block(TEXT)], level=level)
    for i, byte in enumerate((0x30, 0x31_42, 0x31_41_58, 0x17_73)):
        yield f"magic-{i}", bs.stream([Block(TEXT, magic=byte << (40 - 8 * (byte.bit_length() // 8)))])
    for bits in (18, 19, 20, 21, 22, 23, 24):
        ones = Block(b"", used=[0], symbols=[1] * bits + [2], origin=0, crc=0)
        zeros = Block(b"", used=[0], symbols=[0] * bits + [2], origin=5, crc=0)
        yield f"zero-run-{bits}", bs.stream([ones])
        yield f"zero-run-{bits}-level-1", bs.stream([zeros], 1)
    for start in (0, 1, 2, 100, 259):
        yield f"wrong-origin-{start}", bs.stream([Block(TEXT * 3, origin=start)])
        yield f"wrong-origin-randomised-{start}", bs.stream([Block(TEXT * 3, origin=start, randomised=1)])
    for tail in (b"aaaa", b"abbbb", b"a" * 3, b"\x00" * 4):
        yield f"run-without-count-{tail.hex()}", bs.stream([Block(tail, coded=tail)])
        yield f"run-without-count-wrong-{tail.hex()}", bs.stream([Block(tail, coded=tail, crc=2)])
    cycles = Block(b"", used=[65, 66], symbols=[0, 2, 0, 3], origin=0, crc=0, tables=[[2] * 4] * 2)
    yield "two-cycles", bs.stream([cycles])


def _in_fields() -> Iterator[tuple[str, bytes]]:
    """A bit or two turned over in each field of a block of its own, and of one with six tables."""
    for tables in (2, 6):
        block = Block(TEXT, tables=[bs.flat_lengths(len(set(bs.run_coded(TEXT))) + 2)] * tables)
        data = bs.stream([block])
        for name, at in block.marks.items():
            for step in (0, 2, 6):
                yield f"in-{name}-{step}-of-{tables}", bs.flip(data, 32 + at + step)


def _cut_behind(size: int) -> bytes:
    """All of a block of `size` bytes and nothing more than the rest of its last byte."""
    block = Block(payloads.run(81, size))
    data = bs.stream([block, Block(TEXT)])
    return data[: (32 + block.marks["end"] + 7) // 8]


def _long_randomised(level: int, size: int) -> bytes:
    """A constant randomised block whose checksum can't be right; what comes out before shows every random step."""
    return bs.stream([bs.constant(0, size, crc=0, randomised=1)], level)


def _bounds() -> Iterator[tuple[str, bytes]]:
    """Blocks as large as a level allows, runs at powers of two, every bit of the marks, every kind of tail."""
    for level in (1, 3):
        for extra in (-20, -19, -1, 0, 1):
            size = 100_000 * level + extra
            yield f"full-{level}{extra:+}", bs.stream([bs.constant(0, size)], level)
            yield f"full-{level}{extra:+}-value", bs.stream([bs.constant(255, size, origin=size - 1)], level)
    for size in (4, 5, 65_535, 65_536, 131_071, 131_072, 262_143, 262_144, 270_000, 299_999):
        yield f"zeros-{size}", bs.stream([bs.constant(4, size)], 3)
    for bit in range(48):
        yield f"block-mark-{bit}", bs.stream([Block(TEXT, magic=bs.BLOCK_MAGIC ^ (1 << bit))])
        yield f"end-mark-{bit}", bs.stream([Block(TEXT)], end=bs.END_MAGIC ^ (1 << bit))
    for bit in range(32):
        yield f"sum-{bit}", bs.stream([Block(TEXT)], combined=bs.combined_crc([Block(TEXT)]) ^ (1 << bit))
    blocks = [Block(TEXT[i:]) for i in range(5)]
    yield "sum-of-five", bs.stream(blocks)
    yield "sum-in-other-order", bs.stream(blocks, combined=bs.combined_crc(blocks[::-1]))
    for bit in range(24):
        yield f"head-{bit}", bs.flip(bs.stream(blocks), bit)
    for count in (17_999, 18_001, 18_002, 18_003, 32_767):
        yield f"selectors-{count}", bs.stream([Block(TEXT, surplus=count - len(TEXT) // bs.GROUP - 2)])


def _table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    for name, data in (*fields(), *_in_fields()):
        yield name, run(BZIP2, b"-dc", stdin=data)
        yield f"{name}-small", run(BZIP2, b"-dcs", stdin=data)
    for i, (name, data) in enumerate(_bounds()):
        yield name, run(BZCAT, *((b"-s",) if i & 1 else ()), stdin=data)
    for i, tail in enumerate(made.TAILS):
        yield f"behind-{i}", run(BZCAT, stdin=PACKED_TWICE + tail)
        yield f"behind-{i}-force", run(BZIP2, b"-df", b"a.bz2", files=[file(b"a.bz2", PACKED_TWICE + tail, 0o640)])
    for size in (1, 4999, 5000, 5001, 10_000):
        yield f"cut-behind-{size}", run(BZCAT, stdin=_cut_behind(size))
    for n in range(len(SMALL)):
        yield f"cut-{n}", run(BZIP2, b"-d", stdin=SMALL[:n])
    for bit in range(0, 8 * len(SMALL), 3):
        yield f"flip-{bit}", run(BZCAT, stdin=bs.flip(SMALL, bit))
    for size in (5000, 99_999, 299_990):
        yield f"random-steps-{size}", run(BZCAT, stdin=_long_randomised(3, size))
        yield f"random-steps-{size}-small", run(BZCAT, b"-s", stdin=_long_randomised(3, size))
    tails = (*b"B BZ BZh BZh9 BZh0 BZi junk".split(), b"\0", b"\n", SMALL[:9], SMALL[:-1], b"B" * 6000, b"\0" * 6000)
    for i, tail in enumerate(tails):
        for flags in b"-dc -dcq -t -tv -tq -dcf -dcs".split():
            yield f"tail-{i}-{flags[1:].decode()}", run(BZIP2, flags, stdin=SMALL + tail)
    for i, program in enumerate((BZIP2, BUNZIP2, BZCAT)):
        args = (b"-d",) if program == BZIP2 else ()
        states = {"damaged": bs.flip(SMALL, 200), "cut": SMALL[:-3], "foreign": b"no such thing", "tail": SMALL + b"x"}
        for name, data in states.items():
            files = [file(b"a.bz2", data, 0o640)]
            yield f"file-{i}-{name}", run(program, *args, b"a.bz2", files=files)
            for flag in (b"-kv", b"-q", b"-f"):
                yield f"file-{i}-{name}{flag.decode()}", run(program, *args, flag, b"a.bz2", files=files)


def damaged(src: Source, data: bytes) -> bytes:
    """Flip, replace, cut, insert, double or drop something; streams shorter than 14 bytes come back as they are."""
    if len(data) < 14:
        return data
    for _ in range(src.pick((1, 1, 1, 2, 5))):
        kind = src.between(0, 7)
        bit = src.between(0, 8 * len(data) - 1)
        if kind < 3:
            data = bs.flip(data, bit)
        elif kind == 3:  # near the start, where the tables are
            data = bs.flip(data, bit % (8 * min(len(data), 70)))
        elif kind == 4:
            data = data[: bit // 8] or b"B"
        elif kind == 5:
            data = data[: bit // 8] + src.blob(src.between(1, 9)) + data[bit // 8 :]
        elif kind == 6:
            data = data[: bit // 8] + data[bit // 8 + src.between(1, 5) :] or b"B"
        else:
            width = min(src.pick((3, 5, 15, 24, 32)), 8 * len(data) - bit)
            data = bs.put(data, bit, width, src.pick((0, (1 << width) - 1)))
    return data


def bad(src: Source) -> bytes:
    """Anything that a reader may be given instead of what a compressor wrote."""
    kind = src.between(0, 19)
    if kind < 8:
        return made.crafted(src)
    if kind < 10:
        return made.tailed(src)
    if kind < 12:
        return made.cut_behind_block(src)[0]
    if kind < 16:
        data = bs.compressed(payloads.small(src, 900), src.between(1, 9))
    else:
        data = joined(src) if kind < 17 else unusual(src) if kind < 19 else bs.compressed(payloads.medium(src), 1)
    data = damaged(src, data)
    return data + src.blob(src.between(1, 20)) if chance(src, 10) else data


FLAGS = ((), (), (b"-s",), (b"-s",), (b"-q",), (b"-v",), (b"-vv",), (b"-f",), (b"-k",), (b"-sq",), (b"-sf",), (b"-fv",))


def _draw(src: Source) -> Check:
    data = bad(src)
    flags = src.pick(FLAGS)
    how = src.between(0, 9)
    if how < 5:
        return run(BZCAT, *flags, stdin=data)
    if how < 7:
        return run(BZIP2, b"-t", *flags, stdin=data, stdin_kind=src.pick(DATA_STDINS))
    return run(BUNZIP2, *flags, b"a.bz2", files=[file(b"a.bz2", data)])


CORRUPT = Module("decompress-corrupt", _table, 520, _draw)
