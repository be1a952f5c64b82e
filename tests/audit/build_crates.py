"""Small trees that the build witness must tell apart, and one build of each.

Every tree is made here from text; what stands for the old code is a C function compiled when the tests start.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from refactorbench.build.builder import build_tree
from refactorbench.build.model import BuildReport
from refactorbench.build.toolchain import Toolchain, find
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
    "    println!(\"{}\", tool::tool_sum(s.len() as u32));\n}\n",
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
        gcc("-g", "-fPIC", "-c", "old.c", "-o", "debug.o")
        subprocess.run(["ar", "rcs", "libold.a", "old.o"], cwd=folder, check=True)
        (folder / "main.c").write_text('#include <stdio.h>\nint main(void) { return puts("old") < 0; }\n')
        gcc("main.c", "-o", "program")
        self.source = OLD_C
        self.assembly = (folder / "old.s").read_text()
        self.archive = (folder / "libold.a").read_bytes()
        self.program = (folder / "program").read_bytes()
        self.debug = (folder / "debug.o").read_bytes()
        more = "".join(f"int more{n}(int x) {{ {'x = x * 31 ^ x >> 3; ' * 400} return x + {n}; }}\n" for n in range(4))
        calls = " + ".join(f"more{n}((int)n)" for n in range(4))
        (folder / "long.c").write_text(
            OLD_C.replace("unsigned s = 0;", f"unsigned s = {calls};").replace("int old_hash", more + "int old_hash")
        )
        gcc("-fPIC", "-c", "long.c", "-o", "long.o")
        self.long = (folder / "long.o").read_bytes()
        self._folder, self._gcc = folder, gcc

    def archive_of(self, function: str) -> bytes:
        """The old code as an archive, its function under another name."""
        self._gcc("-fPIC", f"-Dold_hash={function}", "-c", "old.c", "-o", f"{function}.o")
        subprocess.run(["ar", "rcs", f"{function}.a", f"{function}.o"], cwd=self._folder, check=True)
        return (self._folder / f"{function}.a").read_bytes()

    def shared_of(self, function: str) -> bytes:
        self._gcc("-fPIC", "-shared", f"-Dold_hash={function}", "old.c", "-o", f"{function}.so")
        return (self._folder / f"{function}.so").read_bytes()


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


@cache
def toolchain() -> Toolchain:
    return find(("gcc", "rust"))


def build(
    folder: Path, files: Mapping[str, str | bytes], outputs: Mapping[str, str] = ONE, script: str = CARGO,
    *, evidence: bool = False, role: str = "target",
) -> BuildReport:  # fmt: skip
    """Write the tree and build it; the report's files are below `folder`."""
    tree = write_tree(folder / "submission", files)
    loaded = loaded_task(folder / "root", script, outputs, evidence=evidence)
    report = build_tree(
        tree, loaded.task.target, loaded=loaded, sandbox=BubblewrapSandbox(), toolchain=toolchain(),
        cache=folder.parent / "cache", workdir=folder / "work", role=role,  # type: ignore[arg-type]
    )  # fmt: skip
    shutil.rmtree(tree)  # nothing may be asked of it afterwards
    return report


# --- the trees: what each is, and the build witness must say of it

STRIPPED = {
    **HONEST,
    "Cargo.toml": HONEST["Cargo.toml"] + '[profile.release]\nstrip = true\npanic = "abort"\ncodegen-units = 1\n',
}
SPLIT = '[profile.release]\ndebug = 2\nsplit-debuginfo = "unpacked"\n'
ENV = 'std::env::var("{}").unwrap()'
HERE, OUT_DIR = ENV.format("CARGO_MANIFEST_DIR"), ENV.format("OUT_DIR")


def hidden_assembly(old: OldCode) -> dict[str, str | bytes]:
    return {
        "Cargo.toml": MANIFEST,
        "notes.dat": xor(old.assembly.encode()),
        "build.rs": DECODE.format(body='    decode("notes.dat", "old.s");\n'),
        "src/main.rs": "use std::arch::global_asm;\n"
        'global_asm!(include_str!(concat!(env!("OUT_DIR"), "/old.s")), options(att_syntax));\n' + CALLS_OLD,
    }


def hidden_archive(old: OldCode) -> dict[str, str | bytes]:
    body = '    decode("table.dat", "libold.a");\n    println!("cargo:rustc-link-lib=static=old");\n' + LINK_OUT
    return {
        "Cargo.toml": MANIFEST,
        "table.dat": xor(old.archive),
        "build.rs": DECODE.format(body=body),
        "src/main.rs": CALLS_OLD,
    }


def calls_cc(old: OldCode) -> dict[str, str | bytes]:
    """Compiles C where it can and builds without it where it can't."""
    return {
        "Cargo.toml": MANIFEST,
        "old.c": old.source,
        "build.rs": "fn main() {\n"
        f'    let to = {OUT_DIR} + "/old.o";\n'
        '    let _ = std::process::Command::new("cc").args(["-c", "old.c", "-o", &to]).status();\n}\n',
        "src/main.rs": 'fn main() { println!("1"); }\n',
    }


def prebuilt(old: OldCode) -> dict[str, str | bytes]:
    """An object with debug information, an archive and a shared library that lie in the tree, all linked."""
    other = {"first": "old_hash", "second": "old_hash2", "third": "old_hash3"}
    return {
        "Cargo.toml": MANIFEST,
        "first.o": old.debug,
        "libsecond.a": old.archive_of("old_hash2"),
        "libthird.so": old.shared_of("old_hash3"),
        "build.rs": "fn main() {\n"
        f'    println!("cargo:rustc-link-arg={{}}/first.o", {HERE});\n'
        f'    println!("cargo:rustc-link-search=native={{}}", {HERE});\n'
        '    println!("cargo:rustc-link-lib=static=second");\n    println!("cargo:rustc-link-lib=dylib=third");\n}\n',
        "src/main.rs": 'extern "C" {\n'
        + "".join(f"    fn {f}(p: *const u8, n: usize) -> i32;\n" for f in other.values())
        + '}\nfn main() { let a = b"x"; println!("{}", unsafe { '
        + " + ".join(f"{f}(a.as_ptr(), 1)" for f in other.values())
        + " }); }\n",
    }


def data_as_code(old: OldCode) -> dict[str, str | bytes]:
    """Machine code as a table of numbers that a build script decodes, placed where code is."""
    numbers = 'let out = std::path::PathBuf::from(std::env::var("OUT_DIR").unwrap());\n'
    return {
        "Cargo.toml": MANIFEST,
        "build.rs": "fn main() {\n    " + numbers + '    std::fs::write(out.join("code.rs"), '
        '"#[link_section = \\".text.x\\"]\\nstatic CODE: [u8; 6] = [0xb8, 7, 0, 0, 0, 0xc3];").unwrap();\n}\n',
        "src/main.rs": 'include!(concat!(env!("OUT_DIR"), "/code.rs"));\nfn main() {\n'
        '    let f: extern "C" fn() -> i32 = unsafe { std::mem::transmute(CODE.as_ptr()) };\n'
        '    println!("{}", f());\n}\n',
    }


def flagged_as_code(old: OldCode) -> dict[str, str | bytes]:
    """The variable's section has an innocent name; one line of assembly makes it executable."""
    return {
        "Cargo.toml": MANIFEST,
        "src/main.rs": 'std::arch::global_asm!(".pushsection tables,\\"axR\\",@progbits", "nop", ".popsection");\n'
        '#[link_section = "tables"]\nstatic CODE: [u8; 6] = [0xb8, 7, 0, 0, 0, 0xc3];\nfn main() {\n'
        '    let f: extern "C" fn() -> i32 = unsafe { std::mem::transmute(CODE.as_ptr()) };\n'
        '    println!("{}", f());\n}\n',
    }


def interpreted(old: OldCode) -> dict[str, str | bytes]:
    """A script of the tree whose interpreter is a program of the tree, and one of the system's shell."""
    return {
        "Cargo.toml": MANIFEST,
        "program": old.program,
        "hidden.sh": b"#!/build/tree/program\n",
        "plain.sh": b"#!/bin/sh\necho made > made.txt\n",
        "build.rs": "fn main() {\n"
        '    for s in ["./hidden.sh", "./plain.sh"] {\n'
        "        assert!(std::process::Command::new(s).status().unwrap().success());\n    }\n}\n",
        "src/main.rs": 'fn main() { println!("1"); }\n',
    }


def renamed_assembler(old: OldCode, assembler: bytes) -> dict[str, str | bytes]:
    """Brings the old assembler along under another name and runs it."""
    return {
        "Cargo.toml": MANIFEST,
        "tools/format": assembler,
        "old.s": old.assembly,
        "build.rs": "fn main() {\n"
        f'    let out = {OUT_DIR} + "/old.o";\n'
        '    let mut tool = std::process::Command::new("tools/format");\n'
        '    assert!(tool.args(["old.s", "-o", &out]).status().unwrap().success());\n'
        '    println!("cargo:rustc-link-arg={out}");\n}\n',
        "src/main.rs": CALLS_OLD,
    }
