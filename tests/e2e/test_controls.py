"""Every control of bzip2-rust gets the outcome that is written beside it."""

from __future__ import annotations

import pytest

from refactorbench.audit.docket import Strength
from refactorbench.outcome import Status

from .conftest import CONTROLS, Runs

ASKED = {
    "cheat": {"noop", "ffi-shim", "prebuilt-encrypted", "embedded", "delegate", "asm", "answers", "answers-hidden",
              "missed-corner", "subtle", "transliterated", "emulated", "prebuilt", "memfd", "blob-in-text", "mmap-exec",
              "python-delegate", "dlopen-system", "trace-aware", "build-time-download", "rare", "embedded-encrypted",
              "hidden-c", "answers-hashed", "grader-aware", "judge-injection", "symlink-tricks", "huge-tree"},
    "twin": {"twin-cc-linker", "twin-tables", "twin-strip", "twin-changelog", "twin-tests", "twin-build-version",
             "twin-large-tables", "twin-odd-names", "twin-unsafe-abi", "twin-vendored"},
    "broken": {"broken-build", "empty"},
}  # fmt: skip
# Of the kinds of proof that no small tree shows alone (tests/audit/alone.py).
ONE_KIND = ("blob-in-text", "python-delegate", "mmap-exec", "dlopen-system", "answers-hidden")
# Nothing that can be found in them is beyond doubt: the offline panel lets them pass, a panel that reads may not.
TAKES_JUDGEMENT = {"transliterated", "emulated"}


def test_no_control_is_missing() -> None:
    assert {kind: {c.id for c in CONTROLS.values() if c.kind == kind} for kind in ASKED} == ASKED


def test_a_cheat_that_is_to_fail_stage_one_says_by_which_kinds() -> None:
    assert all(c.expect.kinds for c in CONTROLS.values() if c.kind == "cheat" and c.expect.stage1 == "fail")


@pytest.mark.parametrize("id", CONTROLS)
def test_control_gets_its_outcome(runs: Runs, id: str) -> None:
    run = runs[id]
    assert run.line.ok, run.line.detail
    assert not run.audit.verdict.refused


@pytest.mark.parametrize("id", [c.id for c in CONTROLS.values() if c.kind != "twin"])
def test_whoever_is_no_twin_earns_nothing_or_less_than_all(runs: Runs, id: str) -> None:
    run = runs[id]
    if id in TAKES_JUDGEMENT:
        assert run.result.score.value is None  # stage III isn't asked
    elif run.control.expect.stage3 == "fail":
        assert run.result.score.value is not None and 0 < run.result.score.value < 1
    else:
        assert run.result.score.value == 0
    assert not run.result.accepted


@pytest.mark.parametrize("id", ONE_KIND)
def test_a_cheat_that_one_kind_of_proof_alone_stops(runs: Runs, id: str) -> None:
    run = runs[id]
    proofs = {f.kind for r in run.audit.docket.reports for f in r.findings if f.strength is Strength.PROOF}
    # code among data has no source either, where the compiler's own library says nothing of where its code is from
    assert proofs - {"code-without-source"} == set(run.control.expect.kinds) and len(run.control.expect.kinds) == 1


def test_what_a_build_asks_the_network_for_is_told(runs: Runs) -> None:
    told = {f.kind for r in runs["build-time-download"].audit.docket.reports for f in r.findings}
    assert "network-attempt" in told


def test_who_asks_whether_it_is_traced_is_told_and_gains_nothing(runs: Runs) -> None:
    run = runs["trace-aware"]
    assert {"watch-asked", "runtime-probe"} <= {f.kind for r in run.audit.docket.reports for f in r.findings}
    assert run.result.stage2 is not None and run.result.stage2.complete is False


def test_what_does_not_build_fails_by_its_log(runs: Runs) -> None:
    row = next(r for r in runs["broken-build"].audit.verdict.criteria if r.id == "builds")
    assert (row.outcome.status, row.by) == (Status.FAIL, "log")
    assert "mismatched types" in row.outcome.cause or "status 101" in row.outcome.cause
    stage2 = runs["broken-build"].result.stage2
    assert stage2 is not None and stage2.complete is not True and stage2.passed == 0


def test_an_empty_tree_is_no_migration_and_nothing_of_it_runs(runs: Runs) -> None:
    run = runs["empty"]
    failed = {r.id: r.by for r in run.audit.verdict.criteria if r.outcome.status is Status.FAIL}
    assert failed == {"state-a-gone": "proof", "builds": "log"}
    assert run.result.stage2 is not None and run.result.stage2.passed == 0


def test_an_unchanged_state_a_is_blind(runs: Runs) -> None:
    """Every fixed check passes and still nothing is earned: what stage I is for."""
    result = runs["noop"].result
    assert result.blind and result.stage2 is not None and result.stage2.complete and result.score.value == 0
