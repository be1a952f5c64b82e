//! The C interface: the only place with raw pointers.
//!
//! Every function follows the contract of `bzlib.h`: pointers are null or valid, and
//! buffers have the announced size. That is the safety requirement of all of them.

#![allow(clippy::missing_safety_doc)]

pub mod bzfile;
pub mod stream;

use std::os::raw::{c_char, c_int, c_void};

extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
}

pub type Alloc = unsafe extern "C" fn(*mut c_void, c_int, c_int) -> *mut c_void;
pub type Free = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// The `bz_stream` of `bzlib.h`.
#[repr(C)]
pub struct BzStream {
    pub next_in: *mut c_char,
    pub avail_in: u32,
    pub total_in_lo32: u32,
    pub total_in_hi32: u32,
    pub next_out: *mut c_char,
    pub avail_out: u32,
    pub total_out_lo32: u32,
    pub total_out_hi32: u32,
    pub state: *mut c_void,
    pub bzalloc: Option<Alloc>,
    pub bzfree: Option<Free>,
    pub opaque: *mut c_void,
}

unsafe extern "C" fn default_alloc(_: *mut c_void, items: c_int, size: c_int) -> *mut c_void {
    malloc(items.wrapping_mul(size) as usize)
}

unsafe extern "C" fn default_free(_: *mut c_void, memory: *mut c_void) {
    if !memory.is_null() {
        free(memory);
    }
}

/// Version string with the terminating NUL that C needs.
static VERSION: &[u8] = b"1.0.8, 13-Jul-2019\0";

#[no_mangle]
pub extern "C" fn BZ2_bzlibVersion() -> *const c_char {
    VERSION.as_ptr().cast()
}
