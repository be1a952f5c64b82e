//! Writes the tables, and finds out what the compiler can do, as many a crate does.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn minor_version() -> Option<u32> {
    let compiler = env::var_os("RUSTC")?;
    let output = Command::new(compiler).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split('.').nth(1)?.parse().ok()
}

fn table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    for (byte, slot) in table.iter_mut().enumerate() {
        *slot = (0..8).fold((byte as u32) << 24, |crc, _| {
            (crc << 1) ^ if crc >> 31 != 0 { polynomial } else { 0 }
        });
    }
    table
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let minor = minor_version().unwrap_or(0);
    if minor >= 80 {
        println!("cargo:rustc-check-cfg=cfg(crc_const_table)");
    }
    if minor >= 46 {
        println!("cargo:rustc-cfg=crc_const_table");
    }
    let mut text = String::new();
    for (name, polynomial) in [("IEEE", 0x04c1_1db7), ("CASTAGNOLI", 0x1edc_6f41)].iter() {
        let _ = write!(text, "pub(crate) static {}: [u32; 256] = [", name);
        for number in table(*polynomial).iter() {
            let _ = write!(text, "{:#x},", number);
        }
        text.push_str("];\n");
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(folder.join("tables.rs"), text).expect("OUT_DIR can be written");
}
