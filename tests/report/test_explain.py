import msgspec
import pytest
from results import ERROR, FAILED, PANEL, criterion, result, scored, stage_one, stage_three, stage_two

from refactorbench.outcome import Outcome, Owner, Status
from refactorbench.report.explain import CAUSE, cut, meaning, why
from refactorbench.result import ModuleRow


def test_the_last_line_is_the_meaning_with_the_panel_and_the_criteria_without_a_vote() -> None:
    last = why(result()).splitlines()[-1]
    assert last == meaning(result())
    assert last.startswith(f"S = 100 (panel {PANEL}; 2 of 2 criteria without a vote): migrated, every recorded check")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"stage1": stage_one(0, criterion(outcome=FAILED)), "score": scored(0.0, g=0)},
            "not migrated, 1 of 1 criteria",
        ),
        ({"stage2": stage_two(False), "score": scored(0.0, all_checks=False)}, "5 of 20 recorded checks do not pass"),
        ({"stage3": stage_three(FAILED, FAILED), "score": scored(0.8)}, "2 of 6 verifiers found a difference"),
        ({"stage3": stage_three(*[FAILED] * 6), "score": scored(0.4)}, "6 of 6 verifiers found a difference"),
    ],
)
def test_a_lower_score_says_what_cost_it(changes: dict, said: str) -> None:
    assert said in meaning(result(**changes))
    assert said not in meaning(result())


def test_blindness_is_said_only_where_it_is() -> None:
    vetoed = {"stage1": stage_one(0, criterion(outcome=FAILED)), "score": scored(0.0, g=0)}
    assert "BLIND" in meaning(result(**vetoed, blind=True))
    assert "BLIND" not in meaning(result(**vetoed))


def test_an_unscored_run_says_its_bounds_and_the_cause_and_a_partial_one_what_was_not_asked_for() -> None:
    unscored = result(score=scored(None), status="unscored", cause="verifier v3: its process ended")
    assert meaning(unscored).startswith("unscored, S is between 40 and 100 (panel")
    assert "verifier v3: its process ended" in meaning(unscored)
    partial = result(score=scored(None, ("stage I: not asked for",)), status="partial", comparable=False)
    assert meaning(partial).startswith("no score, only a part was asked for") and "stage I: not asked" in meaning(
        partial
    )
    assert "not comparable" in meaning(partial) and "not comparable" not in meaning(result())


def test_tables_cut_long_causes_and_keep_short_ones() -> None:
    long = "the submission left nothing for the witness:\n" + "error: x " * 80
    moot = criterion(outcome=Outcome(Status.MOOT, long))
    text = why(result(stage1=stage_one(0, moot), build=Outcome(Status.ERROR, long, Owner.SUBMISSION)))
    assert max(map(len, text.splitlines()[:-1])) < CAUSE + 80
    assert "the submission left nothing" in text and "..." in text
    assert cut("short\nand  plain") == "short and plain"
    assert len(cut("x" * 500)) == CAUSE and cut("x" * CAUSE) == "x" * CAUSE


def test_each_stage_shows_its_rows() -> None:
    text = why(
        result(
            stage1=stage_one(1, criterion(narrow=True), criterion("other", FAILED, required=False)),
            stage2=stage_two(None, forgiven={"rule": 3}, note="said so", credited=False),
            stage3=stage_three(FAILED, ERROR),
            removed=("target", ".git"),
            stop="time",
        )
    )
    for words in (
        "narrow, in the human queue", "FAIL other", "(it fails)", "OPEN: 15 of 20", "(not credited)", "note: said so",
        "15/20    m  5 without a verdict", "forgiven by rule: rule 3", "10/10 passed", "BROKEN   v1", "counterexample v-ce",
        "ERROR    v2", "(its process ended)", "held off v3", "left out of the submission: target, .git", "(ENDED BY TIME, see agent.log",
    ):  # fmt: skip
        assert words in text, (words, text)


def test_a_stage_that_did_not_run_and_the_checks_that_fail_are_named() -> None:
    row = ModuleRow("m", 20, 18, 2, 0, 0, 0, ("m/one", "m/two"))
    two = msgspec.structs.replace(stage_two(False), modules=(row,))
    text = why(result(stage1=stage_one(1, criterion()), stage2=two, stage3=None))
    assert "18/20    m  2 failed: m/one, m/two" in text and "stage III not run" in text
    assert "stage III not run" not in why(result(stage1=stage_one(1, criterion()), stage2=two, stage3=stage_three(FAILED)))
