"""Module recover: bzip2recover on whole, damaged, cut and foreign files, with many blocks, under odd names."""

from __future__ import annotations

import random
from collections.abc import Iterator

from refactorbench.observe.model import Check, InputFile

from . import bitstream as bs
from . import payloads
from .bitstream import BLOCK_MAGIC, END_MAGIC, Bits, Block
from .common import BZIP2, RECOVER, Module, file, folder, link, run
from .damage import damaged
from .source import Source, chance, edgy

TEXT = payloads.text(31, 120)


def blocks(count: int, size: int = 20) -> bytes:
    """A stream of `count` small blocks."""
    return bs.stream([Block(TEXT[i % 90 : i % 90 + size] + b"%d" % i) for i in range(count)])


def marks(gaps: list[int], kinds: list[int], lead: int = 32) -> bytes:
    """Block and end marks with so many bits between them, nothing else: blocks only for who looks for marks."""
    bits = Bits()
    bits.put(0x425A6839 if lead >= 32 else 0, lead)
    for gap, kind in zip(gaps, kinds, strict=True):
        bits.put(END_MAGIC if kind else BLOCK_MAGIC, 48)
        bits.put((1 << gap) // 3, gap)
    return bits.to_bytes()


def _on(data: bytes, name: bytes = b"f.bz2", *more: InputFile) -> Check:
    return run(RECOVER, name, files=[file(name, data), *more])


def _table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    for count in (0, 1, 2, 3, 9, 10, 11, 40, 120):
        yield f"blocks-{count}", _on(blocks(count))
    for count in (2, 3, 5):
        yield f"streams-{count}", _on(bs.compressed(TEXT) * count)
    yield "blocks-1001", _on(marks([130] * 1001, [0] * 1001))
    for path in (b"/proc/self/mem", b"/dev/null", b"/", b"/dev/none"):
        yield f"device-{path.decode().replace('/', '+')}", run(RECOVER, path)
        yield (
            f"device-link-{path.decode().replace('/', '+')}",
            run(RECOVER, b"l.bz2", files=[link(b"l.bz2", path)]),
        )
    yield "large-blocks", _on(bs.compressed(payloads.fibonacci(0x6362, 320_000), 1))
    whole = blocks(3, 60)
    for cut in (
        1,
        3,
        5,
        9,
        10,
        11,
        14,
        20,
        30,
        60,
        len(whole) // 2,
        len(whole) - 12,
        len(whole) - 11,
        len(whole) - 5,
        len(whole) - 1,
    ):
        yield f"cut-{cut}", _on(whole[:cut])
    for bit in range(0, 8 * len(whole), 25):
        yield f"flip-{bit}", _on(bs.flip(whole, bit))
    for gap in (0, 1, 7, 8, 31, 32, 33, 47, 48, 79, 80, 81, 82, 127, 128, 129, 130, 131, 132, 177, 178, 179, 200):
        for kinds in ([0, 0], [0, 1], [1, 0]):
            yield f"gap-{gap}-{kinds[0]}{kinds[1]}", _on(marks([gap, 200], kinds))
    for lead in (0, 1, 2, 7, 8, 31, 33, 100):
        yield f"lead-{lead}", _on(marks([150, 150, 60], [0, 0, 1], lead))
    for tail in (0, 1, 39, 40, 41, 100, 300):
        yield f"tail-{tail}", _on(marks([200, tail], [0, 0]))
        yield f"tail-end-{tail}", _on(marks([200, tail], [0, 1]))
    for foreign in (b"", b"\n", b"BZh9", b"no such file type" * 40, bytes(3000), b"\xff" * 500):
        yield f"foreign-{len(foreign)}-{foreign[:2].hex()}", _on(foreign)
    yield from _names()
    yield "then-test", run(BZIP2, b"-tv", b"rec00001f.bz2", files=[file(b"rec00001f.bz2", blocks(1))])


def _names() -> Iterator[tuple[str, Check]]:
    data = blocks(2)
    names = (
        b"f",
        b"f.bz",
        b".bz2",
        b"x.tbz2",
        b"f.bz2.bz2",
        b"a b.bz2",
        b"n\n.bz2",
        b"\xff.bz2",
        b"%s%n.bz2",
        b"-f.bz2",
        b"--",
        b"-h",
        b"n" * 243,
        b"n" * 247,
        b"n" * 248,
        b"n" * 255,
        b"rec00001f.bz2",
    )
    for name in names:
        yield f"name-{name[:10].hex()}-{len(name)}", _on(data, name)
    inside = [
        folder(b"d"),
        folder(b"d/e"),
        file(b"d/e/f.bz2", data),
        link(b"l.bz2", b"d/e/f.bz2"),
        link(b"broken.bz2", b"nowhere"),
    ]
    for path in (
        b"d/e/f.bz2",
        b"./d//e/f.bz2",
        b"d/e/../e/f.bz2",
        b"l.bz2",
        b"broken.bz2",
        b"d",
        b"d/",
        b".",
        b"none",
        b"",
        b"d/e/f.bz2/",
    ):
        yield f"path-{path.decode()}", run(RECOVER, path, files=inside)
    for args in ((), (b"a", b"b"), (b"f.bz2", b""), (b"-", b"-"), (b"1", b"2", b"3")):
        yield f"usage-{len(args)}-{b''.join(args).decode()}", run(RECOVER, *args)
    for argv0 in (b"/usr/bin/bzip2recover", b"other", b"", b"p" * 1998, b"p" * 2500):
        yield f"argv0-{len(argv0)}", run(RECOVER, name=argv0)
        yield f"argv0-{len(argv0)}-run", run(RECOVER, b"f.bz2", files=[file(b"f.bz2", data)], name=argv0)
    for n in (1979, 1980, 1981, 3000):
        yield f"long-{n}", run(RECOVER, b"n" * n)
    noise = payloads.noise(7, 3000) + payloads.noise(8, 3000)
    there = [file(b"rec00001f.bz2", b"old and longer than what comes" * 20, 0o600), file(b"rec00002f.bz2", b"", 0o755)]
    yield "outputs-there", _on(data, b"f.bz2", *there)
    yield "output-read-only", _on(data, b"f.bz2", file(b"rec00001f.bz2", b"old", 0o444))
    yield "output-is-folder", _on(data, b"f.bz2", folder(b"rec00002f.bz2"))
    yield "output-is-link", _on(data, b"f.bz2", link(b"rec00001f.bz2", b"elsewhere"))
    yield "output-is-full", _on(data, b"f.bz2", link(b"rec00001f.bz2", b"/dev/full"))
    yield "second-output-is-full", _on(data, b"f.bz2", link(b"rec00002f.bz2", b"/dev/full"))
    yield "large-output-is-full", _on(bs.compressed(noise), b"f.bz2", link(b"rec00001f.bz2", b"/dev/full"))
    yield "input-unreadable", run(RECOVER, b"f.bz2", files=[file(b"f.bz2", data, 0o200)])
    yield "folder-read-only", run(RECOVER, b"d/f.bz2", files=[folder(b"d", 0o555), file(b"d/f.bz2", data)])
    yield "output-is-input", _on(data, b"f.bz2", link(b"rec00001f.bz2", b"f.bz2"))


NAMED = (
    b"f.bz2", b"f", b"a.b", b"\xc3\xa4.bz2", b"d/f.bz2", b"./f.bz2", b"d//f", b".bz2", b"x.bz2.bz2", b"a b.bz2", b"f.bz",
    b"f.BZ2", b"d.bz2/f", b"  ", b"rec00001f.bz2", b"%s.bz2", b"d/.bz2",
)  # fmt: skip


def _contents(src: Source) -> bytes:
    """Streams of several blocks, damaged or not, or only marks at random distances."""
    kind = src.between(0, 9)
    if kind == 0:
        return blocks(edgy(src, 1, 30, 9, 10, 11), src.between(0, 30))
    if kind < 4:
        texts = [payloads.small(src, 150) or b"." for _ in range(src.between(1, 6))]
        data = bs.stream([Block(t, randomised=src.between(0, 1)) for t in texts], src.between(1, 9))
    elif kind < 6:
        data = b"".join(bs.compressed(payloads.small(src, 300), 1 + i) for i in range(src.between(1, 4)))
    else:
        count = src.between(1, 8)
        gaps = [edgy(src, 0, 400, 0, 32, 40, 80, 81, 130, 130, 131, 177, 178) for _ in range(count)]
        lead = edgy(src, 0, 100, 1, 2, 32, 33)
        data = marks(gaps, [src.between(0, 1) for _ in range(count)], lead) + payloads.small(src, 60)
        return data[: src.between(0, len(data))] if chance(src, 20) else data
    return damaged(src, data) if chance(src, 60) else data


def _draw(src: Source) -> Check:
    name = src.pick(NAMED)
    files = [folder(p) for p in (b"d", b"d.bz2") if name.startswith(p + b"/")] if b"/" in name else []
    place = name.replace(b"//", b"/").removeprefix(b"./")
    files.append(file(place, _contents(src), src.pick((0o644, 0o644, 0o644, 0o600, 0o200))))
    args = [name]
    if chance(src, 8):
        args = src.pick(([], [name, name], [name, b""], [b"none"], [b"d"], [name + b"/"], [b""], [b"-h", name]))
    if chance(src, 20):
        head, slash, base = place.rpartition(b"/")
        output = head + slash + b"rec%05d" % src.between(1, 3) + base + (b"" if base.endswith(b".bz2") else b".bz2")
        if output != place:
            there = (file(output, b"old" * 300), file(output, b"old", 0o444), folder(output), link(output, b"aside"))
            files.append(src.pick(there))
    called = src.pick((b"bzip2recover", b"./x/bzip2recover", b"r", b"")) if chance(src, 20) else None
    return run(RECOVER, *args, files=files, name=called)


RECOVERY = Module("recover", _table, 300, _draw)
