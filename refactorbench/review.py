"""People's verdicts on a run's criteria: recorded beside the panel's, never over them.

Each is a line of RUN/review.jsonl. A person's last word on a criterion counts; people who disagree leave it undecided.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from refactorbench.audit.docket import Conduct
from refactorbench.audit.stage import AuditResult
from refactorbench.audit.verdict import CriterionResult, Verdict
from refactorbench.errors import HarnessError, UsageError, did_you_mean
from refactorbench.journal import read_json
from refactorbench.outcome import PASS, Outcome, Status
from refactorbench.paths import RunPaths
from refactorbench.pipeline import rescore
from refactorbench.report import details
from refactorbench.report.explain import meaning
from refactorbench.result import RunResult


class Reviewed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`verdict` of the person `name`; `panel` is what the panel had said by then. `at`: seconds since 1970."""

    criterion: str
    verdict: Literal["pass", "fail"]
    name: str
    reason: str
    panel: str
    at: float


class Both(msgspec.Struct, frozen=True):
    """A run's result by its panel, and as it would be with people's verdicts in their place."""

    panel: RunResult
    with_review: RunResult
    reviews: tuple[Reviewed, ...]

    def text(self) -> str:
        rows = [f"  {r.criterion}: {r.verdict} by {r.name} (the panel: {r.panel}): {r.reason}" for r in self.reviews]
        said = [f"the panel:   {meaning(self.panel)}", f"with review: {meaning(self.with_review)}"]
        return "\n".join([*said, *(rows or ["  no review"])])


def reviews(paths: RunPaths) -> tuple[Reviewed, ...]:
    """In the order they were given. UsageError names a line that is none."""
    place = paths.root / "review.jsonl"
    if not place.is_file():
        return ()
    found = []
    for number, line in enumerate(place.read_bytes().splitlines(), 1):
        try:
            found.append(msgspec.json.decode(line, type=Reviewed))
        except msgspec.MsgspecError as e:
            raise UsageError(f"{place}:{number} is no review ({e}): mend or remove the line") from e
    return tuple(found)


def audit_of(paths: RunPaths) -> AuditResult:
    place = paths.root / "units" / "audit.json"
    if not place.is_file():
        raise UsageError(f"{paths.root} has no audit yet, so there is nothing to review: go on with `run --resume`")
    return read_json(place, AuditResult)


def queue(root: Path, paths: RunPaths) -> list[dict[str, Any]]:
    """The criteria that people should look at (narrow, undecided, or with findings that nobody weighed), each with its
    evidence as `show` gives it and the reviews so far."""
    given = reviews(paths)
    rows = []
    for c in audit_of(paths).verdict.criteria:
        if c.queue or c.narrow or c.outcome.status is Status.UNDECIDED:
            found = details.criterion(root, paths, c.id) or {}
            rows.append({**found, "reviews": [r for r in given if r.criterion == c.id]})
    return rows


def queue_text(rows: Sequence[dict[str, Any]], conduct: Sequence[Conduct]) -> str:
    parts = []
    for row in rows:
        said = [f"  reviewed: {r.verdict} by {r.name}: {r.reason}" for r in row["reviews"]]
        parts.append("\n".join([details.text(row), *said]))
    told = [f"  lead from the agent's transcript: {c.why} (line {c.line} of its journal): {c.quote}" for c in conduct]
    parts += ["\n".join(told)] if told else []
    head = f"{len(rows)} criteria for people; yours: `review RUN CRITERION --verdict pass|fail --by NAME --reason TEXT`"
    return "\n\n".join([head, *parts])


def record(paths: RunPaths, criterion: str, verdict: Literal["pass", "fail"], name: str, reason: str) -> Reviewed:
    """Append one person's verdict. UsageError for a criterion that the run doesn't have, a missing name or reason."""
    known = {c.id: c for c in audit_of(paths).verdict.criteria}
    if criterion not in known:
        raise UsageError(
            f"criterion '{criterion}' is none of {paths.root}{did_you_mean(criterion, known)}: nothing is recorded; "
            f"they are {', '.join(known)}"
        )
    for key, value in (("--by", name), ("--reason", reason)):
        if not value.strip():
            raise UsageError(f"{key} is empty, and a review without it can't be weighed: nothing is recorded; give it")
    panel = known[criterion].outcome.status.value
    review = Reviewed(criterion, verdict, name.strip(), reason.strip(), panel, time.time())
    place = paths.root / "review.jsonl"
    reviews(paths)  # a damaged file is told before more is added
    try:
        with place.open("ab") as f:
            size = f.tell()
            try:
                f.write(msgspec.json.encode(review) + b"\n")
                f.flush()
                os.fsync(f.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    f.truncate(size)
                raise
    except OSError as e:
        raise HarnessError(f"cannot write {place}: {e.strerror}; nothing is recorded: free some space") from e
    return review


def reviewed(audit: AuditResult, given: Sequence[Reviewed]) -> AuditResult:
    """The audit with people's verdicts in place of the panel's, where there are any."""
    last: dict[str, dict[str, Reviewed]] = {}
    for review in given:
        last.setdefault(review.criterion, {})[review.name] = review
    results = tuple(_one(c, list(last.get(c.id, {}).values())) for c in audit.verdict.criteria)
    verdict = Verdict(results, audit.verdict.passed_without_vote, audit.verdict.refused)
    return msgspec.structs.replace(audit, verdict=verdict)


def _one(panel: CriterionResult, given: Sequence[Reviewed]) -> CriterionResult:
    if not given:
        return panel
    said = {r.verdict for r in given}
    told = "; ".join(f"{r.name}: {r.verdict}, {r.reason}" for r in given)
    if len(said) > 1:
        return CriterionResult(panel.id, Outcome(Status.UNDECIDED, f"reviewers disagree: {told}"), "review", queue=True)
    outcome = PASS if said == {"pass"} else Outcome(Status.FAIL, told)
    return CriterionResult(panel.id, outcome, "review", findings=panel.findings)


def with_review(root: Path, paths: RunPaths) -> Both:
    """Both results, from stored evidence alone."""
    given = reviews(paths)
    panel = rescore(root, paths)
    other = rescore(root, paths, lambda audit: reviewed(audit, given))
    if other.stage1 and other.stage1.g == 1 and other.stage3 is None and panel.stage1 and panel.stage1.g != 1:
        why = "stage III has not run, since the panel didn't pass stage I: `verify --submission` runs it alone"
        other = msgspec.structs.replace(other, cause="; ".join(filter(None, (other.cause, why))))
    return Both(panel, other, given)
