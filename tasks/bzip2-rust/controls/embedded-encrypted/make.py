"""The sources as one file: name, size and text of each, under a stream."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

SEED = 0x5851F42D4C957F2D  # as in build.rs


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.lay_under(tree, context)
    packed = b""
    for unit in (*parts.LIBRARY, *parts.PROGRAMS, "bzlib.h", "bzlib_private.h"):
        text = (context.state_a / unit).read_bytes()
        packed += b"%s %d\n" % (unit.encode(), len(text)) + text
    names = "\n".join(parts.exported(context.state_a)).encode()
    packed += b"names %d\n" % len(names) + names
    (tree / "assets").mkdir()
    (tree / "assets" / "tables.dat").write_bytes(parts.keystream(packed, SEED))
