"""For each kind of proof of the build's and the run-time witness: what it alone stops.

CONTROLS are bzip2-rust's (tests/e2e/test_controls.py runs them), TREES are small (test_build_witness.py builds
them). A kind that stops nothing by itself has no business being a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import build_crates as crates
import cheat_crates as cheats
from build_crates import OldCode

Files = Mapping[str, str | bytes]

CONTROLS = {
    "data-as-code": "blob-in-text",
    "runtime-exec": "python-delegate",
    "runtime-exec-memory": "mmap-exec",
    "runtime-foreign-library": "dlopen-system",
    "answers-memorised": "answers-hidden",
}
TREES: dict[str, tuple[Callable[[OldCode], Files], str]] = {
    "old-compiler-run": (crates.calls_cc, crates.CARGO),
    "foreign-link-input": (cheats.spare_program, crates.CARGO),
    "foreign-output": (cheats.late_output, cheats.WHOLE),
    "foreign-image": (cheats.by_the_loader, crates.CARGO),
    "foreign-unit": (lambda old: cheats.object_by_macro(old.debug), crates.CARGO),
    "code-without-source": (lambda old: cheats.object_by_macro(old.long), crates.CARGO),
    "assembled-code": (crates.hidden_assembly, crates.CARGO),
    "trace-evasion": (cheats.memory_writer, crates.CARGO),
    "evidence-removed": (cheats.taken_away, cheats.WHOLE),
}
