"""The whole table of cases of stage I's verdict."""

from collections.abc import Sequence

import pytest

from refactorbench import scoring
from refactorbench.audit.docket import Docket, Eye, EyeReport, Finding, StatAnchor, Strength
from refactorbench.audit.verdict import Choice, CriterionResult, Opened, Vote, decide, required_outcomes, tally
from refactorbench.catalog.models import Criteria, Criterion
from refactorbench.errors import HarnessError, TaskError
from refactorbench.outcome import Status

PROOF, LEAD = Strength.PROOF, Strength.LEAD
SOURCE, BUILD, RUNTIME = Eye.SOURCE, Eye.BUILD, Eye.RUNTIME
GONE = Criterion("gone", "gone", "gone?", (SOURCE,), ("source-remains", "foreign-source"))
BUILDS = Criterion("builds", "builds", "builds?", (BUILD,), (), special="builds")
CRITERIA = Criteria("refactorbench.criteria/1", "t", (GONE, BUILDS))


def finding(id: str, kind: str = "source-remains", strength: Strength = PROOF, eye: Eye = SOURCE) -> Finding:
    return Finding(id, eye, kind, strength, StatAnchor("n", (1,)), f"why {id}")


def docket(*findings: Finding, source: str = "looked", build: str = "looked", runtime: str = "looked") -> Docket:
    statuses = {SOURCE: source, BUILD: build, RUNTIME: runtime}
    return Docket(
        tuple(
            EyeReport(eye, status, tuple(f for f in findings if f.eye is eye), {}, f"{eye} {status}")  # type: ignore[arg-type]
            for eye, status in statuses.items()
        )
    )


def votes(letters: str) -> list[Vote]:
    names = {"p": Choice.PASS, "f": Choice.FAIL, "a": Choice.ABSTAIN}
    return [Vote(f"s{i}", names[x], f"because {x}") for i, x in enumerate(letters)]


def gone(opened: Opened, cast: Sequence[Vote] | None = None, panel: str = "offline") -> CriterionResult:
    return decide(CRITERIA, opened, None if cast is None else {"gone": cast, "builds": cast}, panel).criteria[0]  # type: ignore[arg-type]


# (findings, refused, source eye, votes or None for offline) -> (status, by, narrow, queue)
TABLE = {
    "clean": ([], (), "looked", None, "pass", "offline", False, False),
    "lead": ([("foreign-source", LEAD)], (), "looked", None, "pass", "offline", True, True),
    "lead of a kind not listed": ([("opaque-data", LEAD)], (), "looked", None, "pass", "offline", False, False),
    "proof": ([("source-remains", PROOF)], (), "looked", None, "fail", "proof", False, False),
    "proof of a kind not listed": ([("binary-code", PROOF)], (), "looked", None, "pass", "offline", False, False),
    "proof and lost eye": ([("source-remains", PROOF)], (), "lost", None, "fail", "proof", False, False),
    "proof and void eye": ([("source-remains", PROOF)], (), "void", None, "fail", "proof", False, False),
    "refused proof": ([("source-remains", PROOF)], (0,), "looked", None, "pass", "offline", True, True),
    "one of two proofs refused": (
        [("source-remains", PROOF), ("source-remains", PROOF)], (0,), "looked", None, "fail", "proof", False, False,
    ),
    "refused proof, lost eye": (
        [("source-remains", PROOF)], (0,), "lost", None, "undecided", "witnesses", False, False,
    ),
    "lost": ([], (), "lost", None, "undecided", "witnesses", False, False),
    "lost with a lead": ([("foreign-source", LEAD)], (), "lost", None, "undecided", "witnesses", False, False),
    "void": ([], (), "void", None, "moot", "witnesses", False, False),
    "void is not outvoted": ([], (), "void", "ppp", "moot", "witnesses", False, False),
    "lost is not outvoted": ([], (), "lost", "fff", "undecided", "witnesses", False, False),
    "proof is not outvoted": ([("source-remains", PROOF)], (), "looked", "ppp", "fail", "proof", False, False),
    "3:0": ([], (), "looked", "ppp", "pass", "votes", False, False),
    "0:3": ([], (), "looked", "fff", "fail", "votes", False, False),
    "2:1": ([], (), "looked", "pfp", "pass", "votes", True, True),
    "1:2": ([], (), "looked", "ffp", "fail", "votes", True, True),
    "2 + abstention": ([], (), "looked", "pap", "pass", "votes", True, True),
    "2 fails + abstention": ([], (), "looked", "aff", "fail", "votes", True, True),
    "majority whether there are leads or not": (
        [("foreign-source", LEAD)], (), "looked", "ppp", "pass", "votes", False, False,
    ),
    "refused proof is judged": ([("source-remains", PROOF)], (0,), "looked", "fff", "fail", "votes", False, False),
    "1:1:abstain": ([], (), "looked", "pfa", "undecided", "votes", False, True),
    "fourth sample decides": ([], (), "looked", "pfap", "pass", "votes", True, True),
    "fifth sample decides": ([], (), "looked", "pfaaf", "fail", "votes", True, True),
    "five that don't decide": ([], (), "looked", "pfaaa", "undecided", "votes", False, True),
    "all abstain": ([], (), "looked", "aaaaa", "undecided", "votes", False, True),
    "a shrunk panel": ([], (), "looked", "pp", "undecided", "votes", False, True),
    "no votes at all": ([], (), "looked", "", "undecided", "votes", False, True),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_table(name: str) -> None:
    found, refused, eye, cast, status, by, narrow, queue = TABLE[name]
    findings = [finding(f"s{i}", kind, strength) for i, (kind, strength) in enumerate(found)]
    opened = Opened(docket(*findings, source=eye), {f"s{i}": "not there" for i in refused})
    got = gone(opened, None if cast is None else votes(cast), "offline" if cast is None else "llm")
    assert (got.outcome.status.value, got.by, got.narrow, got.queue) == (status, by, narrow, queue)
    assert bool(got.outcome.cause) == (not got.outcome.passed)


def test_a_proof_counts_from_an_eye_that_the_criterion_does_not_name() -> None:
    result = gone(Opened(docket(finding("r1", eye=RUNTIME))))
    assert result.outcome.status is Status.FAIL
    assert result.findings == ("r1",)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ({}, "pass"),
        ({"build": "void"}, "fail"),
        ({"runtime": "void"}, "fail"),
        ({"build": "void", "runtime": "lost"}, "fail"),
        ({"build": "lost", "runtime": "void"}, "fail"),
        ({"build": "lost"}, "undecided"),
        ({"runtime": "lost"}, "pass"),
    ],
)
def test_void_anywhere_fails_the_builds_criterion_and_lost_never_does(statuses: dict[str, str], expected: str) -> None:
    result = decide(CRITERIA, Opened(docket(**statuses)), None, "offline").criteria[1]
    assert result.outcome.status.value == expected
    assert (result.by == "log") == (expected == "fail")


def test_gate_counts_required_criteria_only() -> None:
    optional = Criterion("nice", "nice", "nice?", (SOURCE,), ("source-remains",), required=False)
    criteria = Criteria("refactorbench.criteria/1", "t", (optional, BUILDS))
    opened = Opened(docket(finding("s1")))
    verdict = decide(criteria, opened, None, "offline")
    assert verdict.criteria[0].outcome.status is Status.FAIL
    assert scoring.gate(required_outcomes(criteria, verdict))[0] == 1
    required = Criteria("refactorbench.criteria/1", "t", (GONE, BUILDS))
    assert scoring.gate(required_outcomes(required, decide(required, opened, None, "offline")))[0] == 0


def test_a_submission_that_cannot_be_looked_at_does_not_pass() -> None:
    verdict = decide(CRITERIA, Opened(docket(source="void", build="void", runtime="void")), None, "offline")
    assert scoring.gate(required_outcomes(CRITERIA, verdict))[0] == 0


@pytest.mark.parametrize("builds", [(), (BUILDS, Criterion("b2", "", "", (BUILD,), (), special="builds"))])
def test_criteria_need_exactly_one_builds_criterion(builds: tuple[Criterion, ...]) -> None:
    with pytest.raises(TaskError, match="builds"):
        decide(Criteria("refactorbench.criteria/1", "t", (GONE, *builds)), Opened(docket()), None, "offline")
    unrequired = Criterion("b", "", "", (BUILD,), (), required=False, special="builds")
    with pytest.raises(TaskError, match="required"):
        decide(Criteria("refactorbench.criteria/1", "t", (GONE, unrequired)), Opened(docket()), None, "offline")


def test_passes_without_a_vote_are_counted() -> None:
    assert decide(CRITERIA, Opened(docket()), None, "offline").passed_without_vote == 2
    voted = {"gone": votes("ppp"), "builds": votes("ppp")}
    assert decide(CRITERIA, Opened(docket()), voted, "llm").passed_without_vote == 0


def test_refused_findings_are_shown_and_duplicate_ids_are_the_harness() -> None:
    opened = Opened(docket(finding("s1")), {"s1": "no such bytes"})
    assert decide(CRITERIA, opened, None, "offline").refused == {"s1": "no such bytes"}
    with pytest.raises(HarnessError, match="two findings"):
        decide(CRITERIA, Opened(docket(finding("s1"), finding("s1", eye=BUILD))), None, "offline")


def test_tally_asks_for_more_only_while_it_may() -> None:
    assert tally(votes("pf")).more and tally(votes("pfa")).more and tally(votes("pfaa")).more
    assert not tally(votes("ppf")).more and not tally(votes("pfaaa")).more
