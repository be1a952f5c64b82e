"""What is known of trees beforehand, criterion by criterion: what judges are calibrated by."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from refactorbench.catalog.controls import Control
from refactorbench.catalog.models import Closed, Criteria
from refactorbench.catalog.toml import Problems, load_toml
from refactorbench.errors import did_you_mean

Label = Literal["pass", "fail"]


class LabelledTree(Closed, frozen=True):
    """People's answers on one tree: a folder (`path`, relative to the label file) or one of the task's controls. `by`
    says whose they are."""

    by: str
    labels: dict[str, Label]
    path: str = ""
    control: str = ""


class LabelFile(Closed, frozen=True):
    schema: Literal["refactorbench.labels/1"]
    task: str
    tree: tuple[LabelledTree, ...]


class Labelled(msgspec.Struct, frozen=True):
    """A tree to be judged: a control's id, "solution", or a folder; `labels` maps criterion id to its answer."""

    name: str
    kind: str  # solution | cheat | twin | broken | people
    labels: dict[str, Label]
    path: str = ""


def of_control(control: Control, criteria: Criteria) -> dict[str, Label]:
    """A twin passes every criterion. A cheat that a proof must stop fails the one criterion that its kinds bear on;
    where they bear on several, and for whatever else a cheat is, nothing is known without people's labels."""
    if control.kind == "twin" and control.expect.stage1 == "pass":
        return {c.id: "pass" for c in criteria.criterion}
    hit = [c.id for c in criteria.criterion if set(c.kinds) & set(control.expect.kinds)]
    return {hit[0]: "fail"} if control.expect.stage1 == "fail" and len(hit) == 1 else {}


def read_labels(path: Path, criteria: Criteria, controls: tuple[Control, ...]) -> tuple[LabelledTree, ...]:
    """People's labels; TaskError tells all that is wrong with the file."""
    found = load_toml(path, LabelFile)
    known, ids = [c.id for c in criteria.criterion], [c.id for c in controls]
    problems = Problems()
    if found.task != criteria.task:
        problems.append(
            f"{path}: task is '{found.task}', and the labels are wanted for '{criteria.task}': name its file"
        )
    for n, tree in enumerate(found.tree, 1):
        where = f"{path}: tree {n}"
        if bool(tree.path) == bool(tree.control):
            problems.append(f"{where} must have either a path or a control, so that it is clear what is labelled")
        if tree.path and not (path.parent / tree.path).is_dir():
            problems.append(f"{where}: path '{tree.path}' is no folder beside the label file: correct it")
        if tree.control and tree.control not in ids:
            problems.append(f"{where}: control '{tree.control}' is unknown{did_you_mean(tree.control, ids)}")
        for id in tree.labels:
            if id not in known:
                problems.append(
                    f"{where}: criterion '{id}' is unknown{did_you_mean(id, known)}: its label means nothing"
                )
    problems.raise_if_any(str(path))
    return found.tree


def labelled(
    criteria: Criteria, controls: tuple[Control, ...], solution: bool, people: tuple[LabelledTree, ...], beside: Path
) -> tuple[Labelled, ...]:
    """Every tree that has labels; people's go before what follows from a control's kind. `beside`: the label file's
    folder."""
    everything: dict[str, Label] = {c.id: "pass" for c in criteria.criterion}
    found = {"solution": Labelled("solution", "solution", everything)} if solution else {}
    for control in controls:
        found[control.id] = Labelled(control.id, control.kind, of_control(control, criteria))
    for n, tree in enumerate(people, 1):
        if tree.control:
            known = found[tree.control]
            found[tree.control] = msgspec.structs.replace(known, labels={**known.labels, **tree.labels})
        else:
            name = f"people-{n:03d}-{Path(tree.path).name}"
            found[name] = Labelled(name, "people", tree.labels, str((beside / tree.path).resolve()))
    return tuple(t for t in found.values() if t.labels)
