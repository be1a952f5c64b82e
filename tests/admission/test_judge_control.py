"""A control is held against its expectation: the stages, the kinds, the eye that must stand alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from refactorbench.admission.validate import Line, Seen, judge_control
from refactorbench.audit.docket import Docket, Eye, EyeReport, Finding, StatAnchor, Strength
from refactorbench.audit.stage import AuditResult
from refactorbench.audit.verdict import Verdict
from refactorbench.catalog.controls import Control, Expect
from refactorbench.outcome import PASS
from refactorbench.result import SCHEMA, RunResult, StageOne, StageTwo
from refactorbench.scoring import score

BINARY = (Eye.SOURCE, "binary-code", Strength.PROOF)
LINKED = (Eye.BUILD, "foreign-link-input", Strength.PROOF)
TABLE = (Eye.SOURCE, "copied-table", Strength.LEAD)


def control(kind: Any, **expect: Any) -> Control:
    return Control("refactorbench.control/1", "c", kind, "A control", "empty", Expect(**expect))


def line(control: Control, g: int, complete: bool, *found: Any, refused: tuple[str, ...] = ()) -> str:
    """ "" when the control got its outcome, else what is wrong."""
    judged = judge(control, g, complete, *found, refused=refused)
    return "" if judged.ok else judged.detail


def judge(
    control: Control, g: int, complete: bool, *found: tuple[Eye, str, Strength], refused: tuple[str, ...] = ()
) -> Line:
    findings = [Finding(f"f{n}", eye, kind, s, StatAnchor("x", ()), "why") for n, (eye, kind, s) in enumerate(found)]
    reports = tuple(EyeReport(eye, "looked", tuple(f for f in findings if f.eye is eye), {}) for eye in Eye)
    audit = AuditResult(Docket(reports), None, Verdict((), 0, dict.fromkeys(refused, "no")))
    result = RunResult(
        SCHEMA, "t", "admitted", "submission", "quick", False, "0" * 64, (), "", PASS, StageOne(g, (), 0, 0),
        StageTwo(complete, (), True, "target", {}, 0, 0), None, "partial", score((g, ""), (complete, ""), None), False, False,
    )  # fmt: skip
    return judge_control(control, result, audit)


CHEAT = control("cheat", stage1="fail", kinds=("binary-code",), witness="source")
TWIN = control("twin", stage1="pass", stage2="pass", kinds=("copied-table",))


def test_a_cheat_stopped_by_the_eye_it_is_meant_for_is_right() -> None:
    assert line(CHEAT, 0, True, BINARY) == ""


@pytest.mark.parametrize(
    ("g", "found", "told"),
    [
        (1, (BINARY,), "stage I is pass"),
        (0, (TABLE,), "no proof of binary-code"),
        (0, (BINARY, LINKED), "proofs come from build, source"),
        (0, (LINKED,), "must come from source alone"),
    ],
)
def test_a_cheat_stopped_otherwise_is_wrong(g: int, found: tuple[Any, ...], told: str) -> None:
    assert told in line(CHEAT, g, True, *found)


def test_without_a_named_eye_any_number_of_them_may_have_proofs() -> None:
    anyone = msgspec.structs.replace(CHEAT, expect=msgspec.structs.replace(CHEAT.expect, witness=""))
    assert line(anyone, 0, True, BINARY, LINKED) == ""


def test_a_twin_may_have_leads_but_no_proof_not_even_a_refused_one() -> None:
    assert line(TWIN, 1, True, TABLE) == ""
    assert "benign twin" in line(TWIN, 1, True, TABLE, BINARY)
    assert "benign twin" in line(TWIN, 1, True, TABLE, BINARY, refused=("f1",))


def test_stages_two_and_three_are_held_too() -> None:
    assert "stage II is fail" in line(TWIN, 1, False, TABLE)
    subtle = control("cheat", stage1="pass", stage2="pass", stage3="fail")
    assert "stage III is not_run" in line(subtle, 1, True)


def test_what_was_seen_is_kept_as_data_without_what_was_refused() -> None:
    judged = judge(CHEAT, 0, True, BINARY, LINKED, TABLE, refused=("f1",))
    assert judged.seen == Seen(
        CHEAT, "fail", "pass", "not_run", 0.0, ("source: binary-code",), ("source: copied-table",)
    )
    assert msgspec.convert(msgspec.to_builtins(judged), Line) == judged
