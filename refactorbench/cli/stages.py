"""Each stage alone, and recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from refactorbench.admission.recording import record_coverage, record_task
from refactorbench.cli.run import finish, grade
from refactorbench.cli.shared import emit, json_option, run_options
from refactorbench.paths import cache_dir, find_root
from refactorbench.progress import Progress


def _stage(name: str, stages: tuple[str, ...], text: str) -> click.Command:
    @click.command(name, help=text)
    @run_options
    @json_option
    @click.pass_obj
    def command(root: Path | None, as_json: bool, **given: Any) -> None:
        finish(grade(root, given, stages, as_json), as_json, None)

    return command


build_command = _stage("build", (), "Only build the tree, traced, and store the artefact.")
audit_command = _stage("audit", ("audit",), "Only stage I: witnesses, docket, verdict.")
replay_command = _stage("replay", ("behaviour",), "Only stage II: replay every recorded check.")
verify_command = _stage("verify", ("verification",), "Only stage III: six verifiers, whatever the earlier stages say.")


@click.command("record")
@click.option("--task", required=True, help="Task id.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the generators.")
@click.option("--jobs", type=click.IntRange(1, 256), default=2, show_default=True, help="Parallel workers.")
@click.option("--coverage-only", is_flag=True, help="Measure what the recorded checks cover; the recording stays.")
@json_option
@click.pass_obj
def record_command(root: Path | None, task: str, seed: int, jobs: int, coverage_only: bool, as_json: bool) -> None:
    """Record State A's observations of a task's checks under perturbation, and write recordings/TASK."""
    if coverage_only:
        summary = record_coverage(find_root(root), task, cache_dir(), Progress())
    else:
        summary = record_task(find_root(root), task, cache_dir(), seed, jobs, Progress())
    emit(summary, as_json, summary.text)


COMMANDS = (build_command, audit_command, replay_command, verify_command, record_command)
