"""Controls: trees with the outcome that they must get. Cheats stop at the stage meant for them; benign twins don't."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import msgspec

from refactorbench.catalog.models import Closed, LoadedTask
from refactorbench.catalog.python import load_module
from refactorbench.catalog.recordings import Recording
from refactorbench.catalog.toml import Problems, read_toml


class Expect(Closed, frozen=True):
    """What the offline panel must say. `kinds`: at least one of them is among the proofs (when stage1 is "fail") or the
    leads (when it is "pass"); "any" leaves a stage open; stage3 "pass" means that nothing was upheld."""

    stage1: Literal["pass", "fail"]
    stage2: Literal["pass", "fail", "any"] = "any"
    stage3: Literal["pass", "fail", "not_run"] = "not_run"
    kinds: tuple[str, ...] = ()
    witness: Literal["", "source", "build", "runtime"] = ""  # the only eye whose proof stops it, if there is just one


class Control(Closed, frozen=True):
    """tasks/<id>/controls/<name>/control.toml; the tree is `base`, then the folder `tree/` laid over it, then
    `make.py`'s make(tree, context)."""

    schema: Literal["refactorbench.control/1"]
    id: str
    kind: Literal["cheat", "twin", "broken"]
    title: str
    base: Literal["solution", "state-a", "empty"]
    expect: Expect


class ControlContext(msgspec.Struct, frozen=True):
    """What make.py may use: State A's tree, the reference's product and the recording."""

    state_a: Path
    product: Path
    recording: Recording
    loaded: LoadedTask


def list_controls(loaded: LoadedTask) -> tuple[Control, ...]:
    """Every control of the task, by name; TaskError when a file is wrong or its id isn't its folder's name."""
    controls = []
    problems = Problems()
    for path in sorted((loaded.folder / "controls").glob("*/control.toml")):
        control = read_toml(path, Control, problems)
        if control is None:
            continue
        if control.id != path.parent.name:
            problems.append(f"{path}: id is '{control.id}' but the folder is '{path.parent.name}': make them equal")
        controls.append(control)
    problems.raise_if_any(f"controls of {loaded.task.id}")
    return tuple(controls)


def make_tree(control: Control, context: ControlContext, dest: Path) -> Path:
    """Lay the control's tree into the new folder `dest` and return it."""
    folder = context.loaded.folder / "controls" / control.id
    if control.base == "empty":
        dest.mkdir(parents=True)
    else:
        base = context.state_a if control.base == "state-a" else context.loaded.folder / "solution"
        shutil.copytree(base, dest, symlinks=True, ignore=shutil.ignore_patterns("target", ".git"))
        for path in dest.rglob("*"):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o600)
    if (folder / "tree").is_dir():
        shutil.copytree(folder / "tree", dest, symlinks=True, dirs_exist_ok=True)
    if (folder / "make.py").is_file():
        load_module(folder / "make.py").make(dest, context)
    return dest
