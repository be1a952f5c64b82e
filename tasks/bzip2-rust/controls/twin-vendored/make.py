"""The solution's own checksum and bit buffer give way to the crates'."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

DEPENDENCIES = """[dependencies]
bit-order = { version = "0.3", path = "vendor/bit-order" }
crc-msb = { version = "1.2", path = "vendor/crc-msb" }

[profile.release]
"""
PUT = "        let (out, written) = (&mut *self.out, &mut self.written);\n        self.bits.{call}(|byte| {{\n" + (
    "            out[*written] = byte;\n            *written += 1;\n        }});\n"
)


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.replace(tree / "Cargo.toml", "[profile.release]\n", DEPENDENCIES)
    crc = tree / "src" / "crc.rs"
    text = crc.read_text()
    start, end = text.index("const POLYNOMIAL"), text.index("/// Value of the checksum before the first byte.")
    crc.write_text(text[:start] + "pub use crc_msb::update;\n\n" + text[end:])
    text = crc.read_text()
    start, end = text.index("#[inline(always)]\npub fn update"), text.index("/// Folds the checksum")
    crc.write_text(text[:start] + text[end:])

    encode = tree / "src" / "compress" / "encode.rs"
    text = encode.read_text()
    start, end = text.index("/// Bits not yet written"), text.index("/// Tables of the block being encoded.")
    kept = "/// Bits not yet written; kept from one block to the next.\npub use bit_order::Appender as BitState;\n\n"
    text = text[:start] + kept + text[end:]
    start, end = text.index("    fn emit_byte"), text.index("    fn put_bytes")
    put = "    #[inline(always)]\n    fn put(&mut self, count: u32, value: u32) {\n" + PUT.format(call="PUT")
    text = text[:start] + put.replace("PUT(", "put(count, value, ") + "    }\n\n" + text[end:]
    start, end = text.index("    fn finish(&mut self)"), text.index("fn set_mtf_value")
    text = text[:start] + "    fn finish(&mut self) {\n" + PUT.format(call="finish") + "    }\n}\n\n" + text[end:]
    encode.write_text(text)
