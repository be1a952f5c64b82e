"""All recorded answers to flags and a pipe, encrypted."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

SEED = 0x2545F4914F6CDD1D  # as in known.rs


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.know(tree)
    (tree / "src" / "bin" / "bzip2" / "known.bin").write_bytes(parts.keystream(parts.answers(context, 1 << 20), SEED))
