"""Stage I's verdict: a pure function of the criteria, the re-opened docket and the panel's votes.

Per criterion, in this order: a re-opened PROOF fails it; an eye LOST leaves it undecided; an eye VOID makes it moot and
fails the criterion "the target stack builds and starts it"; what is left is a matter of judgement. A VOID is itself
proved by the build's log, so it fails that one criterion even while another of its eyes is LOST.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal

import msgspec

from refactorbench.audit.docket import Docket, Finding, Strength
from refactorbench.catalog.models import Criteria, Criterion
from refactorbench.errors import HarnessError, TaskError
from refactorbench.llm.protocol import Usage
from refactorbench.outcome import PASS, Outcome, Status

PANEL_SIZE = 3
EXTRA_SAMPLES = 2

PanelKind = Literal["offline", "llm"]
By = Literal["proof", "witnesses", "log", "offline", "votes", "review"]


class Choice(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    ABSTAIN = "abstain"


class Vote(msgspec.Struct, frozen=True):
    """One grounded sample of a judge on one criterion; an ungrounded one has become an abstention already."""

    seat: str
    choice: Choice
    why: str = ""


class Spent(msgspec.Struct, frozen=True):
    """What judges used. `cost` is in US dollars, None where a model's price isn't known."""

    samples: int = 0
    usage: Usage = Usage()
    cost: float | None = None
    again: int = 0  # samples that were asked again on purpose


class Cast(msgspec.Struct, frozen=True):
    """What a panel gave: criterion id -> votes in the order of their samples; why votes are `missing`, where a provider
    gave none; and why none of them may count (`spoiled`), where a judge didn't answer what has a known answer."""

    votes: dict[str, tuple[Vote, ...]]
    missing: dict[str, str] = {}
    spoiled: str = ""
    spent: Spent = Spent()


class Tally(msgspec.Struct, frozen=True):
    """`decision` is None while undecided; `more` asks for another sample."""

    decision: Choice | None
    narrow: bool = False
    more: bool = False


class Opened(msgspec.Struct, frozen=True):
    """A docket after the host re-opened its PROOFs; `refused` maps finding id to the reason it doesn't stand."""

    docket: Docket
    refused: dict[str, str] = {}


class CriterionResult(msgspec.Struct, frozen=True):
    """`findings`: the ids the outcome rests on, or that people should look at; `queue`: put before people."""

    id: str
    outcome: Outcome
    by: By
    narrow: bool = False
    queue: bool = False
    findings: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    criteria: tuple[CriterionResult, ...]
    passed_without_vote: int
    refused: dict[str, str]


def tally(votes: Sequence[Vote]) -> Tally:
    """Two equal votes of the first three decide, unanimity alone isn't narrow; otherwise up to two more samples.

    Fewer than three votes never decide: a panel doesn't shrink.
    """
    if len(votes) < PANEL_SIZE:
        return Tally(None, more=True)
    for n in range(PANEL_SIZE, min(len(votes), PANEL_SIZE + EXTRA_SAMPLES) + 1):
        choices = [v.choice for v in votes[:n]]
        passes, fails = choices.count(Choice.PASS), choices.count(Choice.FAIL)
        if max(passes, fails) >= 2 and passes != fails:
            decision = Choice.PASS if passes > fails else Choice.FAIL
            return Tally(decision, narrow=max(passes, fails) < n)
    return Tally(None, more=len(votes) < PANEL_SIZE + EXTRA_SAMPLES)


def decide(
    criteria: Criteria,
    opened: Opened,
    votes: Mapping[str, Sequence[Vote]] | None,
    panel: PanelKind,
    missing: Mapping[str, str] | None = None,
    spoiled: str = "",
) -> Verdict:
    """Return one result per criterion, in the criteria's order; `missing` and `spoiled` as in `Cast`. TaskError when
    no required criterion carries special = "builds", without which a submission that can't be looked at would pass;
    HarnessError on duplicate ids."""
    if [c.required for c in criteria.criterion if c.special == "builds"] != [True]:
        raise TaskError(
            f'audit_criteria/{criteria.task}.toml: exactly one criterion must have special = "builds" and be required, '
            "or a submission that doesn't build could pass: mark it"
        )
    ids = [f.id for r in opened.docket.reports for f in r.findings]
    if len(ids) != len(set(ids)):
        raise HarnessError("the docket holds two findings of one id, so a refusal could hit the wrong one")
    why = {c.id: spoiled or (missing or {}).get(c.id, "") for c in criteria.criterion}
    results = tuple(_decide_one(c, opened, (votes or {}).get(c.id), panel, why[c.id]) for c in criteria.criterion)
    unvoted = sum(r.outcome.passed and r.by != "votes" for r in results)
    return Verdict(results, unvoted, dict(opened.refused))


def required_outcomes(criteria: Criteria, verdict: Verdict) -> list[Outcome]:
    """The outcomes that `scoring.gate` decides on."""
    required = {c.id for c in criteria.criterion if c.required}
    return [r.outcome for r in verdict.criteria if r.id in required]


def _decide_one(
    c: Criterion, opened: Opened, votes: Sequence[Vote] | None, panel: PanelKind, why_open: str
) -> CriterionResult:
    docket = opened.docket
    bearing = [f for r in docket.reports for f in r.findings if f.kind in c.kinds]
    proofs = [f for f in bearing if f.strength is Strength.PROOF and f.id not in opened.refused]
    if proofs:
        more = f" (and {len(proofs) - 1} more)" if len(proofs) > 1 else ""
        return CriterionResult(c.id, Outcome(Status.FAIL, proofs[0].why + more), "proof", findings=_ids(proofs))
    void = [r for r in docket.reports if r.status == "void"]
    if c.special == "builds" and void:
        return CriterionResult(c.id, Outcome(Status.FAIL, void[0].cause), "log")
    eyes = [docket.report(e) for e in c.eyes]
    lost = [r for r in eyes if r.status == "lost"]
    if lost:
        cause = f"the {lost[0].eye} witness was lost: {lost[0].cause}"
        return CriterionResult(c.id, Outcome(Status.UNDECIDED, cause), "witnesses")
    blind = [r for r in eyes if r.status == "void"]
    if blind:
        cause = f"the submission left nothing for the {blind[0].eye} witness: {blind[0].cause}"
        return CriterionResult(c.id, Outcome(Status.MOOT, cause), "witnesses")
    if panel == "llm":
        return _by_votes(c, votes or (), bearing, why_open)
    # whatever is left is a LEAD, or a PROOF that was refused: either way people should see it
    return CriterionResult(c.id, PASS, "offline", bool(bearing), bool(bearing), _ids(bearing))


def _by_votes(c: Criterion, votes: Sequence[Vote], bearing: list[Finding], why_open: str) -> CriterionResult:
    if why_open:
        return CriterionResult(c.id, Outcome(Status.UNDECIDED, why_open), "votes", queue=True, findings=_ids(bearing))
    count = tally(votes)
    if count.decision is None:
        cause = f"{len(votes)} votes ({', '.join(v.choice for v in votes) or 'none'}) don't decide"
        return CriterionResult(c.id, Outcome(Status.UNDECIDED, cause), "votes", queue=True, findings=_ids(bearing))
    told = next(v.why for v in votes if v.choice is count.decision)
    outcome = PASS if count.decision is Choice.PASS else Outcome(Status.FAIL, told)
    return CriterionResult(c.id, outcome, "votes", count.narrow, count.narrow, _ids(bearing))


def _ids(findings: list[Finding]) -> tuple[str, ...]:
    return tuple(f.id for f in findings)
