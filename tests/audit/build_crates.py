"""Small trees that the build witness must tell apart, and one build of each.

Every tree is made here from text; what stands for the old code is a C function compiled when the tests start.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from refactorbench.build.builder import build_tree
from refactorbench.build.model import BuildReport
from refactorbench.build.toolchain import find
from refactorbench.catalog.models import (
    Briefs,
    Criteria,
    Drivers,
    LoadedTask,
    OldStack,
    Recipe,
    Runtime,
    Scope,
    StateASource,
    Task,
)
from refactorbench.sandbox import BubblewrapSandbox, Limits

CARGO = "set -e\ncargo build --release --offline\n"
EVIDENCE = {"REFACTORBENCH_EVIDENCE_FLAGS": "-C debuginfo=1 -C strip=none"}
COMPILERS = ("cc1", "cc1plus", "lto1", "as", "clang", "tcc")
BOTH = {"bin/tool": "target/release/tool", "lib/libtool.so": "target/release/libtool.so"}
ONE = {"bin/tool": "target/release/tool"}

OLD_C = """
#include <stddef.h>
static unsigned step(unsigned s, unsigned char c) { s = s * 31 + c; if (s & 1) s ^= 0xdeadbeefu; return s; }
int old_hash(const unsigned char *p, size_t n)
{
    unsigned s = 0;
    for (size_t i = 0; i < n; i++) s = step(s, p[i]);
    switch (s & 7) {
    case 0: return s * 3 + (s >> 7);
    case 1: return (s + 1) ^ (s << 3);
    case 2: return (s ^ 2) * 77 - (s >> 11);
    case 3: return (s - 9) * s;
    default: return s;
    }
}
"""

MANIFEST = '[package]\nname = "tool"\nversion = "0.1.0"\nedition = "2021"\n'
CALLS_OLD = (
    'extern "C" { fn old_hash(p: *const u8, n: usize) -> i32; }\n'
    'fn main() { let a = b"x"; println!("{}", unsafe { old_hash(a.as_ptr(), 1) }); }\n'
)

WORDS = "auto break case char const continue default do double else enum extern"
KEYWORDS = ", ".join(f'"{word}"' for word in WORDS.split())

HONEST: dict[str, str] = {
    "Cargo.toml": MANIFEST
    + '[lib]\ncrate-type = ["cdylib", "rlib"]\n[[bin]]\nname = "tool"\npath = "src/main.rs"\n'
    + '[dependencies]\nmac = { path = "mac" }\n',
    "build.rs": "fn main() {\n"
    '    let out = std::path::PathBuf::from(std::env::var("OUT_DIR").unwrap());\n'
    '    std::fs::write(out.join("squares.rs"), "pub const SQUARES: [u32; 3] = [1, 4, 9];").unwrap();\n'
    '    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtool.so");\n'
    '    let rustc = std::env::var("RUSTC").unwrap();\n'
    "    assert!(std::process::Command::new(rustc).arg(\"--version\").status().unwrap().success());\n}\n",
    "src/lib.rs": 'include!(concat!(env!("OUT_DIR"), "/squares.rs"));\n'
    f"pub const KEYWORDS: [&str; 12] = [{KEYWORDS}];\n"
    '#[no_mangle]\npub extern "C" fn tool_sum(n: u32) -> u32 { SQUARES.iter().map(|s| s * n).sum() }\n'
    "pub fn words(s: &str) -> Vec<String> { let mut v: Vec<String> = s.split_whitespace().map(String::from).collect();"
    " v.sort(); v }\n",
    "src/main.rs": "use std::io::Read;\nfn main() {\n    let mut s = String::new();\n"
    "    std::io::stdin().read_to_string(&mut s).unwrap();\n    println!(\"{}\", mac::seven!());\n"
    "    for w in tool::words(&s) { println!(\"{w} {}\", tool::KEYWORDS.contains(&w.as_str())); }\n"
    "    println!(\"{}\", tool::tool_sum(std::hint::black_box(2)));\n}\n",
    "mac/Cargo.toml": '[package]\nname = "mac"\nversion = "0.1.0"\nedition = "2021"\n[lib]\nproc-macro = true\n',
    "mac/src/lib.rs": "use proc_macro::TokenStream;\n#[proc_macro]\n"
    'pub fn seven(_: TokenStream) -> TokenStream { "7".parse().unwrap() }\n',
}  # fmt: skip

DECODE = (
    'fn decode(from: &str, to: &str) {{\n    let out = std::path::PathBuf::from(std::env::var("OUT_DIR").unwrap());\n'
    "    let data: Vec<u8> = std::fs::read(from).unwrap().iter().map(|b| b ^ 0x5a).collect();\n"
    "    std::fs::write(out.join(to), data).unwrap();\n}}\nfn main() {{\n{body}}}\n"
)
LINK_OUT = '    println!("cargo:rustc-link-search=native={}", std::env::var("OUT_DIR").unwrap());\n'


def xor(data: bytes) -> bytes:
    return bytes(b ^ 0x5A for b in data)


class OldCode:
    """The old code in every form in which it may be hidden."""

    def __init__(self, folder: Path) -> None:
        source = folder / "old.c"
        source.write_text(OLD_C)

        def gcc(*args: str) -> None:
            subprocess.run(["gcc", "-O2", *args], cwd=folder, check=True)

        gcc("-S", "-fno-asynchronous-unwind-tables", "old.c", "-o", "old.s")
        gcc("-fPIC", "-c", "old.c", "-o", "old.o")
        gcc("-fPIC", "-shared", "old.c", "-o", "libold.so")
        gcc("-g", "-fPIC", "-c", "old.c", "-o", "debug.o")
        subprocess.run(["ar", "rcs", "libold.a", "old.o"], cwd=folder, check=True)
        (folder / "main.c").write_text('#include <stdio.h>\nint main(void) { return puts("old") < 0; }\n')
        gcc("main.c", "-o", "program")
        self.source = OLD_C
        self.assembly = (folder / "old.s").read_text()
        self.object, self.archive = (folder / "old.o").read_bytes(), (folder / "libold.a").read_bytes()
        self.shared, self.program = (folder / "libold.so").read_bytes(), (folder / "program").read_bytes()
        self.debug = (folder / "debug.o").read_bytes()


def write_tree(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if isinstance(content, bytes) and content.startswith((b"\x7fELF", b"#!")):
            path.chmod(0o755)
    return folder


def loaded_task(
    root: Path, script: str, outputs: Mapping[str, str], *, evidence: bool, drivers: Drivers | None = None
) -> LoadedTask:
    env = EVIDENCE if evidence else {}
    recipe = Recipe("build/target.sh", dict(outputs), ("gcc", "rust"), evidence_env=env, wall_s=120.0)
    source = StateASource("debian-source", "old", "1", "stable", "old.tar.gz", "0" * 64, "0" * 64)
    task = Task(
        "refactorbench.task/1", "old-rust", "old", "language", "C", "Rust", 1.0, "provisional", source, recipe, recipe,
        Runtime(()), Limits(), OldStack(COMPILERS, (".c",)), "checks/generate.py", drivers=drivers,
    )  # fmt: skip
    write_tree(root / "tasks" / "old-rust", {"build/target.sh": script})
    briefs = Briefs("refactorbench.verifiers/1", "old-rust", "", Scope((), ()), ())
    return LoadedTask(root, task, Criteria("refactorbench.criteria/1", "old-rust", ()), briefs, "")


def build(
    folder: Path, files: Mapping[str, str | bytes], outputs: Mapping[str, str] = ONE, script: str = CARGO,
    *, evidence: bool = False, role: str = "target",
) -> BuildReport:  # fmt: skip
    """Write the tree and build it; the report's files are below `folder`."""
    tree = write_tree(folder / "submission", files)
    loaded = loaded_task(folder / "root", script, outputs, evidence=evidence)
    report = build_tree(
        tree, loaded.task.target, loaded=loaded, sandbox=BubblewrapSandbox(), toolchain=find(("gcc", "rust")),
        cache=folder.parent / "cache", workdir=folder / "work", role=role,  # type: ignore[arg-type]
    )  # fmt: skip
    shutil.rmtree(tree)  # nothing may be asked of it afterwards
    return report
