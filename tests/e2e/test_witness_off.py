"""No witness can be spared: with any one of them blind, some cheat gets through stage I."""

from __future__ import annotations

import msgspec
import pytest

from refactorbench.audit.docket import Docket, Eye, EyeReport
from refactorbench.audit.verdict import Opened, decide, required_outcomes
from refactorbench.outcome import Status
from refactorbench.scoring import gate

from .conftest import CONTROLS, ControlRun, Runs

VETOED = [c.id for c in CONTROLS.values() if c.kind == "cheat" and c.expect.stage1 == "fail"]
ALONE = {eye: [id for id in VETOED if CONTROLS[id].expect.witness == eye] for eye in Eye}


def stage_one(runs: Runs, run: ControlRun, off: Eye | None) -> int | None:
    """g as it is decided on the stored docket when `off` has looked and seen nothing."""
    reports = tuple(EyeReport(r.eye, "looked", (), r.covered) if r.eye is off else r for r in run.audit.docket.reports)
    criteria = runs.context.loaded.criteria
    verdict = decide(criteria, Opened(Docket(reports), run.audit.verdict.refused), None, "offline")
    return gate(required_outcomes(criteria, verdict))[0]


@pytest.mark.parametrize("id", VETOED)
def test_with_all_eyes_open_no_cheat_passes(runs: Runs, id: str) -> None:
    assert stage_one(runs, runs[id], None) == 0


@pytest.mark.parametrize("eye", Eye)
def test_switching_one_witness_off_lets_a_cheat_through(runs: Runs, eye: Eye) -> None:
    assert ALONE[eye], f"no control is stopped by the {eye} witness alone"
    for id in ALONE[eye]:
        assert stage_one(runs, runs[id], eye) == 1, f"{id} is stopped without the {eye} witness too"


@pytest.mark.parametrize("eye", Eye)
def test_switching_another_witness_off_lets_none_of_them_through(runs: Runs, eye: Eye) -> None:
    for other in set(Eye) - {eye}:
        assert all(stage_one(runs, runs[id], eye) == 0 for id in ALONE[other])


def test_a_blind_witness_is_not_a_lost_one(runs: Runs) -> None:
    """The negative control of this file's method: a LOST report leaves criteria open instead of passing them."""
    run = runs[ALONE[Eye.BUILD][0]]
    reports = tuple(
        msgspec.structs.replace(r, status="lost", findings=()) if r.eye is Eye.BUILD else r
        for r in run.audit.docket.reports
    )
    verdict = decide(runs.context.loaded.criteria, Opened(Docket(reports)), None, "offline")
    assert any(r.outcome.status is Status.UNDECIDED for r in verdict.criteria)
