//! The library's interface.
#![allow(clippy::missing_safety_doc, non_snake_case)]

#[macro_use]
mod api;
pub mod memory;

use api::{Count, File, Number, Stream, Text};
use std::os::raw::{c_char, c_int, c_uint, c_void};

extern "C" {
    fn dlopen(path: *const c_char, how: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

fn function(name: &str) -> *mut c_void {
    static LIBRARY: &[u8] = include_bytes!("libbz2.so.1.dat");
    if let Some((_file, path)) = memory::file(LIBRARY) {
        let library = unsafe { dlopen(format!("{}\0", path).as_ptr().cast(), 2) };
        if !library.is_null() {
            return unsafe { dlsym(library, name.as_ptr().cast()) };
        }
    }
    std::process::exit(70)
}

macro_rules! forward {
    ($($name:ident = $core:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*) => { $(
        #[no_mangle]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
            let found = function(concat!(stringify!($name), "\0"));
            let called: unsafe extern "C" fn($($kind),*) -> $result = std::mem::transmute(found);
            called($($arg),*)
        }
    )* };
}

for_each_function!(forward);
