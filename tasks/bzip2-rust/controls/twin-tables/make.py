"""The checksum's table as numbers, as State A has it, and every text of its program in one list."""

from __future__ import annotations

import re
from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

POLYNOMIAL = 0x04C11DB7
TEXT = re.compile(r'"((?:[^"\\\n]|\\[nt"\\]){4,})"')  # with no escape that Rust reads otherwise


def entry(byte: int) -> int:
    crc = byte << 24
    for _ in range(8):
        crc = (crc << 1 ^ (POLYNOMIAL if crc >> 31 else 0)) & 0xFFFFFFFF
    return crc


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    crc = tree / "src" / "crc.rs"
    text = crc.read_text()
    start, end = text.index("const fn build_table"), text.index("static TABLE")
    rows = "".join("    " + " ".join(f"0x{entry(i + j):08x}," for j in range(4)) + "\n" for i in range(0, 256, 4))
    crc.write_text(text[:start] + text[end:])
    parts.replace(crc, "const POLYNOMIAL: u32 = 0x04c1_1db7;\n\n", "")
    parts.replace(crc, "= build_table();", f"= [\n{rows}];")

    texts = TEXT.findall((context.state_a / "bzip2.c").read_text())
    listed = "".join(f'    b"{t}",\n' for t in texts)
    (tree / "src" / "bin" / "bzip2" / "texts.rs").write_text(
        "//! Every text of the command, in the order in which it was written.\n\n"
        f"pub const TEXTS: [&[u8]; {len(texts)}] = [\n{listed}];\n"
    )
    main = tree / "src" / "bin" / "bzip2" / "main.rs"
    parts.replace(main, "mod session;\n", "mod session;\n#[allow(dead_code)]\nmod texts;\n")
