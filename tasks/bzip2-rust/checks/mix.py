"""Module mix: all of a command at once: names, flags, variables, what lies where, and how several of it go wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator

from refactorbench.observe.model import Check, InputFile

from . import bitstream as bs
from . import crafted as made
from . import payloads
from .cli import LONG, SHORT, flags_without_third_v
from .common import BUNZIP2, BZCAT, BZIP2, DATA_STDINS, STDOUTS, Module, file, folder, hard_link, link, run
from .damage import bad
from .names import FAILING, TIMES
from .source import Source, chance, few

# Names by which the program is called: with each part that it looks for, nearly, twice, in the path alone.
CALLED = (
    b"bzip2", b"bunzip2", b"bzcat", b"bz2cat", b"unzip", b"UNZIP", b"Unzip", b"zcat", b"ZCAT", b"z2cat", b"Z2CAT",
    b"Zcat",
    b"./bzip2", b"/usr/bin/bunzip2", b"a/bzcat", b"unzip/bzip2", b"zcat/b", b"bzip2/", b"/", b"", b"x y", b"xunzipzcatx",
    b"bunzip2-1.0", b"lbzcat", b"bzip2recover", b"-", b"%d", b"b\xffz", b"gunzip", b"BZIP2", b"bzca", b"unzi",
)  # fmt: skip
SUFFIXES = (
    b".bz2",
    b".bz2",
    b".bz",
    b".tbz2",
    b".tbz",
    b"",
    b"",
    b".tar.bz2",
    b".tgz",
    b".bz3",
    b".BZ2",
    b".bz2.bz2",
    b".tar",
)
STEMS = (
    b"f",
    b"in",
    b"x.y",
    b"long-enough-name",
    b"a b",
    b"\xc3\xbc",
    b"-k",
    b"n\nl",
    b"*",
    b"",
    b"d/f",
    b"./f",
    b"d//f",
)
MODES = (0o644, 0o644, 0o600, 0o444, 0o755, 0o640, 0o000, 0o200, 0o400, 0o777, 0o611)
SPACES = (b" ", b"  ", b"\t", b"\n", b"\r", b"\x0b", b"\x0c", b" \t ")


def content(src: Source) -> bytes:
    """What a file to be read may hold: mostly a stream, whole or not."""
    kind = src.between(0, 11)
    if kind < 5:
        return bs.compressed(payloads.small(src, 200), src.between(1, 9))
    if kind < 7:
        return payloads.small(src, 200)
    if kind == 7:
        return bad(src)
    if kind == 8:
        return made.tailed(src)
    if kind == 9:
        return bs.compressed(payloads.small(src, 90)) * 2
    return src.pick((b"", b"B", b"BZ", b"BZh", b"BZh9", bs.stream([]), b"not bzip2", b"BZh9" + bytes(30)))


def _entry(src: Source, name: bytes, i: int) -> list[InputFile]:
    """What lies under a name: a file, or a link to one, a folder, nothing."""
    kind = src.between(0, 15)
    data, mode, mtime = content(src), src.pick(MODES), src.pick(TIMES)
    if kind < 10:
        return [file(name, data, mode, mtime)]
    if kind == 10:
        return [file(b"real%d" % i, data, mode, mtime), link(name, b"real%d" % i)]
    if kind == 11:
        more = [hard_link(b"hard%d" % i, name), hard_link(b"hard-too%d" % i, name)][: src.between(1, 2)]
        return [file(name, data, mode, mtime), *more]
    if kind == 12:
        return [folder(name, src.pick((0o755, 0o700, 0o000)))]
    return [] if kind < 15 else [link(name, src.pick((b"nowhere", name, FAILING)))]


def _outputs(name: bytes) -> tuple[bytes, ...]:
    """Where its output goes, compressed or not."""
    for suffix, then in ((b".bz2", b""), (b".bz", b""), (b".tbz2", b".tar"), (b".tbz", b".tar")):
        if name.endswith(suffix):
            return (name + b".bz2", name[: -len(suffix)] + then)
    return (name + b".bz2", name + b".out")


def _in_the_way(src: Source, name: bytes, given: bytes) -> list[InputFile]:
    """What lies where the output of `given` goes, or is linked with it."""
    kind = src.between(0, 10)
    if kind < 6:
        return [file(name, b"in the way", src.pick(MODES))]
    if kind < 8:
        return [link(name, src.pick((b"nowhere", b"aside", given.rpartition(b"/")[2])))]
    if kind < 9:
        return [hard_link(name, given)]
    return [folder(name), *([file(name + b"/in", b"in")] if kind == 10 else [])]


def _scene(src: Source) -> tuple[list[InputFile], list[bytes]]:
    """Files and the names that are given, in one folder and one below it."""
    files, names = [folder(b"d"), file(b"aside", b"aside", 0o600)], []
    for i in range(src.between(1, 4)):
        name = src.pick(STEMS) + (b"%d" % i if chance(src, 80) else b"") + src.pick(SUFFIXES)
        if name in (b"", b".", b"..") or name.endswith(b"/"):
            name = b"other"
        place = name.replace(b"//", b"/").removeprefix(b"./")
        files += _entry(src, place, i)
        if chance(src, 20):
            files += _in_the_way(src, src.pick(_outputs(place)) or b"z", place)
        names.append(name)
        if chance(src, 10):
            names.append(src.pick((b"none", b"d", b"", b"d/", b".", b"aside", name, b"x" * 300)))
    taken: dict[bytes, InputFile] = {}
    plain: set[bytes] = set()
    for f in files:
        above = taken.get(f.path.rpartition(b"/")[0])
        shared = f.kind == "file" and bool(f.target)
        if (
            f.path in taken
            or f.path.endswith(b"/")
            or (above and above.kind != "dir")
            or (shared and f.target not in plain)
        ):
            continue
        taken[f.path] = f
        if f.kind == "file" and not shared:
            plain.add(f.path)
    ordered = sorted(taken.values(), key=lambda f: (f.kind == "file" and bool(f.target), f.path != b"d"))
    return ordered, names


def environment(src: Source) -> list[tuple[bytes, bytes]]:
    """BZIP2, BZIP or both, of flags, names and white space of every kind."""
    out = []
    for name in few(src, (b"BZIP2", b"BZIP"), 0, 2) if chance(src, 30) else []:
        words = [
            src.pick(
                (b"-k", b"-q", b"-1", b"-s", b"-c", b"-d", b"-f", b"-t", b"-kq", b"--keep", b"--", b"-x", b"in", b"-")
            )
            for _ in range(src.between(0, 3))
        ]
        value = b"".join(w + src.pick(SPACES) for w in words)
        value = src.pick(SPACES) + value if chance(src, 30) else value if chance(src, 30) else value.rstrip()
        if name not in dict(out):
            out.append((name, value))
    return out


def _command(src: Source) -> Check:
    files, names = _scene(src)
    args = flags_without_third_v(src, 0, 3)
    if chance(src, 25):
        args.insert(src.between(0, len(args)), src.pick(LONG))
    if chance(src, 7):
        args.insert(
            src.between(0, len(args)), src.pick((b"-x", b"-0", b"--bad", b"-dx", b"-", b"---", b"--k", b"-1\xff"))
        )
    while sum(a == b"--verbose" or (not a.startswith(b"--") and a.count(b"v")) for a in args) > 2:
        args.pop()
    for name in names:
        args.insert(len(args) if chance(src, 70) else src.between(0, len(args)), name)
    if chance(src, 10):
        args.insert(src.between(0, len(args)), b"--")
    called = src.pick(CALLED) if chance(src, 20) else None
    program = src.pick((BZIP2, BZIP2, BUNZIP2, BZCAT))
    stdout = src.pick(STDOUTS) if chance(src, 8) else "pipe"
    stdin = content(src) if chance(src, 20) else b""
    return run(program, *args, files=files, env=environment(src), name=called, stdout=stdout, stdin=stdin)


def _through(src: Source) -> Check:
    """Without a name: what is read from stdin, under any name, flags and variables."""
    args = flags_without_third_v(src, 0, 2)
    called = src.pick(CALLED) if chance(src, 50) else None
    env = environment(src)
    return run(
        src.pick((BZIP2, BUNZIP2, BZCAT)),
        *args,
        stdin=content(src),
        stdin_kind=src.pick(DATA_STDINS),
        name=called,
        env=env,
    )


def draw(src: Source) -> Check:
    return _through(src) if chance(src, 25) else _command(src)


def _table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    data = payloads.text(61, 300)
    good, broken = bs.compressed(data), bs.flip(bs.compressed(data), 300)
    for i, name in enumerate(CALLED):
        yield f"called-{i}-packed", run(BZIP2, stdin=good, name=name)
        yield f"called-{i}-foreign", run(BZIP2, b"-tq", b"in", files=[file(b"in", data)], name=name)
    for i, space in enumerate(SPACES):
        for name in (b"BZIP2", b"BZIP"):
            value = space + b"-k" + space + b"-1" + space
            yield f"space-{i}-{name.decode()}", run(BZIP2, b"f", files=[file(b"f", data)], env=[(name, value)])
    pair = [
        file(b"a.bz2", good),
        file(b"b.bz2", broken),
        file(b"c", data),
        file(b"e.bz2", good[:-9]),
        file(b"g.tbz", good),
    ]
    for first in range(len(pair)):
        for second in range(len(pair)):
            for flags in (b"-d", b"-t", b"-tq", b"-dc"):
                if first != second:
                    names = [pair[first].path, b"none", pair[second].path]
                    yield (
                        f"pair-{first}-{second}{flags.decode()}",
                        run(BZIP2, flags, *names, files=[pair[first], pair[second]]),
                    )
    for flag in SHORT:
        for other in (b"-d", b"-z", b"-t", b"-c", b"-q", b"-k", b"-f"):
            if flag not in (b"-h", b"-v", other):
                yield (
                    f"both{flag.decode()}{other.decode()}",
                    run(BZIP2, flag, other, b"in.bz2", files=[file(b"in.bz2", good, 0o620)]),
                )
    for mode in range(0o100, 0o1000, 0o111):
        yield f"bits-{mode:o}", run(BZIP2, b"m", files=[file(b"m", data, mode | 0o400)])
        yield f"bits-d-{mode:o}", run(BUNZIP2, b"m.bz", files=[file(b"m.bz", good, mode | 0o400)])


MIX = Module("mix", _table, 640, draw)
