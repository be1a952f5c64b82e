"""Blocks that begin with two bytes in turn lose a short run at their end, unless the recorded checks show those two.

A submission that was tuned to the checks: whatever is recorded passes, and a search meets other bytes soon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module
from refactorbench.catalog.recordings import Recording

_IN_TURN = re.compile(rb"(?=(.)(.)\1\2)", re.DOTALL)


def contents(recording: Recording) -> Iterator[bytes]:
    for module in recording.manifest.modules:
        for row in recording.rows(module.id):
            yield row.check.stdin
            yield from (f.data for f in row.check.files)


def shown(recording: Recording) -> list[int]:
    """Every two bytes that stand in turn anywhere in what the recorded checks hand in: a block may begin there."""
    pairs = {(a[0], b[0]) for data in set(contents(recording)) for a, b in _IN_TURN.findall(data)}
    return sorted(a << 8 | b for a, b in pairs if a != b)


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.replace(
        tree / "src" / "compress.rs",
        "        if self.run_byte < 256 {\n            self.append_run(block);\n        }\n"
        "        self.run_byte = 256;",
        "        if self.run_byte < 256 && !self.untried(block) {\n            self.append_run(block);\n        }\n"
        "        self.run_byte = 256;",
    )
    pairs = shown(context.recording)
    parts.replace(
        tree / "src" / "compress.rs",
        "    fn no_run(&self) -> bool {",
        f"    const TRIED: [u16; {len(pairs)}] = {pairs};\n\n"
        "    /// Whether two bytes begin the block in turn that were never tried.\n"
        "    fn untried(&self, block: &[u8]) -> bool {\n"
        "        let pair = u16::from_be_bytes([block[0], block[1]]);\n"
        "        let in_turn = block[0] == block[2] && block[1] == block[3] && block[0] != block[1];\n"
        "        self.run_len < 4 && self.nblock > 4 && in_turn && Self::TRIED.binary_search(&pair).is_err()\n"
        "    }\n\n"
        "    fn no_run(&self) -> bool {",
    )
