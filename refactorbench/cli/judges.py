"""review RUN [CRITERION], ask RUN CRITERION SAMPLE, calibrate judges, quality RUN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from refactorbench.admission.calibrate import Request, calibrate
from refactorbench.audit.quality import compare
from refactorbench.catalog.load import load_task
from refactorbench.cli.run import finish
from refactorbench.cli.shared import absolute, choose_options, emit, json_option, latest_run, models, prices_option
from refactorbench.errors import HarnessError, UsageError
from refactorbench.hashing import tree_digest
from refactorbench.journal import read_json, write_json
from refactorbench.llm.models import open_model
from refactorbench.options import RunOptions
from refactorbench.paths import cache_dir, find_root
from refactorbench.pipeline import run_pipeline
from refactorbench.progress import Progress
from refactorbench.review import audit_of, queue, queue_text, record


@click.command("review")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("criterion", required=False)
@click.option("--verdict", type=click.Choice(["pass", "fail"]), help="Yours on CRITERION [default: none, it shows].")
@click.option("--by", default="", help="Your name [default: none; a verdict needs it].")
@click.option("--reason", default="", help="Why, in a sentence [default: none; a verdict needs it].")
@json_option
@click.pass_obj
def review_command(
    root: Path | None, run: Path, criterion: str | None, verdict: str | None, by: str, reason: str, as_json: bool
) -> None:
    """Show the criteria of RUN that people should look at, with their evidence; with CRITERION and --verdict, record
    yours beside the panel's (`score --with-review` shows both)."""
    paths = latest_run(run)
    if criterion is None:
        if verdict or by or reason:
            raise UsageError("a verdict needs the CRITERION it is on: nothing is recorded; name it after the run")
        rows = queue(find_root(root), paths)
        conduct = audit_of(paths).docket.conduct
        emit({"criteria": rows, "conduct": conduct}, as_json, lambda: queue_text(rows, conduct))
        return
    if verdict not in ("pass", "fail"):
        raise UsageError(f"--verdict is missing, so nothing is recorded on {criterion}: give pass or fail")
    found = record(paths, criterion, verdict, by, reason)  # type: ignore[arg-type]
    emit(found, as_json, lambda: f"recorded: {criterion} {verdict} by {found.name}; the panel's stays {found.panel}")


@click.command("ask")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("criterion")
@click.argument("sample", type=click.IntRange(1, 5))
@json_option
@click.pass_obj
def ask_command(root: Path | None, run: Path, criterion: str, sample: int, as_json: bool) -> None:
    """Put CRITERION to judge SAMPLE (1, 2, ...) of RUN once more, and that one alone; the former answer is kept beside,
    and the verdict is given anew."""
    paths, name = latest_run(run), f"judges/{criterion}/{sample - 1}"
    there = sorted(f"{p.parent.name} {int(p.stem) + 1}" for p in (paths.root / "units" / "judges").glob("*/[0-9].json"))
    if f"{criterion} {sample}" not in there:
        raise UsageError(
            f"{paths.root} has no sample {sample} of '{criterion}': nothing is asked; it has "
            f"{', '.join(t for t in there if not t.startswith('_')) or 'none, its panel has no judges'}"
        )
    data = find_root(root)
    keys = ("task", "agent", "model", "panel", "prices", "seed", "submission", "out", "jobs")
    given: dict[str, Any] = {**dict.fromkeys(keys), "settings": {}, "judges": (), "quick": False, "resume": paths.root}
    options, out = choose_options(data, given, None)
    progress = Progress()
    try:
        result = run_pipeline(data, options, out, cache_dir(), progress, frozenset((name,)))
    finally:
        progress.end()
    finish(result, as_json, None)


@click.group("calibrate")
def calibrate_group() -> None:
    """Measure how far those who judge can be trusted."""


@calibrate_group.command("judges")
@click.option("--task", required=True, help="Task id.")
@click.option("--panel", default="llm", show_default=True, help="A panel with judges.")
@click.option(
    "--judges",
    callback=models,
    metavar="MODEL[,MODEL,MODEL]",
    help="The panel's models [default: those that it names].",
)
@click.option("--labels", type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="People's labels of trees and controls [default: what the controls' kinds say].")  # fmt: skip
@click.option("--only", help="Only these trees, comma-separated [default: all that have labels].")
@prices_option
@click.option("--full", is_flag=True, help="Every check is replayed for each docket [default: a seeded tenth].")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of all the harness's randomness.")
@click.option("--jobs", type=click.IntRange(1, 256), default=2, show_default=True, help="Parallel workers.")
@click.option("--out", type=click.Path(path_type=Path), help="Where the runs stand [default: a temporary folder].")
@json_option
@click.pass_obj
def calibrate_command(root: Path | None, out: Path | None, as_json: bool, only: str | None, **named: Any) -> None:
    """Put a panel's judges to trees whose answers are known (controls, twins, the solution, people's labels): accuracy,
    false passes and fails, agreement, cost. A second start with the same --out goes on."""
    request = Request(only=tuple(only.split(",")) if only else (), **named)
    found = calibrate(find_root(root), request, cache_dir(), out, Progress())
    emit(found, as_json, found.text)
    if found.missing:
        raise HarnessError(f"votes are missing on {len(found.missing)} trees: the same command with --out goes on")


@click.command("quality")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--model", required=True, callback=absolute, help="Who compares: anthropic/NAME, openai/NAME, ...")
@json_option
@click.pass_obj
def quality_command(root: Path | None, run: Path, model: str, as_json: bool) -> None:
    """Compare RUN's submission with the task's solution by the task's rubric, twice with the trees' places changed, and
    keep it in RUN/quality.json. Reported, never scored."""
    paths = latest_run(run)
    loaded = load_task(find_root(root), read_json(paths.options, RunOptions).task)
    if not paths.submission.is_dir():
        raise UsageError(f"{paths.root} has no submission yet: go on with `run --resume {paths.root}`")
    found = compare(loaded, paths.submission, tree_digest(paths.submission), open_model(model))
    write_json(paths.root / "quality.json", found)
    emit(found, as_json, found.text)


COMMANDS = (review_command, ask_command, calibrate_group, quality_command)
