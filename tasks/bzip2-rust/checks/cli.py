"""Modules options and messages: how the command line is read, and what is said about it."""

from __future__ import annotations

import random
from collections.abc import Iterator

from refactorbench.observe.model import Check, InputFile

from . import bitstream as bs
from . import payloads
from .common import BUNZIP2, BZCAT, BZIP2, Module, file, folder, run
from .source import Source, chance, few

DATA = payloads.text(11, 700)
PACKED = bs.compressed(DATA)

# Every flag but a third -v: what that prints is out of scope.
SHORT = [b"-" + bytes([c]) for c in b"cdzftkvqs123456789VLh"]
LONG = (
    b"--stdout --decompress --compress --force --test --keep --small --quiet --version --license --exponential "
    b"--repetitive-best --repetitive-fast --fast --best --verbose --help"
).split()
PROGRAMS = (BZIP2, BUNZIP2, BZCAT)


def _pair() -> list[InputFile]:
    return [file(b"in", DATA, 0o600), file(b"in.bz2", PACKED, 0o640)]


def _options_table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    for program in PROGRAMS:
        short = program.rpartition("/")[2]
        for flag in (*SHORT, *LONG):
            label = flag.decode()
            yield f"{short}{label}-stdin", run(program, flag, stdin=DATA if program == BZIP2 else PACKED)
        name = b"in" if program == BZIP2 else b"in.bz2"
        for flag in b"-c -t -k -f -d -z --stdout --test --decompress --compress".split():
            yield f"{short}{flag.decode()}-file", run(program, flag, name, files=_pair())
    bad = b"-x -0 -dx -- - --- --fas --fastt --FAST -1x -d- -V- --help=1 -a -r -H -?".split()
    for flag in (*bad, b"-\xff", b"--\xc3\xa9", b"- "):
        yield f"unknown-{flag.hex()}", run(BZIP2, flag, stdin=DATA)
        yield f"unknown-{flag.hex()}-file", run(BZIP2, flag, b"in", files=_pair()[:1])
    joined = (
        b"-dc -cd -zc9 -kdc -tv -tq -ct -tc -9k1 -123 -dz -zd -dt -td -tz -zt -cv "
        b"-ck -fk -sd -vc -qv -vq -sdc -LV -hV -Vh -Lx"
    )
    for flag in (*joined.split(), b"-dchz"):
        yield f"joined{flag.decode()}", run(BZIP2, flag, b"in.bz2", files=_pair()[1:])
        yield f"joined{flag.decode()}-stdin", run(BZIP2, flag, stdin=PACKED)
    orders = (
        b"in -k",
        b"in -k -9 -- -c",
        b"-k -- in",
        b"-- -k",
        b"-- -- in",
        b"-c -- - in",
        b"in -- in",
        b"- in -k",
        b"--keep in -v",
        b"in -vv",
        b"-v in -v",
        b"in -d --compress",
        b"--decompress -z in",
        b"--test --compress in",
        b"-c -t in",
        b"--stdout --test in",
        b"-t -- -c",
    )
    for i, args in enumerate((*(o.split() for o in orders), [b"", b"in"], [b"-k", b""])):
        yield f"order-{i}", run(BZIP2, *args, files=_pair()[:1], stdin=b"standard input")
    yield from _environment()
    names = (
        b"bunzip2 bzcat /usr/bin/bunzip2 ./a/b/bzcat UNZIP xunzipx myz2cat Z2CAT zcat xZCATx unzip/bzip2 bzcat/ / "
        b"bzip2/unzip Unzip Zcat b\xffz lbunzip2zcat -bzip2 %s%n"
    )
    for i, name in enumerate((*names.split(), b"")):
        yield f"name-{i}", run(BZIP2, stdin=PACKED, name=name)
        yield f"name-{i}-bad", run(BZIP2, b"-x", name=name)
        yield f"name-{i}-file", run(BZIP2, b"-k", b"in.bz2", files=_pair()[1:], name=name)


def _environment() -> Iterator[tuple[str, Check]]:
    plain = b"-d,-dc,-9,-1 -v,  -k  ,-x,in,-k in,--,-c --,, ,-L,--best,-h".split(b",")
    for i, value in enumerate((*plain, b"\t-k\n-v")):
        for name in (b"BZIP2", b"BZIP"):
            yield f"env-{name.decode()}-{i}", run(BZIP2, b"-k", b"in", files=_pair()[:1], env=[(name, value)])
        yield f"env-unzip-{i}", run(BUNZIP2, stdin=PACKED, env=[(b"BZIP2", value)], files=_pair()[:1])
    both = [(b"BZIP2", b"-1 -v"), (b"BZIP", b"-9 -v")]
    yield "env-both", run(BZIP2, b"-k", b"in", files=_pair()[:1], env=both)
    yield "env-both-reversed", run(BZIP2, b"-k", b"in", files=_pair()[:1], env=both[::-1])
    yield "env-long", run(BZIP2, b"-k", b"in", files=_pair()[:1], env=[(b"BZIP2", b"-" + b"k" * 1500)])
    for n in (1023, 1024, 1025, 1026, 1100):  # what is cut off a word is no word of its own
        for name in (b"BZIP2", b"BZIP"):
            value = b"-q -" + b"k" * (n - 1) + b" -vv -" + b"1" * (n - 2) + b"x"
            yield f"env-long-{name.decode()}-{n}", run(BZIP2, b"in", files=_pair()[:1], env=[(name, value)])
    yield "env-long-name", run(BZIP2, b"-k", b"in", files=_pair()[:1], env=[(b"BZIP", b"n" * 1100)])
    yield "env-high", run(BZIP2, b"-k", b"in", files=_pair()[:1], env=[(b"BZIP2", b"\xa0-k\x85\xff")])
    yield "env-vertical", run(BZIP2, b"-k", b"in", files=_pair()[:1], env=[(b"BZIP2", b"-v\x0b-9\x0c-q\r")])


def flags_without_third_v(src: Source, low: int = 0, high: int = 4) -> list[bytes]:
    """Short, joined and long flags in any order, with at most two -v altogether."""
    out: list[bytes] = []
    verbose = 0
    for _ in range(src.between(low, high)):
        if chance(src, 25):
            flag = src.pick(LONG)
        else:
            letters = few(src, b"kcfdzqtsv123456789vvkcdtVLxh", 1, 3)
            flag = b"-" + bytes(letters)
        verbose += flag == b"--verbose" or (flag.count(b"v") if not flag.startswith(b"--") else 0)
        if verbose > 2:
            break
        out.append(flag)
    return out


def _options(src: Source) -> Check:
    """Flags, names and the ends of flags in any order, over a file to compress and one to decompress."""
    data = payloads.small(src, 300)
    args = flags_without_third_v(src)
    for name in few(src, (b"in", b"in.bz2", b"none", b"--", b"-", b"in"), 0, 2):
        args.insert(src.between(0, len(args)), name)
    env = []
    if chance(src, 15):
        words = [f for f in flags_without_third_v(src, 1, 2) if b"v" not in f]
        env = [(src.pick((b"BZIP2", b"BZIP")), b" ".join(words))]
    files = [file(b"in", data, 0o600), file(b"in.bz2", bs.compressed(data + b"."))]
    program = src.pick((BZIP2, BZIP2, BUNZIP2, BZCAT))
    stdin = bs.compressed(data) if chance(src, 50) else data
    return run(program, *args, stdin=stdin, files=files, env=env)


def _messages_table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    for flag in (b"-v", b"-vv", b"-v1", b"-vvk", b"-vc", b"-vvc"):
        for i, n in enumerate((0, 1, 9, 10, 99, 1000, 4000)):
            data = payloads.text(n, n)
            yield f"ratio{flag.decode()}-{n}", run(BZIP2, flag, b"in", files=[file(b"in", data)])
            packed = file(b"in.bz2", bs.compressed(data, 1 + i))
            yield f"unpack{flag.decode()}-{n}", run(BUNZIP2, flag, b"in.bz2", files=[packed])
    for n in (1, 3, 40, 1000, 30_000):
        yield f"better-{n}", run(BZIP2, b"-v", stdin=bytes([65]) * n * 7)
    names = (b"a", b"abcdef", b"abcdefg", b"abcdefgh", b"a-rather-long-name", b"\xc3\xa9t\xc3\xa9", b"tab\there")
    for i in range(len(names)):
        files = [file(n, payloads.text(len(n), 90)) for n in names[i:]]
        yield f"pad-{i}", run(BZIP2, b"-v", *names[i:], files=files)
        yield f"pad-test-{i}", run(BZIP2, b"-tv", *names[i:], files=[file(n, bs.compressed(n)) for n in names[i:]])
    for n in (300, 1024, 1025, 1500, 70_000):  # a name too long to be used counts for where the others' figures stand
        yield f"pad-far-{n}", run(BZIP2, b"-tv", b"a", b"n" * n, b"a", files=[file(b"a", bs.compressed(b"a"))])
        yield f"pad-far-{n}-c", run(BZIP2, b"-cv", b"a", b"n" * n, files=[file(b"a", b"a")])
    yield "blocks-vv", run(BZIP2, b"-vv1", stdin=payloads.mutated(6, 215_000))
    yield "blocks-tvv", run(BZIP2, b"-tvv", stdin=bs.compressed(payloads.mutated(6, 215_000), 1))
    yield "streams-tvv", run(BZIP2, b"-tvv", stdin=PACKED * 3)
    yield "streams-dvv", run(BUNZIP2, b"-vv", stdin=PACKED * 3)
    states = {
        "missing": [],
        "directory": [folder(b"in"), folder(b"in.bz2")],
        "foreign": [file(b"in", DATA), file(b"in.bz2", DATA)],
        "both": [file(b"in", DATA, 0o600), file(b"in.bz2", PACKED, 0o604)],
        "empty": [file(b"in"), file(b"in.bz2")],
        "damaged": [file(b"in", DATA), file(b"in.bz2", bs.flip(PACKED, 400))],
        "cut": [file(b"in", DATA), file(b"in.bz2", PACKED[:-5])],
    }
    for state, files in states.items():
        yield f"{state}", run(BZIP2, b"in", files=files)
        for flags in b"-q -v -k -f -c -t -tq -dv -df -dq".split():
            yield f"{state}{flags.decode()}", run(BZIP2, flags, b"in.bz2" if b"d" in flags else b"in", files=files)
        yield f"{state}-bunzip2", run(BUNZIP2, b"in.bz2", files=files)
        yield f"{state}-bzcat", run(BZCAT, b"in.bz2", files=files)
        yield f"{state}-rest", run(BUNZIP2, b"in.bz2", b"other", b"third", files=files)
        yield f"{state}-rest-quiet", run(BUNZIP2, b"-q", b"in.bz2", b"other", b"third", files=files)
    for n in (1000, 1024, 1025, 1030, 2000, 5000):
        yield f"long-name-{n}", run(BZIP2, b"n" * n)
        yield f"long-path-{n}", run(BZIP2, b"-d", (b"d/" * n)[:n], b"in")
        yield f"long-argv0-{n}", run(BZIP2, b"-h", name=b"p" * n)


def _messages(src: Source) -> Check:
    """Verbose or quiet runs over several files in different states."""
    flags = [src.pick(b"-v -vv -q -vq -tv -tvv -dv -dvv -kv -cv -fv -t -tq".split())]
    files, names = [], []
    for i in range(src.between(1, 4)):
        stem = src.pick((b"f", b"file", b"longer-name", b"a.tar", b"\xe2\x82\xac", b"sp ace")) + b"%d" % i
        data = payloads.small(src, 500)
        kind = src.between(0, 7)
        name = stem + src.pick((b".bz2", b".bz2", b".tbz", b""))
        content = (bs.compressed(data), bs.compressed(data), bs.compressed(data)[:-4], data)[kind % 4]
        if kind == 7 and data:
            content = bs.flip(bs.compressed(data), 300)
        if kind != 6:
            files.append(file(name, content, src.pick((0o644, 0o600, 0o444))))
        names.append(name)
    return run(src.pick((BZIP2, BUNZIP2, BZCAT)), *flags, *names, files=files)


OPTIONS = Module("options", _options_table, 260, _options)
MESSAGES = Module("messages", _messages_table, 240, _messages)
