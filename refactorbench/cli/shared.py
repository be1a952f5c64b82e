"""What several commands share: options in one place, output as text or JSON, the run that a command means."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from refactorbench.errors import UsageError
from refactorbench.journal import read_json
from refactorbench.options import STAGES, RunOptions
from refactorbench.paths import RunPaths

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def emit(value: Any, as_json: bool, text: Callable[[], str]) -> None:
    """Print `value` as JSON, or the text made for people."""
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(value), indent=1, sort_keys=True, default=str))
    else:
        click.echo(text())


def run_options(f: F) -> F:
    """The options of everything that grades a tree."""
    for option in reversed(
        (
            click.option("--task", help="Task id, e.g. bzip2-rust (see `task list`)."),
            click.option("--agent", help="Who migrates: solution, noop, or command:SHELL-COMMAND."),
            click.option("--submission", type=click.Path(path_type=Path), help="Grade this tree instead of running an agent."),
            click.option("--panel", help="Judges and verifiers [default: offline; quick with --quick]."),
            click.option("--out", type=click.Path(path_type=Path), help="Run directory [default: runs/TASK-AGENT-TIME]."),
            click.option("--resume", type=click.Path(path_type=Path), help="Go on with this run directory."),
            click.option("--jobs", type=click.IntRange(1, 256), help="Parallel workers [default: the cores]."),
            click.option("--seed", type=int, default=1, show_default=True, help="Seed of all the harness's randomness."),
            click.option("--quick", is_flag=True, help="A seeded tenth of the checks; labelled, never comparable."),
        )
    ):
        f = option(f)
    return f


def stage_list(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...]:
    if not value:
        return STAGES
    named = tuple(dict.fromkeys(s.strip() for s in value.split(",")))
    for s in named:
        if s not in STAGES:
            raise click.BadParameter(f"'{s}' is no stage: use a comma-separated list of {', '.join(STAGES)}")
    return tuple(s for s in STAGES if s in named)


def default_agent(folder: Path) -> str:
    return "solution" if (folder / "solution").is_dir() else "noop"


def choose_options(root: Path, given: dict[str, Any], stages: tuple[str, ...]) -> tuple[RunOptions, Path]:
    """Return the options and the run directory. Resuming takes the stored options; naming others as well is refused."""
    if given["resume"]:
        paths = RunPaths(given["resume"])
        if not paths.options.is_file():
            raise UsageError(f"--resume {given['resume']} is no run directory: name what `run --out` wrote")
        stored = read_json(paths.options, RunOptions)
        for key in ("task", "agent", "panel"):
            if given[key] and given[key] != getattr(stored, key):
                raise UsageError(
                    f"--{key} {given[key]} differs from the run's own {getattr(stored, key)}: a run's identity is its "
                    f"directory, so resume without --{key} or start a new run"
                )
        return (msgspec.structs.replace(stored, jobs=given["jobs"]) if given["jobs"] else stored), paths.root
    if not given["task"]:
        raise UsageError("--task is missing: name one (`refactorbench task list` shows them)")
    if given["agent"] and given["submission"]:
        raise UsageError("--agent and --submission exclude each other: a tree handed in has no agent")
    task = given["task"]
    submission = str(given["submission"].resolve()) if given["submission"] else ""
    agent = "submission" if submission else given["agent"] or default_agent(root / "tasks" / task)
    options = RunOptions(
        task=task,
        agent=agent,
        submission=submission,
        panel=given["panel"] or ("quick" if given["quick"] else "offline"),
        stages=stages,
        jobs=given["jobs"] or os.cpu_count() or 1,
        quick=given["quick"],
        seed=given["seed"],
    )
    short = "command" if agent.startswith("command:") else agent
    out = given["out"] or Path("runs") / f"{task}-{short}-{time.strftime('%Y%m%d-%H%M%S')}"
    if (out / "options.json").exists():
        raise UsageError(f"--out {out} holds a run already: give --resume {out} to go on, or another --out")
    return options, out


def latest_run(named: Path | None) -> RunPaths:
    """Return the run that a command means: the one named, else the newest below runs/."""
    if named is not None:
        if not (named / "options.json").is_file():
            raise UsageError(f"{named} is no run directory: name what `run --out` wrote")
        return RunPaths(named)
    found = sorted(Path("runs").glob("**/options.json"), key=lambda p: p.stat().st_mtime) if Path("runs").is_dir() else []
    if not found:
        raise UsageError("no run in runs/: name a run directory")
    return RunPaths(found[-1].parent)
