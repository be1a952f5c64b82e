//! Writes what the program says of its version: version.rs for `include!`, and variables for `env!`.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// First line of what a command prints; nothing where it isn't there or fails.
fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then(|| line)
}

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libbz2.so.1.0");
    println!("cargo:rerun-if-changed=build.rs");

    let release = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let date = "13-Jul-2019";
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let compiler = first_line(&compiler, &["--version"]).unwrap_or_else(|| "unknown".to_owned());
    let revision = first_line("git", &["describe", "--always", "--dirty"])
        .unwrap_or_else(|| "none".to_owned());
    let target = env::var("TARGET").unwrap_or_default();

    println!("cargo:rustc-env=BZIP2_VERSION={}, {}", release, date);
    let text = format!(
        "/// Version and date as the C library has them.\n\
         pub const VERSION: &str = \"{release}, {date}\";\n\
         /// What the library was built with and from.\n\
         pub const BUILT: &str = \"{compiler} for {target}, revision {revision}\";\n",
        release = release,
        date = date,
        compiler = compiler.escape_default(),
        target = target.escape_default(),
        revision = revision.escape_default(),
    );
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&folder).join("version.rs"), text).expect("OUT_DIR can be written");
}
