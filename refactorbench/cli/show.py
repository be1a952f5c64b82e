"""show RUN [ID], reproduce RUN ID."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from refactorbench.agents.transcript import page as transcript_page
from refactorbench.agents.transcript import trajectory
from refactorbench.cli.shared import emit, json_option, latest_run
from refactorbench.errors import BelowBar
from refactorbench.paths import find_root
from refactorbench.report import details, explain
from refactorbench.report.agents import journal_of
from refactorbench.reproduce import reproduce


@click.command("show")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("id", required=False)
@click.option("--page", type=click.IntRange(1), default=1, help="Page of `show RUN agent` [default: 1].")
@json_option
@click.pass_obj
def show_command(root: Path | None, run: Path, id: str | None, page: int, as_json: bool) -> None:
    """Say why RUN has its score; ID: a criterion, module, check, verifier or counterexample, with its evidence; or
    `agent`: its transcript, thought, action and observation (with --json as a trajectory in the ATIF format)."""
    paths = latest_run(run)
    if id == "agent":
        entries = journal_of(paths)
        emit(trajectory(entries, paths.root.name), as_json, lambda: transcript_page(entries, page))
        return
    if id is None:
        result = details.result_of(paths)
        emit(result, as_json, lambda: explain.why(result))
        return
    found: Any = details.find(find_root(root), paths, id)
    emit(found, as_json, lambda: details.text(found))


@click.command("reproduce")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("id")
@json_option
@click.pass_obj
def reproduce_command(root: Path | None, run: Path, id: str, as_json: bool) -> None:
    """Run one check or counterexample again on State A and on the submission; exit with 1 when they differ."""
    found = reproduce(find_root(root), latest_run(run), id)
    emit(found, as_json, found.text)
    if found.differs:
        raise BelowBar("the submission behaves differently from State A on this input")


COMMANDS = (show_command, reproduce_command)
