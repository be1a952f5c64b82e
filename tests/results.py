"""Results of runs as tests write them: whole, and changed by keyword."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from refactorbench.journal import write_json
from refactorbench.options import STAGES, Lock, RunOptions
from refactorbench.outcome import PASS, Outcome, Owner, Status
from refactorbench.paths import RunPaths
from refactorbench.result import SCHEMA, CriterionRow, ModuleRow, RunResult, StageOne, StageThree, StageTwo, VerifierRow
from refactorbench.scoring import Score

FINGERPRINT = "0123456789ab" + "0" * 52
PANEL = f"offline-{FINGERPRINT[:12]}"
FAILED = Outcome(Status.FAIL, "it fails")
ERROR = Outcome(Status.ERROR, "its process ended", Owner.HARNESS)


def criterion(id: str = "source", outcome: Outcome = PASS, **more: Any) -> CriterionRow:
    values = {"title": "The source was moved", "required": True, "by": "offline", "narrow": False, "findings": ()}
    return CriterionRow(id=id, outcome=outcome, **{**values, **more})


def stage_one(g: int | None = 1, *criteria: CriterionRow) -> StageOne:
    rows = criteria or (criterion(), criterion("build"))
    return StageOne(g, rows, sum(c.outcome.passed for c in rows), 0)


def stage_two(complete: bool | None = True, **more: Any) -> StageTwo:
    passed = 20 if complete else 15
    row = ModuleRow("m", 20, passed, 5 if complete is False else 0, 0, 0, 5 if complete is None else 0)
    values = {"credited": True, "built_by": "target", "forgiven": {}, "fresh_total": 10, "fresh_failed": 0}
    return StageTwo(complete=complete, modules=(row,), **{**values, **more})


def stage_three(*outcomes: Outcome) -> StageThree:
    six = (*outcomes, *[PASS] * (6 - len(outcomes)))
    rows = tuple(
        VerifierRow(f"v{n}", "direction", o, 60, "v-ce" if o is FAILED else "", 0) for n, o in enumerate(six, 1)
    )
    return StageThree(rows, sum(o is FAILED for o in six))


def scored(value: float | None = 1.0, why: tuple[str, ...] = ("because",), **more: Any) -> Score:
    values = {"low": 0.4 if value is None else value, "high": 1.0 if value is None else value}
    return Score(value=value, why=why, **{**values, "g": 1, "all_checks": True, "survived": 6, **more})


def result(**more: Any) -> RunResult:
    values: dict[str, Any] = {
        "schema": SCHEMA, "task": "t", "task_status": "admitted", "agent": "solution", "panel": PANEL,
        "comparable": True, "submission": "s" * 64, "removed": (), "artefact": "a" * 64, "build": PASS,
        "stage1": stage_one(), "stage2": stage_two(), "stage3": stage_three(), "status": "scored", "score": scored(),
        "blind": False, "accepted": True,
    }  # fmt: skip
    return RunResult(**{**values, **more})


def options(**more: Any) -> RunOptions:
    return RunOptions(**{"task": "t", "agent": "solution", **more})


def lock(of: RunOptions) -> Lock:
    return Lock(
        version="0", source_sha256="", dirty=None, task_sha256="", task_status="admitted", recording_sha256="",
        state_a_tree="", panel_fingerprint=FINGERPRINT, executor="", sandbox={}, toolchain={}, options=of,
    )  # fmt: skip


def write_run(folder: Path, found: RunResult | None, asked: RunOptions | None = None) -> Path:
    """A run's directory as `run --out` leaves it, or without a result where it hasn't ended."""
    paths, asked = RunPaths(folder), asked or options()
    write_json(paths.options, asked)
    write_json(paths.lock, lock(asked))
    if found is not None:
        write_json(paths.result, msgspec.structs.replace(found, agent=asked.agent))
    return folder


__all__ = [
    "ERROR", "FAILED", "PANEL", "STAGES", "criterion", "options", "result", "scored", "stage_one", "stage_three",
    "stage_two", "write_run",
]  # fmt: skip
