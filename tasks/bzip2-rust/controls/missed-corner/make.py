"""What follows a whole stream counts as no stream at all."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    codec = tree / "src" / "bin" / "bzip2" / "codec.rs"
    for after in ("                return false;", "                eprint"):  # when decompressing and when testing
        parts.replace(codec, "if stream_no == 1 {\n" + after, "if stream_no >= 1 {\n" + after)
