"""run, score, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from refactorbench.agents.metrics import table
from refactorbench.cli.shared import choose_options, emit, json_option, latest_run, put, run_options, stage_list
from refactorbench.errors import BelowBar, HarnessError
from refactorbench.options import RunOptions
from refactorbench.paths import cache_dir, find_root
from refactorbench.pipeline import rescore, run_pipeline
from refactorbench.progress import Progress
from refactorbench.report import explain, funnel
from refactorbench.report.agents import agents
from refactorbench.result import RunResult
from refactorbench.review import with_review as both

min_score_option = click.option(
    "--min-score", type=click.FloatRange(0, 100), help="Exit with 1 when S (0..100) is below this [default: no bar]."
)


def first_line(options: RunOptions, given: dict[str, Any]) -> str:
    """Say what is graded and why, and how to give something else."""
    if options.submission:
        return f"grading the tree {options.submission} as a submission of {options.task}"
    why = (
        "as the run was started"
        if given["resume"]
        else "as asked"
        if given["agent"]
        else ("the task ships one" if options.agent == "solution" else "the task ships no solution")
    )
    return (
        f"grading agent '{options.agent}' on {options.task} ({why}); "
        "give --submission DIR for a tree of yours, or --agent solution|noop|command:..."
    )


def grade(root: Path | None, given: dict[str, Any], stages: tuple[str, ...] | None, as_json: bool) -> RunResult:
    """Run the stages asked for and return the result. The first line is said at once; progress goes to stderr."""
    data = find_root(root)
    options, out = choose_options(data, given, stages)
    progress = Progress()
    (progress.say if as_json else put)(first_line(options, given))
    try:
        progress.say(f"run directory {out}")
        return run_pipeline(data, options, out, cache_dir(), progress)
    finally:
        progress.end()


def finish(result: RunResult, as_json: bool, min_score: float | None) -> None:
    """Print the result; its last line says what the score means. Raises for the exit statuses 1 and 3."""
    emit(result, as_json, lambda: explain.why(result))
    if result.cause or result.status == "unscored":
        why = result.cause or "; ".join(result.score.why)
        raise HarnessError(f"no verdict: {why}; --resume tries again what is open, what is decided is kept")
    if min_score is not None and result.score.value is not None and 100 * result.score.value < min_score:
        raise BelowBar(f"S = {100 * result.score.value:.0f} is below --min-score {min_score:g}")


@click.command("run")
@run_options
@click.option("--stages", callback=stage_list, help="Some of audit,behaviour,verification [default: all].")
@min_score_option
@json_option
@click.pass_obj
def run_command(
    root: Path | None, stages: tuple[str, ...] | None, min_score: float | None, as_json: bool, **given: Any
) -> None:
    """Migrate (or take a tree), audit, replay, verify, score."""
    finish(grade(root, given, stages, as_json), as_json, min_score)


@click.command("score")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--with-review", is_flag=True, help="Also S with people's verdicts in place of the panel's (`review`).")
@min_score_option
@json_option
@click.pass_obj
def score_command(
    root: Path | None, run: Path | None, with_review: bool, min_score: float | None, as_json: bool
) -> None:
    """Compute S from a run's stored evidence and say why (RUN: its directory; default the newest in runs/)."""
    if with_review:
        found = both(find_root(root), latest_run(run))
        emit(found, as_json, found.text)
        return
    finish(rescore(find_root(root), latest_run(run)), as_json, min_score)


@click.command("report")
@click.argument("places", nargs=-1, type=click.Path(path_type=Path))
@click.option("--agents", "by_agent", is_flag=True, help="How agents with a model used their interface, per scaffold.")
@json_option
def report_command(places: tuple[Path, ...], by_agent: bool, as_json: bool) -> None:
    """Print the stage-by-stage funnel over runs (PLACES: run directories or folders of them; default runs/)."""
    if by_agent:
        found = agents(places or (Path("runs"),))
        emit(found, as_json, lambda: table(found))
        return
    data = funnel.report(places or (Path("runs"),))
    emit(data, as_json, lambda: funnel.text(data))


COMMANDS = (run_command, score_command, report_command)
