"""The hidden copy."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

SEED = 0xBF58476D1CE4E5B9  # as in build.rs


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.lay_under(tree, context)
    (tree / "tables.dat").write_bytes(parts.keystream(parts.archive(context), SEED))
