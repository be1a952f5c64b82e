"""The rest of the crate."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module


def make(tree: Path, context: ControlContext) -> None:
    load_module(context.loaded.folder / "controls" / "_parts" / "parts.py").lay_under(tree, context)
