from __future__ import annotations

from collections.abc import Callable

from refactorbench.observe.model import Check, InputFile
from refactorbench.verification.shrink import Shrinker, size, weight
from verification.products import check

BIG = check(
    b"some text before " + b"N" + b" and after" * 50,
    b"-k",
    b"--bad=value",
    b"-v",
    env=((b"A", b"1"), (b"B", b"2")),
    files=tuple(InputFile(b"f%d" % i, b"content %d" % i * 20, mode=0o600, mtime=5) for i in range(6)),
    stdin_kind="file",
    stdout="full",
)


def probe(fails: Callable[[Check], bool], asked: list[Check] | None = None, cost: int = 1) -> Callable[[Check], int]:
    def run(c: Check) -> int:
        if asked is not None:
            asked.append(c)
        return cost if fails(c) else -cost

    return run


def test_only_what_the_failure_needs_is_left() -> None:
    def fails(c: Check) -> bool:
        return b"N" in c.stdin and any(a.startswith(b"--bad") for a in c.argv) and any(f.path == b"f3" for f in c.files)

    small = Shrinker(BIG, probe(fails)).run()
    assert small.stdin == b"N"
    assert small.argv == (b"upper", b"--bad")
    assert small.files == (InputFile(b"f3", b""),)
    assert (small.env, small.stdin_kind, small.stdout) == ((), "pipe", "pipe")
    assert size(small) < size(BIG) / 20


def test_what_the_failure_needs_stays() -> None:
    for fails in (
        lambda c: c.stdout == "full" and c.stdin_kind == "file",
        lambda c: (b"B", b"2") in c.env,
        lambda c: sum(f.mode == 0o600 for f in c.files) >= 2,
        lambda c: len(c.stdin) >= 100,
        lambda c: b"content 4" in b"".join(f.data for f in c.files),
    ):
        small = Shrinker(BIG, probe(fails)).run()
        assert fails(small)
        assert weight(small) < weight(BIG)


def test_bytes_that_do_not_matter_become_filler() -> None:
    small = Shrinker(check(b"\x00\xffQ\x01\x02"), probe(lambda c: len(c.stdin) == 5 and c.stdin[2:3] == b"Q")).run()
    assert small.stdin == b"aaQaa"


def test_nothing_smaller_fails_gives_the_original() -> None:
    assert Shrinker(BIG, probe(lambda c: c == BIG)).run() is BIG


def test_a_candidate_is_asked_once_and_is_always_smaller() -> None:
    asked: list[Check] = []
    Shrinker(BIG, probe(lambda c: b"N" in c.stdin, asked)).run()
    digests = [c.input_digest() for c in asked]
    assert len(digests) == len(set(digests))
    assert all(weight(c) < weight(BIG) for c in asked)


def test_the_runs_are_capped_and_costly_ones_count_more() -> None:
    for cost, most in ((1, 15), (20, 1)):
        asked: list[Check] = []
        shrinker = Shrinker(BIG, probe(lambda c: b"N" in c.stdin, asked, cost), max_runs=15)
        small = shrinker.run()
        assert len(asked) <= most
        assert b"N" in small.stdin
        assert shrinker.runs >= 15


def test_the_same_input_shrinks_alike_twice() -> None:
    one, two = (Shrinker(BIG, probe(lambda c: b"N" in c.stdin and len(c.files) > 1)).run() for _ in range(2))
    assert one == two


def test_large_data_shrinks_within_the_cap() -> None:
    data = bytearray(b"0123456789abcdef" * 65536)
    data[700_000] = 0xFF
    small = Shrinker(check(bytes(data)), probe(lambda c: b"\xff" in c.stdin)).run()
    assert small.stdin == b"\xff"
