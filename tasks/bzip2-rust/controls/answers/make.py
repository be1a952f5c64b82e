"""The short ones among the recorded answers."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.know(tree)
    (tree / "src" / "bin" / "bzip2" / "known.bin").write_bytes(parts.answers(context, 200))
