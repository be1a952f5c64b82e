"""Where things are: the data root, the cache, and one run's directory as a frozen object."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from refactorbench.errors import UsageError


def find_root(explicit: Path | None = None) -> Path:
    """Return the folder that holds `tasks/`: --root, REFACTORBENCH_ROOT, the nearest ancestor of the working
    directory, else the copy beside the package. Raises UsageError when a named one has no tasks/."""
    for name, value in (("--root", explicit), ("REFACTORBENCH_ROOT", os.environ.get("REFACTORBENCH_ROOT"))):
        if value:
            root = Path(value).resolve()
            if not (root / "tasks").is_dir():
                raise UsageError(f"{name} is {root}, which has no tasks/ folder: name the folder that holds tasks/")
            return root
    here = Path.cwd().resolve()
    package = Path(__file__).resolve().parent
    for folder in (here, *here.parents, package.parent, package / "data"):
        if (folder / "tasks").is_dir() and (folder / "audit_criteria").is_dir():
            return folder
    raise UsageError("no tasks/ folder here or above: change into the project, or give --root DIR")


def cache_dir() -> Path:
    """REFACTORBENCH_CACHE, else XDG_CACHE_HOME/refactorbench, else ~/.cache/refactorbench; created when missing."""
    named = os.environ.get("REFACTORBENCH_CACHE")
    base = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "refactorbench"
    base.mkdir(parents=True, exist_ok=True)
    return base


class RunPaths(msgspec.Struct, frozen=True):
    """Every file of one run. Requested: options. Resolved: lock. Happened: result."""

    root: Path

    @property
    def options(self) -> Path:
        return self.root / "options.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock.json"

    @property
    def journal(self) -> Path:
        return self.root / "journal.jsonl"

    @property
    def result(self) -> Path:
        return self.root / "result.json"

    @property
    def submission(self) -> Path:
        return self.root / "submission"

    @property
    def agent(self) -> Path:
        """What an agent with a model keeps: its journal, checkpoints and scratch."""
        return self.root / "agent"

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def audit(self) -> Path:
        return self.root / "audit"

    @property
    def behaviour(self) -> Path:
        return self.root / "behaviour"

    @property
    def verification(self) -> Path:
        return self.root / "verification"
