"""Links and names; the old code is State A's decoder with another last line."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

ODD = "notes\n.c\n\x1b[2K"


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    names = " ".join(parts.LIBRARY)
    folder = tree / "old\nfolder"
    folder.mkdir()
    text = (context.state_a / "decompress.c").read_bytes()
    (folder / ODD).write_bytes(text + f"/* {names} */\n".encode())
    (tree / "decoder.rs").symlink_to(f"old\nfolder/{ODD}")
    (tree / "loop").symlink_to("loop")
    (tree / "round").symlink_to("about")
    (tree / "about").symlink_to("round")
    (tree / "self").symlink_to(".")
    (tree / "up").symlink_to("../../../../..")
    (tree / "library").symlink_to("/usr/lib/x86_64-linux-gnu/libbz2.so.1.0")
    (tree / "gone").symlink_to("nowhere/at/all")
