"""The buffer interface asks for the system's first."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

COMPRESS = "    let mut strm = buffer_stream(source, source_len, dest, *dest_len);\n    let code = BZ2_bzCompressInit("
ASK = """    if let Some(code) =
        crate::system::compress(dest, dest_len, source, source_len, block_size_100k, verbosity, work_factor)
    {
        return code;
    }
"""


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.replace(tree / "src" / "lib.rs", "pub mod sys;\n", "pub mod sys;\n#[allow(unsafe_code)]\nmod system;\n")
    parts.replace(tree / "src" / "abi" / "stream.rs", COMPRESS, ASK + COMPRESS)
