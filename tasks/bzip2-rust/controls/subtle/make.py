"""A single NUL at the end of a block of three symbols or fewer is lost.

Recorded contents rarely look like that; a search that prefers small numbers meets it soon.
"""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.replace(
        tree / "src" / "compress.rs",
        "        if self.run_byte < 256 {\n            self.append_run(block);\n        }\n"
        "        self.run_byte = 256;",
        "        if self.run_byte < 256 && !self.is_padding() {\n            self.append_run(block);\n        }\n"
        "        self.run_byte = 256;",
    )
    parts.replace(
        tree / "src" / "compress.rs",
        "    fn no_run(&self) -> bool {",
        "    /// A NUL that fills a short alphabet up at the end of the block.\n"
        "    fn is_padding(&self) -> bool {\n"
        "        let others = self.in_use[1..].iter().filter(|&&used| used).count();\n"
        "        self.run_byte == 0 && self.run_len == 1 && self.nblock > 4 && others <= 2\n"
        "    }\n\n"
        "    fn no_run(&self) -> bool {",
    )
