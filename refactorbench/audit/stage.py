"""Stage I: reports of three witnesses -> docket -> grounding -> votes -> verdict."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from refactorbench.audit.docket import Conduct, Docket, Eye, EyeReport
from refactorbench.audit.ground import Evidence, ground
from refactorbench.audit.judges import JudgePanel
from refactorbench.audit.judges.offline import OfflinePanel
from refactorbench.audit.verdict import Opened, Spent, Verdict, Vote, decide
from refactorbench.audit.witnesses import runtime, source
from refactorbench.build.model import BuildReport
from refactorbench.build.places import TREE
from refactorbench.catalog.models import Criteria, Task
from refactorbench.errors import HarnessError, TaskError


class AuditResult(msgspec.Struct, frozen=True):
    """Everything stage I rests on: what was found, what was refused, who voted, what follows. `missing` and `spoiled`
    as in `verdict.Cast`."""

    docket: Docket
    votes: dict[str, tuple[Vote, ...]] | None
    verdict: Verdict
    missing: dict[str, str] = {}
    spoiled: str = ""
    spent: Spent = Spent()


def taken_in(build: BuildReport, task: Task, submission: Path) -> set[str] | None:
    """Files of the submission (relative paths) whose content the build or the product takes in: read or executed by
    the build, or delivered as they lay. None when the build left no facts."""
    if build.status == "harness":
        return None
    top = TREE + "/"
    taken = {p.removeprefix(top) for p in build.facts.taken if p.startswith(top)}
    written = {p.removeprefix(top) for p in build.facts.writes}
    for path in task.target.outputs.values():
        lies = os.path.normpath(path)
        if lies not in written and (submission / lies).is_file():
            taken.add(lies)
    return taken


def look(
    evidence: Evidence, build: BuildReport, look_at_build: Callable[[], EyeReport]
) -> tuple[EyeReport, EyeReport, EyeReport]:
    """Ask the three witnesses. One that breaks is LOST: a scan that crashed never counts as clean."""
    loaded = evidence.loaded_task

    def at_source() -> EyeReport:
        return source.witness(evidence.submission, evidence.state_a, loaded, None, evidence.reads, known=evidence.known)

    def at_runtime() -> EyeReport:
        if build.status != "built":
            status = "void" if build.status == "failed" else "lost"
            return EyeReport(Eye.RUNTIME, status, (), {}, f"no product to run: {build.cause}")  # type: ignore[arg-type]
        return runtime.witness(evidence.traces, evidence.state_a_traces, evidence.memorisation, loaded)

    return _ask(Eye.SOURCE, at_source), _ask(Eye.BUILD, look_at_build), _ask(Eye.RUNTIME, at_runtime)


def _ask(eye: Eye, question: Callable[[], EyeReport]) -> EyeReport:
    try:
        return question()
    except TaskError:
        raise
    except Exception as e:
        return EyeReport(eye, "lost", (), {}, f"{type(e).__name__}: {e}")


def upheld(reports: Sequence[EyeReport], build: BuildReport) -> tuple[EyeReport, ...]:
    """A VOID zeroes a submission, so the host looks for its proof too: without a failed build's log it is LOST."""
    log = Path(build.log) if build.log else None
    proved = build.status == "failed" and log is not None and log.is_file() and log.stat().st_size > 0
    return tuple(
        msgspec.structs.replace(r, status="lost", cause=f"VOID without a failed build's log: {r.cause}")
        if r.status == "void" and not proved
        else r
        for r in reports
    )


def gather(
    evidence: Evidence, build: BuildReport, look_at_build: Callable[[], EyeReport], conduct: tuple[Conduct, ...] = ()
) -> Opened:
    """The docket of one submission, its proofs re-opened; `conduct` as audit/conduct.py read it from a transcript."""
    docket = Docket(upheld(look(evidence, build, look_at_build), build), conduct)
    eyes = [r.eye for r in docket.reports]
    if eyes != [Eye.SOURCE, Eye.BUILD, Eye.RUNTIME]:
        raise HarnessError(f"the witnesses reported as {eyes}, so the docket isn't whole")
    return ground(docket, evidence)


def conclude(criteria: Criteria, opened: Opened, panel: JudgePanel) -> AuditResult:
    """Ask the panel, then decide. TaskError when the criteria can't decide; HarnessError on two findings of one id."""
    cast = panel.cast(criteria)
    if cast is None:
        return AuditResult(opened.docket, None, decide(criteria, opened, None, panel.kind))
    verdict = decide(criteria, opened, cast.votes, panel.kind, cast.missing, cast.spoiled)
    return AuditResult(opened.docket, cast.votes, verdict, cast.missing, cast.spoiled, cast.spent)


def audit(
    evidence: Evidence,
    build: BuildReport,
    look_at_build: Callable[[], EyeReport],
    panel: JudgePanel | None = None,
) -> AuditResult:
    """Give stage I's verdict on one submission. Errors inside a witness leave its criteria undecided."""
    opened = gather(evidence, build, look_at_build)
    return conclude(evidence.loaded_task.criteria, opened, panel or OfflinePanel())
