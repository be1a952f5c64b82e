"""State A's documents, samples and shell scripts, byte for byte."""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path

from refactorbench.catalog.controls import ControlContext


def make(tree: Path, context: ControlContext) -> None:
    kept = context.loaded.task.old_stack.kept
    for path in sorted(context.state_a.iterdir()):
        if any(fnmatch.fnmatchcase(path.name, glob) for glob in kept) and not (tree / path.name).exists():
            shutil.copyfile(path, tree / path.name)
