"""Module decompress-valid: every stream that the format allows, also those that no compressor writes today."""

from __future__ import annotations

import random
from collections.abc import Iterator

from refactorbench.observe.model import Check

from . import bitstream as bs
from . import crafted as made
from . import payloads
from .bitstream import Block
from .common import BUNZIP2, BZCAT, BZIP2, DATA_STDINS, Module, file, run
from .source import Source, chance

TEXT = payloads.text(7, 260)
PACKED = bs.compressed(TEXT)


def _tables() -> Iterator[tuple[str, bytes]]:
    """Unusual but valid streams, by name."""
    symbols = len(set(bs.run_coded(TEXT))) + 2
    flat = bs.flat_lengths(symbols)
    for count in range(2, 7):
        yield f"tables-{count}", bs.stream([Block(TEXT, tables=[flat] * count)])
    for longest in (3, 8, 12, 17, 18, 19, 20):
        alphabet = range(97, 97 + longest - 1)
        tables = [bs.steep_lengths(longest + 1, longest)] * 2
        yield f"lengths-{longest}", bs.stream([Block(bytes(alphabet) * 2, tables=tables)])
    yield "first-length", bs.stream([Block(TEXT, tables=[flat, flat], first_lengths=[20, 1])])
    yield "reversed-selectors", bs.stream([Block(TEXT, tables=[flat] * 6, selectors=[5, 4, 3, 2, 1, 0, 0, 5])])
    for extra in (1, 3, 50, 17_990, 18_100, 32_700):
        yield f"selectors-extra-{extra}", bs.stream([Block(TEXT, surplus=extra)])
    yield "randomised-short", bs.stream([Block(TEXT, randomised=1)])
    for n, seed in ((617, 1), (618, 2), (619, 3), (1400, 4), (3000, 5)):
        yield f"randomised-{n}", bs.stream([Block(payloads.text(seed, n), randomised=1)])
    yield "randomised-runs", bs.stream([Block(payloads.runs(9, 4000), randomised=1)])
    for seed in range(4):  # long, and full of short runs: the mask is renewed at every place within a run
        for size in (2500, 20_000):
            dense = payloads.dense(seed, size, 2 + seed % 2)
            yield f"randomised-dense-{seed}-{size}", bs.stream([Block(dense, randomised=1)])
    for longest in (4, 5, 7, 100):  # runs that a compressor would have made longer
        yield f"short-runs-{longest}", bs.stream([Block(b"w" * 300, coded=bs.run_coded(b"w" * 300, longest))])
    yield "run-256-more", bs.stream([Block(b"m" * 259, coded=b"mmmm\xff")])
    yield "unused-bytes", bs.stream([Block(TEXT, used=range(256))])
    yield "only-zero-run", bs.stream([Block(b"k" * 3)])
    yield "padding-ones", bs.stream([Block(TEXT)], fill=1)
    yield "no-block", bs.stream([])
    yield "no-block-level-1", bs.stream([], level=1)
    for count in (2, 3, 7):
        yield f"blocks-{count}", bs.stream([Block(TEXT[: 20 * i + 5], randomised=i & 1) for i in range(count)], level=1)
    yield "many-far-moves", bs.compressed(random.Random(9).randbytes(9000))
    yield "tiny-blocks", bs.stream([Block(bytes([65 + i])) for i in range(26)], level=4)
    yield "open-code", bs.stream([Block(TEXT, tables=[[n + 1 for n in flat]] * 2)])


WAYS = (
    (BZIP2, (b"-d",)),
    (BZIP2, (b"-dc",)),
    (BZIP2, (b"-ds",)),
    (BZIP2, (b"-t",)),
    (BZIP2, (b"-tv",)),
    (BZIP2, (b"-tsv",)),
    (BZIP2, (b"-dvv",)),
    (BUNZIP2, ()),
    (BUNZIP2, (b"-s",)),
    (BZCAT, ()),
    (BZCAT, (b"-s",)),
)


def _table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    for name, data in _tables():
        yield name, run(BZIP2, b"-d", stdin=data)
        yield f"{name}-small", run(BZIP2, b"-ds", stdin=data)
    for i, (program, args) in enumerate(WAYS):
        for n in (1, 50, 2000):
            data = bs.compressed(payloads.text(100 * i + n, n))
            yield f"way-{i}-{n}", run(program, *args, stdin=data, stdin_kind="file" if i & 1 else "pipe")
    for level in range(1, 10):
        data = bs.compressed(payloads.mutated(level, 230_000 if level < 3 else 8000), level)
        yield f"level-{level}", run(BZCAT, stdin=data)
        yield f"level-{level}-small", run(BZCAT, b"-s", stdin=data)
    for target in (4999, 5000, 5001, 9999, 10_000, 10_001):
        # a stream that ends where the program's buffer of 5000 bytes does, give or take one
        data = _of_length(target)
        yield f"buffer-end-{target}", run(BZCAT, stdin=data, stdin_kind="file")
        yield f"buffer-end-{target}-twice", run(BZCAT, stdin=data + PACKED)


def _of_length(target: int) -> bytes:
    """Streams of exactly `target` bytes altogether: surplus selectors, a bit each, fill the last one up."""
    body = bs.compressed(payloads.noise(5, 1500)) * (target // 2000)
    short = target - len(body) - len(bs.stream([Block(TEXT)]))
    return body + bs.stream([Block(TEXT, surplus=8 * short)])


def joined(src: Source) -> bytes:
    """One to five streams one after another."""
    return b"".join(bs.compressed(payloads.small(src, 400), src.between(1, 9)) for _ in range(src.between(1, 5)))


def unusual(src: Source) -> bytes:
    """A hand-written stream of one to three blocks with choices that a compressor doesn't make."""
    blocks = []
    for _ in range(src.between(1, 3)):
        data = payloads.small(src, 200) or b"x"
        if chance(src, 10):
            data = payloads.dense(src.between(0, 0xFFFFFF), src.between(600, 6000), src.between(2, 3))
        coded = bs.run_coded(data, src.pick((255, 4, 5, 9, 100)))
        # the mask of a long randomised block makes other values of some
        used = range(256) if chance(src, 20) or len(coded) > 600 else sorted(set(coded))
        lengths = bs.flat_lengths(len(used) + 2)
        if chance(src, 30):
            lengths = [min(20, n + src.between(0, 4)) for n in lengths]
        extra = src.pick((0, 0, 1, 40, 19_000))
        tables = [lengths] * src.between(2, 6)
        selectors = [i % len(tables) for i in range(len(coded) // bs.GROUP + 2)]
        blocks.append(
            Block(data, coded, src.between(0, 1), used=used, tables=tables, selectors=selectors, surplus=extra)
        )
    return bs.stream(blocks, src.between(1, 9), fill=src.between(0, 1))


def _draw(src: Source) -> Check:
    program, args = src.pick(WAYS)
    kind = src.between(0, 9)
    if kind < 4:
        data = bs.compressed(payloads.mixed(src), src.between(1, 9))
    elif kind < 6:
        data = joined(src)
    else:
        data = unusual(src) if kind < 7 else made.valid(src)
    if program == BZCAT and chance(src, 30):
        return run(program, *args, b"in.bz2", files=[file(b"in.bz2", data)])
    return run(program, *args, stdin=data, stdin_kind=src.pick(DATA_STDINS))


VALID = Module("decompress-valid", _table, 330, _draw)
