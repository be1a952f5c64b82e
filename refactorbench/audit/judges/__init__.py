"""Judges vote on criteria after reading the docket; the offline panel has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from refactorbench.audit.docket import Docket
from refactorbench.audit.verdict import PanelKind, Vote, tally
from refactorbench.catalog.models import Criteria, Criterion


class Judge(Protocol):
    """Casts independent, grounded samples; a seat that can't ground its vote abstains."""

    def vote(self, criterion: Criterion, docket: Docket, sample: int) -> Vote: ...


class JudgePanel(Protocol):
    kind: PanelKind

    def votes(self, criteria: Criteria, docket: Docket) -> Mapping[str, Sequence[Vote]] | None:
        """Criterion id -> votes in the order they were cast, or None when nobody votes."""
        ...


class VotingPanel:
    """One judge sampled per criterion until its votes decide or the samples are used up."""

    kind: PanelKind = "llm"

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def votes(self, criteria: Criteria, docket: Docket) -> Mapping[str, Sequence[Vote]] | None:
        cast: dict[str, list[Vote]] = {}
        for criterion in criteria.criterion:
            ballots = cast.setdefault(criterion.id, [])
            while tally(ballots).more:
                ballots.append(self._judge.vote(criterion, docket, len(ballots)))
        return cast


class ScriptedJudge:
    """Votes from a table: criterion id -> the choices in order; used where a judge's answers are given."""

    def __init__(self, script: Mapping[str, Sequence[Vote]]) -> None:
        self._script = script

    def vote(self, criterion: Criterion, docket: Docket, sample: int) -> Vote:
        return self._script[criterion.id][sample]
