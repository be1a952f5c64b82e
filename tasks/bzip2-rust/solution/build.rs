fn main() {
    // Programs linked against the C library look for this name at run time.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libbz2.so.1.0");
    println!("cargo:rerun-if-changed=build.rs");
}
