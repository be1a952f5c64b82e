"""The executor on a scripted sandbox: order, replacement of broken workers, and a clean end whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from refactorbench.errors import HarnessError
from refactorbench.observe.executor import CHUNK, EXECUTOR_VERSION, READ_AHEAD, Executor, observe_all
from refactorbench.observe.model import Check, Observation
from refactorbench.sandbox import Limits, ScriptedSandbox, WorkerSpec

SPEC = WorkerSpec(Path("/nowhere"), (), Limits())


def checks(count: int, observer: str = "process") -> list[Check]:
    return [Check(f"m/{n}", "m", observer, "p", (str(n).encode(),)) for n in range(count)]  # type: ignore[arg-type]


def echo(spec: WorkerSpec, check: Check) -> Observation:
    return Observation("exit", 0, check.argv[0], b"", ())


class Breaks:
    """Answers like `echo`, but fails the given number of times on one check."""

    def __init__(self, on: str, times: int) -> None:
        self.on, self.times = on, times

    def __call__(self, spec: WorkerSpec, check: Check) -> Observation:
        if check.id == self.on and self.times:
            self.times -= 1
            raise HarnessError("broke")
        return echo(spec, check)


def test_observations_come_in_order_from_one_worker() -> None:
    box = ScriptedSandbox(observe=echo)
    with Executor(box, SPEC) as executor:
        assert [seen.stdout for seen in executor.observe_many(checks(20))] == [str(n).encode() for n in range(20)]
        assert executor.observe(checks(1)[0]).stdout == b"0"
    assert len(box.workers) == 1 and box.workers[0].closed


@pytest.mark.parametrize("times", [1, 2])
def test_a_broken_worker_is_replaced_and_no_check_is_lost(times: int) -> None:
    box = ScriptedSandbox(observe=Breaks("m/3", times))
    with Executor(box, SPEC, restarts=2) as executor:
        assert [seen.stdout for seen in executor.observe_many(checks(6))] == [str(n).encode() for n in range(6)]
    assert len(box.workers) == 1 + times and all(w.closed for w in box.workers)


def test_a_worker_that_breaks_again_and_again_is_an_error() -> None:
    box = ScriptedSandbox(observe=Breaks("m/3", 3))
    seen = []
    with Executor(box, SPEC, restarts=2) as executor, pytest.raises(HarnessError, match="broke"):
        seen.extend(executor.observe_many(checks(6)))
    assert len(box.workers) == 3 and all(w.closed for w in box.workers)


def test_failures_that_are_far_apart_do_not_add_up() -> None:
    class Every:
        count = 0

        def __call__(self, spec: WorkerSpec, check: Check) -> Observation:
            self.count += 1
            if self.count % 3 == 0:
                raise HarnessError("broke")
            return echo(spec, check)

    with Executor(ScriptedSandbox(observe=Every()), SPEC, restarts=1) as executor:
        assert len(list(executor.observe_many(checks(12)))) == 12


def test_an_error_that_is_not_the_harness_s_is_not_tried_again() -> None:
    def fails(spec: WorkerSpec, check: Check) -> Observation:
        raise ValueError("a bug")

    box = ScriptedSandbox(observe=fails)
    with Executor(box, SPEC) as executor, pytest.raises(ValueError, match="a bug"):
        executor.observe(checks(1)[0])
    assert len(box.workers) == 1


def test_tree_checks_are_answered_on_the_host_in_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    from refactorbench.observe import tree

    told = Observation("exit", 0, b"tree", b"", ())
    monkeypatch.setattr(tree, "observe_tree", lambda product, check: told)
    process, trees = checks(6), checks(6, "tree")
    mixed = [trees[0], process[1], process[2], trees[3], trees[4], process[5]]
    box = ScriptedSandbox(observe=echo)
    with Executor(box, SPEC) as executor:
        seen = [s.stdout for s in executor.observe_many(mixed)]
    assert seen == [b"tree", b"1", b"2", b"tree", b"tree", b"5"]
    assert [c.id for c in box.checks] == ["m/1", "m/2", "m/5"]


def test_only_trees_need_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    from refactorbench.observe import tree

    monkeypatch.setattr(tree, "observe_tree", lambda product, check: Observation("exit", 0, b"", b"", ()))
    box = ScriptedSandbox()
    with Executor(box, SPEC) as executor:
        assert len(list(executor.observe_many(checks(3, "tree")))) == 3
    assert box.workers == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_all_pairs_come_in_order_from_many_workers(jobs: int) -> None:
    box = ScriptedSandbox(observe=echo)
    given = checks(100)
    pairs = list(observe_all(given, lambda: box.open_worker(SPEC), jobs))
    assert [(c.id, seen.stdout) for c, seen in pairs] == [(c.id, c.argv[0]) for c in given]
    assert 1 <= len(box.workers) <= jobs and all(w.closed for w in box.workers)


def test_reading_ahead_is_bounded() -> None:
    taken = []

    def source() -> Iterator[Check]:
        for check in checks(1000):
            taken.append(check)
            yield check

    pairs = observe_all(source(), lambda: ScriptedSandbox(observe=echo).open_worker(SPEC), 2)
    next(pairs)
    assert len(taken) <= 2 * READ_AHEAD * CHUNK
    pairs.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [HarnessError, ValueError, KeyboardInterrupt])
def test_an_exception_comes_in_its_place_and_closes_all_workers(kind: type[BaseException]) -> None:
    def fails(spec: WorkerSpec, check: Check) -> Observation:
        if check.id == f"m/{CHUNK * 3}":
            raise kind("stop")
        return echo(spec, check)

    box = ScriptedSandbox(observe=fails)
    seen = []
    with pytest.raises(kind):
        for check, _ in observe_all(checks(100), lambda: box.open_worker(SPEC), 2):
            seen.append(check.id)
    assert seen == [f"m/{n}" for n in range(CHUNK * 3)]
    assert all(w.closed for w in box.workers) and not observers()


def test_leaving_early_ends_the_threads() -> None:
    box = ScriptedSandbox(observe=echo)
    for check, _ in observe_all(checks(100), lambda: box.open_worker(SPEC), 2):
        if check.id == "m/5":
            break
    assert all(w.closed for w in box.workers) and not observers()


def test_a_worker_that_cannot_be_opened_is_an_error() -> None:
    def fails() -> None:
        raise HarnessError("no sandbox")

    with pytest.raises(HarnessError, match="no sandbox"):
        list(observe_all(checks(3), fails, 2))  # type: ignore[arg-type]
    assert not observers()


def observers() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("observer-")]


def test_the_version_is_a_digest_of_what_executes() -> None:
    assert len(EXECUTOR_VERSION) == 16 and int(EXECUTOR_VERSION, 16) >= 0
