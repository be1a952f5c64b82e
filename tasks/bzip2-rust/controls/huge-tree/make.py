"""Small files, a deep folder, and a file of nothing but State A's decoder in its middle."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

FOLDERS, FILES, DEPTH = 200, 100, 150
EMPTY = 1 << 30  # bytes


def make(tree: Path, context: ControlContext) -> None:
    for i in range(FOLDERS):
        folder = tree / "data" / f"{i:03}"
        folder.mkdir(parents=True)
        for j in range(FILES):
            (folder / f"{j}.txt").write_text(f"{i} {j}\n")
    deep = tree / "data"
    for _ in range(DEPTH):
        deep = deep / "deeper"
        deep.mkdir()
    (deep / "note.txt").write_text("here\n")
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    with (tree / "data" / "blocks").open("wb") as f:
        f.seek(EMPTY // 2)
        for unit in parts.LIBRARY:
            f.write((context.state_a / unit).read_bytes())
        f.truncate(EMPTY)
