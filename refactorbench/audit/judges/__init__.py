"""Judges vote on criteria after reading the docket; the offline panel has none."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import msgspec

from refactorbench.audit.verdict import (
    EXTRA_SAMPLES,
    PANEL_SIZE,
    Cast,
    Choice,
    PanelKind,
    Spent,
    Vote,
    tally,
)
from refactorbench.catalog.models import Criteria, Criterion


class NoVote(Exception):
    """The provider gave no vote; the message says why. It is never an abstention: the panel waits for it."""


class Judge(Protocol):
    """Casts independent, grounded samples; a seat that can't ground its vote abstains. Raises NoVote."""

    def vote(self, criterion: Criterion, sample: int) -> Vote: ...

    def spent(self) -> Spent: ...


class JudgePanel(Protocol):
    kind: PanelKind

    def cast(self, criteria: Criteria) -> Cast | None:
        """Every criterion's votes, or None when nobody votes."""
        ...


class Canary(msgspec.Struct, frozen=True):
    """A question whose answer the host knows: who gets it wrong was talked over, or doesn't read."""

    criterion: Criterion
    known: Choice


class VotingPanel:
    """Three seats side by side, each of which takes all questions, one at a time and in an order of its own; then up to
    two more samples where votes don't decide. Whoever votes also answers every canary.

    After a provider's error no more is asked: what was cast is kept, and what is missing is said.
    """

    kind: PanelKind = "llm"

    def __init__(self, judge: Judge, canaries: Sequence[Canary] = (), seed: int = 1) -> None:
        self._judge, self._canaries, self._seed = judge, tuple(canaries), seed
        self._stop = threading.Event()
        self._why = ""
        self._votes: dict[tuple[str, int], Vote] = {}

    def cast(self, criteria: Criteria) -> Cast:
        with ThreadPoolExecutor(PANEL_SIZE) as pool:
            try:
                for seat in [pool.submit(self._sit, n, criteria.criterion) for n in range(PANEL_SIZE)]:
                    seat.result()
            except BaseException:
                self._stop.set()
                raise
        for n in range(PANEL_SIZE, PANEL_SIZE + EXTRA_SAMPLES):
            self._sit(n, [c for c in criteria.criterion if tally(self._of(c)).more])
        votes = {c.id: self._of(c) for c in criteria.criterion}
        missing = {id: self._why for id, cast in votes.items() if self._why and tally(cast).more}
        return Cast(votes, missing, "; ".join(self._wrong()), self._judge.spent())

    def _of(self, criterion: Criterion) -> tuple[Vote, ...]:
        seats = range(PANEL_SIZE + EXTRA_SAMPLES)
        return tuple(self._votes[criterion.id, n] for n in seats if (criterion.id, n) in self._votes)

    def _sit(self, n: int, criteria: Iterable[Criterion]) -> None:
        questions = list(criteria)
        if questions:
            questions += [c.criterion for c in self._canaries]
        random.Random(f"{self._seed}/{n}").shuffle(questions)
        for question in questions:
            if self._stop.is_set():
                return
            try:
                self._votes[question.id, n] = self._judge.vote(question, n)
            except NoVote as e:
                self._why = self._why or str(e)
                self._stop.set()
            except BaseException:
                self._stop.set()
                raise

    def _wrong(self) -> list[str]:
        """What was answered wrong of what has a known answer."""
        return [
            f"{vote.seat} answered '{vote.choice}' to a question whose answer is known to be '{canary.known}' "
            f"({canary.criterion.question}): its votes may not be its own"
            for canary in self._canaries
            for vote in self._of(canary.criterion)
            if vote.choice not in (canary.known, Choice.ABSTAIN)
        ]


class ScriptedJudge:
    """Votes from a table: criterion id -> the choices in order; used where a judge's answers are given. A text instead
    of a vote is a provider's error."""

    def __init__(self, script: Mapping[str, Sequence[Vote | str]]) -> None:
        self._script = script

    def vote(self, criterion: Criterion, sample: int) -> Vote:
        vote = self._script[criterion.id][sample]
        if isinstance(vote, str):
            raise NoVote(vote)
        return vote

    def spent(self) -> Spent:
        return Spent()
