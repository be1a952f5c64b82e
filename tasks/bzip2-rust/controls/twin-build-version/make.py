"""Every version in the sources comes from what the build script wrote."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    parts.replace(
        tree / "src" / "tables.rs",
        'pub const VERSION: &str = "1.0.8, 13-Jul-2019";\n',
        'include!(concat!(env!("OUT_DIR"), "/version.rs"));\n',
    )
    parts.replace(
        tree / "src" / "abi.rs",
        'static VERSION: &[u8] = b"1.0.8, 13-Jul-2019\\0";',
        'static VERSION: &[u8] = concat!(env!("BZIP2_VERSION"), "\\0").as_bytes();\n\n'
        "/// For whoever opens the library: what it was built with.\n"
        "#[no_mangle]\npub static BZ2_RUST_BUILT: &&str = &crate::tables::BUILT;",
    )
