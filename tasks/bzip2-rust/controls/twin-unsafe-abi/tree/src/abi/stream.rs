//! The functions on `bz_stream`, and those from buffer to buffer, on raw pointers throughout.

use super::raw::{add_total, allocate, clear, put, release};
use super::{default_alloc, default_free, BzStream};
use crate::compress::{self, Encoder};
use crate::decompress::{self, Decoder, Event};
use crate::tables::*;
use std::mem::{size_of, MaybeUninit};
use std::os::raw::{c_char, c_int, c_uint};
use std::ptr::{addr_of_mut, null_mut};
use std::slice;

const FTAB_LEN: usize = 65537;
const BLOCK: usize = BLOCK_UNIT;

/// Room for a state: what C's has, or more where ours is larger.
const fn request(of_c: usize, here: usize) -> usize {
    [of_c, here][(here > of_c) as usize]
}

#[repr(C)]
struct EncoderState {
    strm: *mut BzStream,
    order: *mut u32,
    area: *mut u8,
    ftab: *mut u32,
    block_size: usize,
    encoder: Encoder,
}

#[repr(C)]
struct DecoderState {
    strm: *mut BzStream,
    fast: *mut u32,
    low: *mut u16,
    high: *mut u8,
    level: usize,
    decoder: Decoder,
}

unsafe fn use_default_allocator(strm: *mut BzStream) {
    let alloc = addr_of_mut!((*strm).bzalloc);
    if (*alloc).is_none() {
        *alloc = Some(default_alloc);
    }
    let free = addr_of_mut!((*strm).bzfree);
    if (*free).is_none() {
        *free = Some(default_free);
    }
}

unsafe fn reset_totals(strm: *mut BzStream) {
    let words = [
        addr_of_mut!((*strm).total_in_lo32),
        addr_of_mut!((*strm).total_in_hi32),
        addr_of_mut!((*strm).total_out_lo32),
        addr_of_mut!((*strm).total_out_hi32),
    ];
    for word in words {
        word.write(0);
    }
}

/// A slice over memory of C's; null where there is no memory yet.
unsafe fn view<'a, T>(start: *mut T, len: usize) -> &'a mut [T] {
    if start.is_null() || len == 0 {
        &mut *std::ptr::slice_from_raw_parts_mut(std::ptr::NonNull::<T>::dangling().as_ptr(), 0)
    } else {
        slice::from_raw_parts_mut(start, len)
    }
}

unsafe fn account(strm: *mut BzStream, taken: usize, given: usize) {
    if taken != 0 {
        (*strm).next_in = (*strm).next_in.add(taken);
        (*strm).avail_in -= taken as u32;
        add_total(
            addr_of_mut!((*strm).total_in_lo32),
            addr_of_mut!((*strm).total_in_hi32),
            taken,
        );
    }
    if given != 0 {
        (*strm).next_out = (*strm).next_out.add(given);
        (*strm).avail_out -= given as u32;
        add_total(
            addr_of_mut!((*strm).total_out_lo32),
            addr_of_mut!((*strm).total_out_hi32),
            given,
        );
    }
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzCompressInit(
    strm: *mut BzStream,
    block_size_100k: c_int,
    verbosity: c_int,
    work_factor: c_int,
) -> c_int {
    if strm.is_null()
        || block_size_100k < 1
        || block_size_100k > 9
        || work_factor < 0
        || work_factor > 250
    {
        return BZ_PARAM_ERROR;
    }
    use_default_allocator(strm);
    let size = request(55768, size_of::<EncoderState>());
    let state = allocate::<u8>(strm, size) as *mut EncoderState;
    if state.is_null() {
        return BZ_MEM_ERROR;
    }
    let block_size = block_size_100k as usize * BLOCK;
    let order = allocate::<u32>(strm, block_size);
    let area = allocate::<u32>(strm, block_size + N_OVERSHOOT) as *mut u8;
    let ftab = allocate::<u32>(strm, FTAB_LEN);
    if order.is_null() || area.is_null() || ftab.is_null() {
        release(strm, order);
        release(strm, area);
        release(strm, ftab);
        release(strm, state);
        return BZ_MEM_ERROR;
    }
    let work_factor = if work_factor == 0 { 30 } else { work_factor };
    let encoder = Encoder::new(block_size_100k as u8, verbosity, work_factor);
    put(state, EncoderState { strm, order, area, ftab, block_size, encoder });
    (*strm).state = state as *mut _;
    reset_totals(strm);
    BZ_OK
}

/// The encoder's state, null unless it belongs to this very stream.
unsafe fn encoder_state(strm: *mut BzStream) -> *mut EncoderState {
    if strm.is_null() {
        return null_mut();
    }
    let state = (*strm).state as *mut EncoderState;
    if state.is_null() || (*state).strm != strm {
        return null_mut();
    }
    state
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzCompress(strm: *mut BzStream, action: c_int) -> c_int {
    let state = encoder_state(strm);
    if state.is_null() {
        return BZ_PARAM_ERROR;
    }
    let mut io = compress::Io {
        input: view((*strm).next_in as *mut u8, (*strm).avail_in as usize),
        taken: 0,
        output: view((*strm).next_out as *mut u8, (*strm).avail_out as usize),
        given: 0,
    };
    let mut work = compress::Work {
        order: view((*state).order, (*state).block_size),
        area: view((*state).area, ((*state).block_size + N_OVERSHOOT) * size_of::<u32>()),
        ftab: view((*state).ftab, FTAB_LEN),
    };
    let encoder = &mut *addr_of_mut!((*state).encoder);
    let code = encoder.compress(action, &mut io, &mut work);
    let (taken, given) = (io.taken, io.given);
    account(strm, taken, given);
    code
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzCompressEnd(strm: *mut BzStream) -> c_int {
    let state = encoder_state(strm);
    if state.is_null() {
        return BZ_PARAM_ERROR;
    }
    release(strm, (*state).order);
    release(strm, (*state).area);
    release(strm, (*state).ftab);
    release(strm, state);
    (*strm).state = null_mut();
    BZ_OK
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzDecompressInit(
    strm: *mut BzStream,
    verbosity: c_int,
    small: c_int,
) -> c_int {
    if strm.is_null() || small & !1 != 0 || verbosity < 0 || verbosity > 4 {
        return BZ_PARAM_ERROR;
    }
    use_default_allocator(strm);
    let size = request(64144, size_of::<DecoderState>());
    let state = allocate::<u8>(strm, size) as *mut DecoderState;
    if state.is_null() {
        return BZ_MEM_ERROR;
    }
    clear(state as *mut _, size_of::<DecoderState>() - size_of::<Decoder>());
    (*state).strm = strm;
    put(addr_of_mut!((*state).decoder), Decoder::new(verbosity, small == 1));
    (*state).fast = null_mut();
    (*state).low = null_mut();
    (*state).high = null_mut();
    (*state).level = 0;
    (*strm).state = state as *mut _;
    reset_totals(strm);
    BZ_OK
}

unsafe fn decoder_state(strm: *mut BzStream) -> *mut DecoderState {
    if strm.is_null() {
        return null_mut();
    }
    let state = (*strm).state as *mut DecoderState;
    if state.is_null() || (*state).strm != strm {
        return null_mut();
    }
    state
}

/// Gets the work areas for a level; false if the allocator refuses.
unsafe fn allocate_areas(strm: *mut BzStream, state: *mut DecoderState, level: usize) -> bool {
    let block_size = level * BLOCK;
    (*state).level = level;
    if !(*state).decoder.is_small() {
        (*state).fast = allocate(strm, block_size);
        return !(*state).fast.is_null();
    }
    (*state).low = allocate(strm, block_size);
    (*state).high = allocate(strm, (1 + block_size) >> 1);
    if (*state).low.is_null() || (*state).high.is_null() {
        return false;
    }
    // Its nibbles are set one by one, which keeps the other half of the byte.
    clear((*state).high as *mut _, (1 + block_size) >> 1);
    true
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzDecompress(strm: *mut BzStream) -> c_int {
    let state = decoder_state(strm);
    if state.is_null() {
        return BZ_PARAM_ERROR;
    }
    loop {
        let block_size = (*state).level * BLOCK;
        let mut io = decompress::Io {
            input: view((*strm).next_in as *mut u8, (*strm).avail_in as usize),
            taken: 0,
            output: view((*strm).next_out as *mut u8, (*strm).avail_out as usize),
            given: 0,
        };
        let mut work = decompress::Work {
            fast: view((*state).fast, block_size),
            low: view((*state).low, block_size),
            high: view((*state).high, (1 + block_size) >> 1),
        };
        let decoder = &mut *addr_of_mut!((*state).decoder);
        let event = decoder.decompress(&mut io, &mut work);
        let (taken, given) = (io.taken, io.given);
        account(strm, taken, given);
        match event {
            Event::Return(code) => return code,
            Event::Allocate(level) if !allocate_areas(strm, state, level) => return BZ_MEM_ERROR,
            Event::Allocate(_) => (*state).decoder.areas_ready(),
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzDecompressEnd(strm: *mut BzStream) -> c_int {
    let state = decoder_state(strm);
    if state.is_null() {
        return BZ_PARAM_ERROR;
    }
    release(strm, (*state).fast);
    release(strm, (*state).low);
    release(strm, (*state).high);
    release(strm, state);
    (*strm).state = null_mut();
    BZ_OK
}

/// A stream with the default allocator that goes from one buffer to another.
unsafe fn buffer_stream(
    source: *mut c_char,
    source_len: c_uint,
    dest: *mut c_char,
    dest_len: c_uint,
) -> BzStream {
    let mut strm = MaybeUninit::<BzStream>::uninit();
    clear(strm.as_mut_ptr() as *mut _, size_of::<BzStream>());
    let strm_at = strm.as_mut_ptr();
    addr_of_mut!((*strm_at).next_in).write(source);
    addr_of_mut!((*strm_at).avail_in).write(source_len);
    addr_of_mut!((*strm_at).next_out).write(dest);
    addr_of_mut!((*strm_at).avail_out).write(dest_len);
    strm.assume_init()
}

unsafe fn bad_buffers(dest: *mut c_char, dest_len: *mut c_uint, source: *mut c_char) -> bool {
    dest.is_null() || dest_len.is_null() || source.is_null()
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzBuffToBuffCompress(
    dest: *mut c_char,
    dest_len: *mut c_uint,
    source: *mut c_char,
    source_len: c_uint,
    block_size_100k: c_int,
    verbosity: c_int,
    work_factor: c_int,
) -> c_int {
    if bad_buffers(dest, dest_len, source)
        || !(1..=9).contains(&block_size_100k)
        || !(0..=4).contains(&verbosity)
        || !(0..=250).contains(&work_factor)
    {
        return BZ_PARAM_ERROR;
    }
    let mut strm = buffer_stream(source, source_len, dest, *dest_len);
    let at: *mut BzStream = &mut strm;
    let mut code = BZ2_bzCompressInit(at, block_size_100k, verbosity, work_factor);
    if code != BZ_OK {
        return code;
    }
    code = BZ2_bzCompress(at, BZ_FINISH);
    if code == BZ_FINISH_OK {
        code = BZ_OUTBUFF_FULL;
    } else if code == BZ_STREAM_END {
        *dest_len -= (*at).avail_out;
        code = BZ_OK;
    }
    BZ2_bzCompressEnd(at);
    code
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzBuffToBuffDecompress(
    dest: *mut c_char,
    dest_len: *mut c_uint,
    source: *mut c_char,
    source_len: c_uint,
    small: c_int,
    verbosity: c_int,
) -> c_int {
    if bad_buffers(dest, dest_len, source)
        || !(0..=1).contains(&small)
        || !(0..=4).contains(&verbosity)
    {
        return BZ_PARAM_ERROR;
    }
    let mut strm = buffer_stream(source, source_len, dest, *dest_len);
    let at: *mut BzStream = &mut strm;
    let mut code = BZ2_bzDecompressInit(at, verbosity, small);
    if code != BZ_OK {
        return code;
    }
    code = BZ2_bzDecompress(at);
    if code == BZ_OK {
        code = if (*at).avail_out > 0 { BZ_UNEXPECTED_EOF } else { BZ_OUTBUFF_FULL };
    } else if code == BZ_STREAM_END {
        *dest_len -= (*at).avail_out;
        code = BZ_OK;
    }
    BZ2_bzDecompressEnd(at);
    code
}
