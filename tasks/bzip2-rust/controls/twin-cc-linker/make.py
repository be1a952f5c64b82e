"""The library crate becomes a dependency of the one that makes the shared library."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    manifest = tree / "Cargo.toml"
    parts.replace(manifest, 'crate-type = ["cdylib", "rlib"]', 'crate-type = ["rlib"]')
    parts.replace(manifest, 'build = "build.rs"\n', "")
    manifest.write_text(
        manifest.read_text() + '\n[workspace]\nmembers = ["shared"]\ndefault-members = [".", "shared"]\n'
    )
    (tree / "build.rs").unlink()
