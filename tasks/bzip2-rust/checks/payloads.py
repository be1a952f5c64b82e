"""Contents to compress: segments of known shapes, small where they don't compress, larger where they do."""

from __future__ import annotations

import random
from collections.abc import Callable

from .source import Source, chance

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
