"""The task bzip2-rust as data: what is asked, what is out of scope, and that the hand-written streams are streams."""

from __future__ import annotations

import bz2
import hashlib
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
import pytest

from refactorbench.catalog.load import load_task
from refactorbench.catalog.models import LoadedTask
from refactorbench.catalog.python import load_module, strategies
from refactorbench.catalog.recordings import load_recording
from refactorbench.errors import TaskError
from refactorbench.observe.model import NOW, SECOND, Check, InputFile
from refactorbench.verification.scope import identifies_tree

ROOT = Path(__file__).resolve().parents[2]
TASK = ROOT / "tasks" / "bzip2-rust"
SEED = 1

generate: Any = load_module(TASK / "checks" / "generate.py")
bs: Any = generate.part("bitstream")
payloads: Any = generate.part("payloads")
made: Any = generate.part("crafted")
source: Any = generate.part("source")
common: Any = generate.part("common")


@pytest.fixture(scope="module")
def loaded() -> LoadedTask:
    return load_task(ROOT, "bzip2-rust")


@pytest.fixture(scope="module")
def fixed() -> list[Check]:
    return list(generate.fixed(SEED))


def digest(checks: list[Check]) -> str:
    return hashlib.sha256("".join(c.id + c.input_digest() for c in checks).encode()).hexdigest()


def test_there_are_enough_checks_in_enough_modules_and_none_is_too_large(
    loaded: LoadedTask, fixed: list[Check]
) -> None:
    modules = Counter(c.module for c in fixed)
    assert len(fixed) >= loaded.task.minimum_checks >= 3000
    assert len(modules) >= 10
    assert max(modules.values()) / len(fixed) <= loaded.task.largest_module_share
    assert sum(n for m, n in modules.items() if m.startswith("driver-")) >= 300


def test_no_two_checks_share_an_id_or_an_input(fixed: list[Check]) -> None:
    assert len({c.id for c in fixed}) == len(fixed)
    assert len({c.input_digest() for c in fixed}) == len(fixed)


def test_a_table_that_asks_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(rng: random.Random) -> Iterator[tuple[str, Check]]:
        yield "one", common.run(common.BZIP2, stdin=b"x")
        yield "two", common.run(common.BZIP2, stdin=b"x")

    monkeypatch.setattr(generate, "modules", lambda: (common.Module("m", twice),))
    with pytest.raises(TaskError, match="m/two"):
        list(generate.fixed(SEED))


def test_a_generator_that_runs_dry_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    dry = common.Module("dry", lambda rng: iter(()), 2, lambda src: common.run(common.BZIP2, stdin=b"always"))
    monkeypatch.setattr(generate, "modules", lambda: (dry,))
    with pytest.raises(TaskError, match="dry"):
        list(generate.fixed(SEED))


def test_the_same_seed_gives_the_same_checks_in_any_process(fixed: list[Check]) -> None:
    code = (
        "import sys, hashlib; from pathlib import Path; from refactorbench.catalog.python import load_module;"
        "fixed = load_module(Path(sys.argv[1])).fixed(int(sys.argv[2]));"
        "print(hashlib.sha256(''.join(c.id + c.input_digest() for c in fixed).encode()).hexdigest())"
    )
    argv = [sys.executable, "-c", code, str(TASK / "checks" / "generate.py"), str(SEED)]
    env = {**os.environ, "PYTHONHASHSEED": "77"}
    assert subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.strip() == digest(fixed)


def test_another_seed_draws_other_inputs_under_the_same_ids(fixed: list[Check]) -> None:
    other = list(generate.fixed(SEED + 1))
    assert [c.id for c in other] == [c.id for c in fixed]
    drawn = [i for i, c in enumerate(fixed) if "/draw-" in c.id]
    same = sum(fixed[i].input_digest() == other[i].input_digest() for i in drawn)
    assert same < len(drawn) / 10


def test_recorded_checks_are_in_scope_and_small(loaded: LoadedTask, fixed: list[Check]) -> None:
    deny = strategies(loaded).deny
    assert [(c.id, name) for c in fixed for name, rule in deny.items() if rule(c)] == []
    sizes = [len(c.stdin) + sum(len(f.data) for f in c.files) for c in fixed]
    assert max(sizes) <= 1_100_000
    assert sum(sizes) <= 50_000_000


def test_fresh_checks_come_from_the_same_generators_in_the_same_proportions() -> None:
    fresh = list(generate.draw(random.Random(5), 1500))
    assert [c.id for c in fresh] == [f"fresh/{i:05d}" for i in range(1500)]
    assert len({c.input_digest() for c in fresh}) == 1500
    draws = {m.name: m.draws for m in generate.modules() if m.draw is not None}
    seen = Counter(c.module for c in fresh)
    assert set(seen) == set(draws)
    total = sum(draws.values())
    assert all(abs(seen[m] / 1500 - n / total) < 0.04 for m, n in draws.items())
    again = list(generate.draw(random.Random(5), 1500))
    assert digest(again) == digest(fresh)


def test_loading_leaves_nothing_in_the_task() -> None:
    assert not list(TASK.rglob("__pycache__"))


@pytest.mark.parametrize("randomised", [0, 1])
@pytest.mark.parametrize("size", [1, 40, 617, 618, 3000])
def test_hand_written_streams_are_what_another_reader_reads(size: int, randomised: int) -> None:
    data = payloads.text(size, size)
    used = range(256) if size == 40 else None
    stream = bs.stream([bs.Block(data, randomised=randomised, used=used), bs.Block(b"ooooooooo")], level=3)
    assert bz2.decompress(stream) == data + b"ooooooooo"


@pytest.mark.parametrize("change", [{"crc": 1}, {"origin": 1 << 23}, {"groups": 7}, {"selector_count": 0}])
def test_a_wrong_field_is_not_read(change: dict[str, int]) -> None:
    with pytest.raises((OSError, EOFError)):
        bz2.decompress(bs.stream([bs.Block(payloads.text(1, 300), **change)]))


def test_bits_are_replaced_where_they_are() -> None:
    assert bs.flip(b"\x00\x00", 9) == b"\x00\x40"
    assert bs.put(b"\xff\xff\xff", 6, 5, 0b00100) == b"\xfc\x9f\xff"


def read(stream: bytes) -> bytes | None:
    """What another reader makes of one stream and of nothing behind it."""
    try:
        return bz2.BZ2Decompressor().decompress(stream)
    except (OSError, EOFError):
        return None


def test_checksums_are_those_that_another_writer_writes() -> None:
    for data in (b"\0", b"\xff" * 9, payloads.text(3, 400)):
        packed = bz2.compress(data)
        assert int.from_bytes(packed[10:14], "big") == bs.crc(data)
    assert bs.crc(b"") == 0


@pytest.mark.parametrize("count", [1, 4, 5, 6, 255, 256, 99_999, 100_000])
def test_a_constant_block_of_any_length_is_a_stream_unless_it_ends_within_a_run(count: int) -> None:
    data = bs.un_run_coded(bytes([3]) * count)
    seen = read(bs.stream([bs.constant(3, count)], level=1))
    assert seen == data if count % 5 != 4 else seen is None and data is None


def test_a_constant_block_beyond_its_level_is_not_read() -> None:
    assert read(bs.stream([bs.constant(0, 100_001)], level=1)) is None
    assert read(bs.stream([bs.constant(0, 100_001)], level=2)) is not None


@pytest.mark.parametrize("data", [b"banana", b"\0" * 3, payloads.text(1, 300), bytes(range(256))])
def test_rotation_and_ranks_are_undone(data: bytes) -> None:
    column, origin = bs.rotated(data)
    assert bs.unrotated(column, origin) == data
    used = sorted(set(data))
    assert bs.column_of(bs.moved_to_front(column, used), used) == column
    assert bs.un_run_coded(bs.run_coded(data)) == data


def test_symbols_in_any_order_make_streams_that_are_read_and_twisted_ones_that_are_not() -> None:
    rng = source.RandomSource(random.Random(4))
    lawless = [bs.stream([made.lawless(rng)]) for _ in range(200)]
    assert sum(read(data) is not None for data in lawless) > 60
    twisted = [bs.stream([made.twisted(rng, made.plain(rng), 9)]) for _ in range(200)]
    refused = sum(read(data) is None for data in twisted)
    assert 40 < refused < 180


def test_a_cut_behind_a_block_leaves_just_its_bytes() -> None:
    rng = source.RandomSource(random.Random(6))
    exact = 0
    for _ in range(60):
        data, whole = made.cut_behind_block(rng, (5, 40, 300))
        got = read(data)
        exact += got is not None and len(got) == whole
    assert 20 < exact < 60


def test_any_column_becomes_that_of_a_text() -> None:
    letters = random.Random(1).choices(b"abcdefgh", k=400)
    column = bytearray(b for b, last in zip(letters, [0, *letters], strict=False) if b != last)
    before = bs.unrotated(bytes(column), 0)
    assert bs.rotated(before)[0] != bytes(column)  # several cycles: no text has it
    bs.one_cycle(column)
    assert bs.rotated(bs.unrotated(bytes(column), 0))[0] == bytes(column)


def test_ranked_contents_have_longer_codes_than_text() -> None:
    ranked = [longest_code(bz2.compress(payloads.ranked(i, 32_000, 1.76), 1)) for i in range(4)]
    assert max(ranked) >= 14
    assert longest_code(bz2.compress(payloads.text(1, 32_000), 1)) < 12


def longest_code(packed: bytes) -> int:
    """Of the first block's coding tables."""
    bits = f"{int.from_bytes(packed, 'big'):0{8 * len(packed)}b}"
    at = 8 * 4 + 48 + 32 + 1 + 24
    rows = bits[at : at + 16].count("1")
    used = bits[at + 16 : at + 16 + 16 * rows].count("1")
    at += 16 + 16 * rows
    tables, selectors = int(bits[at : at + 3], 2), int(bits[at + 3 : at + 18], 2)
    at += 18
    for _ in range(selectors):
        at = bits.index("0", at) + 1
    longest = 0
    for _ in range(tables):
        current = int(bits[at : at + 5], 2)
        at += 5
        for _ in range(used + 2):
            while bits[at] == "1":
                current += 1 if bits[at + 1] == "0" else -1
                at += 2
            at += 1
            longest = max(longest, current)
    return longest


def test_corners_are_drawn_often_and_everything_between_them_too() -> None:
    rng = source.RandomSource(random.Random(2))
    drawn = Counter(source.edgy(rng, 0, 1000, 500) for _ in range(3000))
    assert min(drawn) == 0 and max(drawn) == 1000
    assert sum(drawn[n] for n in (0, 1, 499, 500, 501, 999, 1000)) > 1200
    assert len(drawn) > 500


def test_the_sort_gives_up_or_not_by_the_patience_that_is_asked_for(loaded: LoadedTask) -> None:
    told: dict[str, list[bool]] = {}
    for row in load_recording(loaded).rows("driver-stream"):
        _, _, which = row.check.id.partition("/patience-")
        if which:
            told.setdefault(which.rpartition("-")[0], []).append(b"too repetitive" in row.observation.stderr)
    assert len(told) == 16
    assert sum(len(set(answers)) == 2 for answers in told.values()) >= 12  # others never or always give up


def test_times_before_1970_and_after_2106_are_recorded(loaded: LoadedTask) -> None:
    times = {f.mtime for row in load_recording(loaded).rows("names") for f in row.observation.files}
    assert min(times - {NOW}) < -(SECOND << 31) and max(times) > SECOND << 32


def check(program: str, *args: bytes, **fields: Any) -> Check:
    made: Check = common.run(program, *args)
    return msgspec.structs.replace(made, **fields)


MARK = bytes.fromhex("314159265359")
ENV = ((b"BZIP2", b"-vv"),)
PLAIN = (InputFile(b"f"),)
OUTSIDE = [
    ("very_verbose", check("bin/bzip2", b"-vvv"), check("bin/bzip2", b"-vv", b"--", b"-v")),
    ("very_verbose", check("bin/bzcat", b"-v", b"--verbose", b"-kv"), check("bin/bzcat", b"-v", b"--vvv", b"-v")),
    (
        "very_verbose",
        check("bin/bzip2", b"-v", env=((b"BZIP2", b"-vv"),)),
        check("bin/bzip2", env=((b"BZIP2", b"-vv"),)),
    ),
    ("very_verbose", check("drivers/stream", b"ci:1:3:0"), check("drivers/stream", b"ci:3:2:30", b"c:3:9:9")),
    ("very_verbose", check("drivers/buffer", b"c:1:4:0:50"), check("drivers/buffer", b"c:1:5:0:50")),
    ("very_verbose", check("drivers/stdio", b"ro:in:3:0:0"), check("drivers/stdio", b"ro:in:2:1:5")),
    ("unknown_program", check("bin/sh"), check("bin/bzip2recover")),
    ("unknown_program", check("bin/bzip2", argv=()), check("bin/bzip2", argv=(b"",))),
    (
        "pipe_by_name",
        check("bin/bzip2", files=(InputFile(b"p", kind="fifo"),)),
        check("bin/bzip2", files=(InputFile(b"p"),)),
    ),
    ("enormous", check("bin/bzip2", stdin=bytes(17 << 20)), check("bin/bzip2", stdin=bytes(1 << 20))),
    (
        "enormous",
        check("bin/bzip2recover", files=(InputFile(b"f", MARK * 40_001),)),
        check("bin/bzip2", files=(InputFile(b"f", MARK * 40_001),)),
    ),
    (
        "special_mode",
        check("bin/bzip2", files=(InputFile(b"f", mode=0o4755),)),
        check("bin/bzip2", files=(InputFile(b"f"),)),
    ),
]


@pytest.mark.parametrize("rule, outside, inside", OUTSIDE)
def test_what_is_out_of_scope_is_denied_and_its_neighbour_is_not(
    loaded: LoadedTask, rule: str, outside: Check, inside: Check
) -> None:
    deny = strategies(loaded).deny
    assert deny[rule](outside)
    assert not any(r(inside) for r in deny.values())


def test_every_deny_rule_is_named_in_the_briefs(loaded: LoadedTask) -> None:
    assert set(loaded.briefs.scope.deny_rules) == set(strategies(loaded).deny) == {rule for rule, _, _ in OUTSIDE}


@pytest.mark.parametrize("direction", ["compression", "damage", "command_line", "library", "recovery_and_streams"])
def test_what_a_strategy_draws_is_in_scope(loaded: LoadedTask, direction: str) -> None:
    tables = strategies(loaded)
    drawn: list[Check] = []

    @hypothesis.seed(3)
    @hypothesis.settings(
        max_examples=60, database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(tables.strategies[direction])
    def collect(check: Check) -> None:
        drawn.append(check)

    collect()
    assert len({c.input_digest() for c in drawn}) > 30
    assert not [c for c in drawn if identifies_tree(c) or any(rule(c) for rule in tables.deny.values())]


def test_inputs_shrink(loaded: LoadedTask) -> None:
    strategy = strategies(loaded).strategies["compression"]
    quiet = hypothesis.settings(database=None, suppress_health_check=list(hypothesis.HealthCheck), max_examples=300)
    least = hypothesis.find(strategy, lambda c: len(c.stdin) >= 100, settings=quiet, random=random.Random(1))
    assert len(least.stdin) < 140


@pytest.mark.parametrize("name", ["stream", "buffer", "stdio"])
def test_drivers_compile_against_the_header_without_a_warning(name: str) -> None:
    source = TASK / "drivers" / f"{name}.c"
    argv = ["gcc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", str(TASK / "solution"), str(source)]
    assert subprocess.run(argv, capture_output=True, text=True).stderr == ""


@pytest.mark.parametrize("name", ["state_a.sh", "target.sh"])
def test_recipes_are_plain_shell(name: str) -> None:
    assert subprocess.run(["sh", "-n", str(TASK / "build" / name)]).returncode == 0


def test_every_direction_but_the_free_one_has_a_strategy_of_its_own(loaded: LoadedTask) -> None:
    named = [d.strategy for d in loaded.briefs.direction]
    assert sorted(named[:-1]) == sorted(strategies(loaded).strategies)
    assert named[-1] == ""


def test_there_are_seven_criteria_and_every_eye_looks(loaded: LoadedTask) -> None:
    criteria = loaded.criteria.criterion
    assert sum(c.required for c in criteria) >= 7
    assert {eye for c in criteria for eye in c.eyes} == {"source", "build", "runtime"}
