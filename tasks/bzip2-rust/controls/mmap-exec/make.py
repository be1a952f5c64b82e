"""The words that core.rs turns into code."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

SEED = 0xD1342543DE82EF95  # as in core.rs


def make(tree: Path, context: ControlContext) -> None:
    load_module(context.loaded.folder / "controls" / "_parts" / "blob.py").hide(tree, context, SEED)
