import random
from collections.abc import Iterator

import msgspec
import pytest
from scripted import LIMITS, Answer, Opened, broken, echo, make_check, seen, wrong

from refactorbench.behaviour.fresh import FreshResult, draw_checks, replay_fresh
from refactorbench.errors import TaskError
from refactorbench.observe.model import Check, Observation
from refactorbench.outcome import Owner, Status


def draw(rng: random.Random, n: int) -> Iterator[Check]:
    for i in range(n):
        yield make_check(f"fresh/{i:05d}", module=rng.choice(("m", "n")), stdin=rng.randbytes(8))


CHECKS = draw_checks(draw, 5, 40)


def run(submission: Answer, reference: Answer = echo, jobs: int = 1) -> FreshResult:
    return replay_fresh(CHECKS, 5, Opened(submission), Opened(reference), limits=LIMITS, jobs=jobs)


def test_the_seed_decides_what_is_drawn() -> None:
    assert draw_checks(draw, 5, 40) == CHECKS != draw_checks(draw, 6, 40)


@pytest.mark.parametrize(
    "bad",
    [lambda rng, n: [], lambda rng, n: draw(rng, n + 1), lambda rng, n: [make_check("fresh/1")] * n],
)
def test_a_generator_that_miscounts_is_the_tasks_fault(bad: object) -> None:
    with pytest.raises(TaskError, match="mend draw"):
        draw_checks(bad, 1, 3)  # type: ignore[arg-type]


def test_an_honest_submission_fails_nothing() -> None:
    result = run(echo, jobs=2)
    assert (result.drawn, result.total, result.failed, result.dropped, result.results) == (40, 40, 0, {}, ())
    assert sum(m.total for m in result.modules) == 40 and {m.id for m in result.modules} == {"m", "n"}


def test_differences_are_counted_per_module_and_explained() -> None:
    result = run(lambda c: wrong(c) if c.module == "m" else echo(c))
    counts = {m.id: (m.total, m.failed) for m in result.modules}
    assert counts["m"][0] == counts["m"][1] == result.failed > 0 and counts["n"][1] == 0
    assert {r.outcome.status for r in result.results} == {Status.FAIL}
    assert all("differs at byte" in r.difference and r.signature == "stdout:changed" for r in result.results)


def test_what_state_a_answers_in_two_ways_or_too_slowly_is_not_asked() -> None:
    turns = iter(range(1000))

    def shaky(check: Check) -> Observation:
        if check.id == "fresh/00001":
            return seen(b"%d" % next(turns))
        return msgspec.structs.replace(echo(check), wall_ms=2000 if check.id == "fresh/00002" else 1)

    submission = Opened(wrong)
    result = replay_fresh(CHECKS, 5, submission, Opened(shaky), limits=LIMITS)
    assert result.dropped.keys() == {"fresh/00001", "fresh/00002"}
    assert result.total == result.failed == 38
    assert not set(submission.asked) & set(result.dropped)


def test_a_broken_sandbox_counts_on_no_side() -> None:
    def one(check: Check) -> Observation:
        return broken(check) if check.id == "fresh/00003" else echo(check)

    result = run(one)
    assert (result.total, result.failed) == (39, 0) and result.results[0].outcome.owner is Owner.HARNESS
    result = run(wrong, one)
    assert (result.total, result.failed) == (39, 39) and result.dropped["fresh/00003"].startswith("harness:")
