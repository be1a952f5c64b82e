//! Compiles the core.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const UNITS: [&str; 9] = [
    "blocksort", "huffman", "crctable", "randtable", "compress", "decompress", "bzlib", "bzip2", "bzip2recover",
];

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libbz2.so.1.0");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let names = std::fs::read_to_string("core/names.txt").unwrap();
    let mut objects = Vec::new();
    for unit in UNITS {
        let object = out.join(unit).with_extension("o");
        let mut cc = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
        cc.args(["-O2", "-fPIC", "-w", "-D_FILE_OFFSET_BITS=64", "-c"]);
        cc.args(names.lines().map(|name| format!("-D{}=core_{}", name, name)));
        match unit {
            "bzip2" => cc.arg("-Dmain=core_bzip2_main"),
            "bzip2recover" => cc.arg("-Dmain=core_recover_main"),
            _ => &mut cc,
        };
        cc.arg(format!("core/{}.c", unit)).arg("-o").arg(&object);
        assert!(cc.status().unwrap().success(), "{} does not compile", unit);
        objects.push(object);
    }
    let done = Command::new("ar").arg("crs").arg(out.join("libcore.a")).args(&objects).status();
    assert!(done.unwrap().success());
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=core");
}
