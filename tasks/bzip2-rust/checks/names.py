"""Modules names and streams: files on disk (suffixes, modes, times, links), kinds of stdin and stdout."""

from __future__ import annotations

import random
from collections.abc import Iterator

from refactorbench.observe.model import SECOND, Check, InputFile

from . import bitstream as bs
from . import payloads
from .common import (
    BUNZIP2,
    BZCAT,
    BZIP2,
    DATA_STDINS,
    STDOUTS,
    Module,
    Stdin,
    Stdout,
    file,
    folder,
    hard_link,
    link,
    run,
)
from .damage import damaged
from .source import Source, chance

DATA = payloads.text(21, 400)
PACKED = bs.compressed(DATA)
FAILING = b"/proc/self/mem"  # can be opened, but not read from its start
SUFFIXES = (
    b".bz2",
    b".bz",
    b".tbz2",
    b".tbz",
    b".BZ2",
    b".Bz2",
    b".bz22",
    b".b",
    b".tar.bz2",
    b".tgz",
    b".out",
    b"bz2",
    b"",
    b".",
)
MODES = (0o644, 0o600, 0o400, 0o444, 0o640, 0o755, 0o777, 0o555, 0o666, 0o701)
# Also before 1970, around the widths of 32 and 33 bits, and in the future.
TIMES = (
    0, 1, SECOND - 1, SECOND, 999_999_999 * SECOND, 1_234_567_890_123_456_789, 1_700_000_000 * SECOND + 1,
    1_700_000_000_500_000_000, 1_999_999_999_999_999_999, 2_000_000_000 * SECOND, -1, -SECOND, -SECOND - 1,
    -1_500_000_000, -315_619_200 * SECOND - 750_000_000, -(SECOND << 31), -(SECOND << 31) - 1, (SECOND << 31) - 1,
    SECOND << 31, (SECOND << 32) + 5, (SECOND << 33) + 999_999_999,
)  # fmt: skip


def _names_table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    for suffix in SUFFIXES:
        for stem in (b"x", b""):
            name = stem + suffix
            if not name or name == b".":
                continue
            label = name.decode()
            yield f"suffix-z-{label}", run(BZIP2, name, files=[file(name, DATA)])
            yield f"suffix-d-{label}", run(BUNZIP2, name, files=[file(name, PACKED)])
            yield f"suffix-q-{label}", run(BUNZIP2, b"-q", name, files=[file(name, PACKED)])
            yield f"suffix-f-{label}", run(BZIP2, b"-f", name, files=[file(name, DATA)])
    for mode in MODES:
        yield f"mode-z-{mode:o}", run(BZIP2, b"m", files=[file(b"m", DATA, mode)])
        yield f"mode-d-{mode:o}", run(BUNZIP2, b"m.bz2", files=[file(b"m.bz2", PACKED, mode)])
        yield f"mode-k-{mode:o}", run(BZIP2, b"-k", b"m", files=[file(b"m", b"k" + DATA, mode)])
        yield f"mode-tail-{mode:o}", run(BUNZIP2, b"m.bz2", files=[file(b"m.bz2", PACKED + b"tail", mode)])
    for time in TIMES:
        yield f"time-z-{time}", run(BZIP2, b"t", files=[file(b"t", DATA, mtime=time)])
        yield f"time-d-{time}", run(BUNZIP2, b"-k", b"t.tbz", files=[file(b"t.tbz", PACKED, mtime=time)])
    existing = [
        file(b"o", DATA),
        file(b"o.bz2", b"already here", 0o604),
        file(b"p.bz2", PACKED),
        file(b"p", b"this too", 0o460),
    ]
    for flags in ((), (b"-f",), (b"-k",), (b"-fk",), (b"-q",), (b"-v",), (b"-c",)):
        label = b"".join(flags).decode()
        yield f"existing-z{label}", run(BZIP2, *flags, b"o", files=existing)
        yield f"existing-d{label}", run(BUNZIP2, *flags, b"p.bz2", files=existing)
    yield from _links()
    yield from _odd_names()
    yield from _several()
    yield from _folders()
    yield from _devices()
    yield from _long_paths()


def _links() -> Iterator[tuple[str, Check]]:
    base = [file(b"real", DATA, 0o640, mtime=1_111_111_111 * SECOND), file(b"real.bz2", PACKED)]
    sets = {
        "link": ([*base[:1], link(b"l", b"real")], [file(b"real.bz2", PACKED), link(b"l.bz2", b"real.bz2")]),
        "dangling": ([link(b"l", b"nowhere")], [link(b"l.bz2", b"nowhere")]),
        "loop": ([link(b"l", b"l")], [link(b"l.bz2", b"l.bz2")]),
        "to-folder": ([folder(b"d"), link(b"l", b"d")], [folder(b"d"), link(b"l.bz2", b"d")]),
        "hard": (
            [file(b"l", DATA), hard_link(b"other", b"l")],
            [file(b"l.bz2", PACKED), hard_link(b"other", b"l.bz2")],
        ),
        "hard-two": (
            [file(b"l", DATA), hard_link(b"other", b"l"), hard_link(b"third", b"l")],
            [file(b"l.bz2", PACKED), hard_link(b"other", b"l.bz2"), hard_link(b"third", b"l.bz2")],
        ),
        "output-is-link": (
            [file(b"l", DATA), file(b"target", b"kept"), link(b"l.bz2", b"target")],
            [file(b"l.bz2", PACKED), file(b"target", b"kept"), link(b"l", b"target")],
        ),
        "output-dangles": ([file(b"l", DATA), link(b"l.bz2", b"gone")], [file(b"l.bz2", PACKED), link(b"l", b"gone")]),
        "output-is-folder": ([file(b"l", DATA), folder(b"l.bz2")], [file(b"l.bz2", PACKED), folder(b"l")]),
        "output-holds-file": (
            [file(b"l", DATA), folder(b"l.bz2"), file(b"l.bz2/in", b"in")],
            [file(b"l.bz2", PACKED), folder(b"l"), file(b"l/in", b"in")],
        ),
        "output-is-input": (
            [link(b"l", b"l.bz2"), file(b"l.bz2", DATA, 0o604)],
            [link(b"l.bz2", b"l"), file(b"l", PACKED, 0o604)],
        ),
        "output-links-input": (
            [file(b"l", DATA, 0o604), link(b"l.bz2", b"l")],
            [file(b"l.bz2", PACKED, 0o604), link(b"l", b"l.bz2")],
        ),
        "output-shares-input": (
            [file(b"l", DATA, 0o604), hard_link(b"l.bz2", b"l")],
            [file(b"l.bz2", PACKED, 0o604), hard_link(b"l", b"l.bz2")],
        ),
        "twice-removed": (
            [file(b"real", DATA, 0o610), link(b"m", b"real"), link(b"l", b"./m")],
            [file(b"real", PACKED, 0o610), link(b"m", b"real"), link(b"l.bz2", b"./m")],
        ),
        "closed-target": (
            [file(b"real", DATA, 0o200), link(b"l", b"real")],
            [file(b"real", PACKED, 0o200), link(b"l.bz2", b"real")],
        ),
        "failing-target": ([link(b"l", FAILING)], [link(b"l.bz2", FAILING)]),
    }
    for name, (plain, packed) in sets.items():
        for flags in ((), (b"-f",), (b"-k",), (b"-c",), (b"-q",), (b"-fkv",), (b"-t",)):
            label = b"".join(flags).decode()
            yield f"{name}{label}", run(BZIP2, *flags, b"l", files=plain)
            yield f"{name}{label}-d", run(BZIP2, b"-d", *flags, b"l.bz2", files=packed)


def _odd_names() -> Iterator[tuple[str, Check]]:
    odd = (
        b"sp ace",
        b"new\nline",
        b"tab\t",
        b"\xff\xfe",
        b"caf\xc3\xa9",
        b"%s%d%n",
        b"a'b\"c",
        b"star*",
        b"quest?",
        b"back\\slash",
        b"\x01\x02",
        b"[x]",
        b"$HOME",
        b"~",
        b"a:b",
        b"n" * 251,
        b"n" * 252,
        b"n" * 255,
    )
    for name in odd:
        label = name[:12].hex() + f"-{len(name)}"
        yield f"odd-z-{label}", run(BZIP2, b"-v", name, files=[file(name, DATA)])
        if len(name) <= 251:
            yield f"odd-d-{label}", run(BUNZIP2, b"-v", name + b".bz2", files=[file(name + b".bz2", PACKED)])
        yield f"odd-missing-{label}", run(BZIP2, name)
    for name in (b"-x", b"-k", b"--keep", b"--", b"-"):
        yield f"dash-{name.decode()}", run(BZIP2, b"--", name, files=[file(name, DATA)])
        yield f"dash-path-{name.decode()}", run(BZIP2, b"./" + name, files=[file(name, DATA)])
    yield "too-long", run(BZIP2, b"n" * 256)


def _devices() -> Iterator[tuple[str, Check]]:
    """What can be opened and is no file, or can't be read."""
    after = [file(b"z", DATA), file(b"z.bz2", PACKED)]
    for path in (FAILING, b"/dev/null", b"/dev/full", b"/", b"/dev/none"):
        for program, flags in (
            (BZIP2, b"-c"),
            (BZIP2, b"-ckvv"),
            (BZIP2, b"-t"),
            (BZIP2, b"-tvv"),
            (BZIP2, b"-dcq"),
            (BZIP2, b"-z"),
            (BZIP2, b"-zq"),
            (BUNZIP2, b"-k"),
            (BZCAT, b"-v"),
            (BZCAT, b"-f"),
        ):
            to_file = flags[:2] in (b"-z", b"-k")
            if (path == b"/dev/full" and not to_file) or (path == FAILING and to_file):
                continue  # zeros without an end; the system's word on a new file there is not everywhere the same
            label = f"{path.decode().replace('/', '+')}-{program[4:]}{flags.decode()}"
            last = b"z" if program == BZIP2 and flags[1:2] in b"cz" else b"z.bz2"
            yield f"device-{label}", run(program, flags, path, last, files=after)


def _long_paths() -> Iterator[tuple[str, Check]]:
    """Names of files that are there, about as long as a name may be."""
    for size in (1014, 1015, 1016, 1017, 1020, 1021, 1023, 1024, 1025):
        above = b"/".join([b"d" * 200] * 4) + b"/"
        for suffix, data in ((b"", DATA), (b".bz2", PACKED), (b".tbz", PACKED)):
            path = above + b"n" * (size - len(above) - len(suffix)) + suffix
            for program, flags in ((BZIP2, b"-kv"), (BUNZIP2, b"-k"), (BZIP2, b"-tv")):
                if bool(suffix) == (program != BZIP2 or flags == b"-tv"):
                    label = f"{size}{suffix.decode()}-{program[4:]}{flags.decode()}"
                    yield f"long-path-{label}", run(program, flags, path, files=[file(path, data)])


def _several() -> Iterator[tuple[str, Check]]:
    files = [
        file(b"a", DATA),
        file(b"b", b"second"),
        file(b"c.bz2", PACKED),
        file(b"d.bz2", bs.flip(PACKED, 300)),
        file(b"e.bz2", DATA),
        file(b"f.bz2", PACKED[:-8]),
        folder(b"g"),
        file(b"h.bz2", PACKED + b"tail"),
        file(b"i.tbz", PACKED * 2),
    ]
    lists = (
        b"a b",
        b"a none b",
        b"a g b",
        b"a c.bz2 b",
        b"c.bz2 i.tbz",
        b"c.bz2 none i.tbz",
        b"e.bz2 c.bz2",
        b"c.bz2 d.bz2 i.tbz",
        b"c.bz2 f.bz2 i.tbz",
        b"h.bz2 c.bz2",
        b"d.bz2 c.bz2",
        b"g none e.bz2 h.bz2",
        b"a a",
        b"c.bz2 c.bz2",
        b"e.bz2 d.bz2 f.bz2 a",
    )
    for i, names in enumerate(lists):
        for program, flags in (
            (BZIP2, ()),
            (BZIP2, (b"-c",)),
            (BZIP2, (b"-t",)),
            (BUNZIP2, ()),
            (BUNZIP2, (b"-kq",)),
            (BZCAT, (b"-f",)),
        ):
            label = program[4:] + b"".join(flags).decode()
            used = [f for f in files if f.path in names.split()]
            yield f"several-{i}-{label}", run(program, *flags, *names.split(), files=used)


def _folders() -> Iterator[tuple[str, Check]]:
    inside = [folder(b"d"), file(b"d/x", DATA), file(b"d/y.bz2", PACKED)]
    for name in (b"d/x", b"./d/x", b"d//x", b"d/../d/x", b"d", b"d/", b"d/x/", b"x/d", b"d/y.bz2/", b".", b".."):
        yield f"path-{name.decode()}", run(BZIP2, b"-v", name, files=inside)
        yield f"path-d-{name.decode()}", run(BUNZIP2, b"-v", name, files=inside)
    for mode in (0o000, 0o200, 0o333, 0o111):
        yield f"unreadable-z-{mode:o}", run(BZIP2, b"m", files=[file(b"m", DATA, mode)])
        yield f"unreadable-d-{mode:o}", run(BUNZIP2, b"-f", b"m.bz2", files=[file(b"m.bz2", PACKED, mode)])
        yield (
            f"unreadable-output-{mode:o}",
            run(BZIP2, b"m", files=[file(b"m", DATA), file(b"m.bz2", b"in the way", mode)]),
        )
        for flags in (b"-f", b"-fv", b"-df", b"-dk"):
            pair = [file(b"m", b"in the way", mode), file(b"m.bz2", PACKED)]
            pair = pair if b"d" in flags else [file(b"m", DATA), file(b"m.bz2", b"in the way", mode)]
            name = b"m.bz2" if b"d" in flags else b"m"
            yield f"unreadable-output-{mode:o}{flags.decode()}", run(BZIP2, flags, name, files=pair)
    for mode in (0o555, 0o333, 0o666, 0o444, 0o000, 0o111):
        closed = [folder(b"d", mode), *inside[1:]]
        yield f"folder-z-{mode:o}", run(BZIP2, b"d/x", files=closed)
        yield f"folder-f-{mode:o}", run(BZIP2, b"-f", b"d/x", files=closed)
        yield f"folder-d-{mode:o}", run(BUNZIP2, b"d/y.bz2", files=closed)
        yield f"folder-c-{mode:o}", run(BZCAT, b"d/y.bz2", files=closed)
        yield f"folder-itself-{mode:o}", run(BZIP2, b"d", files=closed)
    yield "inside-d", run(BUNZIP2, b"d/y.bz2", files=inside)
    yield "cat-folder", run(BZCAT, b"d", b"d/y.bz2", files=inside)


def _names(src: Source) -> Check:
    """Several files with any suffix, mode, time and link, some outputs there already, under any usual flags."""
    files: list[InputFile] = []
    names: list[bytes] = []
    for i in range(src.between(1, 3)):
        stem = src.pick((b"f", b"data", b"x.y", b"\xc3\xbc", b"a b"))
        name = stem + b"%d" % i + src.pick(SUFFIXES)
        data = payloads.small(src, 300)
        content = bs.compressed(data) if chance(src, 60) else data
        mode, time = src.pick(MODES), src.pick(TIMES)
        kind = src.between(0, 9)
        if kind < 7:
            files.append(file(name, content, mode, time))
        elif kind == 7:
            files += [file(b"real%d" % i, content, mode, time), link(name, b"real%d" % i)]
        elif kind == 8:
            files += [file(name, content, mode, time), hard_link(b"hard%d" % i, name)]
        if chance(src, 25):
            files.append(
                file(
                    name + b".bz2" if chance(src, 50) else name.rpartition(b".")[0] or b"z",
                    b"in the way",
                    src.pick(MODES),
                )
            )
        names.append(name)
    unique = {f.path: f for f in reversed(files) if f.path not in (b".", b"")}
    flags = src.pick(
        ((), (b"-k",), (b"-f",), (b"-fk",), (b"-q",), (b"-v",), (b"-c",), (b"-d",), (b"-dk",), (b"-df",), (b"-t",))
    )
    # a hard link must come after the file it shares
    ordered = sorted(unique.values(), key=lambda f: f.kind == "file" and bool(f.target))
    return run(src.pick((BZIP2, BZIP2, BUNZIP2, BUNZIP2, BZCAT)), *flags, *names, files=ordered)


def _streams_table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    inputs = {
        "text": DATA,
        "packed": PACKED,
        "empty": b"",
        "damaged": bs.flip(PACKED, 350),
        "cut": PACKED[:-4],
        "tail": PACKED + b"xyz",
        "two": PACKED * 2,
        "long": bs.compressed(payloads.mutated(4, 30_000)),
        "foreign-long": payloads.mutated(5, 11_000),
    }
    kinds: tuple[tuple[Stdin, Stdout], ...] = (("pipe", "pipe"), ("file", "pipe"), ("pipe", "full"), ("file", "closed"))
    closed: tuple[Stdin, ...] = ("pipe", "closed")
    for name, data in inputs.items():
        for program, flags in (
            (BZIP2, ()),
            (BZIP2, (b"-d",)),
            (BZIP2, (b"-t",)),
            (BZIP2, (b"-df",)),
            (BZCAT, ()),
            (BZIP2, (b"-dv",)),
        ):
            label = f"{name}-{program[4:]}{b''.join(flags).decode()}"
            for stdin_kind, stdout in kinds:
                if data or (stdin_kind, stdout) != ("pipe", "pipe"):  # decompress-corrupt asks that
                    yield (
                        f"{label}-{stdin_kind}-{stdout}",
                        run(program, *flags, stdin=data, stdout=stdout, stdin_kind=stdin_kind),
                    )
    for program, flags in (
        (BZIP2, ()),
        (BZIP2, (b"-d",)),
        (BZIP2, (b"-t",)),
        (BZIP2, (b"-c",)),
        (BZCAT, ()),
        (BUNZIP2, (b"-f",)),
    ):
        for stdout in STDOUTS:
            yield (
                f"no-stdin-{program[4:]}{b''.join(flags).decode()}-{stdout}",
                run(program, *flags, stdout=stdout, stdin_kind="closed"),
            )
    files = [file(b"in", DATA), file(b"in.bz2", PACKED), file(b"no.bz2", DATA)]
    for stdout in STDOUTS:
        for stdin_kind in closed:
            for i, (program, args) in enumerate(
                (
                    (BZIP2, (b"-c", b"in")),
                    (BZIP2, (b"in",)),
                    (BUNZIP2, (b"-f", b"in.bz2")),
                    (BZCAT, (b"in.bz2",)),
                    (BZIP2, (b"-t", b"in.bz2")),
                    (BZCAT, (b"in.bz2", b"in.bz2")),
                    (BZCAT, (b"-f", b"in.bz2", b"in")),
                    (BZIP2, (b"-v", b"in")),
                    (BZCAT, (b"no.bz2", b"in.bz2")),
                )
            ):
                yield (
                    f"file-{i}-{stdin_kind}-{stdout}",
                    run(program, *args, files=files, stdout=stdout, stdin_kind=stdin_kind),
                )


def _streams(src: Source) -> Check:
    """Any content, damaged or whole, through stdin and stdout of any kind."""
    kind = src.between(0, 9)
    data = payloads.mixed(src)
    if kind >= 3:
        data = bs.compressed(data, src.between(1, 9))
        if kind >= 8:
            data = damaged(src, data)
        elif kind == 7:
            data += payloads.small(src, 40)
    program, flags = src.pick(
        ((BZCAT, ()), (BZIP2, (b"-d",)), (BZIP2, (b"-dc",)), (BZCAT, (b"-f",)), (BZIP2, (b"-t",)), (BZIP2, (b"-c",)))
    )
    stdout = src.pick(("pipe", "pipe", *STDOUTS))
    return run(program, *flags, stdin=data, stdout=stdout, stdin_kind=src.pick(DATA_STDINS))


NAMES = Module("names", _names_table, 300, _names)
STREAMS = Module("streams", _streams_table, 180, _streams)
