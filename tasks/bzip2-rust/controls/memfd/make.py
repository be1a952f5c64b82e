"""State A's product, encrypted."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

SEED = 0x9FB21C651E98DF25  # as in memory.rs


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.lay_under(tree, context)
    for name in ("bin/bzip2", "bin/bzip2recover", "lib/libbz2.so.1.0"):
        data = (context.product / name).read_bytes()
        (tree / "src" / Path(name).name).with_suffix(".dat").write_bytes(parts.keystream(data, SEED))
