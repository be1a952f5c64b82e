"""How agents with a model used their interface, per scaffold, model and settings: an ablation is runs and a table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from refactorbench.agents.metrics import Interface, Row, of_journal, rows
from refactorbench.agents.records import Entry, read_entries
from refactorbench.errors import UsageError
from refactorbench.journal import read_json
from refactorbench.options import RunOptions
from refactorbench.paths import RunPaths
from refactorbench.result import RunResult
from refactorbench.store.views import find_runs


def agents(places: Iterable[Path]) -> tuple[Row, ...]:
    """One row per scaffold, model and settings over every run in `places` that has an agent's journal."""
    found: list[tuple[Interface, str, float | None]] = []
    for folder in find_runs(places):
        paths = RunPaths(folder)
        run = of_journal(paths.agent / "journal.jsonl")
        if run is not None:
            settings = read_json(paths.options, RunOptions).settings
            score = read_json(paths.result, RunResult).score.value if paths.result.is_file() else None
            found.append((run, " ".join(f"{k}={v}" for k, v in sorted(settings.items())), score))
    return rows(found)


def journal_of(paths: RunPaths) -> list[Entry]:
    """The agent's journal of a run; UsageError when it had none."""
    place = paths.agent / "journal.jsonl"
    entries = read_entries(place) if place.is_file() else []
    if not entries:
        raise UsageError(f"{paths.root} has no transcript: its agent was none with a model; see agent.log there")
    return entries
