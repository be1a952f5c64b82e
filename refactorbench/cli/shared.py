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

from refactorbench.catalog.load import load_task
from refactorbench.errors import UsageError, did_you_mean
from refactorbench.journal import read_json
from refactorbench.options import STAGES, RunOptions
from refactorbench.paths import RunPaths
from refactorbench.progress import printable

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def put(text: str) -> None:
    """Print to stdout; a reader that has gone away (`| head`) changes neither what is done nor the exit status."""
    try:
        click.echo(printable(text))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def emit(value: Any, as_json: bool, text: Callable[[], str]) -> None:
    """Print `value` as JSON, or the text made for people."""
    put(json.dumps(msgspec.to_builtins(value), indent=1, sort_keys=True, default=str) if as_json else text())


prices_option = click.option(
    "--prices",
    type=click.Path(path_type=Path, dir_okay=False, exists=True, resolve_path=True),
    help="What the judges' models cost, a copy of llm/prices.toml [default: the shipped one, without paid models].",
)


def run_options(f: F) -> F:
    """The options of everything that grades a tree."""
    for option in reversed(
        (
            click.option("--task", help="Task id, e.g. bzip2-rust (see `task list`)."),
            click.option(
                "--agent",
                help="Who migrates: solution, noop, command:SHELL-COMMAND, thin or aci (with --model), replay:JOURNAL "
                "[default: the solution, else noop].",
                callback=absolute,
            ),
            click.option(
                "--model",
                callback=absolute,
                help="anthropic/NAME, openai/NAME, chat/NAME@BASE_URL or scripted/FILE, for --agent thin|aci "
                "[default: no model is used].",
            ),
            click.option(
                "--set",
                "settings",
                multiple=True,
                metavar="KEY=VALUE",
                callback=pairs,
                help="A switch or limit of the agent, e.g. turns=200, cost=5, window=30; may be repeated "
                "[default: the published values, the task's hours].",
            ),
            click.option(
                "--submission", type=click.Path(path_type=Path), help="Grade this tree instead of running an agent."
            ),
            click.option("--panel", help="Judges and verifiers [default: offline; quick with --quick]."),
            click.option(
                "--judges",
                callback=models,
                metavar="MODEL[,MODEL,MODEL]",
                help="The model (asked three times) or three models of a panel with judges [default: the panel's].",
            ),
            prices_option,
            click.option(
                "--out", type=click.Path(path_type=Path), help="Run directory [default: runs/TASK-AGENT-TIME]."
            ),
            click.option("--resume", type=click.Path(path_type=Path), help="Go on with this run directory."),
            click.option("--jobs", type=click.IntRange(1, 256), help="Parallel workers [default: the cores]."),
            click.option("--seed", type=int, help="Seed of all the harness's randomness [default: 1]."),
            click.option(
                "--quick", is_flag=True, help="A seeded tenth of the checks; labelled, never comparable [default: all]."
            ),
        )
    ):
        f = option(f)
    return f


def stage_list(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    named = tuple(dict.fromkeys(s.strip() for s in value.split(",")))
    for s in named:
        if s not in STAGES:
            raise click.BadParameter(
                f"'{s}' is no stage{did_you_mean(s, STAGES)}: use a comma-separated list of {', '.join(STAGES)}"
            )
    return tuple(s for s in STAGES if s in named)


def absolute(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """A run is resumed from anywhere, so files in the names of agents and models are named in full."""
    for prefix in ("replay:", "scripted/"):
        if value and value.startswith(prefix) and value != prefix:
            return prefix + str(Path(value.removeprefix(prefix)).resolve())
    return value


def pairs(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in value:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"'{word}' sets nothing: write KEY=VALUE")
        if key in found:
            raise click.BadParameter(f"{key} is set twice: keep one of them")
        found[key] = str(Path(text).resolve()) if key == "prices" and text else text  # as with `absolute`
    return found


def models(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Names, comma-separated; scripts by their place, as with `absolute`."""
    return tuple(absolute(ctx, param, name.strip()) or "" for name in value.split(",")) if value else ()


def default_agent(folder: Path) -> str:
    return "solution" if (folder / "solution").is_dir() else "noop"


def resumed(given: dict[str, Any], stages: tuple[str, ...] | None) -> tuple[RunOptions, Path]:
    """The stored options of --resume DIR; UsageError when others are named as well. Only --jobs may change."""
    paths = RunPaths(given["resume"])
    if not paths.options.is_file():
        raise UsageError(f"--resume {given['resume']} is no run directory: name what `run --out` wrote")
    stored = read_json(paths.options, RunOptions)
    keys = ("task", "agent", "model", "settings", "panel", "judges", "prices", "seed", "quick")
    named = {key: given[key] for key in keys if given[key] is not None and given[key] is not False and given[key] != {}}
    named = {key: value for key, value in named.items() if value != ()}
    named |= {"submission": str(given["submission"].resolve())} if given["submission"] else {}
    named |= {"stages": stages} if stages is not None else {}
    for key, value in named.items():
        if (str(value) if key == "prices" else value) != getattr(stored, key):
            raise UsageError(
                f"--{key} {value} differs from the run's own {getattr(stored, key)}: a run's identity is its "
                f"directory, so resume without --{key} or start a new run"
            )
    if given["out"] and given["out"].resolve() != paths.root.resolve():
        raise UsageError(f"--out {given['out']} and --resume {paths.root} name two directories: give one of them")
    return (msgspec.structs.replace(stored, jobs=given["jobs"]) if given["jobs"] else stored), paths.root


def choose_options(root: Path, given: dict[str, Any], stages: tuple[str, ...] | None) -> tuple[RunOptions, Path]:
    """Return the options and the run directory. Resuming takes the stored options; naming others as well is refused."""
    if given["resume"]:
        return resumed(given, stages)
    if not given["task"]:
        raise UsageError("--task is missing: name one (`refactorbench task list` shows them)")
    if given["agent"] and given["submission"]:
        raise UsageError("--agent and --submission exclude each other: a tree handed in has no agent")
    task = given["task"]
    load_task(root, task)  # what is wrong with it is told before anything else is said
    submission = str(given["submission"].resolve()) if given["submission"] else ""
    agent = "submission" if submission else given["agent"] or default_agent(root / "tasks" / task)
    options = RunOptions(
        task=task,
        agent=agent,
        submission=submission,
        panel=given["panel"] or ("quick" if given["quick"] else "offline"),
        stages=STAGES if stages is None else stages,
        jobs=given["jobs"] or len(os.sched_getaffinity(0)),
        quick=given["quick"],
        seed=1 if given["seed"] is None else given["seed"],
        model=given["model"] or "",
        settings=given["settings"],
        judges=given["judges"],
        prices=str(given["prices"] or ""),
    )
    short = agent.partition(":")[0]
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
    found = (
        sorted(Path("runs").glob("**/options.json"), key=lambda p: p.stat().st_mtime) if Path("runs").is_dir() else []
    )
    if not found:
        raise UsageError("no run in runs/: name a run directory")
    return RunPaths(found[-1].parent)
