"""Contents to compress: segments of known shapes, small where they don't compress, larger where they do."""

from __future__ import annotations

import random
from collections.abc import Callable

from . import bitstream as bs
from .source import Source, chance, edgy

WORDS = [
    "the", "of", "block", "sort", "rotate", "prefix", "table", "index", "string", "bucket", "radix", "pointer",
    "suffix", "huffman", "symbol", "selector", "group", "length", "code", "stream", "header", "magic", "mirror",
    "river", "stone", "lantern", "quiet", "copper", "window", "seventeen", "orchard", "signal",
]  # fmt: skip


def text(seed: int, size: int) -> bytes:
    rng = random.Random(seed)
    out = bytearray()
    while len(out) < size:
        out += rng.choice(WORDS).encode() + (b"\n" if rng.random() < 0.1 else b" ")
    return bytes(out[:size])


def run(seed: int, size: int) -> bytes:
    return bytes([seed & 255]) * size


def alternate(seed: int, size: int) -> bytes:
    return (bytes([seed & 255, (seed >> 8) & 255]) * (size // 2 + 1))[:size]


def noise(seed: int, size: int) -> bytes:
    """Incompressible, hence bounded whatever is asked for."""
    return random.Random(seed).randbytes(min(size, 3000))


def ramp(seed: int, size: int) -> bytes:
    step = 1 + (seed & 7)
    return bytes((seed + i * step) & 255 for i in range(min(size, 4096)))


def motif(seed: int, size: int) -> bytes:
    """One short random string over and over: rotations agree over long distances."""
    rng = random.Random(seed)
    unit = rng.randbytes(rng.randint(1, 60))
    return (unit * (size // len(unit) + 1))[:size]


def mutated(seed: int, size: int) -> bytes:
    """A paragraph repeated with a changed byte here and there."""
    rng = random.Random(seed)
    unit = text(rng.getrandbits(30), rng.randint(80, 900))
    out = bytearray((unit * (size // len(unit) + 1))[:size])
    for _ in range(size // 250):
        out[rng.randrange(size)] = rng.randrange(256)
    return bytes(out)


def runs(seed: int, size: int) -> bytes:
    """Runs of 1..300 bytes around the lengths at which run coding changes."""
    rng = random.Random(seed)
    out = bytearray()
    lengths = (1, 2, 3, 4, 5, 6, 254, 255, 256, 258, 259, 260, 300)
    while len(out) < size:
        out += bytes([rng.choice((0, 1, 65, 66, 251, 255))]) * rng.choice(lengths)
    return bytes(out[:size])


def sparse(seed: int, size: int) -> bytes:
    rng = random.Random(seed)
    out = bytearray(size)
    for _ in range(size // 60):
        out[rng.randrange(size)] = rng.randrange(1, 256)
    return bytes(out)


def few_symbols(seed: int, size: int) -> bytes:
    rng = random.Random(seed)
    alphabet = rng.randbytes(rng.randint(2, 5))
    return bytes(rng.choices(alphabet, k=min(size, 6000)))


def fibonacci(seed: int, size: int) -> bytes:
    """Fibonacci words: few distinct factors, long common prefixes, the sort's worst friends."""
    a, b = bytes([seed & 255]), bytes([(seed >> 8) & 255, seed & 255])
    while len(b) < size:
        a, b = b, b + a
    return b[:size]


def skewed(seed: int, size: int) -> bytes:
    """Geometric byte frequencies: code lengths reach their bound."""
    rng = random.Random(seed)
    out = bytearray()
    while len(out) < min(size, 4000):
        value = 0
        while value < 40 and rng.random() < 0.5:
            value += 1
        out.append(value)
    return bytes(out)


def steep(seed: int, size: int, symbols: int) -> bytes:
    """Frequencies that fall by 1.7 from byte to byte: the deepest code trees. Hardly compressible."""
    return bytes(random.Random(seed).choices(range(symbols), [1.7**-i for i in range(symbols)], k=size))


def ranked(seed: int, size: int, ratio: float) -> bytes:
    """What the coding tables get are symbols whose frequencies fall by `ratio` from one to the next: at 30,000 symbols
    and 1.75 codes come near the longest that is allowed, or to it."""
    rng = random.Random(seed)
    counts, share = [], size * (1 - 1 / ratio)
    while share >= 1:
        counts.append(round(share))
        share /= ratio
    ranks = [rank for rank, count in enumerate(counts, 1) for _ in range(count)]
    rng.shuffle(ranks)
    front, column = rng.sample(range(256), len(counts) + 1), bytearray()
    for rank in ranks:
        front.insert(0, front.pop(rank))
        column.append(front[0])
    bs.one_cycle(column)
    coded = bs.unrotated(bytes(column), 0)
    return bs.un_run_coded(coded) or bs.un_run_coded(coded[:-1]) or coded


def folded(value: int, count: int) -> bytes:
    """Runs of 255 of one value, five bytes each after the run coding; of the value 251 those are all equal."""
    return bytes([value]) * (255 * count)


def dense(seed: int, size: int, symbols: int) -> bytes:
    """Independent bytes of an alphabet of `symbols`, evenly spread."""
    rng = random.Random(seed)
    alphabet = bytes(rng.sample(range(256), symbols))
    return rng.randbytes(size).translate(bytes(alphabet[i % symbols] for i in range(256)))


def periodic(seed: int, size: int, period: int, changes: int) -> bytes:
    """One random string over and over, with a few bytes changed."""
    rng = random.Random(seed)
    unit = rng.randbytes(period)
    out = bytearray((unit * (size // period + 1))[:size])
    for _ in range(changes if size else 0):
        out[rng.randrange(size)] = rng.randrange(256)
    return bytes(out)


SHAPES: dict[str, Callable[[int, int], bytes]] = {
    "text": text,
    "run": run,
    "alternate": alternate,
    "noise": noise,
    "ramp": ramp,
    "motif": motif,
    "mutated": mutated,
    "runs": runs,
    "sparse": sparse,
    "few": few_symbols,
    "fibonacci": fibonacci,
    "skewed": skewed,
}
NAMES = tuple(SHAPES)
LARGE = ("motif", "mutated", "fibonacci", "run", "runs", "alternate")  # what stays small when it is stored


def segment(src: Source, limit: int, names: tuple[str, ...] = NAMES) -> bytes:
    shape = SHAPES[src.pick(names)]
    size = src.between(0, limit)
    return shape(src.between(0, 0xFFFFFF), size) if size else b""


def small(src: Source, limit: int = 600) -> bytes:
    """0..limit bytes in one or two segments."""
    data = segment(src, limit)
    return data + segment(src, 40) if chance(src, 30) else data


def medium(src: Source, limit: int = 6000) -> bytes:
    return b"".join(segment(src, limit // 3) for _ in range(src.between(1, 4)))


def large(src: Source, limit: int = 40_000) -> bytes:
    """0..limit bytes, compressible: mostly beyond the 10,000 at which the sort changes its algorithm."""
    data = segment(src, limit, (*LARGE, "text", "sparse"))
    return data + segment(src, 200) if chance(src, 50) else data


def mixed(src: Source) -> bytes:
    """The usual distribution: mostly small, some medium, a few large."""
    kind = src.between(0, 99)
    if kind < 45:
        return small(src)
    return medium(src) if kind < 75 else large(src)


def repetitive(src: Source) -> bytes:
    """So repetitive, and so little so, that the sort gives up at some work factors and not at others."""
    size, period = src.between(10_000, 16_000), src.between(30, 3000)
    seed = src.between(0, 0xFFFFFF)
    if chance(src, 30):
        return (dense(seed, period, src.pick((2, 3, 4, 16, 64, 200))) * (size // period + 1))[:size]
    if chance(src, 20):
        return mutated(seed, size)
    return periodic(seed, size, period, src.between(0, 150))


WORK = (1, 3, 4, 6, 7, 9, 10, 12, 13, 16, 19, 25, 28, 30, 31, 34, 40, 60, 100, 101)  # where what the sort may do grows


CORNER_BYTES = (0, 0, 1, 2, 4, 65, 66, 250, 251, 252, 254, 255)


def runs_at_bounds(src: Source, most: int = 12) -> bytes:
    """A few runs, of the lengths around which run coding changes, of few values; counts that equal their values too."""
    values = [src.pick(CORNER_BYTES) for _ in range(src.between(1, 3))]
    lengths = (4, 5, 8, 254, 255, 256, 259, 510)
    return b"".join(bytes([src.pick(values)]) * edgy(src, 1, 520, *lengths) for _ in range(src.between(1, most)))


def tiny(src: Source) -> bytes:
    """Up to a dozen bytes of a few values."""
    values = [src.pick(CORNER_BYTES) for _ in range(src.between(1, 4))]
    return bytes(src.pick(values) for _ in range(src.between(0, 12)))


def near_table_bounds(src: Source) -> bytes:
    """About as many symbols as those at which there is one coding table more; rarely fewer symbols than bytes."""
    size = src.pick((200, 600, 1200, 2400)) - 2 + src.between(0, 10)
    return dense(src.between(0, 0xFFFFFF), size, src.pick((256, 256, 200, 120, 60)))


def near_groups(src: Source) -> bytes:
    size = 50 * src.between(1, 60) - 2 + src.between(0, 5)
    return dense(src.between(0, 0xFFFFFF), size, src.pick((256, 100, 30)))


def at_block_end(src: Source, level: int = 1) -> bytes:
    """Runs and other bytes about where a block is full."""
    filler = alternate(src.between(0, 0xFFFF) | 1, 100_000 * level - 19 - src.between(0, 12))
    return filler + (runs_at_bounds(src, 4) if chance(src, 60) else tiny(src)) + tiny(src)


def near_sort_bounds(src: Source) -> bytes:
    """Long enough, just or well, for the sort of large blocks: periodic, repetitive, dense."""
    size = edgy(src, 9_990, 21_000, 10_000, 10_018)
    seed = src.between(0, 0xFFFFFF)
    kind = src.between(0, 6)
    if kind < 2:
        return periodic(seed, size, edgy(src, 1, 3000, 2, 4, 16, 256), src.pick((0, 0, 1, 3, 40)))
    if kind < 4:
        return dense(seed, size, src.pick((2, 3, 5, 16, 64, 200, 256)))
    if kind == 4:
        return text(seed, size)
    if kind == 5:
        return fibonacci(seed, size)
    half = dense(seed, size // 2, src.pick((4, 40, 256)))
    return half + half + half[: src.between(0, 20)]


def cornered(src: Source) -> bytes:
    """Contents at the compressor's bounds, the cheap ones more often."""
    kind = src.between(0, 199)
    if kind < 50:
        return tiny(src)
    if kind < 95:
        return runs_at_bounds(src)
    if kind < 125:
        return near_table_bounds(src)
    if kind < 145:
        return near_groups(src)
    if kind < 175:
        return near_sort_bounds(src)
    if kind < 191:
        return at_block_end(src)
    if kind < 198:
        return ranked(src.between(0, 0xFFFFFF), src.between(26_000, 42_000), 1.68 + src.between(0, 14) / 100)
    return folded(src.pick((251, 251, 250, 0)), src.pick((2001, 2050, 3000))) + tiny(src)
