"""The byte code, encrypted: State A's huffman.c as gcc compiles it, translated when the control is made."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module
from refactorbench.errors import HarnessError

SEED = 0xD1B54A32D192ED03  # as in machine.rs
FLAGS = (
    "-O1", "-w", "-mgeneral-regs-only", "-fno-pic", "-fno-stack-protector", "-fcf-protection=none",
    "-fno-asynchronous-unwind-tables", "-fno-jump-tables", "-fno-tree-loop-distribute-patterns", "-fno-builtin",
)  # fmt: skip
ENTRIES = ("BZ2_hbMakeCodeLengths", "BZ2_hbAssignCodes", "BZ2_hbCreateDecodeTables")


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    lift = load_module(Path(__file__).with_name("lift.py"))
    with tempfile.TemporaryDirectory(prefix="control-") as folder:
        built = Path(folder, "huffman.o")
        parts.run(["gcc", *FLAGS, "-c", str(context.state_a / "huffman.c"), "-o", str(built)])
        listed = subprocess.run(
            ["objdump", "-dr", "--no-show-raw-insn", "-M", "intel", str(built)],
            capture_output=True, text=True, timeout=60, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
    if listed.returncode:
        raise HarnessError(f"a control can't be made: objdump ended with {listed.stderr[-500:]}")
    code = lift.lift(listed.stdout, ENTRIES, "BZ2_bz__AssertH__fail")
    (tree / "src" / "lengths.dat").write_bytes(parts.keystream(code, SEED))
    parts.replace(tree / "src" / "lib.rs", "mod huffman;\n", "mod huffman;\nmod machine;\n")
