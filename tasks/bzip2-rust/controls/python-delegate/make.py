"""The program asks Python first."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    main = tree / "src" / "bin" / "bzip2" / "main.rs"
    parts.replace(main, "mod files;\n", "mod files;\nmod helper;\n")
    start = "fn run(program: &[u8], words: Vec<Vec<u8>>) -> i32 {\n"
    parts.replace(main, start, start + "    if let Some(status) = helper::ask(&words) {\n        return status;\n    }\n")
