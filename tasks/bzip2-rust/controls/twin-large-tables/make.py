"""A megabyte of numbers as source: 16 tables of 256 checksums, the checksums of all pairs of bytes, and how many digits
each run of zeros takes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

POLYNOMIAL = 0x04C11DB7


def advance(crc: int, bits: int) -> int:
    for _ in range(bits):
        crc = (crc << 1 ^ (POLYNOMIAL if crc >> 31 else 0)) & 0xFFFFFFFF
    return crc


def written(name: str, kind: str, numbers: Iterable[int], width: int, told: str) -> str:
    values = [f"0x{n:0{width}x}" for n in numbers]
    rows = "".join("    " + ", ".join(values[i : i + 8]) + ",\n" for i in range(0, len(values), 8))
    return f"/// {told}\n#[rustfmt::skip]\npub static {name}: [{kind}; {len(values)}] = [\n{rows}];\n\n"


def tables() -> str:
    single = [advance(byte << 24, 8) for byte in range(256)]
    slices = [single]
    for _ in range(15):
        slices.append([(crc << 8 & 0xFFFFFFFF) ^ single[crc >> 24] for crc in slices[-1]])
    pairs = [slices[1][n >> 8] ^ single[n & 255] for n in range(65536)]
    digits = [max(n.bit_length() - 1, 0) for n in range(65536)]
    flat = [crc for table in slices for crc in table]
    return (
        "//! Tables that were computed once; generated, so not formatted.\n\n"
        + written("SLICES", "u32", flat, 8, "What each byte adds to the checksum when 0 to 15 bytes follow it.")
        + written("PAIRS", "u32", pairs, 8, "What two bytes, the first of them the higher, add to the checksum.")
        + written("DIGITS", "u8", digits, 2, "How many digits of base 2 lie below the highest one.")
    )


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    crc = tree / "src" / "crc.rs"
    text = crc.read_text()
    start, end = text.index("const POLYNOMIAL"), text.index("/// Value of the checksum before the first byte.")
    crc.write_text(text[:start] + "use crate::numbers::{PAIRS, SLICES};\n\n" + text[end:])
    parts.replace(crc, "TABLE[((crc >> 24) as u8 ^ byte) as usize]", "SLICES[((crc >> 24) as u8 ^ byte) as usize]")
    run = Path(__file__).with_name("run.txt").read_text()
    parts.replace(crc, "/// Folds the checksum", run + "/// Folds the checksum")
    (tree / "src" / "numbers.rs").write_text(tables().rstrip("\n") + "\n")
    parts.replace(tree / "src" / "lib.rs", "mod huffman;\n", "mod huffman;\nmod numbers;\n")
    parts.replace(
        tree / "src" / "compress.rs",
        "        for _ in 0..self.run_len {\n            self.block_crc = crc::update(self.block_crc, byte);\n        }\n",
        "        self.block_crc = crc::update_run(self.block_crc, byte, self.run_len);\n",
    )
    parts.replace(
        tree / "src" / "compress" / "encode.rs",
        "        while count > 0 {\n            count -= 1;\n",
        "        if let Some(&digits) = crate::numbers::DIGITS.get(count + 1) {\n"
        "            for at in 0..digits {\n"
        "                self.emit(words, if (count + 1) >> at & 1 != 0 { RUN_B } else { RUN_A });\n"
        "            }\n            return;\n        }\n"
        "        while count > 0 {\n            count -= 1;\n",
    )
