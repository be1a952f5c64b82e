"""Assembly of the library and of the programs; local labels are made different, since all of it becomes one unit."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

INCLUDE = 'std::arch::global_asm!(include_str!("{name}.s"), options(att_syntax));\n'


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.lay_under(tree, context)
    library = tree / "src" / "lib.rs"
    library.write_text(library.read_text().replace("mod api;", "mod api;\nmod core;"))
    with tempfile.TemporaryDirectory(prefix="control-") as folder:

        def assembly(unit: str) -> str:
            place = Path(folder, unit).with_suffix(".s")
            parts.gcc(context, unit, "-S", place)
            text = re.sub(r"\.L(\w+)", rf".L{place.stem}_\1", place.read_text())
            return text.replace("{", "{{").replace("}", "}}")

        (tree / "src" / "core.s").write_text("".join(map(assembly, parts.LIBRARY)))
        for unit in parts.PROGRAMS:
            name = Path(unit).stem
            (tree / "src" / "bin" / f"{name}.s").write_text(assembly(unit))
            program = tree / "src" / "bin" / f"{name}.rs"
            program.write_text(program.read_text() + "\n" + INCLUDE.format(name=name))
