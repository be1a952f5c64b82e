"""Load a task with all that belongs to it and validate it across files; every problem is told at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from refactorbench.audit.docket import Strength
from refactorbench.audit.kinds import KINDS
from refactorbench.catalog.models import Briefs, Criteria, LoadedTask, Task
from refactorbench.catalog.panels import chosen_panel, list_panels, load_panel, panel_fingerprint, panel_label
from refactorbench.catalog.python import load_module, strategies_of
from refactorbench.catalog.toml import Problems, read_toml
from refactorbench.errors import TaskError, did_you_mean
from refactorbench.scoring import VERIFIERS

__all__ = [
    "chosen_panel", "list_panels", "list_tasks", "load_panel", "load_task", "panel_fingerprint", "panel_label"
]  # fmt: skip

_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")
_HEX = re.compile(r"[0-9a-f]{64}")


def list_tasks(root: Path) -> tuple[str, ...]:
    """The ids of all tasks below `root`, sorted."""
    return tuple(sorted(p.parent.name for p in (root / "tasks").glob("*/task.toml")))


def load_task(root: Path, id: str) -> LoadedTask:
    """Return the task `id`, validated together with its criteria, briefs, scripts and Python modules.

    TaskError holds every problem found (`problems`), or names the tasks there are when `id` is none of them.
    """
    known = list_tasks(root)
    if id not in known:
        raise TaskError(
            f"task '{id}' is unknown{did_you_mean(id, known)}: the tasks here are {', '.join(known) or '(none)'}"
        )
    folder = root / "tasks" / id
    problems = Problems()
    task_path, criteria_path = folder / "task.toml", root / "audit_criteria" / f"{id}.toml"
    briefs_path = root / "verifiers" / f"{id}.toml"
    task = read_toml(task_path, Task, problems)
    criteria = read_toml(criteria_path, Criteria, problems)
    briefs = read_toml(briefs_path, Briefs, problems)
    instruction = _read_instruction(folder / "instruction.md", problems)
    if task is not None:
        problems += (f"{task_path}: {p}" for p in _task_faults(task, folder))
        problems += _instruction_faults(task, folder / "instruction.md", instruction)
    if criteria is not None:
        problems += (f"{criteria_path}: {p}" for p in _criteria_faults(criteria, id))
    if briefs is not None:
        problems += (f"{briefs_path}: {p}" for p in _briefs_faults(briefs, id, root / "verifiers"))
    problems.raise_if_any(f"task {id}")
    assert task is not None and criteria is not None and briefs is not None
    return LoadedTask(root, task, criteria, briefs, instruction)


def _read_instruction(path: Path, problems: Problems) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        problems.append(f"cannot read {path} as UTF-8 text ({e}): an agent would have nothing to go by; write it")
        return ""


def _instruction_faults(task: Task, path: Path, text: str) -> Iterator[str]:
    hours = f"{task.budget_hours:g}"
    if text and not re.search(rf"(?<![\d.]){re.escape(hours)}(?:\.0)?[\s-]*hours?\b", text, re.IGNORECASE):
        yield f"{path} does not say '{hours} hours', the budget_hours of task.toml: an agent would not know its time"


def _task_faults(task: Task, folder: Path) -> Iterator[str]:
    if task.id != folder.name:
        yield f"id is '{task.id}', but the folder is {folder.name}: results would be filed under the wrong task"
    for key in ("sha256", "tree_sha256"):
        if not _HEX.fullmatch(value := getattr(task.state_a, key)):
            yield f"state_a.{key} is '{value}': write 64 lower-case hexadecimal digits, else nothing can match it"
    if "/" in task.state_a.archive or task.state_a.strip < 0:
        yield f"state_a has archive '{task.state_a.archive}', strip {task.state_a.strip}: a plain name and 0 or more"
    for key, number, low, high in (
        ("budget_hours", task.budget_hours, 0.01, 1000),
        ("minimum_checks", task.minimum_checks, 0, 10**7),
        ("largest_module_share", task.largest_module_share, 0.001, 1),
        ("fresh_checks", task.fresh_checks, 0, 10**6),
    ):
        if not low <= number <= high:
            yield f"{key} is {number}: it must lie from {low} to {high}"
    files = [("reference.script", task.reference.script), ("target.script", task.target.script)]
    files += [("drivers.sources", source) for source in (task.drivers.sources if task.drivers else ())]
    for key, name in files:
        yield from _file_faults(key, name, folder)
    broken = list(_file_faults("generator", task.generator, folder))
    yield from broken or _generator_faults(folder / task.generator)
    yield from _twice("variants", "id", (v.id for v in task.variants))


def _generator_faults(path: Path) -> Iterator[str]:
    try:
        module = load_module(path)
    except TaskError as e:
        yield f"generator: {e}"
        return
    for function in ("fixed", "draw"):
        if not callable(getattr(module, function, None)):
            yield f"generator: {path} has no function `{function}`: without it no checks can be made; add it"


def _file_faults(key: str, name: str, folder: Path) -> Iterator[str]:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        yield f"{key} is '{name}', which lies outside {folder}: a task must be whole in its own folder"
    elif not path.is_file():
        beside = [p.name for p in path.parent.glob("*")] if path.parent.is_dir() else []
        yield f"{key} is '{name}', and there is no such file{did_you_mean(path.name, beside)}: create or rename it"


def _twice(what: str, key: str, ids: Iterable[str]) -> Iterator[str]:
    for id, count in Counter(ids).items():
        if count > 1:
            yield f"{what}: {key} '{id}' occurs {count} times, so one would hide the other: rename all but one"


def _criteria_faults(criteria: Criteria, id: str) -> Iterator[str]:
    if criteria.task != id:
        yield f"task is '{criteria.task}', but the file is {id}.toml: correct it"
    yield from _twice("criterion", "id", (c.id for c in criteria.criterion))
    if not any(c.required for c in criteria.criterion):
        yield "no criterion is required, so stage I could never be passed or failed: require at least one"
    special = [c.id for c in criteria.criterion if c.special == "builds"]
    if len(special) != 1:
        yield f'special = "builds" is set on {", ".join(special) or "no criterion"}: a failed build needs exactly one'
    for c in criteria.criterion:
        if not _ID.fullmatch(c.id):
            yield f"criterion '{c.id}': an id is small letters, digits and hyphens; votes are filed under it"
        if not c.eyes or len(set(c.eyes)) != len(c.eyes):
            yield f"criterion '{c.id}' has eyes = {[str(e) for e in c.eyes]}: name one to three different ones"
        if not c.kinds and not c.special:
            yield f"criterion '{c.id}' lists no kinds, so no finding could ever fail it: list them"
        yield from _twice(f"criterion '{c.id}'", "kind", c.kinds)
    yield from _kind_faults(criteria)


def _kind_faults(criteria: Criteria) -> Iterator[str]:
    """Kinds that no witness knows, and proofs that would count for nothing."""
    listed = {kind for c in criteria.criterion for kind in c.kinds}
    for c in criteria.criterion:
        for kind in c.kinds:
            if kind not in KINDS:
                yield (
                    f"criterion '{c.id}' lists kind '{kind}'{did_you_mean(kind, KINDS)}, which no witness reports: "
                    "it could never fail; correct it"
                )
    for name, known in KINDS.items():
        if known.strength is Strength.PROOF and name not in listed:
            yield f"no criterion lists kind '{name}', so a proof of it would count for nothing: list it"


def _briefs_faults(briefs: Briefs, id: str, folder: Path) -> Iterator[str]:
    if briefs.task != id:
        yield f"task is '{briefs.task}', but the file is {id}.toml: correct it"
    directions = briefs.direction
    yield from _twice("direction", "id", (d.id for d in directions))
    if len(directions) != VERIFIERS:
        yield f"{len(directions)} directions: the score counts exactly {VERIFIERS}"
    free = [d.id for d in directions if not d.strategy]
    if directions and free != [directions[-1].id]:
        yield f"directions without a strategy are {', '.join(free) or 'none'}: the last one alone is the free one"
    broken = list(_file_faults("module", briefs.module, folder))
    if broken:
        yield from broken
        return
    try:
        module = strategies_of(folder / briefs.module)
    except TaskError as e:
        yield f"module: {e}"
        return
    named = [(f"direction '{d.id}' has strategy", d.strategy, module.strategies) for d in directions if d.strategy]
    for what, name, table in [*named, *(("scope.deny_rules has", r, module.deny) for r in briefs.scope.deny_rules)]:
        if name not in table:
            yield f"{what} '{name}'{did_you_mean(name, table)}, which {briefs.module} does not define: add it there"
