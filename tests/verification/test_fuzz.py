"""Chunks, budgets, resuming and what a verifier's outcome says, with drawn inputs that are scripted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import msgspec
import pytest

from refactorbench.errors import HarnessError, TaskError
from refactorbench.observe.model import Check, InputFile, Observation
from refactorbench.outcome import Owner, Status
from refactorbench.verification.bench import Pair, Product, ScriptedBench
from refactorbench.verification.fuzz import UNREPRODUCED_MAX, Draw, FuzzVerifier, combine, state
from refactorbench.verification.model import ChunkResult, Plan, Reason, ScriptedVerifier, Side, Verifier, VerifierResult
from refactorbench.verification.scope import Rules
from verification.products import bench, broken, check, faulty, flaky, hang, plan, seen, upper, wrong_on_z


def numbered(size: int = 40) -> Draw:
    """Chunk k: so many inputs of which none is like another, whatever is asked for."""
    return lambda k, n: ([check(b"input %d of %d" % (i, k)) for i in range(size)], 0)


def holding(*stdin: bytes, at: int = 0) -> Draw:
    """Chunk `at` holds these inputs in the midst of harmless ones."""

    def draw(k: int, n: int) -> tuple[list[Check], int]:
        plain = numbered(10)(k, 0)[0]
        return (plain[:5] + [check(s) for s in stdin] + plain[5:], 0) if k == at else (plain, 0)

    return draw


class Ran:
    """A hunt that was run to its end, with what it handed out on the way."""

    def __init__(
        self,
        draw: Draw,
        on: ScriptedBench | None = None,
        p: Plan | None = None,
        done: dict[int, ChunkResult] | None = None,
        deny: dict[str, Callable[[Check], bool]] | None = None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.bench = on or bench()
        self.plan = p or plan()
        self.new: dict[int, ChunkResult] = {}
        self.progress: list[int] = []
        verifier = FuzzVerifier(self.plan, self.bench, Rules(deny or {}), draw, clock)
        self.result: VerifierResult = verifier.hunt(
            done or {}, lambda c: self.new.update({c.k: c}), self.progress.append
        )

    @property
    def a(self):  # type: ignore[no-untyped-def]
        return self.result.activity


def test_an_equal_submission_survives_the_whole_budget() -> None:
    ran = Ran(numbered())
    assert ran.result.outcome.passed
    assert (ran.a.ended, ran.a.executed, ran.a.chunks, ran.a.divergences) == ("budget", 100, 3, 0)
    assert ran.new[2].left == 20
    assert ran.progress == list(range(1, 101))


def test_the_first_upheld_counterexample_ends_the_hunt() -> None:
    ran = Ran(holding(b"xxaxxzxx", b"az", at=2), bench(wrong_on_z))
    assert ran.result.outcome.status is Status.FAIL
    assert (ran.a.ended, ran.a.chunks, ran.a.executed, ran.a.divergences) == ("found", 3, 26, 1)
    found = ran.result.counterexample
    assert found is not None
    assert (found.original.stdin, found.check.stdin) == (b"xxaxxzxx", b"az")
    assert (found.original_size - found.size, found.expected.stdout, found.got.stdout) == (6, b"AZ", b"?")
    assert found.id == f"v1-{found.check.input_digest()[:12]}"
    assert "stdout" in found.explanation
    assert ran.new[2].left == 6


def test_the_same_counterexample_stays_when_its_smaller_form_is_not_upheld() -> None:
    """Fresh sandboxes (a fresh product each) don't fail on what the long-lived pair failed on while shrinking."""

    class Bench(ScriptedBench):
        def open(self, side: Side):  # type: ignore[no-untyped-def]
            worker = super().open(side)
            if side is Side.SUBMISSION and self.opened[side] > 1:
                worker.observe = lambda c: seen(b"?") if len(c.stdin) > 5 else upper(c)
            return worker

    ran = Ran(holding(b"xxaxxzxx"), Bench({Side.REFERENCE: upper, Side.SUBMISSION: wrong_on_z, Side.BROKEN: broken}))
    assert ran.result.counterexample is not None
    assert ran.result.counterexample.check.stdin == b"xxaxxzxx"
    assert ran.result.counterexample.shrink_runs > 0


def test_a_smaller_form_that_fails_otherwise_is_not_taken() -> None:
    def two_defects(c: Check) -> Observation:
        return seen(b"", 3) if c.stdin == b"z" else wrong_on_z(c) if b"a" in c.stdin else upper(c)

    ran = Ran(holding(b"--a--z--"), bench(two_defects))
    assert ran.result.counterexample is not None
    assert ran.result.counterexample.check.stdin == b"az"


def test_denied_and_telling_inputs_are_neither_run_nor_counted_as_run() -> None:
    def draw(k: int, n: int) -> tuple[list[Check], int]:
        return [*numbered(5)(k, 0)[0], check(b"az"), check(b"", b"/proc/self/exe")], 0

    ran = Ran(draw, bench(wrong_on_z), plan(budget=10), deny={"z": lambda c: b"z" in c.stdin})
    assert ran.result.outcome.passed
    assert (ran.a.executed, ran.a.denied, ran.a.duplicates) == (10, 2, 0)
    assert Ran(draw, bench(wrong_on_z)).result.outcome.status is Status.FAIL


def test_duplicates_are_skipped_within_and_across_chunks() -> None:
    def draw(k: int, n: int) -> tuple[list[Check], int]:
        inputs = numbered(10)(k, 0)[0]
        return inputs + inputs[:4] + numbered(10)(0, 0)[0][:3], 0

    ran = Ran(draw, p=plan(budget=20))
    assert (ran.a.executed, ran.a.duplicates) == (20, 7)
    other = check(b"input 0 of 0", files=(InputFile(b"f"),))
    assert Ran(lambda k, n: ([check(b"input 0 of 0"), other], 0), p=plan(budget=2)).a.executed == 2


def test_every_drawn_input_is_accounted_for() -> None:
    def draw(k: int, n: int) -> tuple[list[Check], int]:
        inputs = numbered(50)(k, 0)[0]
        return [*inputs, *inputs[:3], check(b"z"), check(b"slow")], 7

    slow = bench(reference=lambda c: hang() if c.stdin == b"slow" else upper(c))
    ran = Ran(draw, slow, deny={"z": lambda c: c.stdin == b"z"})
    for c in ran.new.values():
        assert c.drawn == c.executed + c.denied + c.duplicates + c.inadmissible + c.left
        assert len(c.digests) == 8 * c.executed
    assert ran.a.inadmissible == 1


def test_an_exhausted_strategy_ends_early_and_says_so() -> None:
    ran = Ran(lambda k, n: (numbered(7)(0, 0)[0], 0))
    assert (ran.a.ended, ran.a.executed, ran.a.chunks) == ("exhausted", 7, 4)
    assert ran.result.outcome.passed
    assert "exhausted after 7 inputs" in ran.result.outcome.cause


@pytest.mark.parametrize(
    "draw",
    [lambda k, n: ([], 0), lambda k, n: ([check(b"z")] * 9, 0), lambda k, n: ([check(b"slow")], 0)],
    ids=["nothing drawn", "all denied", "the reference never answers"],
)
def test_no_work_is_an_error_of_the_harness_and_no_survival(draw: Draw) -> None:
    slow = bench(reference=lambda c: hang() if c.stdin == b"slow" else upper(c))
    result = Ran(draw, slow, deny={"z": lambda c: c.stdin == b"z"}).result
    assert (result.outcome.status, result.outcome.owner) == (Status.ERROR, Owner.HARNESS)
    assert "no survival" in result.outcome.cause


def ticking(step: float) -> Callable[[], float]:
    now: Iterator[int] = iter(range(10**9))
    return lambda: next(now) * step


def test_the_cap_ends_a_hunt_and_is_recorded() -> None:
    ran = Ran(numbered(), p=plan(cap_s=50.0), clock=ticking(1.0))
    assert (ran.a.ended, ran.result.outcome.passed) == ("cap", True)
    assert 0 < ran.a.executed <= 50
    assert list(ran.new.values())[-1].capped
    assert "capped" in ran.result.outcome.cause
    assert Ran(numbered(), p=plan(cap_s=500.0), clock=ticking(1.0)).a.ended == "budget"


def test_the_cap_counts_the_seconds_of_chunks_before_a_resume() -> None:
    whole = Ran(numbered(10), p=plan(cap_s=50.0), clock=ticking(1.0))
    first = {k: whole.new[k] for k in range(2)}
    resumed = Ran(numbered(10), p=plan(cap_s=50.0), clock=ticking(1.0), done=first)
    assert resumed.a.executed == whole.a.executed


def without_clocks(result: VerifierResult) -> bytes:
    activity = msgspec.structs.replace(result.activity, seconds=0, first_found_s=None)
    return msgspec.json.encode(msgspec.structs.replace(result, activity=activity))


def test_a_hunt_resumed_after_any_chunk_gives_the_same_result() -> None:
    def draw(k: int, n: int) -> tuple[list[Check], int]:
        return numbered(9)(k, 0)[0] + numbered(9)(k // 2, 0)[0] + ([check(b"--az")] if k == 5 else []), 0

    whole = Ran(draw, bench(wrong_on_z))
    assert whole.a.ended == "found"
    for cut in range(len(whole.new) + 1):
        done = {k: msgspec.json.decode(msgspec.json.encode(whole.new[k]), type=ChunkResult) for k in range(cut)}
        resumed = Ran(draw, bench(wrong_on_z), done=done)
        assert without_clocks(resumed.result) == without_clocks(whole.result)
        assert sorted(resumed.new) == list(range(cut, len(whole.new)))


def test_chunks_behind_a_gap_are_run_again() -> None:
    whole = Ran(numbered(10))
    resumed = Ran(numbered(10), done={0: whole.new[0], 2: whole.new[2]})
    assert sorted(resumed.new) == list(range(1, 10))
    assert without_clocks(resumed.result) == without_clocks(whole.result)


def test_a_passing_fault_is_retried_on_new_sandboxes() -> None:
    faults = iter([True])
    on = bench(faulty(upper, lambda c: c.stdin == b"input 3 of 0" and next(faults, False)))
    ran = Ran(numbered(), on)
    assert ran.result.outcome.passed
    assert (ran.new[0].reopened, on.opened[Side.SUBMISSION]) == (1, 2)


@pytest.mark.parametrize("side", [Side.REFERENCE, Side.SUBMISSION])
def test_a_lasting_fault_is_an_error_that_can_be_run_again_alone(side: Side) -> None:
    def ends(c: Check) -> bool:
        return c.stdin == b"input 3 of 1"

    lost: dict[str, Product] = {side.value: faulty(upper, ends)}
    first = Ran(numbered(), bench(**lost))
    assert (first.result.outcome.status, first.result.outcome.owner) == (Status.ERROR, Owner.HARNESS)
    assert (first.a.ended, sorted(first.new)) == ("fault", [0])
    again = Ran(numbered(), done=first.new)
    assert without_clocks(again.result) == without_clocks(Ran(numbered()).result)


def test_a_divergence_that_cannot_be_confirmed_is_no_survival() -> None:
    on = bench(wrong_on_z, dead=faulty(broken, lambda _: True))
    result = Ran(holding(b"az"), on).result
    assert (result.outcome.status, result.outcome.owner) == (Status.ERROR, Owner.HARNESS)
    assert "can't be confirmed" in result.outcome.cause


def test_a_fault_while_shrinking_keeps_what_was_upheld() -> None:
    calls = iter(range(10**6))
    on = bench(faulty(wrong_on_z, lambda c: b"z" in c.stdin and next(calls) > 6))
    result = Ran(holding(b"xxaxxzxx"), on).result
    assert result.outcome.status is Status.FAIL
    assert result.counterexample is not None
    assert b"z" in result.counterexample.check.stdin


def test_a_refused_divergence_is_stored_and_the_hunt_goes_on() -> None:
    on = bench(wrong_on_z, dead=lambda c: upper(c) if c.stdin == b"az" else broken(c))
    ran = Ran(holding(b"az"), on, plan(budget=30))
    assert ran.result.outcome.passed
    assert ran.a.refused == {"tests_nothing": 1}
    (refusal,) = ran.result.refusals
    assert (refusal.check.stdin, refusal.decision.reason, len(refusal.trials)) == (b"az", Reason.TESTS_NOTHING, 9)
    later = Ran(holding(b"az", b"axz"), on, plan(budget=30))
    assert (later.a.ended, later.a.divergences) == ("found", 2)


def once(product: Product, inputs: set[bytes]) -> Product:
    """Wrong at the first sight of each of these inputs."""

    def run(c: Check) -> Observation:
        if c.stdin in inputs:
            inputs.discard(c.stdin)
            return seen(b"?")
        return product(c)

    return run


@pytest.mark.parametrize(("blips", "ended"), [(UNREPRODUCED_MAX, "budget"), (UNREPRODUCED_MAX + 1, "unstable")])
def test_too_many_divergences_that_do_not_reproduce_leave_no_verdict(blips: int, ended: str) -> None:
    wrong = {b"input %d of 0" % i for i in range(blips)}
    ran = Ran(numbered(), bench(once(upper, wrong)))
    assert ran.a.ended == ended
    assert ran.a.refused == {"not_reproduced": blips}
    assert ran.result.outcome.status is (Status.PASS if ended == "budget" else Status.ERROR)
    assert ran.result.outcome.owner is (None if ended == "budget" else Owner.HARNESS)


def test_a_flaky_submission_is_hardly_ever_upheld_by_a_whole_verifier() -> None:
    other = seen(b"noise", 1)
    for rate, most in ((0.10, 2), (0.05, 1), (0.01, 0)):
        upheld = 0
        for seed in range(100):
            on = bench(flaky(upper, rate, random.Random(seed), other))
            upheld += Ran(numbered(100), on, plan(budget=300)).result.outcome.status is Status.FAIL
        assert upheld <= most


def test_a_hang_is_found_and_shrunk_at_its_price() -> None:
    ran = Ran(holding(b"xxaxxzxx"), bench(lambda c: hang() if b"z" in c.stdin else upper(c)))
    found = ran.result.counterexample
    assert found is not None
    assert (found.signature, found.check.stdin) == ("limit:wall", b"z")
    assert found.shrink_runs < 500


def test_what_opens_and_runs_first_is_drawn_from_the_seed() -> None:
    def first_opened(seed: int) -> Side:
        order: list[Side] = []

        class Bench(ScriptedBench):
            def open(self, side: Side):  # type: ignore[no-untyped-def]
                order.append(side)
                return super().open(side)

        Ran(numbered(), Bench(bench().products), plan(seed=seed, budget=1))
        return order[0]

    assert {first_opened(seed) for seed in range(20)} == {Side.REFERENCE, Side.SUBMISSION}
    assert first_opened(3) is first_opened(3)


def test_a_pair_returns_the_reference_first_and_waits_for_both() -> None:
    on = bench(submission=lambda c: seen(b"s"), reference=lambda c: seen(b"r"))
    for first in (Side.REFERENCE, Side.SUBMISSION):
        with Pair(on, first) as pair:
            assert [o.stdout for o in pair.observe(check())] == [b"r", b"s"]
    lost = bench(submission=faulty(upper, lambda _: True))
    for first in (Side.REFERENCE, Side.SUBMISSION):
        with Pair(lost, first) as pair, pytest.raises(HarnessError):
            pair.observe(check())


def test_a_faulty_deny_rule_is_the_tasks_fault_and_not_the_submissions() -> None:
    def bad(c: Check) -> bool:
        raise ValueError

    with pytest.raises(TaskError, match="deny rule"):
        Ran(numbered(), deny={"bad": bad})


def test_a_scripted_verifier_stands_in_for_a_real_one() -> None:
    ran = Ran(numbered())
    both: list[Verifier] = [
        ScriptedVerifier(ran.result, tuple(ran.new.values())),
        FuzzVerifier(ran.plan, bench(), Rules({}), numbered(), lambda: 0.0),
    ]
    for verifier in both:
        for done in ({}, {0: ran.new[0]}):
            handed: list[int] = []
            assert verifier.hunt(done, lambda c, h=handed: h.append(c.k)) == ran.result  # type: ignore[misc]
            assert (verifier.id, handed) == ("v1", [k for k in ran.new if k not in done])


def test_no_more_is_drawn_than_the_budget_lacks() -> None:
    asked: list[int] = []

    def draw(k: int, n: int) -> tuple[list[Check], int]:
        asked.append(n)
        return numbered(n)(k, n)

    assert Ran(draw, p=plan(budget=1120)).a.executed == 1120
    assert asked == [500, 500, 120]
    asked.clear()
    assert Ran(draw, p=plan(budget=3)).a.executed == 3
    assert asked == [50]


def test_open_work_has_no_verdict() -> None:
    ran = Ran(numbered(10))
    some = {0: ran.new[0]}
    assert state(ran.plan, some) == "open"
    assert combine(ran.plan, some).outcome.status is Status.NOT_RUN
    assert combine(ran.plan, ran.new) == ran.result


def test_the_time_to_the_first_counterexample_counts_earlier_chunks() -> None:
    ran = Ran(holding(b"az", at=2), bench(wrong_on_z), clock=ticking(0.001))
    assert ran.a.first_found_s is not None
    assert ran.new[0].seconds + ran.new[1].seconds < ran.a.first_found_s <= ran.a.seconds
