"""Module decompress-corrupt: damaged, cut and foreign streams: what is written before the error, and what is said."""

from __future__ import annotations

import random
from collections.abc import Iterator

from refactorbench.observe.model import Check

from . import bitstream as bs
from . import payloads
from .bitstream import Block
from .common import BUNZIP2, BZCAT, BZIP2, DATA_STDINS, Module, file, run
from .decompress import TEXT, joined, unusual
from .source import Source, chance

SMALL = bs.compressed(b"hello, block sorting world; hello, world\n")


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


def _long_randomised(level: int, size: int) -> bytes:
    """A constant randomised block whose checksum can't be right; what comes out before shows every random step."""
    digits, n = [], size
    while n:
        digits.append(1 - (n & 1))
        n = (n - 1) >> 1
    block = Block(b"", used=[0], symbols=[*digits, 2], origin=0, crc=0, randomised=1, tables=[[2, 2, 1]] * 2)
    return bs.stream([block], level)


def _table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    for name, data in (*fields(), *_in_fields()):
        yield name, run(BZIP2, b"-dc", stdin=data)
        yield f"{name}-small", run(BZIP2, b"-dcs", stdin=data)
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


FLAGS = ((), (b"-s",), (b"-q",), (b"-v",), (b"-vv",), (b"-f",), (b"-k",), (b"-sq",))


def _draw(src: Source) -> Check:
    kind = src.between(0, 9)
    if kind < 5:
        data = bs.compressed(payloads.small(src, 900), src.between(1, 9))
    else:
        data = joined(src) if kind < 7 else unusual(src) if kind < 9 else bs.compressed(payloads.medium(src), 1)
    data = damaged(src, data)
    if chance(src, 10):
        data += src.blob(src.between(1, 20))
    flags = src.pick(FLAGS)
    how = src.between(0, 9)
    if how < 5:
        return run(BZCAT, *flags, stdin=data)
    if how < 7:
        return run(BZIP2, b"-t", *flags, stdin=data, stdin_kind=src.pick(DATA_STDINS))
    return run(BUNZIP2, *flags, b"a.bz2", files=[file(b"a.bz2", data)])


CORRUPT = Module("decompress-corrupt", _table, 330, _draw)
