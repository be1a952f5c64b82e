"""The sources as text, and the program that gives their objects."""

from __future__ import annotations

import tempfile
from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

COMPILER = """
#include <stdio.h>
extern const char made[], end[];
__asm__(".section .rodata\\n.globl made\\nmade: .incbin \\"{made}\\"\\n.globl end\\nend: .byte 0\\n.previous");
int main(int argc, char **argv)
{{
   FILE *out = argc == 2 ? fopen(argv[1], "wb") : NULL;
   if (!out || fwrite(made, 1, end - made, out) != (size_t)(end - made)) return 1;
   return fclose(out);
}}
"""


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.lay_under(tree, context)
    (tree / "docs").mkdir()
    for unit in (*parts.LIBRARY, *parts.PROGRAMS):
        text = (context.state_a / unit).read_text(errors="replace")
        (tree / "docs" / Path(unit).with_suffix(".txt")).write_text(text + "\n")
    (tree / "tools").mkdir()
    with tempfile.TemporaryDirectory(prefix="control-") as folder:
        made, source = Path(folder, "core.a"), Path(folder, "translate.c")
        made.write_bytes(parts.archive(context))
        source.write_text(COMPILER.format(made=made))
        parts.run(["gcc", "-O1", "-w", str(source), "-o", str(tree / "tools" / "translate")])
    (tree / "tools" / "translate").chmod(0o755)
