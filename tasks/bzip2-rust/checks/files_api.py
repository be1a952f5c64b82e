"""Modules driver-buff and driver-stdio: the calls on buffers (drivers/buffer.c) and on files (drivers/stdio.c)."""

from __future__ import annotations

import random
from collections.abc import Iterator

from refactorbench.observe.model import Check, InputFile

from . import bitstream as bs
from . import payloads
from .common import Module, file, run
from .damage import SMALL, damaged
from .decompress import joined, unusual
from .source import Source, chance

BUFFER, STDIO = "drivers/buffer", "drivers/stdio"
DATA = payloads.text(51, 2600)
PACKED = bs.compressed(DATA)


def buffer(ops: str, data: bytes = b"") -> Check:
    return run(BUFFER, *ops.encode().split(), stdin=data)


def stdio(ops: str, data: bytes = b"", files: tuple[InputFile, ...] = ()) -> Check:
    return run(STDIO, *ops.encode().split(), stdin=data, files=files)


def _buff_table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    for level in range(1, 10):
        yield f"level-{level}", buffer(f"c:{level}:0:30:9000 swap d:0:0:9000", DATA)
    size = len(bs.compressed(DATA, 1))
    rooms = {
        "0": 0,
        "1": 1,
        "13": 13,
        "14": 14,
        "100": 100,
        "short": size - 1,
        "exact": size,
        "more": size + 1,
        "much": 100_000,
    }
    for label, room in rooms.items():
        yield f"room-{label}", buffer(f"c:1:0:0:{room}", DATA)
        yield f"room-empty-{label}", buffer(f"c:1:0:0:{room}")
    for room in (0, 1, 2599, 2600, 2601, 9000):
        for small in (0, 1):
            yield f"unroom-{room}-{small}", buffer(f"d:{small}:0:{room}", PACKED)
    for level, verbosity, work in (
        (0, 0, 0),
        (10, 0, 0),
        (1, -1, 0),
        (1, 5, 0),
        (1, 0, -1),
        (1, 0, 251),
        (1, 2, 250),
        (-1, 0, 0),
    ):
        yield f"bad-{level}-{verbosity}-{work}", buffer(f"c:{level}:{verbosity}:{work}:5000", DATA)
    for small, verbosity in ((2, 0), (-1, 0), (0, -1), (0, 5), (1, 2)):
        yield f"bad-d-{small}-{verbosity}", buffer(f"d:{small}:{verbosity}:5000", PACKED)
    for mask in (1, 2, 4, 3, 7):
        yield f"null-{mask}", buffer(f"null:{mask} c:1:0:0:5000", DATA)
        yield f"null-d-{mask}", buffer(f"null:{mask} d:0:0:5000", PACKED)
    for n in range(0, len(SMALL) + 1, 4):
        yield f"cut-{n}", buffer(f"take:0:{n} d:0:0:500", SMALL)
        yield f"cut-full-{n}", buffer(f"take:0:{n} d:1:0:3", SMALL)
    for bit in range(5, 8 * len(SMALL), 31):
        yield f"flip-{bit}", buffer("d:0:0:500", bs.flip(SMALL, bit))
    yield "two-streams", buffer("d:0:0:9000", SMALL + SMALL)
    yield "version", buffer("version")


def _buff(src: Source) -> Check:
    """Round trips and damaged data with rooms around what is needed."""
    if chance(src, 55):
        data = payloads.mixed(src)
        level = src.between(1, 9)
        room = src.pick((len(data) + len(data) // 100 + 600, src.between(0, 4000)))
        back = f"d:{src.between(0, 1)}:0:{len(data) + src.between(0, 2)}"
        return buffer(f"c:{level}:0:{src.pick((0, 1, 30, 250))}:{room} swap {back}", data)
    data = payloads.small(src)
    packed = src.pick((bs.compressed, lambda d: bs.compressed(d, 1)))(data) if chance(src, 60) else unusual(src)
    if chance(src, 60):
        packed = damaged(src, packed)
    room = src.pick((len(data), len(data) + 1, max(0, len(data) - 1), 5000))
    return buffer(f"d:{src.between(0, 1)}:0:{room}", packed)


def _stdio_table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    packed = (file(b"in.bz2", PACKED),)
    for mode in ("w", "w1", "w9", "wb", "w0", "ws5", "w19", "wr", "rw", "w5s", "", "q", "9"):
        yield f"open-{mode}", stdio(f"open:out:{mode} z:0:2600 err flush close", DATA)
        yield f"dopen-{mode}", stdio(f"dopen:out:{mode} z:0:100 z:100:900 err close", DATA)
    for mode in ("r", "rs", "rb", "rb9", "", "s", "%"):
        yield f"read-{mode}", stdio(f"open:in.bz2:{mode} y:100 y:0 y:9999 y:5 err close", files=packed)
        yield f"dread-{mode}", stdio(f"dopen:in.bz2:{mode} Y:999 y:5 err close", files=packed)
    yield "open-missing", stdio("open:none:r open:none/x:w dopen:-1:r dopen:-1:w")
    yield "open-stdin", run(STDIO, b"open::r", b"Y:700", b"err", b"close", stdin=PACKED)
    yield "open-stdin-null", run(STDIO, b"open:%:rs", b"Y:700", b"err", b"close", stdin=PACKED)
    yield "open-stdout", stdio("open::w z:0:500 close", DATA)
    yield "open-stdout-null", stdio("open:%:w1 z:0:500 close", DATA)
    for level, verbosity, work in (
        (1, 0, 0),
        (9, 0, 30),
        (0, 0, 0),
        (10, 0, 0),
        (9, -1, 0),
        (9, 5, 0),
        (9, 0, -1),
        (9, 0, 251),
        (5, 2, 250),
    ):
        yield (
            f"write-{level}-{verbosity}-{work}",
            stdio(f"wo:out:{level}:{verbosity}:{work} w:0:700 w:700:9999 tell wc64:0 tell fclose", DATA),
        )
    for chunk in (1, 7, 999, 5000, 99_999):
        yield f"chunks-{chunk}", stdio(f"wo:out:1:0:0 W:{chunk} err wc:0 tell fclose", DATA)
        yield f"unchunks-{chunk}", stdio(f"ro:in.bz2:0:0:0 R:{chunk} err unused tell rc tell fclose", files=packed)
        yield f"unchunks-small-{chunk}", stdio(f"ro:in.bz2:0:1:0 R:{chunk} unused rc fclose", files=packed)
    for verbosity, small, unused in (
        (0, 0, 1),
        (0, 0, 4),
        (0, 1, 5000),
        (0, 0, 5001),
        (0, 0, -1),
        (5, 0, 0),
        (-1, 0, 0),
        (0, 2, 0),
        (2, 0, 0),
    ):
        yield (
            f"reader-{verbosity}-{small}-{unused}",
            stdio(f"ro:in.bz2:{verbosity}:{small}:{unused} r:10 tell R:700 unused rc", files=packed),
        )
    big = payloads.mutated(8, 230_000)
    for ops in (
        "W:50000 err wc:0 tell",
        "unbuffered W:230000 tell wc64:0",
        "unbuffered break W:99000 err wc:0",
        "break W:1000 wc64:1",
    ):
        yield "large-" + ops.replace(" ", "-"), stdio("wo:out:1:0:0 " + ops, big)
    for tail in (b"", b"x", b"tail of text", PACKED, SMALL + SMALL, b"\0" * 6000, payloads.noise(3, 1500) * 5):
        label = f"{len(tail)}-{tail[:2].hex()}"
        yield (
            f"after-{label}",
            stdio(
                "ro:in:0:0:0 R:600 unused tell next:0 R:600 unused next:1 R:5 rc tell",
                files=(file(b"in", SMALL + tail),),
            ),
        )
        yield f"bzread-after-{label}", stdio("open:in:r Y:9 y:9 err close", files=(file(b"in", SMALL + tail),))
    for n in range(0, len(SMALL), 7):
        yield f"cut-{n}", stdio("ro:in:0:0:0 R:20 err unused rc", files=(file(b"in", SMALL[:n]),))
    for bit in range(7, 8 * len(SMALL), 47):
        yield f"flip-{bit}", stdio("open:in:r Y:20 err close", files=(file(b"in", bs.flip(SMALL, bit)),))
    yield from _stdio_errors(packed)


def _stdio_errors(packed: tuple[InputFile, ...]) -> Iterator[tuple[str, Check]]:
    for fn in ("w", "r", "wc", "wc64", "rc", "unused", "close", "wo", "ro"):
        yield f"null-{fn}", stdio(f"null:{fn}")
    for ops in (
        "wo:out:1:0:0 null:buf wc:0",
        "ro:in.bz2:0:0:0 null:rbuf rc",
        "ro:in.bz2:0:0:0 R:99 null:unusedargs rc",
        "ro:none:0:0:0",
        "wo:none/x:1:0:0",
        "wo:out:1:0:0 r:5 rc err wc:0",
        "ro:in.bz2:0:0:0 w:0:5 wc:0 wc64:0 err rc",
        "ro:in.bz2:0:0:0 unused rc",
        "wo:out:1:0:0 unused wc:0",
        "wo:out:1:0:0 w:0:0 w:0:-1 err wc:0",
        "ro:in.bz2:0:0:0 r:0 r:-1 err rc",
        "wo:out:1:0:0 w:0:500 wc:1 tell",
        "wo:out:1:0:0 w:0:500 wc64:1",
        "wo:out:1:0:0 wc64:0 fclose",
        "wo:out:1:0:0 break w:0:500 err wc:0",
        "ro:in.bz2:0:0:0 break r:50 err rc",
        "wo:out:1:0:0 w:0:500 break wc:0",
        "wo:out:1:0:0 unbuffered w:0:500 break wc:0",
        "wo:out:1:0:0 break poke w:0:500 err wc64:0",
        "wo:out:1:0:0 break poke again:w:1 again:r:0 wc:1",
        "ro:in.bz2:0:0:0 break poke r:50 err rc",
        "ro:in.bz2:0:0:0 break poke again:r:1 again:w:9 rc",
        "ro:in.bz2:0:0:0 unbuffered r:50 tell break r:9000 err rc",
        "ro:in.bz2:0:0:0 poke poke r:50 err rc",
        "dopen:out:w1 z:0:500 break close",
        "dopen:in.bz2:r break y:50 err close",
        "wo:out:1:0:0 w:0:500 break wc64:1",
        "noerr wo:out:1:0:0 noerr w:0:9 noerr wc:0",
        "noerr ro:in.bz2:0:0:0 noerr r:9 noerr rc",
        "open:in.bz2:r z:0:5 err close",
        "open:out:w y:5 err close",
        "ro:in.bz2:0:0:0 r:2600 err r:1 err unused rc",
        "ro:in.bz2:0:0:0 r:9999 err unused rc",
    ):
        yield "ops-" + ops.replace(" ", "-").replace("/", "+"), stdio(ops, DATA, packed)


def _stdio(src: Source) -> Check:
    """Write with random chunks and levels, or read streams in a row with random reads."""
    if chance(src, 45):
        data = payloads.mixed(src)
        ops = [f"wo:out:{src.between(1, 9)}:0:{src.pick((0, 30, 250))}"]
        if chance(src, 50):
            ops.append(f"W:{src.between(1, 6000)}")
        else:
            ops += [f"w:{src.between(0, 3000)}:{src.between(0, 6000)}" for _ in range(src.between(0, 5))]
        ops += [src.pick(("wc:0", "wc64:0", "wc64:0", "wc:1")), "tell", "fclose"]
        return stdio(" ".join(ops), data)
    kind = src.between(0, 9)
    data = joined(src) if kind < 5 else unusual(src) if kind < 7 else bs.compressed(payloads.mixed(src))
    if kind in (0, 9):
        data = damaged(src, data)
    if chance(src, 30):
        data += payloads.small(src, 60)
    if chance(src, 30):
        return stdio(f"open:in:r{src.pick(('', 's'))} Y:{src.between(1, 5000)} err close", files=(file(b"in", data),))
    chunk = src.pick((1, 9, 700, 5000, 20_000))
    ops = [f"ro:in:0:{src.between(0, 1)}:{src.pick((0, 0, 3, 5000))} R:{chunk} tell"]
    ops += [f"next:{src.between(0, 1)} R:{chunk} tell"] * src.between(0, 3)
    return stdio(" ".join([*ops, "err", "rc"]), files=(file(b"in", data),))


DRIVER_BUFF = Module("driver-buff", _buff_table, 90, _buff)
DRIVER_STDIO = Module("driver-stdio", _stdio_table, 90, _stdio)
