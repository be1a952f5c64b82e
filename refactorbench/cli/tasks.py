"""task list|show|fetch|checkout|validate|mutants|wording, and doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from refactorbench.admission.mutants import STAGES, Request, measure
from refactorbench.admission.validate import validate
from refactorbench.audit.wording import review_wording
from refactorbench.catalog.load import list_tasks, load_task
from refactorbench.catalog.sources import checkout, fetch_state_a
from refactorbench.cli.shared import absolute, emit, json_option
from refactorbench.doctor import Finding, examine
from refactorbench.errors import HarnessError, TaskError
from refactorbench.llm.models import open_model
from refactorbench.paths import cache_dir, find_root
from refactorbench.progress import Progress
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox


@click.group("task")
def task_group() -> None:
    """List, show, fetch, check out and validate tasks."""


@task_group.command("list")
@json_option
@click.pass_obj
def list_command(root: Path | None, as_json: bool) -> None:
    """List the tasks and whether they are admitted or provisional."""
    data = find_root(root)
    loaded = [load_task(data, id) for id in list_tasks(data)]
    rows = [
        {"id": t.task.id, "status": t.task.status, "debt": t.task.debt, "hours": t.task.budget_hours,
         "criteria": len(t.criteria.criterion), "title": t.task.title}
        for t in loaded
    ]  # fmt: skip
    emit(
        rows, as_json, lambda: "\n".join(f"{r['id']:16} {r['status']:12} {r['hours']:4g} h  {r['title']}" for r in rows)
    )


@task_group.command("show")
@click.argument("task")
@json_option
@click.pass_obj
def show_command(root: Path | None, task: str, as_json: bool) -> None:
    """Show a task: sources, toolchains, criteria, directions, scope."""
    loaded = load_task(find_root(root), task)

    def text() -> str:
        t = loaded.task
        lines = [f"{t.id} ({t.status}): {t.title}", f"  {t.from_stack} -> {t.to_stack}, {t.budget_hours:g} hours"]
        lines.append(
            f"  State A: {t.state_a.kind} {t.state_a.package} {t.state_a.version}, sha256 {t.state_a.sha256[:16]}"
        )
        lines += [f"  criterion {c.id}: {c.question}" for c in loaded.criteria.criterion]
        lines += [f"  verifier {d.id}: {d.title}" for d in loaded.briefs.direction]
        lines += [f"  in scope: {s}" for s in loaded.briefs.scope.allow]
        lines += [f"  out of scope: {s}" for s in loaded.briefs.scope.deny]
        return "\n".join(lines)

    emit({"task": loaded.task, "criteria": loaded.criteria, "verifiers": loaded.briefs}, as_json, text)


@task_group.command("fetch")
@click.argument("task")
@click.pass_obj
def fetch_command(root: Path | None, task: str) -> None:
    """Fetch State A into the cache; later runs need no network."""
    loaded = load_task(find_root(root), task)
    click.echo(fetch_state_a(loaded.task.state_a, cache_dir(), Progress().say))


@task_group.command("checkout")
@click.argument("task")
@click.argument("folder", type=click.Path(path_type=Path))
@click.pass_obj
def checkout_command(root: Path | None, task: str, folder: Path) -> None:
    """Lay out State A, the instruction and a baseline commit in FOLDER, for an agent of your own."""
    loaded = load_task(find_root(root), task)
    done = checkout(loaded, fetch_state_a(loaded.task.state_a, cache_dir(), Progress().say), folder)
    click.echo(done.note)


@task_group.command("validate")
@click.argument("task")
@click.option("--full", is_flag=True, help="Every check and the whole budget, not a seeded tenth.")
@click.option("--only", help="Only these controls, comma-separated [default: all].")
@click.option("--jobs", type=click.IntRange(1, 256), default=2, show_default=True, help="Parallel workers.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep the runs here [default: a temporary folder].")
@json_option
@click.pass_obj
def validate_command(
    root: Path | None, task: str, full: bool, only: str | None, jobs: int, out: Path | None, as_json: bool
) -> None:
    """Replay State A, run every control and hold each against the outcome that it must get."""
    names = tuple(only.split(",")) if only else ()
    found = validate(find_root(root), task, cache_dir(), full, names, jobs, out, Progress())
    emit(found, as_json, found.text)
    if not found.ok:
        raise TaskError(f"task {task} is not valid: {len(found.bad)} of {len(found.lines)} lines above are wrong")


@task_group.command("mutants")
@click.argument("task")
@click.option("--batch", default="", help="A file of the task's mutants/ [default: the only one].")
@click.option("--only", help="Only these mutants, comma-separated [default: all].")
@click.option(
    "--stage", type=click.Choice(STAGES), default="both", show_default=True, help="The recording, the verifiers, both."
)
@click.option("--panel", default="offline", show_default=True, help="Whose verifiers and budgets.")
@click.option("--seed", type=int, default=1, show_default=True, help="Order of the checks, inputs of the verifiers.")
@click.option("--jobs", type=click.IntRange(1, 256), default=2, show_default=True, help="Parallel workers.")
@click.option("--out", type=click.Path(path_type=Path), help="Where results stand [default: runs/mutants-TASK-BATCH].")
@json_option
@click.pass_obj
def mutants_command(root: Path | None, out: Path | None, as_json: bool, only: str | None, **named: Any) -> None:
    """Measure what the checks and the verifiers see: small behaviour changes of State A, up to first contact.

    A second start with the same --out goes on.
    """
    request = Request(only=tuple(only.split(",")) if only else (), **named)
    found = measure(find_root(root), request, cache_dir(), out, Progress())
    emit(found, as_json, found.text)


@task_group.command("wording")
@click.argument("task")
@click.option("--model", required=True, callback=absolute, help="Who reviews: anthropic/NAME, openai/NAME, ...")
@json_option
@click.pass_obj
def wording_command(root: Path | None, task: str, model: str, as_json: bool) -> None:
    """Ask a model about each criterion's wording: can it be answered from evidence, does it ask what State A can't
    show? An opinion for the task's author."""
    loaded = load_task(find_root(root), task)
    reviewer = open_model(model)
    found = review_wording(loaded, fetch_state_a(loaded.task.state_a, cache_dir(), Progress().say), reviewer)
    emit(found, as_json, found.text)


def finding_text(f: Finding) -> str:
    remedy = f"; remedy: {f.remedy}" if f.remedy else ""
    return f"{f.status:4} {f.name}: {f.text}{remedy}"


@click.command("doctor")
@json_option
@click.pass_obj
def doctor_command(root: Path | None, as_json: bool) -> None:
    """Say what this machine has and lacks, and prove that the sandbox's network is closed."""
    data = find_root(root)
    findings = examine(BubblewrapSandbox(), [load_task(data, id) for id in list_tasks(data)])
    emit(findings, as_json, lambda: "\n".join(finding_text(f) for f in findings))
    if any(f.status == "bad" for f in findings):
        raise HarnessError("this machine can't give verdicts yet: mend what is marked bad above")


COMMANDS = (task_group, doctor_command)
