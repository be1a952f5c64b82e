"""From the stages' results to the result of a run: who prevented a verdict, and what is said about it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from results import ERROR, FAILED, criterion, stage_one, stage_three

from refactorbench.behaviour.model import BehaviourResult, CheckResult, ModuleResult, Selection
from refactorbench.build.model import BuildFacts, BuildReport
from refactorbench.outcome import Outcome, Owner, Status, harness_error
from refactorbench.pipeline import Builds
from refactorbench.summary import build_outcome, open_causes

BUILT = BuildReport("built", "", "a", "/p", "", "", BuildFacts((), (), (), (), ()), "", False, 1.0, {})


def report(status: Any, cause: str = "") -> BuildReport:
    return msgspec.structs.replace(BUILT, status=status, cause=cause)


def builds(target: BuildReport = BUILT, fallback: BuildReport | None = None) -> Builds:
    return Builds(BUILT, target, fallback)


def behaviour(*outcomes: Outcome) -> BehaviourResult:
    results = tuple(CheckResult(f"m/{n}", "m", o) for n, o in enumerate(outcomes))
    errors = sum(o.status is Status.ERROR for o in outcomes)
    failed = sum(o.status is Status.FAIL for o in outcomes)
    module = ModuleResult("m", 10, 10, 10 - errors - failed, failed, 0, 0, 0, errors, 0)
    return BehaviourResult((module,), results, {}, Selection())


def test_a_failed_build_is_the_submissions_and_a_failed_canary_the_harnesss() -> None:
    assert build_outcome(BUILT).passed
    assert build_outcome(report("failed", "no Cargo.toml")).owner is Owner.SUBMISSION
    assert build_outcome(report("harness", "no canary")).prevents_verdict


def test_nothing_is_open_where_every_stage_has_its_verdict() -> None:
    assert open_causes(builds(), stage_one(1), behaviour(), stage_three()) == []
    failed = stage_one(0, criterion(outcome=FAILED))
    assert open_causes(builds(report("failed")), failed, behaviour(FAILED), stage_three(FAILED)) == []
    assert open_causes(builds(), None, None, None) == []


def test_a_harness_that_cannot_build_is_the_only_cause() -> None:
    lost = stage_one(None, criterion(outcome=Outcome(Status.UNDECIDED, "lost")))
    assert open_causes(builds(report("harness", "no canary")), lost, behaviour(), None) == ["build: no canary"]
    fallback = builds(report("failed", "no Cargo.toml"), report("harness", "no gcc canary"))
    assert open_causes(fallback, lost, behaviour(), None) == ["build: no gcc canary"]


def test_each_open_stage_names_what_left_it_open() -> None:
    lost = criterion("x", Outcome(Status.UNDECIDED, "the build witness was lost"))
    optional = criterion("y", Outcome(Status.UNDECIDED, "not asked"), required=False)
    one = stage_one(None, criterion(), lost, optional)
    causes = open_causes(builds(), one, behaviour(harness_error("a worker ended")), stage_three(FAILED, ERROR))
    assert causes == [
        "criterion x: the build witness was lost",
        "1 of 10 recorded checks have no verdict; the first: m/0: a worker ended",
        "verifier v2: its process ended",
    ]


@pytest.mark.parametrize("target", ["failed", "built"])
def test_prevented_is_about_the_harness_alone(target: str) -> None:
    assert not builds(report(target)).prevented and not builds(report("failed"), report("failed")).prevented
    assert builds(report("harness")).prevented
