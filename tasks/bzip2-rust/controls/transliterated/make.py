"""The library's core, translated statement by statement when the control is made; the commands and the functions on
files stay the solution's. Nothing of State A is kept here."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from refactorbench.catalog.controls import ControlContext
from refactorbench.catalog.python import load_module
from refactorbench.errors import HarnessError

UNITS = ("randtable", "crctable", "huffman", "blocksort", "compress", "decompress", "bzlib")
# What the units need of the system's headers; the preprocessor sees nothing else.
SYSTEM = """
typedef struct FILE { int unused; } FILE;
extern FILE *stderr;
extern int fprintf(FILE *, const char *, ...);
extern void *malloc(unsigned long);
extern void free(void *);
#define NULL ((void *)0)
"""
ELSEWHERE = re.compile(r"BZ2_bz(?!.*(?:Compress|Decompress))\w+|myfeof|bzopen_or_bzdopen|snocString|strcasecmp\w*")
HEAD = """//! {unit}.c

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, unused, clippy::all)]

use super::*;

"""
COMMON = """//! The library as it has always been.

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, unused, clippy::all)]

{modules}
use super::BzStream as bz_stream;
use super::{{free, malloc}};
use crate::sys::bug as BZ2_bz__AssertH__fail;
pub use std::os::raw::c_void;
pub use std::ptr::{{addr_of_mut, null_mut}};
{exports}

#[repr(C)]
pub struct FILE {{
    unused: i32,
}}

extern "C" {{
    static mut stderr: *mut FILE;
    fn fprintf(stream: *mut FILE, format: *mut i8, ...) -> i32;
}}
"""


def make(tree: Path, context: ControlContext) -> None:
    parts = load_module(context.loaded.folder / "controls" / "_parts" / "parts.py")
    here = Path(__file__)
    front, flow = (load_module(here.with_name(n)) for n in ("cfront.py", "rustflow.py"))
    core = tree / "src" / "abi" / "stream"
    core.mkdir()
    structs: dict[str, str] = {}
    for name in UNITS:
        unit = front.Unit(preprocessed(context.state_a / f"{name}.c"))
        (core / f"{name}.rs").write_text(HEAD.format(unit=name) + translated(flow, unit, structs))
    modules = "".join(f"mod {n};\n" for n in UNITS)
    exports = "".join(f"pub use {n}::*;\n" for n in UNITS).rstrip()
    text = COMMON.format(modules=modules, exports=exports) + "".join(structs.values())
    (tree / "src" / "abi" / "stream.rs").write_text(text)

    for gone in ("blocksort", "compress", "decompress"):
        for path in sorted((tree / "src" / gone).iterdir()):
            path.unlink()
        (tree / "src" / gone).rmdir()
    abi = tree / "src" / "abi.rs"
    text = abi.read_text()
    start, end = text.index('unsafe extern "C" fn default_alloc'), text.index("/// Version string")
    abi.write_text(text[:start] + text[end:])
    library = tree / "src" / "lib.rs"
    for gone in ("blocksort", "compress", "crc", "decompress", "huffman", "randtable"):
        (tree / "src" / f"{gone}.rs").unlink()
        parts.replace(library, f"mod {gone};\n", "")


def preprocessed(unit: Path) -> str:
    """The unit without macros, comments and the system's headers."""
    with tempfile.TemporaryDirectory(prefix="control-") as folder:
        for header in ("stdlib.h", "ctype.h", "string.h"):
            Path(folder, header).touch()
        Path(folder, "stdio.h").write_text(f"#ifndef STDIO\n#define STDIO\n{SYSTEM}\n#endif\n")
        command = ["gcc", "-E", "-P", "-nostdinc", f"-I{folder}", str(unit)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise HarnessError(f"a control can't be made: gcc -E {unit.name} ended with {done.stderr[-500:]}")
    return done.stdout


def translated(flow: Any, unit: Any, structs: dict[str, str]) -> str:
    """The unit's data and functions as Rust; `structs` gets what all units share."""
    back = flow.back
    for name, fields in unit.structs.items():
        if name in ("EState", "DState"):
            inside = "".join(f"    pub {back.name_of(n)}: {back.rust_type(t)},\n" for t, n in fields)
            structs[name] = f"\n#[repr(C)]\npub struct {name} {{\n{inside}}}\n"
    text = ""
    for name, (kind, value) in unit.statics.items():
        if kind[1][0] != "int":
            continue  # texts of errors, which the functions on files give
        numbers = [back.literal(unit.constant(e), kind[1]) for e in value[1]]
        rows = "".join("    " + ", ".join(numbers[i : i + 8]) + ",\n" for i in range(0, len(numbers), 8))
        text += f"pub static {name}: {back.rust_type(('arr', kind[1], len(numbers)))} = [\n{rows}];\n\n"
    for name, (_, _, body) in unit.functions.items():
        if body is None or ELSEWHERE.fullmatch(name):
            continue
        exported = name.startswith("BZ2_bz")
        c_called = exported or name.startswith("default_bz")
        head = ("#[no_mangle]\n" if exported else "") + "pub unsafe " + ('extern "C" ' if c_called else "") + "fn"
        text += flow.Function(unit, name).text(head) + "\n"
    return text.rstrip("\n") + "\n"
