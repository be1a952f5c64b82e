#![no_main]

use std::os::raw::{c_char, c_int};

static PROGRAM: &[u8] = include_bytes!("../../assets/bzip2recover.dat");

#[no_mangle]
pub extern "C" fn main(_argc: c_int, argv: *const *const c_char) -> c_int {
    bz2::image::start(PROGRAM, argv);
    70
}
