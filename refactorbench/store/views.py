"""Views over many runs. Derived from result files, rebuilt at will; nothing here is a source of truth."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from refactorbench.errors import UsageError
from refactorbench.journal import read_json
from refactorbench.options import STAGES, Lock, RunOptions
from refactorbench.paths import RunPaths
from refactorbench.result import RunResult

COLUMNS = (
    "run TEXT, task TEXT, task_status TEXT, agent TEXT, panel TEXT, comparable BOOL, status TEXT, cause TEXT, "
    "graded BOOL, gate INT, "
    "passed1 BOOL, passed2 BOOL, passed_both BOOL, accepted BOOL, blind BOOL, score DOUBLE, low DOUBLE, "
    "high DOUBLE, without_vote INT, criteria INT, checks INT, checks_passed INT, survived INT, verifiers INT"
)


def find_runs(places: Iterable[Path]) -> list[Path]:
    """Return run directories named by `places` or directly below them; UsageError when a named one is no run."""
    found: list[Path] = []
    for place in places:
        if any((place / name).is_file() for name in ("options.json", "result.json")):
            found.append(place)
            continue
        below = sorted(p.parent for p in place.glob("*/options.json")) if place.is_dir() else []
        if not below:
            raise UsageError(f"{place} is no run directory and holds none: name what `run --out` wrote")
        found += below
    once: dict[Path, Path] = {}
    for folder in found:
        once.setdefault(folder.resolve(), folder)
    return list(once.values())


UNKNOWN = RunOptions(task="?", agent="?", panel="?")


def without_result(paths: RunPaths, status: str, cause: str) -> tuple[Any, ...]:
    """A run that left no result: its lock still says which panel's funnel it was started for."""
    options, lock = UNKNOWN, None
    with contextlib.suppress(UsageError):
        options = read_json(paths.options, RunOptions)
        lock = read_json(paths.lock, Lock)
    panel = f"{options.panel}-{lock.panel_fingerprint[:12]}" if lock else options.panel
    comparable = lock is not None and not options.quick and options.stages == STAGES
    return (
        str(paths.root), options.task, lock.task_status if lock else "?", options.agent, panel, comparable, status,
        cause,
        False, None, False, False, False, False, False, None, 0.0, 1.0, 0, 0, 0, 0, 0, 0,
    )  # fmt: skip


def row(folder: Path) -> tuple[Any, ...]:
    """One run as a row; a run without a readable result counts as started and unscored, with its cause."""
    paths = RunPaths(folder)
    if not paths.result.is_file():
        return without_result(paths, "unfinished", f"the run has not ended: go on with `run --resume {folder}`")
    try:
        r = read_json(paths.result, RunResult)
    except UsageError as e:
        return without_result(paths, "unreadable", str(e))
    one, two, three = r.stage1, r.stage2, r.stage3
    passed1 = one is not None and one.g == 1
    passed2 = two is not None and two.complete is True
    cause = "" if r.score.scored else r.cause or "; ".join(r.score.why)
    return (
        str(folder), r.task, r.task_status, r.agent, r.panel, r.comparable, r.status, cause,
        r.score.scored, one.g if one else None, passed1,
        passed2, passed1 and passed2, r.accepted, r.blind, r.score.value, r.score.low, r.score.high,
        one.without_vote if one else 0, len(one.criteria) if one else 0, two.expected if two else 0,
        two.passed if two else 0, sum(v.outcome.passed for v in three.verifiers) if three else 0,
        len(three.verifiers) if three else 0,
    )  # fmt: skip


def open_store(runs: Iterable[Path]) -> duckdb.DuckDBPyConnection:
    """Return an in-memory database with one row per run in table `runs`."""
    db = duckdb.connect(":memory:")
    db.execute(f"CREATE TABLE runs ({COLUMNS})")
    rows = [row(folder) for folder in runs]
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        db.executemany(f"INSERT INTO runs VALUES ({marks})", rows)
    return db


class Funnel(msgspec.Struct, frozen=True):
    """One funnel: runs that share a panel are compared, others never; nor quick and partial ones with whole ones."""

    panel: str
    comparable: bool
    started: int
    unscored: int
    passed1: int
    passed2: int
    both: int
    accepted: int
    blind: int
    mean: float | None  # of S over scored runs


def funnels(db: duckdb.DuckDBPyConnection) -> list[Funnel]:
    rows = db.execute(
        "SELECT panel, comparable, count(*), count(*) FILTER (NOT graded), "
        "count(*) FILTER (passed1), count(*) FILTER (passed2), "
        "count(*) FILTER (passed_both), count(*) FILTER (accepted), count(*) FILTER (blind), avg(score) FROM runs "
        "GROUP BY panel, comparable ORDER BY panel, comparable DESC"
    ).fetchall()
    return [Funnel(*r) for r in rows]


def rows_of(db: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    result = db.execute("SELECT * FROM runs ORDER BY task, agent, run")
    names = [d[0] for d in result.description]
    return [dict(zip(names, r, strict=True)) for r in result.fetchall()]
