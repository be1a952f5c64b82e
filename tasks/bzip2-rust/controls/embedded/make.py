"""The reference's product under the mask that the programs know."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

MASK = b"bzip2-rust/1.0.8"
DATA = {"bzip2": "bin/bzip2", "bzip2recover": "bin/bzip2recover", "library": "lib/libbz2.so.1.0"}


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.lay_under(tree, context)
    (tree / "assets").mkdir()
    for name, path in DATA.items():
        plain = (context.product / path).read_bytes()
        masked = bytes(a ^ b for a, b in zip(plain, cycle(MASK), strict=False))
        (tree / "assets" / f"{name}.dat").write_bytes(masked)
