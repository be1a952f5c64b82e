"""Modules driver-buff and driver-stdio: the calls on buffers (drivers/buffer.c) and on files (drivers/stdio.c)."""

from __future__ import annotations

import random
from collections.abc import Iterator

from refactorbench.observe.model import Check, InputFile

from . import bitstream as bs
from . import crafted as made
from . import payloads
from .bitstream import Block
from .common import Module, file, run
from .damage import SMALL, bad
from .decompress import joined, unusual
from .source import Source, chance, edgy, few

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
    for small in (0, 1):
        for size in (1, 40, 300):
            block = Block(payloads.text(size, size))
            data = bs.stream([block, Block(b"more")])[: (32 + block.marks["end"] + 7) // 8]
            for room in (size - 1, size, size + 1):
                yield f"cut-behind-{size}-{small}-{room}", buffer(f"d:{small}:0:{room}", data)
    yield "two-streams", buffer("d:0:0:9000", SMALL + SMALL)
    yield "version", buffer("version")


def _buff(src: Source) -> Check:
    """Round trips, and streams that are whole, damaged or cut, with rooms around what is needed."""
    if chance(src, 50):
        data = payloads.cornered(src) if chance(src, 30) else payloads.mixed(src)
        level, work, verbosity = src.between(1, 9), edgy(src, 0, 250, 1, 30, 100), src.pick((0, 0, 1, 2))
        if chance(src, 12):
            data, work, verbosity = payloads.repetitive(src), src.pick(payloads.WORK), 2
        need = len(bs.compressed(data, level))
        room = src.pick((len(data) + len(data) // 100 + 600, edgy(src, 0, 4000, need), need, max(0, need - 1)))
        back = f"d:{src.between(0, 1)}:0:{max(0, len(data) + src.between(0, 2) - 1)}"
        return buffer(f"c:{level}:{verbosity}:{work}:{room} swap {back}", data)
    kind = src.between(0, 9)
    if kind < 3:
        packed, whole = made.cut_behind_block(src, (1, 5, 40, 300))
    elif kind < 6:
        data = payloads.small(src)
        packed, whole = bs.compressed(data, src.between(1, 9)), len(data)
        packed += src.pick(made.TAILS) if chance(src, 30) else b""
        if chance(src, 40):
            packed = packed[: src.between(0, len(packed))]
    else:
        packed, whole = (bad if kind < 9 else made.valid)(src), 200
    room = src.pick((whole, whole, whole + 1, max(0, whole - 1), 0, 1, 5000))
    return buffer(f"d:{src.between(0, 1)}:{src.pick((0, 0, 0, 1, 2, 5))}:{room}", packed)


def _stdio_table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    packed = (file(b"in.bz2", PACKED),)
    for mode in ("w", "w1", "w9", "wb", "w0", "ws5", "w19", "wr", "rw", "w5s", "", "q", "9"):
        yield f"open-{mode}", stdio(f"open:out:{mode} z:0:2600 err flush close", DATA)
        yield f"dopen-{mode}", stdio(f"dopen:out:{mode} z:0:100 z:100:900 err close", DATA)
    for mode in ("r", "rs", "rb", "rb9", "", "s", "%"):
        yield f"read-{mode}", stdio(f"open:in.bz2:{mode} y:100 y:0 y:9999 y:5 err close", files=packed)
        yield f"dread-{mode}", stdio(f"dopen:in.bz2:{mode} Y:999 y:5 err close", files=packed)
    for mode in ("ww", "wrw", "rwr", "W", "R", "w+", "a", "rw9", "ssw3", "wwwwwwwwwwww1", "w:", "x5w", "\xe4w", "w-1"):
        label = mode.encode().hex()
        yield f"mode-{label}", stdio(f"open:out:{mode} z:0:2600 err close", DATA, packed)
        yield f"mode-in-{label}", stdio(f"open:in.bz2:{mode} y:100 err y:9 z:0:3 err close", DATA, packed)
    for ops in (
        "wo:/dev/full:1:0:0 W:500 err wc:0 err",
        "wo:/dev/full:1:0:0 unbuffered W:500 err wc64:0 err",
        "wo:/dev/full:9:0:0 wc64:0 err wc64:1",
        "wo:/dev/full:9:0:0 w:0:9 wc:1 fclose",
        "open:/dev/full:w z:0:2600 err close",
        "dopen:/dev/full:w9 z:0:2600 err z:0:1 close",
        "ro:/dev/null:0:0:0 r:5 err rc",
        "open:/dev/null:r y:5 err y:5 err close",
        "ro:.:0:0:0 r:5 err r:5 rc",
        "open:.:r y:5 err close",
        "open:.:w",
        "ro:/proc/self/mem:0:0:0 r:5 err unused rc",
        "ro:in.bz2:0:0:5:null",
        "ro:in.bz2:0:0:-1:null",
        "ro:in.bz2:0:0:0:null r:50 rc",
        "ro:in.bz2:0:1:5001:null",
    ):
        yield "file-" + ops.replace(" ", "-").replace("/", "+"), stdio(ops, DATA, packed)
    streams = (file(b"in", SMALL + PACKED + b"tail"),)
    for offset in (0, 1, len(SMALL) - 1, len(SMALL), len(SMALL) + 1, len(SMALL + PACKED), 99_999):
        yield f"offset-{offset}", stdio(f"dopen:in:r:{offset} Y:999 err close", files=streams)
    yield "offset-w", stdio("dopen:out:w1:10 z:0:100 close", DATA)
    yield "left-to-the-end", stdio("wo:out:1:0:0 W:5000", payloads.mutated(9, 230_000))
    yield "left-to-the-end-bzopen", stdio("open:out:w1 z:0:230000", payloads.mutated(9, 230_000))
    for mask in range(16):
        yield f"totals-{mask}", stdio(f"wo:out:1:0:0 w:0:2600 wc64:0:{mask}", DATA)
        yield f"totals-abandon-{mask}", stdio(f"wo:out:1:0:0 w:0:2600 wc64:1:{mask}", DATA)
        yield f"totals-failed-{mask}", stdio(f"wo:/dev/full:1:0:0 W:500 wc64:0:{mask}", DATA)
        if mask & 10 == 0:
            yield f"totals-short-{mask}", stdio(f"wo:out:1:0:0 w:0:2600 wc:0:{mask}", DATA)
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
    for size in (1, 40, 300, 5000):
        block = Block(payloads.run(size, size) if size > 300 else payloads.text(size, size))
        data = bs.stream([block, Block(b"more")])[: (32 + block.marks["end"] + 7) // 8]
        for room in (size - 1, size, size + 1):
            cut = (file(b"in", data),)
            yield f"cut-behind-{size}-{room}", stdio(f"ro:in:0:0:0 r:{room} err r:1 err rc", files=cut)
            yield f"bzread-cut-behind-{size}-{room}", stdio(f"open:in:r y:{room} err y:1 err close", files=cut)
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


def _writing(src: Source) -> Check:
    """Random chunks and levels, nothing among them, and every kind of end."""
    data = payloads.cornered(src) if chance(src, 30) else payloads.mixed(src)
    if chance(src, 25):
        mode = src.pick(("w", "wb", "w1", "w9", "w0", "ws", "w1s", "wr", "w5x", "w91", "any"))
        if mode == "any":
            mode = "".join(few(src, "rwwsb0123456789x+aRWS", 1, 6))
        ops = [f"{src.pick(('open', 'dopen'))}:out:{mode}"]
        ops += [f"z:{src.between(0, 3000)}:{edgy(src, -1, 6000, 0, 5000)}" for _ in range(src.between(0, 4))]
        return stdio(" ".join([*ops, src.pick(("err", "flush", "y:1")), "close"]), data)
    work, verbosity = edgy(src, 0, 250, 1, 30, 100), src.pick((0, 0, 1, 2))
    if chance(src, 10):
        data, work, verbosity = payloads.repetitive(src), src.pick(payloads.WORK), 2
    ops = [f"wo:{src.pick((*['out'] * 12, '/dev/full'))}:{src.between(1, 9)}:{verbosity}:{work}"]
    if chance(src, 40):
        ops.append(f"W:{src.between(1, 6000)}")
    else:
        ops += [f"w:{src.between(0, 3000)}:{edgy(src, -1, 6000, 0, 5000)}" for _ in range(src.between(0, 5))]
    if chance(src, 15):
        ops.insert(src.between(1, len(ops)), src.pick(("r:5", "err", "unused", "tell", "break", "noerr", "rc")))
    end = src.pick(("wc:0", "wc64:0", "wc64:0", "wc:1", "wc64:1"))
    end += f":{src.between(0, 15)}" if chance(src, 30) else ""
    ops += [end, "tell", "fclose"]
    return stdio(" ".join(ops), data)


def _reading(src: Source) -> Check:
    """Streams in a row and what follows them, in reads of random and of just the right sizes."""
    kind = src.between(0, 11)
    whole = 700
    if kind < 2:
        data = joined(src)
    elif kind < 4:
        data, whole = made.cut_behind_block(src, (1, 5, 40, 300, 5000))
    elif kind < 6:
        data = made.tailed(src)
    elif kind < 8:
        data = bad(src)
    elif kind < 9:
        data = unusual(src) if chance(src, 50) else made.valid(src)
    else:
        plain = payloads.small(src, 900) if kind < 11 else payloads.mixed(src)
        data, whole = bs.compressed(plain, src.between(1, 9)), len(plain)
        if chance(src, 30):
            data += src.pick(made.TAILS)
    sizes = (0, 1, whole, whole, whole + 1, max(0, whole - 1), 5000)
    if chance(src, 30):
        mode = src.pick(("r", "rs", "rb", "rsb", "r1", "", "any"))
        if mode == "any":
            mode = "".join(few(src, "rrswb0123456789x+aRWS", 1, 6))
        ops = [f"{src.pick(('open', 'dopen'))}:in:{mode}"]
        ops += [f"y:{src.pick(sizes)}" for _ in range(src.between(0, 3))]
        ops += [f"Y:{src.between(1, 5000)}"] if chance(src, 50) else []
        return stdio(" ".join([*ops, "err", "y:3", "close"]), files=(file(b"in", data),))
    before = src.pick((0, 0, 1, 3, 4, 5000, len(data)))
    ops = [f"ro:in:{src.pick((0, 0, 1, 2))}:{src.between(0, 1)}:{min(before, 5000)}"]
    ops += [f"r:{src.pick(sizes)}" for _ in range(src.between(0, 3))]
    if chance(src, 60):
        ops.append(f"R:{src.pick((1, 9, 700, 5000, 20_000, max(1, whole)))}")
    ops += ["unused", "tell"]
    for _ in range(src.between(0, 3)):
        ops += [f"next:{src.between(0, 1)}", f"R:{src.pick((1, 9, 700, 5000))}", "tell"]
    if chance(src, 15):
        ops.insert(src.between(1, len(ops)), src.pick(("w:0:5", "err", "wc:0", "break", "noerr", "r:-1", "poke")))
    return stdio(" ".join([*ops, "err", "rc"]), files=(file(b"in", data),))


def _stdio(src: Source) -> Check:
    return _writing(src) if chance(src, 40) else _reading(src)


DRIVER_BUFF = Module("driver-buff", _buff_table, 260, _buff)
DRIVER_STDIO = Module("driver-stdio", _stdio_table, 320, _stdio)
