"""The library."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.lay_under(tree, context)
    (tree / "core").mkdir()
    (tree / "core" / "libcore.a").write_bytes(parts.archive(context))
