"""From the stages' own results to the one result of a run. Pure: the same evidence gives the same result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refactorbench.audit.stage import AuditResult
from refactorbench.audit.verdict import required_outcomes
from refactorbench.behaviour.fresh import FreshResult
from refactorbench.behaviour.model import BehaviourResult
from refactorbench.build.model import BuildReport
from refactorbench.catalog.models import LoadedTask
from refactorbench.options import STAGES, RunOptions
from refactorbench.outcome import PASS, Outcome, Owner, Status
from refactorbench.result import (
    SCHEMA,
    CriterionRow,
    JudgeRow,
    ModuleRow,
    RunResult,
    StageOne,
    StageThree,
    StageTwo,
    VerifierRow,
)
from refactorbench.scoring import gate, score
from refactorbench.verification.model import StageResult

if TYPE_CHECKING:
    from refactorbench.pipeline import Builds, Submitted


EXAMPLES = 3  # ids of checks that a module's row names; `show RUN MODULE` has all


def build_outcome(report: BuildReport) -> Outcome:
    """A failed build is evidence about the submission only where the canary builds."""
    if report.status == "built":
        return PASS
    owner = Owner.SUBMISSION if report.status == "failed" else Owner.HARNESS
    return Outcome(Status.ERROR, report.cause, owner)


def stage_one(loaded: LoadedTask, audit: AuditResult) -> StageOne:
    titles = {c.id: c for c in loaded.criteria.criterion}
    votes = {id: tuple(v.choice.value for v in cast) for id, cast in (audit.votes or {}).items()}
    rows = tuple(
        CriterionRow(
            r.id, titles[r.id].title, titles[r.id].required, r.outcome, r.by, r.narrow, r.findings, votes.get(r.id, ())
        )
        for r in audit.verdict.criteria
    )
    g, _ = gate(required_outcomes(loaded.criteria, audit.verdict))
    conduct = tuple(f"{c.why} (line {c.line} of its journal): {c.quote}" for c in audit.docket.conduct)
    verdict = audit.verdict
    return StageOne(g, rows, verdict.passed_without_vote, len(verdict.refused), judged(audit), conduct)


def judged(audit: AuditResult) -> JudgeRow | None:
    if audit.votes is None:
        return None
    used = audit.spent.usage
    cached = used.cache_read / used.prompt if used.prompt else 0.0
    spent = audit.spent
    return JudgeRow(spent.samples, used.total, round(cached, 4), spent.cost, audit.spoiled, spent.again)


def stage_two(
    behaviour: BehaviourResult, fresh: FreshResult | None, builds: Builds, g: int | None, notes: tuple[str, ...]
) -> StageTwo:
    rows = tuple(
        ModuleRow(
            m.id,
            m.expected,
            m.passed,
            m.failed,
            m.nondeterministic,
            m.unreproduced,
            m.quarantined + m.errors + m.not_run,
            tuple(r.id for r in behaviour.results if r.module == m.id and not r.outcome.passed)[:EXAMPLES],
        )
        for m in behaviour.modules
    )
    built_by = "target" if builds.target.status == "built" else "state-a" if builds.replayed else "none"
    note = {
        "state-a": "the target stack builds nothing here, so State A's own recipe made what was replayed",
        "none": "no recipe makes a product of this tree, so no check could run",
        "target": "",
    }[built_by]
    return StageTwo(
        complete=behaviour.verdict()[0],
        modules=rows,
        credited=g == 1,
        built_by=built_by,
        forgiven=behaviour.forgiven,
        fresh_total=fresh.total if fresh else 0,
        fresh_failed=fresh.failed if fresh else 0,
        note="; ".join(filter(None, (note, *notes))),
    )


def stage_three(verification: StageResult) -> StageThree:
    rows = tuple(
        VerifierRow(
            v.verifier,
            v.title,
            v.outcome,
            v.activity.executed,
            v.counterexample.id if v.counterexample else "",
            sum(v.activity.refused.values()),
        )
        for v in verification.verifiers.values()
    )
    return StageThree(rows, len(verification.defects))


def open_causes(
    builds: Builds, one: StageOne | None, two: BehaviourResult | None, three: StageThree | None
) -> list[str]:
    """Why stages that were asked for have no verdict: the harness's and the providers' faults, in the stages' order."""
    if builds.prevented:
        fault = builds.target if builds.target.status == "harness" else builds.fallback
        return [f"build: {fault.cause if fault else ''}"]
    causes = [f"criterion {c.id}: {c.outcome.cause}" for c in (one.criteria if one and one.g is None else ())
              if c.required and not c.outcome.passed]  # fmt: skip
    if two and builds.replayed and two.verdict()[0] is None:
        first = next((r for r in two.results if r.outcome.prevents_verdict), None)
        causes.append(two.verdict()[1] + (f"; the first: {first.id}: {first.outcome.cause}" if first else ""))
    causes += [
        f"verifier {v.id}: {v.outcome.cause}" for v in (three.verifiers if three else ()) if v.outcome.prevents_verdict
    ]
    return causes


def summarise(
    loaded: LoadedTask,
    panel: str,
    options: RunOptions,
    submitted: Submitted,
    builds: Builds,
    audit: AuditResult | None,
    behaviour: BehaviourResult | None,
    fresh: FreshResult | None,
    verification: StageResult | None,
    notes: tuple[str, ...] = (),
) -> RunResult:
    """Put the stages together. A stage that wasn't asked for is None, and the run is then partial."""
    gated = gate(required_outcomes(loaded.criteria, audit.verdict)) if audit else (None, "not asked for")
    checks = behaviour.verdict() if behaviour else (None, "not asked for")
    if builds.replayed is None and behaviour:
        checks = (False, "there is no product, so none of the recorded checks could pass")
    final = score(gated, checks, verification.outcomes if verification else None)
    partial = options.stages != STAGES
    passed1, passed2 = gated[0] == 1, checks[0] is True
    status = "partial" if partial else "scored" if final.scored else "unscored"
    one = stage_one(loaded, audit) if audit else None
    three = stage_three(verification) if verification else None
    causes = [] if final.scored else open_causes(builds, one, behaviour, three)
    return RunResult(
        schema=SCHEMA,
        task=loaded.task.id,
        task_status=loaded.task.status,
        agent=submitted.agent,
        panel=panel,
        comparable=not (options.quick or partial),
        submission=submitted.digest,
        removed=submitted.removed,
        artefact=builds.target.artefact,
        build=build_outcome(builds.target),
        stage1=one,
        stage2=stage_two(behaviour, fresh, builds, gated[0], notes) if behaviour else None,
        stage3=three,
        status=status,
        score=final,
        blind=gated[0] == 0 and passed2,
        accepted=passed1 and passed2 and final.value == 1.0,
        cause="; ".join(causes),
        stop=submitted.stop,
    )
