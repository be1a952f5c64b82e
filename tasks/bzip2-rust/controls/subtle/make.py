"""Blocks of few symbols whose second byte is NUL, as in text of 16-bit units, lose a short run at their end.

No recorded content looks like that; a search that prefers small numbers meets it soon.
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
        "        if self.run_byte < 256 && !self.half_a_unit(block) {\n            self.append_run(block);\n        }\n"
        "        self.run_byte = 256;",
    )
    parts.replace(
        tree / "src" / "compress.rs",
        "    fn no_run(&self) -> bool {",
        "    /// Whether the run at the end is no whole unit of a text of 16-bit units.\n"
        "    fn half_a_unit(&self, block: &[u8]) -> bool {\n"
        "        let used = self.in_use.iter().filter(|&&used| used).count();\n"
        "        self.run_len < 4 && self.nblock > 4 && block[1] == 0 && used <= 3\n"
        "    }\n\n"
        "    fn no_run(&self) -> bool {",
    )
