"""Modules driver-stream and driver-errors: bz_stream through drivers/stream.c, which says what an operation means."""

from __future__ import annotations

import random
from collections.abc import Iterator

from refactorbench.observe.model import Check

from . import bitstream as bs
from . import crafted as made
from . import payloads
from .common import Module, run
from .damage import SMALL, bad, fields
from .decompress import TEXT, joined, unusual
from .source import RandomSource, Source, chance, edgy

STREAM = "drivers/stream"
DATA = payloads.text(41, 3000)
PACKED = bs.compressed(DATA, 1)
RUN, FLUSH, FINISH = 0, 1, 2


def stream(ops: str, data: bytes = b"") -> Check:
    return run(STREAM, *ops.encode().split(), stdin=data)


def _stream_table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    sizes = (1, 2, 7, 100, 5000, 100_000)
    for i in sizes:
        for o in sizes:
            yield f"compress-{i}-{o}", stream(f"ci:1:0:30 C:0:{i}:{o} C:2:0:{o} ce", DATA)
            yield f"decompress-{i}-{o}", stream(f"di:0:0 D:{i}:{o} de", PACKED)
            yield f"decompress-small-{i}-{o}", stream(f"di:0:1 D:{i}:{o} de", PACKED)
    for level in range(1, 10):
        for work in (0, 1, 30, 250):
            yield (
                f"level-{level}-work-{work}",
                stream(f"ci:{level}:0:{work} C:2:400000:4096 ce", payloads.mutated(level, 12_000)),
            )
    for i in range(16):
        data = payloads.repetitive(RandomSource(rng))
        for work in (1, 4, 7, 10, 13, 0):
            yield f"patience-{i}-{work}", stream(f"ci:1:2:{work} C:2:99999:30000 ce", data)
    for n in (0, 1, 3, 4, 5, 255, 256, 1000):
        yield f"flush-{n}", stream(f"ci:9:0:0 c:1:{n}:5000 c:1:=:5000 C:2:99999:777 ce", DATA)
        yield (
            f"flush-run-{n}",
            stream(f"ci:9:0:0 c:0:{n}:5000 C:1:{n}:11 C:1:0:11 C:0:{n}:60 C:2:99999:777 ce", b"a" * 300 + DATA),
        )
        yield f"finish-then-more-{n}", stream(f"ci:2:0:0 c:2:{n}:5 c:2:=:{n} C:2:=:9 ce", DATA)
        yield f"window-{n}", stream(f"di:0:0 d:{n}:0 d:{n}:{n} d:9999:{n} D:3:3 de", PACKED)
        yield f"no-room-{n}", stream(f"ci:1:0:0 c:0:{n}:0 c:2:{n}:0 c:2:=:0 C:2:=:1 ce", DATA)
    big = payloads.mutated(7, 120_000)
    for i, o in ((120_000, 17), (999, 120_000), (99_980, 99), (99_981, 3000), (99_982, 1)):
        yield f"blocks-{i}-{o}", stream(f"ci:1:0:0 C:0:{i}:{o} C:2:0:{o} ce", big)
        yield f"unblocks-{i}-{o}", stream(f"di:0:0 D:{i}:{o} de", bs.compressed(big, 1))
        yield f"unblocks-small-{i}-{o}", stream(f"di:0:1 D:{i}:{o} de", bs.compressed(big, 1))
    for verbosity in (0, 1, 2):
        yield f"verbose-{verbosity}", stream(f"ci:1:{verbosity}:0 C:2:99999:800 ce", DATA)
        yield f"verbose-d-{verbosity}", stream(f"di:{verbosity}:0 D:500:800 de", PACKED)
    yield (
        "two-at-once",
        stream("ci:1:0:0 use:1 di:0:0 use:0 c:0:900:50 use:1 d:50:900 use:0 C:2:2100:70 ce use:1 D:9:9 de", PACKED),
    )
    yield "again-after-end", stream("ci:3:0:0 C:2:9999:9999 ce seek:0 ci:4:0:0 C:2:9999:9999 ce", DATA)
    yield "streams-in-a-row", stream("di:0:0 D:99999:600 de di:0:0 D:=:99999 de", PACKED + SMALL)
    for n in range(0, len(SMALL), 6):
        yield f"cut-{n}", stream(f"limit:{n} di:0:0 D:4:100 de", SMALL)
    for name, data in fields():  # byte by byte, so that where an error is noticed can be seen
        yield f"field-{name}", stream("di:0:0 D:1:999 de", data)
    for bit in range(3, 8 * len(SMALL), 17):
        yield f"flip-{bit}", stream("di:0:0 D:1:3 de", bs.flip(SMALL, bit))


SIZES = (0, 1, 2, 3, 5, 50, 777, 5000, 60_000)


def _cuts(src: Source, action: int) -> str:
    """One or more operations for one action with random windows."""
    if chance(src, 50):
        return f"C:{action}:{src.pick(SIZES[1:])}:{src.pick(SIZES[1:])}"
    return f"c:{action}:{src.pick(SIZES)}:{src.pick(SIZES)}"


def _compressing(src: Source) -> tuple[list[str], bytes]:
    """In random windows, with flushes, now and then with a wrong action in between."""
    data = payloads.cornered(src) if chance(src, 40) else payloads.mixed(src)
    work, verbosity = edgy(src, 0, 250, 1, 3, 30, 100), src.pick((0, 0, 0, 1, 2))
    if chance(src, 12):
        data, work, verbosity = payloads.repetitive(src), src.pick(payloads.WORK), 2
    ops = [f"ci:{src.between(1, 9)}:{verbosity}:{work}"]
    for _ in range(src.between(0, 5)):
        action = src.pick((RUN, RUN, RUN, FLUSH, FINISH))
        ops.append(_cuts(src, action))
        if action == FLUSH and chance(src, 70):
            ops.append(f"C:1:=:{src.between(1, 900)}")
    ops += [f"C:2:{src.pick((0, 100, 99_999))}:{src.between(1, 9000)}", f"C:2:=:{src.between(1, 9000)}", "ce"]
    return ops, data


def _decompressing(src: Source) -> tuple[list[str], bytes]:
    """Any stream in pieces of any size, some of them just as large as what there is."""
    kind = src.between(0, 11)
    whole = 5000
    if kind < 2:
        data = joined(src)
    elif kind < 4:
        data = made.valid(src)
    elif kind < 5:
        data = unusual(src)
    elif kind < 7:
        data, whole = made.cut_behind_block(src, (1, 5, 40, 300))
    elif kind < 9:
        data = bad(src)
    else:
        data = bs.compressed(payloads.mixed(src), src.between(1, 9))
    ops = [f"di:{src.pick((0, 0, 0, 1, 2))}:{src.between(0, 1)}"]
    for _ in range(src.between(0, 4)):
        taken = src.pick((0, 1, 3, 4, 30, len(data), len(data) - 1))
        room = src.pick((0, 1, 4, 9, whole, whole + 1, max(0, whole - 1)))
        ops.append(f"d:{src.pick((str(max(0, taken)), '='))}:{room}")
    if chance(src, 80):
        ops.append(f"D:{src.pick((1, 1, 2, 3, 64, 5000, 99_999))}:{src.pick((1, 2, 3, 100, whole, 5000, 99_999))}")
    else:
        ops += [f"d:=:{src.pick(('0', '1', '=', '100'))}"] * src.between(0, 3)
    if chance(src, 15):
        ops += ["de", f"di:0:{src.between(0, 1)}", "D:99999:99999"]
    return [*ops, "de"], data


def _stream(src: Source) -> Check:
    """Compress or decompress in random windows; sometimes two at once, turn by turn."""
    ops, data = (_compressing if chance(src, 50) else _decompressing)(src)
    if chance(src, 10):
        other, _ = (_compressing if chance(src, 50) else _decompressing)(src)
        turns, here = ["use:0", *ops[:1], "use:1", *other[:1]], [ops[1:], other[1:]]
        for i in range(2 * max(map(len, here))):
            if i // 2 < len(here[i & 1]):
                turns += [f"use:{i & 1}", here[i & 1][i // 2]]
        ops = turns
    return stream(" ".join(ops), data)


def _errors_table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    for level, verbosity, work in (
        (0, 0, 0),
        (10, 0, 0),
        (-1, 0, 0),
        (9, 0, -1),
        (9, 0, 251),
        (9, 0, 250),
        (1, 2, 1),
        (2147483647, 0, 0),
        (-2147483648, 0, 0),
    ):
        yield f"init-{level}-{verbosity}-{work}", stream(f"ci:{level}:{verbosity}:{work} ce ce")
    for verbosity, small in ((-1, 0), (5, 0), (0, 2), (0, -1), (2, 1), (100, 1), (0, 65536)):
        yield f"dinit-{verbosity}-{small}", stream(f"di:{verbosity}:{small} de de")
    for fn in ("ci", "di", "c", "d", "ce", "de"):
        yield f"null-{fn}", stream(f"null:{fn}")
    for fn in ("c", "d", "ce", "de"):
        yield f"bare-{fn}", stream(f"bare:{fn}")
    for fn in ("c", "ce"):
        yield f"moved-{fn}", stream(f"ci:1:0:0 moved:{fn} C:2:9:99 ce", DATA)
    for fn in ("d", "de"):
        yield f"moved-{fn}", stream(f"di:0:0 moved:{fn} D:99:99 de", SMALL)
    sequences = (
        "c:3:5:50",
        "c:-1:5:50",
        "c:0:0:50",
        "c:0:0:0",
        "c:1:5:50 c:0:5:50",
        "c:1:5:3 c:0:=:50",
        "c:1:900:9 c:1:1:50",
        "c:2:900:9 c:1:=:50",
        "c:2:900:9 c:0:=:50",
        "c:2:900:9 c:2:899:50",
        "c:2:5:900 c:2:0:50",
        "c:2:5:900 c:0:5:50",
        "c:2:5:900 c:1:0:5",
        "c:2:0:9 c:2:0:0",
        "c:1:0:0 c:1:0:50 c:0:3:3",
        "c:1:0:50 c:1:0:50",
        "c:2:0:0",
        "c:2:9:0 c:2:=:0",
        "c:0:9:9 c:7:=:=",
        "c:1:9:9 c:2:=:= c:1:=:99",
    )
    for i, ops in enumerate(sequences):
        yield f"sequence-{i}", stream(f"ci:1:0:0 {ops} ce ce", DATA)
    for ops in ("d:0:0", "d:0:9 d:0:0", "D:99:99 d:0:9", "D:99:99 d:9:0 de de", "D:99:99 D:5:5"):
        yield f"after-{ops.replace(' ', '-')}", stream(f"di:0:0 {ops} de", SMALL + SMALL)
    for budget in ("-", "0", "1000"):
        yield f"memory-c-{budget}", stream(f"alloc:{budget} ci:9:0:0 ce", DATA)
        yield f"memory-d-{budget}", stream(f"alloc:{budget} di:0:0 de", PACKED)
    for small in (0, 1):
        for level in (1, 5, 9):
            yield f"memory-use-{level}-{small}", stream(f"alloc:- di:0:{small} D:99:999 de", bs.compressed(DATA, level))
            yield (
                f"memory-lack-{level}-{small}",
                stream(f"alloc:100000 di:0:{small} D:99:999 de", bs.compressed(DATA, level)),
            )
            yield f"memory-c-lack-{level}-{small}", stream(f"alloc:{90_000 * level} ci:{level}:0:{small}", DATA)
            yield f"memory-c-use-{level}-{small}", stream(f"alloc:- ci:{level}:0:{small} C:2:999:99 ce", DATA)
            yield f"memory-early-{level}-{small}", stream(f"alloc:- ci:{level}:0:{small} c:0:999:99 ce")
            yield (
                f"memory-damaged-{level}-{small}",
                stream(f"alloc:- di:0:{small} D:99:9 de", bs.flip(bs.compressed(TEXT, level), 500)),
            )
    yield "version", stream("version")


def _errors(src: Source) -> Check:
    """Random sequences of calls, wrong ones included; every one has a defined answer."""
    if chance(src, 30):
        return _reading_errors(src)
    level = edgy(src, -1, 11, 1, 9) if chance(src, 30) else src.between(1, 9)
    work = edgy(src, -1, 252, 0, 250) if chance(src, 30) else 0
    ops = [f"ci:{level}:{src.pick((0, 0, -1, 1, 2))}:{work}"]
    if chance(src, 30):
        ops.insert(0, "alloc:-")
    data = payloads.small(src, 900)
    for _ in range(src.between(1, 8)):
        action = src.pick((0, 1, 2, 0, 1, 2, 0, 1, 2, 3, -1))
        taken = src.pick(("0", "1", "3", "=", "=", "=", "300", str(len(data))))
        ops.append(f"c:{action}:{taken}:{src.pick(('0', '1', '2', '=', '40', '900', '5000'))}")
        if chance(src, 6):
            ops.append(src.pick(("moved:c", "null:c", "bare:c", "d:1:1", "de")))
    return stream(" ".join([*ops, *src.pick((("ce",), ("ce", "ce"), ("moved:ce", "ce")))]), data)


def _reading_errors(src: Source) -> Check:
    """The same for a reader: initialised wrongly, read beyond the end, moved, ended twice."""
    ops = [f"di:{src.pick((0, 0, -1, 1, 2, 5))}:{src.pick((0, 0, 1, 1, 2, -1))}"]
    if chance(src, 30):
        ops.insert(0, "alloc:-")
    data = bs.compressed(payloads.small(src, 60), src.between(1, 9))
    if chance(src, 40):
        data += bs.compressed(b"next") if chance(src, 50) else src.pick(made.TAILS)
    for _ in range(src.between(1, 8)):
        taken = src.pick(("0", "1", "=", "4", "30", str(len(data))))
        ops.append(f"d:{taken}:{src.pick(('0', '1', '=', '=', '61', '900'))}")
        if chance(src, 8):
            ops.append(src.pick(("moved:d", "null:d", "bare:d", "c:0:1:1", "ce", "D:1:1")))
    return stream(" ".join([*ops, *src.pick((("de",), ("de", "de"), ("moved:de", "de")))]), data)


DRIVER_STREAM = Module("driver-stream", _stream_table, 360, _stream)
DRIVER_ERRORS = Module("driver-errors", _errors_table, 280, _errors)
