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
from refactorbench.errors import TaskError
from refactorbench.observe.model import Check, InputFile
from refactorbench.verification.scope import identifies_tree

ROOT = Path(__file__).resolve().parents[2]
TASK = ROOT / "tasks" / "bzip2-rust"
SEED = 1

generate: Any = load_module(TASK / "checks" / "generate.py")
bs: Any = generate.part("bitstream")
payloads: Any = generate.part("payloads")
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
    assert sum(sizes) <= 30_000_000


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
