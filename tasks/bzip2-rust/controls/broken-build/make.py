"""A constant of the wrong type."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.replace(tree / "src" / "crc.rs", "pub const INIT: u32 = 0xffff_ffff;", 'pub const INIT: u32 = "all ones";')
