"""Drawing in a process of its own, and six verifiers side by side. The children are real; the products are scripted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from refactorbench.catalog.models import Briefs, Direction, JudgeSeat, Panel, Scope, VerifierSeat
from refactorbench.errors import HarnessError, TaskError
from refactorbench.outcome import Owner, Status
from refactorbench.sandbox.protocol import Limits
from refactorbench.verification import stage
from refactorbench.verification.draw import chunk_seed
from refactorbench.verification.model import ChunkResult, Plan, StageResult, VerifierResult
from refactorbench.verification.stage import defects, plans, run_verifier, verify
from verification import products
from verification.products import spec

TESTS = Path(__file__).parent.parent

STRATEGIES = """
from hypothesis import strategies as st
from refactorbench.observe.model import Check

print("a strategies file may print")
def made(text):
    return Check("x", "m", "process", "bin/upper", (b"upper",), text)

STRATEGIES = {
    "text": st.text(max_size=20).map(lambda s: made(s.encode())),
    "bytes": st.binary(max_size=30).map(made),
    "letters": st.lists(st.sampled_from("abyz"), max_size=6).map(lambda x: made("".join(x).encode())),
    "few": st.sampled_from([b"1", b"2", b"3"]).map(made),
    "never": st.binary().filter(lambda b: False).map(made),
    "numbers": st.integers(),
    "raises": st.binary().map(lambda b: 1 // 0),
    "large": st.just(bytes(3 << 20)).flatmap(lambda b: st.integers().map(lambda i: made(b + b"%d" % i))),
}
DENY = {"y": lambda c: b"y" in c.stdin}
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    path = tmp_path / "verifiers" / "task.py"
    path.parent.mkdir()
    path.write_text(STRATEGIES)
    return str(path)


def plan(**more: object) -> Plan:
    return products.plan(**({"strategy": "bytes"} | more))


class Hunt:
    def __init__(self, p: Plan, submission: str = "honest", done: Mapping[int, ChunkResult] | None = None) -> None:
        self.chunks: dict[int, ChunkResult] = {}
        self.result: VerifierResult = run_verifier(
            p, spec(submission), done or {}, lambda c: self.chunks.update({c.k: c})
        )


def stable(value: object) -> object:
    """`value` without its clocks."""
    clocks = ("seconds", "found_after_s", "first_found_s")
    if isinstance(value, dict):
        return {k: stable(v) for k, v in value.items() if k not in clocks}
    return [stable(v) for v in value] if isinstance(value, list) else value


def data(value: object) -> object:
    return stable(msgspec.to_builtins(value))


def test_the_same_seed_draws_the_same_inputs_wherever_it_runs(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = plan(module=module, budget=120, strategy="text")
    here = Hunt(p)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "random.py").write_text("1/0")  # what lies in the working directory isn't imported
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("CI", "1")
    monkeypatch.setenv("HYPOTHESIS_PROFILE", "ci")
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    there = Hunt(p)
    assert here.result.outcome.passed
    assert [c.digests for c in here.chunks.values()] == [c.digests for c in there.chunks.values()]
    assert data(here.result) == data(there.result)
    other = Hunt(msgspec.structs.replace(p, seed=2))
    assert other.chunks[0].digests != here.chunks[0].digests
    left = sorted(str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*") if f.is_file())
    assert left == ["elsewhere/random.py", "verifiers/task.py"]


def test_each_chunk_of_each_verifier_has_a_seed_of_its_own() -> None:
    seeds = {chunk_seed(s, v, k) for s in (1, 2) for v in ("v1", "v2") for k in range(50)}
    assert len(seeds) == 200
    assert chunk_seed(1, "v1", 0) == 0x10D0070391BB0D09


def test_inputs_do_not_depend_on_what_else_is_loaded(module: str) -> None:
    """Hypothesis would mine the constants of modules that aren't installed as packages."""
    program = """
import sys, types, hashlib
from pathlib import Path
from refactorbench.verification import draw
from hypothesis import strategies as st
from refactorbench.observe.model import Check
if sys.argv[1] == "open":
    draw.BACKEND = "hypothesis"
if sys.argv[2]:
    sys.path.insert(0, sys.argv[2])
    import constants
made = st.integers().map(lambda n: Check("", "", "process", "p", (b"%d" % n,)))
checks, _ = draw.draw_chunk(made, 5, 300)
print(hashlib.sha256(b" ".join(c.argv[0] for c in checks)).hexdigest())
"""
    folder = Path(module).parent
    (folder / "constants.py").write_text("X = [" + ", ".join(str(10**6 + i) for i in range(50)) + "]\n")

    def drawn(mode: str, extra: str) -> str:
        env = os.environ | {"HYPOTHESIS_STORAGE_DIRECTORY": "/dev/null/none"}
        argv = [sys.executable, "-P", "-c", program, mode, extra]
        return subprocess.run(argv, capture_output=True, text=True, check=True, env=env, cwd="/").stdout

    assert drawn("isolated", str(folder)) == drawn("isolated", "")
    assert drawn("open", str(folder)) != drawn("open", "")


def test_a_wrong_submission_is_found_confirmed_and_shrunk(module: str) -> None:
    hunt = Hunt(plan(module=module, strategy="letters", budget=400), "wrong")
    found = hunt.result.counterexample
    assert hunt.result.outcome.status is Status.FAIL
    assert found is not None
    assert found.check.stdin == b"az"
    denied = Hunt(plan(module=module, strategy="letters", budget=100, deny=("y",)))
    assert denied.result.activity.denied > 0


def test_the_free_direction_draws_from_every_strategy(module: str) -> None:
    text = Path(module).read_text()
    Path(module).write_text(text.replace('    "never"', '}\nUNUSED = {\n    "never"'))
    hunt = Hunt(plan(module=module, strategy="", budget=200))
    assert hunt.result.outcome.passed
    assert hunt.result.activity.executed == 200


def test_small_and_empty_strategies_are_told_apart(module: str) -> None:
    few = Hunt(plan(module=module, strategy="few")).result
    assert (few.outcome.passed, few.activity.ended, few.activity.executed) == (True, "exhausted", 3)
    never = Hunt(plan(module=module, strategy="never")).result
    assert (never.outcome.status, never.outcome.owner, never.activity.executed) == (Status.ERROR, Owner.HARNESS, 0)


def test_a_chunk_of_large_inputs_stays_bounded(module: str) -> None:
    hunt = Hunt(plan(module=module, strategy="large", budget=30))
    assert hunt.result.outcome.passed
    assert [c.executed for c in hunt.chunks.values()] == [21, 9]
    assert hunt.chunks[0].left > 0


@pytest.mark.parametrize(
    ("strategy", "words"),
    [("numbers", "not a Check"), ("raises", "ZeroDivisionError"), ("txt", "did you mean 'text'")],
)
def test_a_faulty_strategy_is_the_tasks_fault(module: str, strategy: str, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        Hunt(plan(module=module, strategy=strategy))


def test_something_else_than_a_strategy_is_refused(module: str) -> None:
    Path(module).write_text("STRATEGIES = {'bytes': [1]}\nDENY = {}\n")
    with pytest.raises(TaskError, match="is a list"):
        Hunt(plan(module=module))


@pytest.mark.parametrize(("submission", "words"), [("lost", "the sandbox went away"), ("dies", "ended with status 7")])
def test_a_lost_sandbox_or_process_is_an_error_of_the_harness(module: str, submission: str, words: str) -> None:
    hunt = Hunt(plan(module=module), submission)
    assert (hunt.result.outcome.status, hunt.result.outcome.owner) == (Status.ERROR, Owner.HARNESS)
    assert words in hunt.result.outcome.cause
    assert not hunt.chunks


def test_a_silent_process_is_ended(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "QUIET_S", 1.5)
    monkeypatch.setattr(stage, "QUIET_RUNS", 0)
    hunt = Hunt(plan(module=module), "sleeps")
    assert "said nothing" in hunt.result.outcome.cause
    assert hunt.result.outcome.owner is Owner.HARNESS


def test_a_finished_hunt_starts_nothing(module: str) -> None:
    p = plan(module=module, budget=50)
    first = Hunt(p)
    again = Hunt(p, "dies", done=first.chunks)
    assert again.result == first.result
    assert not again.chunks


def six(module: str, **more: object) -> list[Plan]:
    names = ["letters", "bytes", "bytes", "few", "letters", "few"]
    return [plan(verifier=f"v{i + 1}", module=module, strategy=s, **more) for i, s in enumerate(names)]


class Stage:
    def __init__(self, ps: list[Plan], jobs: int, done: Mapping[str, Mapping[int, ChunkResult]] | None = None) -> None:
        self.chunks: dict[str, dict[int, ChunkResult]] = {}
        self.threads: set[int] = set()
        self.result: StageResult = verify(ps, spec("wrong"), jobs=jobs, done=done or {}, on_chunk=self.keep)

    def keep(self, verifier: str, chunk: ChunkResult) -> None:
        self.chunks.setdefault(verifier, {})[chunk.k] = chunk


def test_six_side_by_side_give_what_one_after_the_other_gives(module: str) -> None:
    ps = six(module, budget=150)
    two, one = Stage(ps, 2), Stage(ps, 1)
    assert data(two.result) == data(one.result)
    assert list(two.result.verifiers) == [p.verifier for p in ps]
    outcomes = two.result.outcomes
    assert [outcomes[f"v{i}"].status for i in (1, 4, 5)] == [Status.FAIL, Status.PASS, Status.FAIL]
    (defect,) = two.result.defects
    assert {"v1", "v5"} <= set(defect.found_by)
    half = {name: {0: chunks[0]} for name, chunks in two.chunks.items()}
    assert data(Stage(ps, 2, half).result) == data(two.result)


def test_an_error_in_recording_ends_the_stage_and_every_child(module: str) -> None:
    before = children()

    def full(_id: str, _chunk: ChunkResult) -> None:
        raise HarnessError("disk full")

    with pytest.raises(HarnessError, match="disk full"):
        verify(six(module, budget=10**4), spec("honest"), jobs=2, done={}, on_chunk=full)
    assert children() == before


def children() -> set[int]:
    out = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True)
    return {int(line.split()[0]) for line in out.stdout.splitlines() if "verification.child" in line}


def test_a_child_dies_with_its_parent(module: str, tmp_path: Path) -> None:
    """A parent that is killed outright, with a child in the middle of its work."""
    program = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from verification.products import plan, spec
from refactorbench.verification import stage
start = stage.Children.start
def told(self, log):
    process = start(self, log)
    print(process.pid, flush=True)
    return process
stage.Children.start = told
p = plan(module={module!r}, budget=10**6, strategy="bytes")
stage.run_verifier(p, spec("honest"), {{}}, lambda c: print("chunk", flush=True))
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert parent.stdout.readline() == "chunk\n"
    assert Path(f"/proc/{child}").exists()
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.read()
    gone = threading.Event()
    for _ in range(100):
        status = Path(f"/proc/{child}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            gone.set()
            break
        time.sleep(0.02)
    assert gone.is_set()


BRIEFS = Briefs(
    "refactorbench.verifiers/1",
    "t",
    "t.py",
    Scope(("all",), ("none",), ("y",)),
    tuple(Direction(f"d{i}", f"Title {i}", "brief", "" if i == 6 else f"s{i}") for i in range(1, 7)),
)


def panel(seats: int) -> Panel:
    return Panel(
        "refactorbench.panel/1",
        "offline",
        JudgeSeat("none"),
        tuple(VerifierSeat(f"v{i}", "fuzz", 5) for i in range(1, seats + 1)),
    )


def test_seats_are_filled_in_order() -> None:
    made = plans(BRIEFS, panel(6), Path("t.py"), Limits(), 9)
    assert [(p.verifier, p.direction, p.strategy) for p in made][4:] == [("v5", "d5", "s5"), ("v6", "d6", "")]
    assert all((p.seed, p.budget, p.deny, p.module[0]) == (9, 5, ("y",), "/") for p in made)
    assert made[0].engine.startswith("hypothesis 6")
    with pytest.raises(TaskError, match="has 5 verifiers and task 't' has 6 directions"):
        plans(BRIEFS, panel(5), Path("t.py"), Limits(), 9)


def test_one_defect_found_by_several_is_one(module: str) -> None:
    results = [
        Hunt(plan(verifier=v, module=module, strategy="letters", budget=400), "wrong").result for v in ("a", "b")
    ]
    (one,) = defects(results)
    assert one.found_by == ("a", "b")
    assert one.counterexample in {r.counterexample.id for r in results if r.counterexample}
    other = results[1].counterexample
    assert other is not None
    changed = msgspec.structs.replace(results[1], counterexample=msgspec.structs.replace(other, signature="else"))
    assert [d.found_by for d in defects([results[0], changed])] == [("a",), ("b",)]
    assert defects([Hunt(plan(module=module, strategy="few")).result]) == ()
