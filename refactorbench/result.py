"""What happened: one run's result, as it is stored and as reports read it. Clocks stay in the journal."""

from __future__ import annotations

import msgspec

from refactorbench.outcome import Outcome
from refactorbench.scoring import Score


class Struct(msgspec.Struct, frozen=True):
    pass


class CriterionRow(Struct, frozen=True):
    id: str
    title: str
    required: bool
    outcome: Outcome
    by: str  # proof | log | witnesses | offline | votes | review
    narrow: bool
    findings: tuple[str, ...]
    votes: tuple[str, ...] = ()  # pass | fail | abstain, in the order of the samples


class ModuleRow(Struct, frozen=True):
    id: str
    expected: int  # from the recording, never from what ran
    passed: int
    failed: int
    nondeterministic: int
    unreproduced: int
    open: int  # not run, quarantined, harness errors
    examples: tuple[str, ...] = ()  # ids of the first checks that don't pass

    @property
    def rate(self) -> float:
        return self.passed / self.expected if self.expected else 0.0


class VerifierRow(Struct, frozen=True):
    id: str
    title: str
    outcome: Outcome
    inputs: int
    counterexample: str  # id, or ""
    refused: int


class JudgeRow(Struct, frozen=True):
    """What the judges took. `cached`: the share of input tokens served from a cache; `cost` in US dollars, None where
    a price isn't known; `spoiled`: why no vote counts, "" when they do."""

    samples: int
    tokens: int
    cached: float
    cost: float | None
    spoiled: str
    again: int = 0  # samples that were asked again on purpose


class StageOne(Struct, frozen=True):
    g: int | None
    criteria: tuple[CriterionRow, ...]
    without_vote: int
    refused_findings: int
    judged: JudgeRow | None = None
    conduct: tuple[str, ...] = ()  # leads from the agent's transcript


class StageTwo(Struct, frozen=True):
    """`credited` is False where stage I failed; `built_by` says which recipe made the artefact that was replayed."""

    complete: bool | None
    modules: tuple[ModuleRow, ...]
    credited: bool
    built_by: str
    forgiven: dict[str, int]
    fresh_total: int
    fresh_failed: int
    note: str = ""

    @property
    def expected(self) -> int:
        return sum(m.expected for m in self.modules)

    @property
    def passed(self) -> int:
        return sum(m.passed for m in self.modules)


class StageThree(Struct, frozen=True):
    verifiers: tuple[VerifierRow, ...]
    distinct_counterexamples: int


class RunResult(Struct, frozen=True):
    """`status`: scored | unscored | partial (a stage was left out by --stages). `blind`: every fixed check passed and
    stage I failed. `cause`: why a stage that was asked for has no verdict, "" when each has one. `stop`: how the agent
    ended (done | time | error)."""

    schema: str
    task: str
    task_status: str
    agent: str
    panel: str
    comparable: bool  # False for --quick and partial runs
    submission: str  # tree digest
    removed: tuple[str, ...]  # paths left out when the tree was collected
    artefact: str
    build: Outcome
    stage1: StageOne | None
    stage2: StageTwo | None
    stage3: StageThree | None
    status: str
    score: Score
    blind: bool
    accepted: bool
    cause: str = ""
    stop: str = "done"


SCHEMA = "refactorbench.result/1"
