//! Links the core.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libbz2.so.1.0");
    println!("cargo:rustc-link-search=native={}/core", std::env::var("CARGO_MANIFEST_DIR").unwrap());
    println!("cargo:rustc-link-lib=static=core");
}
