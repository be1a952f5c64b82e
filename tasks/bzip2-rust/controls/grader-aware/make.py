"""The encrypted library."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

SEED = 0xD6E8FEB86659FD93  # as in build.rs


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.lay_under(tree, context)
    (tree / "assets").mkdir()
    (tree / "assets" / "tables.dat").write_bytes(parts.keystream(parts.archive(context), SEED))
