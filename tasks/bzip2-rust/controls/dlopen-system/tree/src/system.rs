//! What the system has.

use std::os::raw::{c_char, c_int, c_uint, c_void};

extern "C" {
    fn dlopen(path: *const c_char, how: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Compress =
    unsafe extern "C" fn(*mut c_char, *mut c_uint, *mut c_char, c_uint, c_int, c_int, c_int) -> c_int;

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libbz2.so.1.0\0";
const FUNCTION: &str = "BZ2_bzBuffToBuffCompress\0";

/// The result of the system's function, if there is one.
pub unsafe fn compress(
    dest: *mut c_char,
    dest_len: *mut c_uint,
    source: *mut c_char,
    source_len: c_uint,
    level: c_int,
    verbosity: c_int,
    work: c_int,
) -> Option<c_int> {
    let library = dlopen(LIBRARY.as_ptr().cast(), 2);
    if library.is_null() {
        return None;
    }
    let found = dlsym(library, FUNCTION.as_ptr().cast());
    if found.is_null() {
        return None;
    }
    let called: Compress = std::mem::transmute(found);
    Some(called(dest, dest_len, source, source_len, level, verbosity, work))
}
