"""The command line as such: help, exit statuses, what goes to which stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from e2e.toy import TASK, Toy, lay_out
from results import ERROR, PANEL, options, result, scored, stage_one, stage_three, stage_two, write_run

from refactorbench.cli import run, stages
from refactorbench.cli.main import call, cli
from refactorbench.errors import HarnessError, TaskError, ToolMissing, UsageError
from refactorbench.result import RunResult


def commands(group: click.Group = cli, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))


ALL = dict(commands())


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A data root with one task and no recording: enough to list, show and refuse."""
    base = tmp_path_factory.mktemp("bare")
    return lay_out(base / "root", base / "cache")


@pytest.mark.parametrize("words", [(), *ALL], ids=" ".join)
def test_help_works_for_every_command(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert call([*words, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Usage:") and call([*words, "-h"]) == 0


def needs_no_default(option: click.Parameter) -> bool:
    """Flags are off, what is required has none, and what may be left out altogether says so by doing nothing."""
    return not isinstance(option, click.Option) or option.is_flag or option.required or option.name in LEFT_OUT


LEFT_OUT = {"help", "submission", "resume", "task"}


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_mentions_the_default_of_each_option_that_has_one(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    named = [p for p in ALL[words].params if not needs_no_default(p)]
    call([*words, "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("[default: ") + out.count("; default: ") >= len(named), out


def test_the_commands_of_the_interface_are_all_there() -> None:
    single = {" ".join(w) for w in ALL}
    assert single == {
        "run", "score", "report", "show", "reproduce", "build", "audit", "replay", "verify", "record", "task",
        "task list", "task show", "task fetch", "task checkout", "task validate", "task mutants", "doctor",
        "review", "ask", "calibrate", "calibrate judges", "quality", "task wording",
    }  # fmt: skip


@pytest.mark.parametrize("words", [w for w, c in ALL.items() if not isinstance(c, click.Group)], ids=" ".join)
def test_json_wherever_something_is_reported(words: tuple[str, ...]) -> None:
    lays_out_files = words in (("task", "fetch"), ("task", "checkout"))
    assert any(p.name == "as_json" for p in ALL[words].params) is not lays_out_files


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (UsageError("wrong key"), 2, "error: wrong key"),
        (TaskError("wrong task"), 2, "error: wrong task"),
        (HarnessError("no verdict"), 3, "error: no verdict"),
        (ToolMissing("no bwrap"), 3, "error: no bwrap"),
        (OSError(28, "No space left on device", "/x/y"), 3, "No space left on device: /x/y; nothing was decided"),
        (ZeroDivisionError("inside"), 3, "a fault of refactorbench itself"),
        (KeyboardInterrupt(), 130, "what was finished is kept, --resume DIR"),
        (click.Abort(), 130, "interrupted"),
    ],
)
def test_each_kind_of_error_has_its_exit_status(
    error: BaseException, status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(run.funnel, "report", fail)
    assert call(["report", "x"]) == status
    out, err = capsys.readouterr()
    assert said in err and out == ""


@pytest.mark.parametrize(("command", "status"), [(("task", "show", TASK), 0), (("report", "/nowhere"), 2)])
def test_a_reader_that_goes_away_changes_no_exit_status(bare: Toy, command: tuple[str, ...], status: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "refactorbench", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=bare.env(),
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(60) == status and b"Traceback" not in err


def grading(monkeypatch: pytest.MonkeyPatch, found: RunResult) -> list[Any]:
    """Let the pipeline give `found`; return what it was called with."""
    asked: list[Any] = []

    def pipeline(_root: Path, wanted: Any, out: Path, _cache: Path, _progress: Any) -> RunResult:
        asked.append((wanted, out))
        return found

    monkeypatch.setattr(run, "run_pipeline", pipeline)
    return asked


@pytest.mark.parametrize(
    ("found", "args", "status"),
    [
        (result(), [], 0),
        (result(score=scored(0.0)), [], 0),
        (result(score=scored(0.8)), ["--min-score", "80"], 0),
        (result(score=scored(0.8)), ["--min-score", "81"], 1),
        (result(score=scored(None), status="unscored", cause="verifier v1: died"), [], 3),
        (result(score=scored(None), status="unscored", cause="verifier v1: died"), ["--min-score", "1"], 3),
        (result(score=scored(None), status="partial", comparable=False), [], 0),
        (result(score=scored(None), status="partial", cause="criterion x: lost", comparable=False), [], 3),
    ],
)
def test_the_exit_status_of_a_run(
    bare: Toy, monkeypatch: pytest.MonkeyPatch, found: RunResult, args: list[str], status: int
) -> None:
    grading(monkeypatch, found)
    done = bare.here("run", "--task", TASK, "--out", "/nowhere/x", *args)
    assert done.status == status
    assert done.out.startswith("grading agent 'solution'") and done.last.startswith(("S = ", "unscored", "no score"))


def test_json_alone_goes_to_stdout(bare: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    grading(monkeypatch, result(score=scored(None), status="unscored", cause="x"))
    done = bare.here("run", "--task", TASK, "--out", "/nowhere/x", "--json")
    assert done.status == 3 and done.json["panel"] == PANEL
    assert "grading agent" in done.err and "no verdict: x" in done.err


def test_the_first_line_says_who_and_why_and_how_to_give_another(
    bare: Toy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    grading(monkeypatch, result())
    stored = write_run(tmp_path / "run", None, options(task=TASK, agent="noop"))

    def first(*args: str | Path) -> str:
        return bare.here("run", *args).out.splitlines()[0]

    new = ("--task", TASK, "--out", "/nowhere/x")
    assert "'solution' on toy-rust (the task ships one); give --submission DIR" in first(*new)
    assert "'noop' on toy-rust (as asked)" in first(*new, "--agent", "noop")
    assert first(*new, "--submission", tmp_path) == f"grading the tree {tmp_path} as a submission of toy-rust"
    assert "'noop' on toy-rust (as the run was started)" in first("--resume", stored)


def test_options_become_one_model(bare: Toy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = grading(monkeypatch, result())
    bare.here("run", "--task", TASK, "--quick", "--seed", "0", "--jobs", "3", "--stages", "verification,audit")
    wanted, out = asked.pop()
    assert (wanted.agent, wanted.quick, wanted.seed, wanted.jobs, wanted.panel) == ("solution", True, 0, 3, "quick")
    assert wanted.stages == ("audit", "verification") and str(out).startswith("runs/toy-rust-solution-")
    bare.here("run", "--task", TASK)
    wanted, _ = asked.pop()
    assert (wanted.panel, wanted.seed, wanted.jobs) == ("offline", 1, len(os.sched_getaffinity(0)))
    for command in stages.COMMANDS[:4]:
        bare.here(command.name or "", "--task", TASK)
    assert [w.stages for w, _ in asked] == [(), ("audit",), ("behaviour",), ("verification",)]


def test_resuming_takes_the_stored_options_and_the_new_number_of_jobs(
    bare: Toy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = grading(monkeypatch, result())
    stored = write_run(tmp_path / "run", None, options(task=TASK, agent="noop", seed=0, jobs=1))
    assert bare.here("run", "--resume", stored, "--jobs", "2", "--seed", "0").status == 0
    wanted, out = asked.pop()
    assert (wanted.agent, wanted.seed, wanted.jobs, out) == ("noop", 0, 2, stored)
    assert bare.here("run", "--resume", stored, "--seed", "1").status == 2 and not asked


def test_the_newest_run_is_meant_when_none_is_named(
    bare: Toy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(["--root", str(bare.root), "score"]) == 2 and "no run in runs/" in capsys.readouterr().err
    for n, name in enumerate(("old", "new")):
        folder = write_run(tmp_path / "runs" / name, result(), options(task=f"task-{name}"))
        os.utime(folder / "options.json", (n, n))
    assert call(["--root", str(bare.root), "score"]) == 2 and "task-new" in capsys.readouterr().err


def test_show_and_report_give_json(bare: Toy, tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "run", result(stage3=stage_three(ERROR), stage1=stage_one(0), stage2=stage_two(False))
    )
    assert bare.here("show", folder, "--json").json["stage3"]["verifiers"][0]["outcome"]["owner"] == "harness"
    assert bare.here("report", folder, "--json").json["runs"][0]["panel"] == PANEL
    unfinished = write_run(tmp_path / "other", None)
    done = bare.here("show", unfinished)
    assert done.status == 2 and "no result yet: go on with" in done.err


def test_task_lists_are_json(bare: Toy) -> None:
    assert [t["id"] for t in bare.here("task", "list", "--json").json] == [TASK]
    assert json.loads(bare.here("task", "show", TASK, "--json").out)["criteria"]["task"] == TASK


def test_a_root_without_tasks_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["--root", str(tmp_path), "task", "list"]) == 2
    assert "has no tasks/ folder" in capsys.readouterr().err
