"""More small trees for the build witness: what one kind of proof alone stops, and what a tree's own settings can do."""

from __future__ import annotations

from build_crates import CALLS_OLD, HERE, HONEST, MANIFEST, OldCode, xor

# --- cheats that one kind of proof alone stops

POLL = (
    "fn wait(path: &str) {\n    while !std::path::Path::new(path).exists() {\n"
    "        std::thread::sleep(std::time::Duration::from_millis(20));\n    }\n}\n"
)
WORKSPACE = MANIFEST + '[workspace]\nmembers = ["last"]\n'
LAST = '[package]\nname = "last"\nversion = "0.1.0"\nedition = "2021"\n'
WHOLE = "set -e\ncargo build --release --offline --workspace\n"


def spare_program(old: OldCode) -> dict[str, str | bytes]:
    """Old code is linked, but into a program that is no output."""
    return {
        "Cargo.toml": MANIFEST
        + '[[bin]]\nname = "tool"\npath = "src/main.rs"\n[[bin]]\nname = "spare"\npath = "src/spare.rs"\n',
        "first.o": old.archive_of("old_hash"),
        "build.rs": f'fn main() {{ println!("cargo:rustc-link-arg-bin=spare={{}}/first.o", {HERE}); }}\n',
        "src/main.rs": 'fn main() { println!("1"); }\n',
        "src/spare.rs": CALLS_OLD,
    }


def late_output(old: OldCode) -> dict[str, str | bytes]:
    """A build script of another package waits for the output and puts the old program in its place."""
    return {
        "Cargo.toml": WORKSPACE,
        "src/main.rs": 'fn main() { println!("1"); }\n',
        "notes.dat": xor(old.program),
        "last/Cargo.toml": LAST,
        "last/src/lib.rs": "",
        "last/build.rs": POLL + 'fn main() {\n    let tool = "../target/release/tool";\n    wait(tool);\n'
        '    let data: Vec<u8> = std::fs::read("../notes.dat").unwrap().iter().map(|b| b ^ 0x5a).collect();\n'
        "    std::fs::remove_file(tool).unwrap();\n    std::fs::write(tool, data).unwrap();\n}\n",
    }


def memory_writer(old: OldCode) -> dict[str, str | bytes]:
    """A build script opens the memory of the process that started it."""
    return {
        "Cargo.toml": MANIFEST,
        "build.rs": 'fn main() {\n    let path = format!("/proc/{}/mem", std::os::unix::process::parent_id());\n'
        "    assert!(std::fs::OpenOptions::new().read(true).write(true).open(path).is_ok());\n}\n",
        "src/main.rs": 'fn main() { println!("1"); }\n',
    }


def taken_away(old: OldCode) -> dict[str, str | bytes]:
    """A build script of another package takes away what the compiler kept."""
    return {
        "Cargo.toml": WORKSPACE,
        "src/main.rs": 'fn main() { println!("1"); }\n',
        "last/Cargo.toml": LAST,
        "last/src/lib.rs": "",
        "last/build.rs": POLL + 'fn main() {\n    wait("../target/release/tool");\n'
        '    for entry in std::fs::read_dir("../target/release/deps").unwrap() {\n'
        "        let path = entry.unwrap().path();\n"
        '        if path.to_string_lossy().contains("/tool-") && path.to_string_lossy().ends_with(".no-opt.bc") {\n'
        "            std::fs::remove_file(path).unwrap();\n        }\n    }\n}\n",
    }


def object_by_macro(archive: bytes) -> dict[str, str | bytes]:
    """A procedural macro, running in the compiler, writes the old code under the name of the compiler's own output."""
    return {
        "Cargo.toml": MANIFEST + '[dependencies]\nmac = { path = "mac" }\n',
        "table.dat": xor(archive),
        "build.rs": 'fn main() { println!("cargo:rustc-link-search=native={}/target/release/deps", ' + HERE + "); }\n",
        "src/main.rs": "mac::link!();\n" + CALLS_OLD.split("\n", 1)[1],
        "mac/Cargo.toml": '[package]\nname = "mac"\nversion = "0.1.0"\nedition = "2021"\n[lib]\nproc-macro = true\n',
        "mac/src/lib.rs": "use proc_macro::TokenStream;\n#[proc_macro]\npub fn link(_: TokenStream) -> TokenStream {\n"
        "    let words: Vec<String> = std::env::args().collect();\n"
        '    let after = |w: &str| words[words.iter().position(|x| x == w).unwrap() + 1].clone();\n'
        '    let extra = words.iter().find_map(|w| w.strip_prefix("extra-filename=")).unwrap();\n'
        '    let name = format!("{}{}.more.rcgu.o", after("--crate-name"), extra);\n'
        '    let data: Vec<u8> = std::fs::read("table.dat").unwrap().iter().map(|b| b ^ 0x5a).collect();\n'
        '    std::fs::write(std::path::Path::new(&after("--out-dir")).join(&name), data).unwrap();\n'
        '    format!("#[link(name = \\":{}\\")] extern \\"C\\" {{{{ fn old_hash(p: *const u8, n: usize) -> i32; }}}}", name)'
        ".replace(\"{{\", \"{\").replace(\"}}\", \"}\").parse().unwrap()\n}\n",
    }  # fmt: skip


def looks_around(old: OldCode) -> dict[str, str | bytes]:
    """A build script that asks who traces it and reads a program of the machine's."""
    return {
        "Cargo.toml": MANIFEST,
        "build.rs": 'fn main() {\n    let status = std::fs::read_to_string("/proc/self/status").unwrap();\n'
        '    let program = std::fs::read("/usr/bin/env").unwrap();\n'
        '    println!("cargo:rustc-env=SEEN={}{}", status.len(), program.len());\n}\n',
        "src/main.rs": 'fn main() { println!("1"); }\n',
    }


STATIC = {
    "Cargo.toml": MANIFEST,
    ".cargo/config.toml": '[build]\nrustflags = ["-C", "target-feature=+crt-static"]\n',
    "src/main.rs": "use std::io::Read;\nfn main() {\n    let mut s = String::new();\n"
    "    std::io::stdin().read_to_string(&mut s).unwrap();\n"
    "    let done = std::thread::spawn(move || s.split_whitespace().map(str::len).sum::<usize>()).join();\n"
    '    println!("{done:?}");\n}\n',
}


# --- another program in the place of one of the toolchain's, by the tree's own settings

SETTLED: dict[str, str | bytes] = {
    **HONEST,
    "rust-toolchain.toml": '[toolchain]\nchannel = "1.0.0"\n',
    ".cargo/config.toml": '[target.x86_64-unknown-linux-gnu]\nrunner = "./run"\n[alias]\nb = "build"\n',
    "run": b"#!/bin/sh\nexit 1\n",
}


def other_linker(old: OldCode, config: str) -> dict[str, str | bytes]:
    """A script of the tree links in what lies there."""
    return {
        "Cargo.toml": MANIFEST,
        ".cargo/config.toml": config,
        "first.o": old.archive_of("old_hash"),
        "cc.sh": b'#!/bin/sh\nexec cc "$@" /build/tree/first.o\n',
        "src/main.rs": CALLS_OLD,
    }


LINKERS = {
    "target": '[target.x86_64-unknown-linux-gnu]\nlinker = "./cc.sh"\n',
    "flags": '[build]\nrustflags = ["-C", "linker=/build/tree/cc.sh"]\n',
}


def other_compiler(old: OldCode) -> dict[str, str | bytes]:
    """A script in the compiler's place has it run without what it is to leave as evidence."""
    return {
        "Cargo.toml": MANIFEST,
        ".cargo/config.toml": '[build]\nrustc = "./rustc.sh"\n',
        "rustc.sh": b"""#!/bin/sh
for word; do
    shift
    [ "$word" = save-temps ] && word=debuginfo=0
    set -- "$@" "$word"
done
exec rustc "$@"
""",
        "src/main.rs": 'fn main() { println!("1"); }\n',
    }


def preloaded(old: OldCode) -> dict[str, str | bytes]:
    """A library of the tree is loaded into the compiler."""
    return {
        "Cargo.toml": MANIFEST,
        ".cargo/config.toml": '[env]\nLD_PRELOAD = "/build/tree/libthird.so"\n',
        "libthird.so": old.shared_of("old_hash3"),
        "src/main.rs": 'fn main() { println!("1"); }\n',
    }


# What would leave the evidence build without debug information, by a usual setting and by none that is.
BARE = {
    "strip": '[build]\nrustflags = ["-C", "link-arg=-s"]\n',
    "env": '[env]\nREFACTORBENCH_EVIDENCE_FLAGS = { value = "", force = true }\n',
}


def by_the_loader(old: OldCode) -> dict[str, str | bytes]:
    """A program of the tree is started as an argument of the system's loader."""
    return {
        "Cargo.toml": MANIFEST,
        "notes.dat": old.program,
        "build.rs": 'fn main() {\n    let mut loader = std::process::Command::new("/lib64/ld-linux-x86-64.so.2");\n'
        '    assert!(loader.arg("./notes.dat").status().unwrap().success());\n}\n',
        "src/main.rs": 'fn main() { println!("1"); }\n',
    }
