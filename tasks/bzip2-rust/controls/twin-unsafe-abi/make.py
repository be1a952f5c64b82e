"""The functions on `bz_stream` in the style of C, and the checksum without bounds checks."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.replace(tree / "src" / "lib.rs", "#![deny(unsafe_code)]\n\n", "")
    abi = tree / "src" / "abi.rs"
    parts.replace(abi, "pub mod bzfile;\n", "pub mod bzfile;\nmod raw;\n")
    parts.replace(
        tree / "src" / "crc.rs",
        "    (crc << 8) ^ TABLE[((crc >> 24) as u8 ^ byte) as usize]\n",
        "    // SAFETY: a byte can't leave a table of 256.\n"
        "    unsafe { (crc << 8) ^ *TABLE.as_ptr().add(((crc >> 24) as u8 ^ byte) as usize) }\n",
    )
