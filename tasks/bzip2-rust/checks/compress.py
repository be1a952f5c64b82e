"""Modules compress-levels and compress-shapes: what the compressor writes, byte for byte."""

from __future__ import annotations

import random
from collections.abc import Iterator

from refactorbench.observe.model import Check

from . import bitstream as bs
from . import payloads
from .common import BZIP2, DATA_STDINS, Module, file, run
from .source import RandomSource, Source, chance

BLOCK = 100_000 - 19  # bytes after run coding at which level 1 closes its block


def _levels_table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    contents = {
        "empty": b"",
        "one": b"a",
        "text": payloads.text(1, 2500),
        "noise": payloads.noise(2, 700),
        "run": payloads.run(66, 5000),
        "sorted": payloads.mutated(3, 14_000),
        "blocks": payloads.mutated(4, 230_000),
    }
    for name, data in contents.items():
        for level in range(1, 10):
            yield f"{name}-{level}", run(BZIP2, b"-c", b"-%d" % level, stdin=data)
    for flags in (b"--fast", b"--best", b"-s", b"-s1", b"--small", b"--exponential", b"-9s", b"-3s"):
        yield f"flag-{flags.decode().strip('-')}", run(BZIP2, flags, stdin=contents["blocks"] + flags)


def _levels_corners(src: Source) -> bytes:
    return payloads.cornered(src) if chance(src, 35) else payloads.mixed(src)


def _levels(src: Source) -> Check:
    """Any content at any level; from a pipe, a seekable stdin or a file, to stdout."""
    args = [src.pick((b"-1", b"-2", b"-3", b"-4", b"-5", b"-6", b"-7", b"-8", b"-9", b"-c", b"--fast", b"--best"))]
    if chance(src, 15):
        args.append(src.pick((b"-s", b"--small", b"--exponential")))
    data = _levels_corners(src)
    if chance(src, 20):
        return run(BZIP2, *args, b"-c", b"in", files=[file(b"in", data)])
    return run(BZIP2, *args, stdin=data, stdin_kind=src.pick(DATA_STDINS))


def _edges() -> Iterator[tuple[str, bytes]]:
    """Contents around the lengths at which something in the compressor changes."""
    for n in (1, 2, 3, 4, 5, 6, 7, 250, 251, 252, 253, 254, 255, 256, 257, 258, 259, 260, 261, 509, 510, 511, 512, 516):
        yield f"run-{n}", b"x" * n
        yield f"run-{n}-then", b"a" + b"\xff" * n + b"b"
    for n in (200, 600, 1200, 2400):  # symbols after the second stage: thresholds of the number of code tables
        for target in (n - 1, n, n + 1):
            yield f"symbols-{target}", _with_symbols(target)
    for n in (49, 50, 51, 99, 100, 101, 149, 150, 151):  # around groups of symbols
        yield f"groups-{n}", payloads.noise(n, n)
    for n in (9_998, 9_999, 10_000, 10_001, 10_034):  # where the sort changes its algorithm
        yield f"sort-{n}", payloads.mutated(n, n)
        yield f"sort-motif-{n}", payloads.motif(n, n)
    for extra in (-2, -1, 0, 1, 2, 18, 19, 20):  # the end of a block of level 1
        yield f"block{extra:+}", payloads.alternate(0x4241, BLOCK + extra)
        yield f"block-runs{extra:+}", payloads.alternate(0x4241, BLOCK - 3) + b"z" * (6 + extra)
    for n in (255, 256, 259, 260, 510, 515):  # a run across the end of a block
        yield f"block-run-{n}", payloads.alternate(0x3130, BLOCK - 2) + b"q" * n + b"tail"
    yield "all-bytes", bytes(range(256))
    yield "all-bytes-down", bytes(range(255, -1, -1))
    yield "all-bytes-thrice", bytes(range(256)) * 3
    for symbol in (0, 1, 127, 128, 254, 255):
        yield f"single-{symbol}", bytes([symbol])
        yield f"constant-{symbol}", bytes([symbol]) * 3000
    yield "megabyte-zeros", bytes(1_000_000)
    yield "long-fibonacci", payloads.fibonacci(0x4241, 110_000)
    for n, symbols in (
        (120_000, 26),
        (160_000, 26),
        (160_000, 32),
    ):  # codes longer than is allowed, so weights are scaled
        yield f"long-codes-{n}-{symbols}", payloads.steep(0, n, symbols)
    for i in range(5):
        yield f"long-codes-many-{i}", payloads.ranked(i, 120_000, 1.7)
    yield "long-codes-found", payloads.ranked(959, 46_800, 1.75)
    for i in range(14):
        size, ratio = 28_000 + 700 * i, 1.68 + (i % 8) * 0.02
        yield f"long-codes-ranked-{i}", payloads.ranked(i, size, ratio)
    for value, count in ((251, 2001), (0, 2001)):
        yield f"folded-{value}-{count}", payloads.folded(value, count)
    for period in (1, 2, 3, 4, 7, 8, 15, 16, 17, 255, 256, 257, 3000):
        for size in (9_999, 10_000, 20_000):
            yield f"period-{period}-{size}", payloads.periodic(period, size, period, 0)
        yield f"period-{period}-changed", payloads.periodic(period, 15_000, period, 5)
    for symbols in (2, 3, 4, 16, 64, 256):
        for size in (9_999, 10_000, 14_000):
            yield f"dense-{symbols}-{size}", payloads.dense(symbols, size, symbols)
    for low in (0, 15, 16, 240):
        for count in (1, 2, 15, 16):
            yield f"values-{low}-{count}", bytes((low + i) & 255 for i in range(count)) * 3
    for i, size in enumerate((65_535, 65_536, 65_537, 70_000, 99_000)):  # positions of more than sixteen bits
        yield f"wide-periodic-{size}", payloads.periodic(i, size, 300 + i, 9)
        yield f"wide-mutated-{size}", payloads.mutated(size, size)
        yield f"wide-folds-{size}", payloads.text(i, size // 3) * 3
    for step in (16, 17, 51, 85):
        yield f"values-every-{step}", bytes(range(0, 256, step)) * 2


def _with_symbols(target: int) -> bytes:
    """Content that is `target` symbols, the end symbol included, when it gets to the coding tables."""
    size = target
    for _ in range(40):
        data = random.Random(target).randbytes(size)
        coded = bs.run_coded(data)
        short = target - len(bs.moved_to_front(bs.rotated(coded)[0], sorted(set(coded))))
        if not short:
            return data
        size += short
    raise AssertionError(f"no content of {target} symbols was found")


def _block_ends() -> Iterator[tuple[str, int, bytes]]:
    """Where the block of a level is full, by run and by single bytes."""
    for level, extras in ((2, (-1, 0, 1, 5)), (3, (1,))):
        for extra in extras:
            size = 100_000 * level - 19 + extra
            yield f"level-{level}-full{extra:+}", level, payloads.alternate(0x4241, size)
    for n in (1, 2, 3, 4, 5, 254, 255, 256, 257, 510):
        for before in (1, 4):
            filler = payloads.alternate(0x4241, BLOCK - before)
            yield f"end-{before}-run-{n}", 1, filler + b"\xfb" * n + b"tail"


def _wide() -> Iterator[tuple[str, int, bytes]]:
    """Blocks of more than 65,536 bytes, of every kind that the sort treats in its own way."""
    for level, size in ((2, 131_073), (2, 199_981), (3, 262_145), (5, 400_000), (9, 899_000)):
        label = f"wide-{level}-{size}"
        yield f"{label}-periodic", level, payloads.periodic(size, size, 1000, 30)
        yield f"{label}-motif", level, payloads.motif(size, size)
        yield f"{label}-mutated", level, payloads.mutated(size, size)
        yield f"{label}-fibonacci", level, payloads.fibonacci(size, size)
    for level, size, symbols in ((9, 66_000, 256), (9, 70_001, 4), (2, 140_000, 2)):
        yield f"wide-dense-{size}-{symbols}", level, payloads.dense(size, size, symbols)


def _sorts(rng: random.Random) -> Iterator[tuple[str, Check]]:
    """What is told of the sort giving up: contents of every measure of repetition, with little and usual patience."""
    for i in range(24):
        data = payloads.repetitive(RandomSource(rng))
        yield f"patience-{i}", run(BZIP2, b"-vv", stdin=data)
        yield f"patience-{i}-little", run(BZIP2, b"-vv", b"--exponential", stdin=data)
    easy, hard = payloads.dense(1, 99_000, 3), payloads.fibonacci(0x4142, 99_000)
    for name, data in (("easy-hard", easy + hard), ("hard-easy", hard + easy)):
        yield f"patience-{name}", run(BZIP2, b"-vv1", stdin=data)
        yield f"patience-{name}-little", run(BZIP2, b"-vv1", b"--exponential", stdin=data)


def _shapes_table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    yield from _sorts(rng)
    for name, level, data in _block_ends():
        yield name, run(BZIP2, b"-%d" % level, stdin=data)
    for name, level, data in _wide():
        yield name, run(BZIP2, b"-%d" % level, stdin=data)
    for name, data in _edges():
        yield name, run(BZIP2, b"-1", stdin=data)
    for shape in payloads.NAMES:
        for size in (0, 300, 2000, 12_000, 30_000 if shape in payloads.LARGE else 4000):
            data = payloads.SHAPES[shape](rng.getrandbits(24), size)
            if data:
                yield f"shape-{shape}-{size}", run(BZIP2, b"-9", stdin=data)


def _shapes(src: Source) -> Check:
    """Composed contents, some of them across the end of a block of level 1."""
    kind = src.between(0, 10)
    if kind < 5:
        data = payloads.cornered(src)
    elif kind < 6:
        data = payloads.medium(src)
    elif kind == 10:
        told = src.pick(((b"-vv",), (b"-vv", b"--exponential"), (b"-vvs", b"--exponential")))
        return run(BZIP2, *told, stdin=payloads.repetitive(src))
    elif kind < 8:
        shapes = ("runs", "run", "alternate", "few")
        data = b"".join(payloads.segment(src, 300, shapes) for _ in range(src.between(1, 8)))
    elif kind < 9:
        data = payloads.large(src, 30_000)
    else:
        data = payloads.segment(src, 2000) + payloads.alternate(src.between(0, 0xFFFF), BLOCK - src.between(0, 2600))
        data += payloads.small(src)
    more = (src.pick((b"-v", b"-vv", b"--exponential", b"-s")),) if chance(src, 20) else ()
    return run(BZIP2, src.pick((b"-1", b"-1", b"-2", b"-9")), *more, stdin=data)


LEVELS = Module("compress-levels", _levels_table, 220, _levels)
SHAPES = Module("compress-shapes", _shapes_table, 420, _shapes)
