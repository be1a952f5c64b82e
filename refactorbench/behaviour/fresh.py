"""Fresh checks: drawn at grading time by the task's own generators, answered live by State A and the submission.

They are reported and never priced; beside the recorded draws they feed the memorisation test. A fresh check may repeat
a recorded one: both are draws of one stream, and leaving repetitions out would make the fresh ones another population.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import msgspec

from refactorbench.behaviour.model import CheckResult
from refactorbench.behaviour.pool import OpenWorker, Pool, in_order
from refactorbench.behaviour.recording import refusal, slow
from refactorbench.errors import HarnessError, TaskError
from refactorbench.observe.compare import compare, differences, signature
from refactorbench.observe.explain import explain_all
from refactorbench.observe.model import Check, Observation
from refactorbench.outcome import Outcome, Status, harness_error
from refactorbench.sandbox.protocol import Limits

Draw = Callable[[random.Random, int], Iterable[Check]]


class FreshModule(msgspec.Struct, frozen=True):
    id: str
    total: int
    failed: int


class FreshResult(msgspec.Struct, frozen=True):
    """`total` checks passed the gates and have an answer of the submission, `failed` of them differ; `dropped`: check
    id -> reason; `results`: those that differ (first run, not re-run) and errors of the harness, which no count has."""

    seed: int
    drawn: int
    total: int
    failed: int
    modules: tuple[FreshModule, ...]
    dropped: dict[str, str]
    results: tuple[CheckResult, ...]
    forgiven: dict[str, int]


def draw_checks(draw: Draw, seed: int, n: int) -> list[Check]:
    """Return `n` fresh checks; the same seed gives the same ones. TaskError when the generator gives other than `n`
    or repeats an id."""
    checks = list(draw(random.Random(seed), n))
    if len(checks) != n or len({c.id for c in checks}) != n:
        ids = len({c.id for c in checks})
        raise TaskError(
            f"the generator's draw() gave {len(checks)} checks with {ids} ids, {n} were asked for: mend draw()"
        )
    return checks


def replay_fresh(
    checks: Iterable[Check],
    seed: int,
    open_submission: OpenWorker,
    open_reference: OpenWorker,
    *,
    limits: Limits,
    jobs: int = 1,
    on_check: Callable[[], None] = lambda: None,
) -> FreshResult:
    """Put `checks` through the recording's gates (State A answers twice, alike, within limits), then to the
    submission. Only the task's fault raises; a HarnessError drops the check or becomes its outcome."""
    listed = list(checks)
    admitted, dropped = _admit(listed, open_reference, limits, jobs)
    results: list[CheckResult] = []
    counts: dict[str, list[int]] = {}
    forgiven: dict[str, int] = {}
    with Pool(open_submission, jobs) as pool:
        for (check, expected), answer in in_order(lambda pair: pool.answer(pair[0]), admitted, jobs, pool.stop):
            on_check()
            if isinstance(answer, HarnessError):
                results.append(CheckResult(check.id, check.module, harness_error(str(answer))))
                continue
            compared = compare(expected, answer, check.rules)
            count = counts.setdefault(check.module, [0, 0])
            count[0] += 1
            for rule, n in compared.forgiven.items():
                forgiven[rule] = forgiven.get(rule, 0) + n
            if not compared.equal:
                count[1] += 1
                found = compared.differences
                outcome = Outcome(Status.FAIL, "differs from State A's live answer")
                results.append(CheckResult(check.id, check.module, outcome, explain_all(found), signature(found)))
    modules = tuple(FreshModule(m, total, failed) for m, (total, failed) in sorted(counts.items()))
    total, failed = sum(m.total for m in modules), sum(m.failed for m in modules)
    return FreshResult(seed, len(listed), total, failed, modules, dropped, tuple(results), forgiven)


def _admit(
    checks: list[Check], open_reference: OpenWorker, limits: Limits, jobs: int
) -> tuple[list[tuple[Check, Observation]], dict[str, str]]:
    admitted: list[tuple[Check, Observation]] = []
    dropped: dict[str, str] = {}

    def twice(check: Check) -> tuple[Observation, Observation] | HarnessError:
        try:
            return pool.observe(check), pool.observe(check)
        except HarnessError as e:
            return e

    with Pool(open_reference, jobs) as pool:
        for check, answers in in_order(twice, checks, jobs, pool.stop):
            if isinstance(answers, HarnessError):
                dropped[check.id] = f"harness: {answers}"
                continue
            one, two = answers
            moves = "State A's two answers differ" if differences(one, two, check.rules) else ""
            why = refusal(one, limits) or slow((one.wall_ms, two.wall_ms), limits) or moves
            if why:
                dropped[check.id] = why
            else:
                admitted.append((check, one))
    return admitted, dropped
