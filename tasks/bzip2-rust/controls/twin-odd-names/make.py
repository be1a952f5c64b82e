"""Names as real trees have them: fixtures of a test over odd names, sources in other scripts, what editors leave behind.

They are written here because not every archive and file system of a checkout takes them.
"""

from __future__ import annotations

import os
from pathlib import Path

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module

TEXT = b"The quick brown fox jumps over the lazy dog.\n"
FIXTURES = (
    b"-rf",
    b"--help",
    b"- ",
    b" leading and trailing ",
    b"two  spaces.bz2",
    b"tab\there",
    b"line\nbreak",
    b"line\nbreak\n+++ exited with 0 +++",
    b"return\rcarriage",
    b"bell\x07escape\x1b[31mred",
    b"quote'double\"back`tick",
    b"back\\slash",
    b"$(dollar) ${BRACES} %n%s *?[a-z]{x,y}",
    b"semi;colon&and|pipe>less<",
    b"#hash!bang~",
    b"deleted (deleted)",
    b"a => b",
    b"not utf-8 \xff\xfe\xe4",
    "\u00fcn\u00efcode \u65e5\u672c\u8a9e \U0001f980".encode(),
    "e\u0301 decomposed, \u00e9 composed".encode(),
    "right\u202eto left, zero\u200bwidth".encode(),
    b"n" * 255,
    ("\u00e4" * 127).encode(),
    b".hidden",
    b"...",
    b"core",
    b"a.out",
    b"libbz2.so.1.0",
    b"huffman.c~",
    b"CON",
)
DEEP = b"/".join([b"d" * 100] * 12)  # paths of over a thousand bytes
TEST = """//! Everything in tests/odd names/ is there to be named, compressed and found again.

use std::fs;
use std::path::Path;

#[test]
fn every_name_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("odd names");
    let files = fs::read_dir(folder).expect("the fixtures are there");
    assert!(files.filter(|f| f.is_ok()).count() > 20);
}
"""


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    folder = tree / "tests" / "odd names"
    for path in (*FIXTURES, DEEP + b"/" + b"f" * 200):
        place = folder / os.fsdecode(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(TEXT)
    (folder / "link to\n-rf").symlink_to("-rf")
    (tree / "tests" / "names.rs").write_text(TEST)

    # Sources that the build takes in: two modules and a text.
    sources = tree / "src"
    (sources / "pr\u00fcfsumme \u2014 \u65e5\u672c.rs").write_bytes((sources / "crc.rs").read_bytes())
    (sources / "crc.rs").unlink()
    (sources / "-").mkdir()
    (sources / "-" / "--random table's #1 (deleted).rs").write_bytes((sources / "randtable.rs").read_bytes())
    (sources / "randtable.rs").unlink()
    library = sources / "lib.rs"
    parts.replace(library, "mod crc;\n", '#[path = "pr\u00fcfsumme \u2014 \u65e5\u672c.rs"]\nmod crc;\n')
    parts.replace(library, "mod randtable;\n", '#[path = "-/--random table\'s #1 (deleted).rs"]\nmod randtable;\n')
    (sources / "\u7248\u672c 1.0.8\n.txt").write_text("1.0.8, 13-Jul-2019")
    parts.replace(sources / "tables.rs", '= "1.0.8, 13-Jul-2019";', '= include_str!("\u7248\u672c 1.0.8\\n.txt");')
