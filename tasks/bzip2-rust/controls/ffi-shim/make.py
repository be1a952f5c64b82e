"""The C sources below a folder of their own, and the names that have to move."""

from __future__ import annotations

import shutil
from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.lay_under(tree, context)
    core = tree / "core"
    core.mkdir()
    for unit in (*parts.LIBRARY, *parts.PROGRAMS, "bzlib.h", "bzlib_private.h"):
        shutil.copyfile(context.state_a / unit, core / unit)
    (core / "names.txt").write_text("\n".join(parts.exported(context.state_a)) + "\n")
