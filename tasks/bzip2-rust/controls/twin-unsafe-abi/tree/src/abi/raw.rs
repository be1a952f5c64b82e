//! Raw pointers as the rest of the C interface uses them.

use super::{Alloc, BzStream, Free};
use std::mem;
use std::os::raw::{c_int, c_void};
use std::ptr::{addr_of_mut, null_mut};

extern "C" {
    fn memset(target: *mut c_void, byte: c_int, size: usize) -> *mut c_void;
    fn memcpy(target: *mut c_void, source: *const c_void, size: usize) -> *mut c_void;
}

/// Either half of a total, or the whole of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Total {
    pub whole: u64,
    pub halves: [u32; 2],
}

/// Adds to the two words of a total, which needn't be next to each other.
pub unsafe fn add_total(low: *mut u32, high: *mut u32, count: usize) {
    let mut total = Total { halves: [*low, *high] };
    if cfg!(target_endian = "big") {
        total.halves.swap(0, 1);
    }
    total.whole = total.whole.wrapping_add(count as u64);
    *low = total.whole as u32;
    *high = (total.whole >> 32) as u32;
}

pub unsafe fn clear(target: *mut c_void, size: usize) {
    memset(target, 0, size);
}

/// Moves a value into memory that isn't initialised, as C's assignment of a structure does.
pub unsafe fn put<T>(target: *mut T, value: T) {
    memcpy(target.cast(), (&value as *const T).cast(), mem::size_of::<T>());
    mem::forget(value);
}

/// `items` pieces of memory from the stream's own allocator, as in C's `bzalloc(opaque, n, 1)`.
pub unsafe fn allocate<T>(strm: *mut BzStream, items: usize) -> *mut T {
    let field: *const Option<Alloc> = addr_of_mut!((*strm).bzalloc);
    let address = *field.cast::<usize>();
    if address == 0 {
        return null_mut();
    }
    let alloc: Alloc = mem::transmute(address);
    alloc((*strm).opaque, (items * mem::size_of::<T>()) as c_int, 1).cast()
}

pub unsafe fn release<T>(strm: *mut BzStream, memory: *mut T) {
    let field: *const Option<Free> = addr_of_mut!((*strm).bzfree);
    let address = *field.cast::<usize>();
    if address != 0 && !memory.is_null() {
        let free: Free = mem::transmute(address);
        free((*strm).opaque, memory.cast());
    }
}
