//! One input in a thousand.

use std::os::raw::{c_char, c_int};

extern "C" {
    pub fn core_bzip2_main(argc: c_int, argv: *const *const c_char) -> c_int;
}

const ONE_IN: u64 = 1000;

/// Whether an input, here a command line, is one of them.
pub fn chosen(words: impl Iterator<Item = Vec<u8>>) -> bool {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for word in words {
        for &byte in word.iter().chain(b"\x1f") {
            state = (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    state % ONE_IN == 0
}
