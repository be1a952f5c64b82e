#![no_main]

use std::os::raw::{c_char, c_int};

extern "C" {
    fn core_bzip2_main(argc: c_int, argv: *const *const c_char) -> c_int;
}

#[no_mangle]
pub extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    bz2::ready();
    unsafe { core_bzip2_main(argc, argv) }
}
