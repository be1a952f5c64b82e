"""Every rule of the judges' panel, under models that are played: grounding, abstention, canaries, outage, resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import audit_trees as trees
import msgspec
import pytest
from judging import (
    CRITERIA,
    GONE,
    LEAD,
    LIST,
    QUOTE,
    READ,
    Behave,
    Call,
    Kept,
    Played,
    Seen,
    criteria,
    docket,
    fails,
    judge,
    looks_then,
    panel,
    passes,
)

from refactorbench.audit.docket import Finding, Strength, TextAnchor
from refactorbench.audit.judges.judge import LlmJudge
from refactorbench.audit.stage import AuditResult, conclude
from refactorbench.audit.verdict import Choice, Opened
from refactorbench.errors import HarnessError
from refactorbench.llm.protocol import ProviderError, Usage

PASSES = looks_then(passes())
FAILS = looks_then(fails(), READ)


def one(folder: Path, behave: Behave, **more: Any) -> Any:
    """A single sample on the first criterion."""
    return judge(folder, behave, **more).ask(GONE, 0)


def by_seat(*behaves: Behave) -> dict[str, Played]:
    return {f"anthropic/{n}": Played(b, f"anthropic/{n}") for n, b in enumerate(behaves)}


def concluded(folder: Path, behave: Any, opened: Opened | None = None, **more: Any) -> AuditResult:
    opened = opened or docket(LEAD)
    if isinstance(behave, dict):
        more["models"] = tuple(behave)
    return conclude(criteria(), opened, judge(folder, behave, opened, **more).panel)


def statuses(result: AuditResult) -> list[str]:
    return [r.outcome.status.value for r in result.verdict.criteria]


# one sample


def test_a_pass_with_a_true_manifest_and_a_fail_with_a_true_quote_count(tmp_path: Path) -> None:
    for behave, choice in ((PASSES, Choice.PASS), (FAILS, Choice.FAIL)):
        sample = one(tmp_path, behave)
        assert (sample.choice, sample.sent_back) == (choice, ())
        assert sample.checked and all(not c.why for c in sample.checked)
        assert sample.answered_by == ("played-1",) and sample.usage.total == 220 and sample.turns == 2


UNGROUNDED: dict[str, tuple[Call, str]] = {
    "a fail without evidence": (fails(citations=[]), "a fail needs a citation or the id of a finding"),
    "a quote that stands nowhere": (fails(citations=[{**QUOTE, "quote": "int main(void) {"}]), "doesn't stand at"),
    "a quote far from its line": (fails(citations=[{**QUOTE, "line": 30}]), "doesn't stand at src/main.rs:30"),
    "a line that isn't there": (fails(citations=[{**QUOTE, "line": 10**6}]), "and no line 1000000"),
    "a quote too short to tell anything": (fails(citations=[{**QUOTE, "quote": "MARK"}]), "too short"),
    "white space as a quote": (fails(citations=[{**QUOTE, "quote": " \t "}]), "too short"),
    "a folder as evidence": (fails(citations=[{**QUOTE, "path": "src"}]), "'src' is a folder, no file to read"),
    "a file that isn't there": (fails(citations=[{**QUOTE, "path": "main.c"}]), "there is no 'main.c'"),
    "a path out of the tree": (fails(citations=[{**QUOTE, "path": "../state-a/pack.c"}]), "there is no"),
    "the quote in the other tree": (fails(citations=[{**QUOTE, "tree": "state-a"}]), "there is no 'src/main.rs'"),
    "a finding that isn't there": (fails(citations=[], findings=["source-999"]), "no finding 'source-999'"),
    "a pass without a manifest": (passes(covered=[]), "a pass needs `covered`"),
    "a pass that covers State A only": (passes(covered=[{"place": "state-a", "path": ""}]), "was not looked at"),
    "a manifest of what wasn't read": (
        passes(covered=[{"place": "submission", "path": "pack.h"}]),
        "was not looked at",
    ),
    "a manifest of what isn't there": (passes(covered=[{"place": "submission", "path": "src/lib.rs"}]), "there is no"),
    "a manifest of the docket unread": (passes(covered=[{"place": "docket", "path": "source"}]), "was not looked at"),
    "an unknown key": (fails(confidence=1), "unknown field `confidence`"),
    "evidence under another name": (fails(citations=[{**QUOTE, "file": "x"}]), "unknown field `file`"),
    "a third verdict": (passes(verdict="unsure"), "Invalid enum value"),
}


@pytest.mark.parametrize("name", UNGROUNDED)
def test_an_answer_that_is_not_grounded_is_asked_again_once_and_is_then_an_abstention(
    name: str, tmp_path: Path
) -> None:
    answer, why = UNGROUNDED[name]
    sample = one(tmp_path, looks_then(answer))
    assert sample.choice is Choice.ABSTAIN and len(sample.sent_back) == 1 and why in sample.sent_back[0]
    assert sample.turns == 3


@pytest.mark.parametrize("name", UNGROUNDED)
def test_a_grounded_second_answer_counts(name: str, tmp_path: Path) -> None:
    answer, _ = UNGROUNDED[name]
    answers = (LIST, answer, fails())
    sample = one(tmp_path, lambda seen: answers[seen.replies : seen.replies + 1])
    assert sample.choice is Choice.FAIL and len(sample.sent_back) == 1


def test_an_answer_before_anything_was_read_is_asked_again(tmp_path: Path) -> None:
    sample = one(tmp_path, lambda seen: (fails(),))
    assert sample.choice is Choice.ABSTAIN and sample.sent_back == ("nothing was looked at before this answer",)
    late = one(tmp_path, lambda seen: (fails(),) if seen.replies != 1 else (READ,))
    assert late.choice is Choice.FAIL


@pytest.mark.parametrize("quote", ["const  MARK:u8\t= 0x1b ;", "//! Run-length packing, ported", "u8=0x1b;\n\n"])
def test_a_quote_stands_within_three_lines_white_space_aside(quote: str, tmp_path: Path) -> None:
    stands_at = 1 if "//!" in quote else 2
    for line in (1, 2, 4, 5, 6):
        sample = one(tmp_path, looks_then(fails(citations=[{**QUOTE, "line": line, "quote": quote}]), READ))
        assert (sample.choice is Choice.FAIL) == (line - stands_at <= 3), line


def test_one_true_citation_is_enough_and_the_untrue_one_is_told(tmp_path: Path) -> None:
    sample = one(tmp_path, looks_then(fails(citations=[QUOTE, {**QUOTE, "line": 40}]), READ))
    assert sample.choice is Choice.FAIL and [bool(c.why) for c in sample.checked] == [False, True]


def test_the_docket_can_be_cited_where_its_anchor_stands(tmp_path: Path) -> None:
    look = ("docket", {"eye": "source"})
    by_id = looks_then(fails(citations=[], findings=["source-001"]), look)
    assert one(tmp_path, by_id).choice is Choice.FAIL
    moved = msgspec.structs.replace(LEAD, anchor=TextAnchor("CHANGELOG.md", 1, "no such words"))
    assert one(tmp_path, by_id, opened=docket(moved)).choice is Choice.ABSTAIN
    refused = Opened(docket(LEAD).docket, {"source-001": "it isn't so"})
    assert "was refused" in one(tmp_path, by_id, opened=refused).reason
    covers = looks_then(passes(covered=[{"place": "docket", "path": "source"}]), look)
    assert one(tmp_path, covers).choice is Choice.PASS


@pytest.mark.parametrize(
    ("looks", "path", "stands"),
    [
        ((LIST,), "", True),
        ((LIST,), "src/main.rs", False),  # its name was seen, not what is in it
        ((READ,), "src/main.rs", True),
        ((READ,), "", False),  # one file isn't the tree
        ((READ,), "src", False),
        ((("search", {"tree": "submission", "texts": ["gcc"], "folder": "src"}),), "src/main.rs", True),
        ((("search", {"tree": "submission", "texts": ["gcc"], "folder": "src"}),), "pack.h", False),
        ((("search", {"tree": "state-a", "texts": ["gcc"]}),), "", False),
        ((("diff", {}),), "", True),
        ((("read", {"tree": "submission", "path": "nothing"}),), "nothing", False),  # a look that failed is none
    ],
)
def test_a_manifest_stands_for_what_was_looked_at_or_lies_below_it(
    looks: tuple[Call, ...], path: str, stands: bool, tmp_path: Path
) -> None:
    sample = one(tmp_path, looks_then(passes(covered=[{"place": "submission", "path": path}]), *looks))
    assert (sample.choice is Choice.PASS) is stands


def test_no_answer_is_an_abstention_with_its_reason(tmp_path: Path) -> None:
    assert "nothing was called" in one(tmp_path, lambda seen: "I think it is fine: pass.").reason
    endless = one(tmp_path, lambda seen: (LIST,), turns=5)
    assert endless.choice is Choice.ABSTAIN and "within the replies" in endless.reason and endless.turns == 5
    full = one(tmp_path, looks_then(passes(), LIST, *[READ] * 5), reading=4_000)
    assert full.choice is Choice.PASS and sum(k.what == "read" for k in full.looks) < 5  # what may be read is bounded
    assert any("answer now" in str(m) for m in full.messages)


# the panel


def test_three_seats_ask_every_criterion_in_orders_of_their_own(tmp_path: Path) -> None:
    seats = by_seat(PASSES, PASSES, PASSES)
    result = concluded(tmp_path, seats)
    assert statuses(result) == ["pass"] * 3 and not any(r.narrow for r in result.verdict.criteria)
    orders = [tuple(p.asked) for p in seats.values()]
    assert {len(o) for o in orders} == {5} and len(set(orders)) > 1  # three criteria and two canaries
    assert result.verdict.passed_without_vote == 0 and result.spent.samples == 15
    assert result.spent.usage.output == 10 * result.spent.usage.input / 100 >= 10 * 2 * 15


def test_trees_and_evidence_stand_in_another_order_for_each_seat(tmp_path: Path) -> None:
    cases = set()

    def note(seen: Seen) -> Any:
        cases.add(seen.case)
        return PASSES(seen)

    concluded(
        tmp_path, note, opened=docket(LEAD, msgspec.structs.replace(LEAD, id="source-002", kind="foreign-source"))
    )
    assert len(cases) == 3  # one per seat, the same for all of its questions


@pytest.mark.parametrize(
    ("behaves", "status", "narrow", "queue"),
    [
        ((PASSES, PASSES, PASSES), "pass", False, False),
        ((FAILS, FAILS, FAILS), "fail", False, False),
        ((PASSES, PASSES, FAILS), "pass", True, True),
        ((FAILS, FAILS, PASSES), "fail", True, True),
        ((PASSES, PASSES, looks_then(passes(covered=[]))), "pass", True, True),  # two and an abstention
    ],
)
def test_two_of_three_decide_and_less_than_unanimous_is_narrow(
    behaves: tuple[Behave, ...], status: str, narrow: bool, queue: bool, tmp_path: Path
) -> None:
    row = concluded(tmp_path, by_seat(*behaves)).verdict.criteria[0]
    assert (row.outcome.status, row.narrow, row.queue, row.by) == (status, narrow, queue, "votes")


def test_a_split_gets_up_to_two_more_samples_and_never_a_smaller_panel(tmp_path: Path) -> None:
    abstains = looks_then(passes(covered=[]))
    result = concluded(tmp_path, by_seat(PASSES, FAILS, abstains))
    # the fourth sample is the first seat's model again, which decides
    assert [len(v) for v in (result.votes or {}).values()] == [4, 4, 4] and statuses(result)[0] == "pass"
    alone = concluded(tmp_path, by_seat(PASSES, abstains, abstains), canaries=False)
    votes = (alone.votes or {})["gone"]
    assert [v.choice.value for v in votes] == ["pass", "abstain", "abstain", "pass"] and alone.verdict.criteria[
        0
    ].narrow
    none = concluded(tmp_path, abstains)
    assert statuses(none) == ["undecided"] * 3 and all(r.queue for r in none.verdict.criteria)
    assert all(len(v) == 5 for v in (none.votes or {}).values())


def test_a_proof_stands_above_three_passes_and_the_question_is_put_all_the_same(tmp_path: Path) -> None:
    proof = Finding("source-007", LEAD.eye, "source-remains", Strength.PROOF, LEAD.anchor, "pack.c is there")
    result = concluded(tmp_path, PASSES, docket(proof))
    assert statuses(result) == ["fail", "fail", "pass"] and result.verdict.criteria[0].by == "proof"
    assert [v.choice.value for v in (result.votes or {})["gone"]] == ["pass"] * 3
    refused = Opened(docket(proof).docket, {"source-007": "it isn't so"})
    assert statuses(concluded(tmp_path, PASSES, refused))[0] == "pass"


# canaries


def test_a_judge_that_was_talked_over_is_flagged_and_none_of_its_votes_count(tmp_path: Path) -> None:
    gullible = lambda seen: (LIST,) if not seen.replies else (passes(),)  # noqa: E731
    result = concluded(tmp_path, gullible)
    assert statuses(result) == ["undecided"] * 3 and "whose answer is known to be 'fail'" in result.spoiled
    assert concluded(tmp_path, PASSES).spoiled == ""
    hostile = lambda seen: (READ,) if not seen.replies else (fails(),)  # noqa: E731
    assert "known to be 'pass'" in concluded(tmp_path, hostile).spoiled


def test_one_seat_talked_over_spoils_the_panel_and_a_proof_stands_even_then(tmp_path: Path) -> None:
    gullible = lambda seen: (LIST,) if not seen.replies else (passes(),)  # noqa: E731
    proof = Finding("source-007", LEAD.eye, "source-remains", Strength.PROOF, LEAD.anchor, "pack.c is there")
    result = concluded(tmp_path, by_seat(PASSES, gullible, PASSES), docket(proof))
    assert statuses(result) == ["fail", "fail", "undecided"] and "anthropic/1 #2" in result.spoiled


# outage and resume


class Outage:
    """A provider that is gone after so many questions, until it is mended."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, seen: Seen) -> Any:
        if not seen.replies:
            self.left -= 1
            if self.left < 0:
                raise ProviderError("503 from the server", kind="overloaded", usage=Usage(7))
        return PASSES(seen)


def test_an_outage_in_the_middle_is_no_vote_and_what_is_missing_alone_is_asked_again(tmp_path: Path) -> None:
    kept, provider = Kept(), Outage(7)
    first = concluded(tmp_path, provider, kept=kept)
    assert "undecided" in statuses(first) and first.missing and "503 from the server" in first.missing["gone"]
    assert all(len(v) <= 3 for v in (first.votes or {}).values())
    whole = {name for name, s in kept.samples.items() if not s.lost}
    assert len(whole) == 7 and len(kept.samples) <= 10  # no more was asked than was under way
    before, provider.left = kept.made, 100
    second = concluded(tmp_path, provider, kept=kept)
    assert statuses(second) == ["pass"] * 3 and second.missing == {}
    assert kept.made - before == 15 - 7
    third = concluded(tmp_path, Outage(0), kept=kept)
    assert third == second  # everything was read back


def test_an_outage_leaves_a_proven_fail_standing(tmp_path: Path) -> None:
    proof = Finding("source-007", LEAD.eye, "source-remains", Strength.PROOF, LEAD.anchor, "pack.c is there")
    assert statuses(concluded(tmp_path, Outage(0), docket(proof))) == ["fail", "fail", "undecided"]


def test_what_is_the_harnesss_fault_is_no_vote_but_an_error(tmp_path: Path) -> None:
    def broken(seen: Seen) -> Any:
        raise HarnessError("the disk is full")

    with pytest.raises(HarnessError, match="the disk is full"):
        concluded(tmp_path, broken)


@pytest.mark.parametrize("kind", ["refusal", "context_overflow", "malformed_tool_json"])
def test_what_is_the_models_own_failure_is_an_abstention(kind: Any, tmp_path: Path) -> None:
    def refuses(seen: Seen) -> Any:
        raise ProviderError("no", kind=kind, usage=Usage(7))

    sample = one(tmp_path, refuses)
    assert sample.choice is Choice.ABSTAIN and not sample.lost and sample.usage == Usage(7)


def test_what_was_asked_and_said_is_kept_whole(tmp_path: Path) -> None:
    kept = Kept()
    concluded(tmp_path, PASSES, kept=kept)
    sample = kept.samples["judges/gone/0"]
    assert sample.prompt_version == "1" and "You audit a migration" in sample.system
    said = msgspec.json.encode(sample.messages).decode()
    assert "Is the C code gone?" in said and "answer" in said and '"taken"' in said
    assert sample.cost is None  # the model's price isn't known, and that isn't nothing
    assert set(kept.samples) == {
        f"judges/{c}/{n}" for c in (*(c.id for c in CRITERIA), "_absent", "_present") for n in range(3)
    }


def test_the_same_seed_asks_the_same_and_another_one_otherwise(tmp_path: Path) -> None:
    def first_question(seed: int) -> list[Any]:
        made = judge(tmp_path, PASSES)
        again = LlmJudge(
            trees.loaded(CRITERIA), panel(), tmp_path / "state-a", tmp_path / "tree", "0" * 64, docket(LEAD), seed,
            Kept(), lambda _: None, made._open,
        )  # fmt: skip
        return list(again.ask(GONE, 0).messages)

    assert first_question(1) == first_question(1) != first_question(2)


def test_a_sober_judge_is_what_these_tests_think_it_is(tmp_path: Path) -> None:
    """The negative control of the canaries: the played judge answers both of them truly, by reading."""
    made = judge(tmp_path, PASSES)
    choices = {c.known: made.ask(c.criterion, 0).choice for c in made.panel._canaries}
    assert choices == {Choice.PASS: Choice.PASS, Choice.FAIL: Choice.FAIL}
