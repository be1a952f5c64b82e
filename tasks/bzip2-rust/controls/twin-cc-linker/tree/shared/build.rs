fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libbz2.so.1.0");
    println!("cargo:rerun-if-changed=build.rs");
}
