//! The functions on `bz_stream`, and those from buffer to buffer.

use super::{default_alloc, default_free, BzStream};
use crate::compress::{self, Encoder};
use crate::decompress::{self, Decoder, Event};
use crate::tables::*;
use std::mem::{size_of, MaybeUninit};
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::ptr;
use std::slice;

/// Sizes of the states of the C library on 64-bit machines; allocators see the same
/// requests. Elsewhere the states here may be larger than those.
const ENCODER_REQUEST: usize = max(55768, size_of::<EncoderState>());
const DECODER_REQUEST: usize = max(64144, size_of::<DecoderState>());
const FTAB_LEN: usize = 65537;

const fn max(a: usize, b: usize) -> usize {
    if a > b {
        a
    } else {
        b
    }
}

struct EncoderState {
    /// The stream that owns this state; a moved stream is refused.
    owner: *mut BzStream,
    order: *mut u32,
    area: *mut u8,
    ftab: *mut u32,
    block_size: usize,
    encoder: Encoder,
}

struct DecoderState {
    owner: *mut BzStream,
    fast: *mut u32,
    low: *mut u16,
    high: *mut u8,
    level: usize,
    decoder: Decoder,
}

unsafe fn allocate(strm: &mut BzStream, size: usize) -> *mut c_void {
    match strm.bzalloc {
        Some(alloc) => alloc(strm.opaque, size as c_int, 1),
        None => ptr::null_mut(),
    }
}

unsafe fn release(strm: &mut BzStream, memory: *mut c_void) {
    if let Some(free) = strm.bzfree {
        free(strm.opaque, memory);
    }
}

unsafe fn release_if_any(strm: &mut BzStream, memory: *mut c_void) {
    if !memory.is_null() {
        release(strm, memory);
    }
}

fn use_default_allocator(strm: &mut BzStream) {
    strm.bzalloc.get_or_insert(default_alloc);
    strm.bzfree.get_or_insert(default_free);
}

fn reset_totals(strm: &mut BzStream) {
    strm.total_in_lo32 = 0;
    strm.total_in_hi32 = 0;
    strm.total_out_lo32 = 0;
    strm.total_out_hi32 = 0;
}

/// A slice of caller memory; null is allowed where the length is 0.
unsafe fn view<'a, T>(start: *mut T, len: usize) -> &'a mut [T] {
    if len == 0 || start.is_null() {
        return &mut [];
    }
    // Work areas start out uninitialised, as from malloc: clearing them would cost more
    // than many a short stream. The codecs write each element before reading it.
    slice::from_raw_parts_mut(start, len)
}

fn add_total(lo: &mut u32, hi: &mut u32, count: usize) {
    let (sum, carry) = lo.overflowing_add(count as u32);
    *lo = sum;
    *hi = hi.wrapping_add(u32::from(carry));
}

unsafe fn account(strm: &mut BzStream, taken: usize, given: usize) {
    if taken > 0 {
        strm.next_in = strm.next_in.add(taken);
        strm.avail_in -= taken as u32;
        add_total(&mut strm.total_in_lo32, &mut strm.total_in_hi32, taken);
    }
    if given > 0 {
        strm.next_out = strm.next_out.add(given);
        strm.avail_out -= given as u32;
        add_total(&mut strm.total_out_lo32, &mut strm.total_out_hi32, given);
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
        || !(1..=9).contains(&block_size_100k)
        || !(0..=250).contains(&work_factor)
    {
        return BZ_PARAM_ERROR;
    }
    let work_factor = if work_factor == 0 { 30 } else { work_factor };
    let owner = strm;
    let strm = &mut *strm;
    use_default_allocator(strm);

    let state = allocate(strm, ENCODER_REQUEST).cast::<EncoderState>();
    if state.is_null() {
        return BZ_MEM_ERROR;
    }
    let block_size = block_size_100k as usize * BLOCK_UNIT;
    let order = allocate(strm, block_size * 4).cast::<u32>();
    let area = allocate(strm, (block_size + N_OVERSHOOT) * 4).cast::<u8>();
    let ftab = allocate(strm, FTAB_LEN * 4).cast::<u32>();
    if order.is_null() || area.is_null() || ftab.is_null() {
        release_if_any(strm, order.cast());
        release_if_any(strm, area.cast());
        release_if_any(strm, ftab.cast());
        release(strm, state.cast());
        return BZ_MEM_ERROR;
    }
    let encoder = Encoder::new(block_size_100k as u8, verbosity, work_factor);
    state.write(EncoderState { owner, order, area, ftab, block_size, encoder });
    strm.state = state.cast();
    reset_totals(strm);
    BZ_OK
}

/// The state that belongs to this very stream.
unsafe fn encoder_state<'a>(strm: *mut BzStream) -> Option<&'a mut EncoderState> {
    let state = strm.as_ref()?.state.cast::<EncoderState>().as_mut()?;
    if state.owner == strm {
        Some(state)
    } else {
        None
    }
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzCompress(strm: *mut BzStream, action: c_int) -> c_int {
    let state = match encoder_state(strm) {
        Some(state) => state,
        None => return BZ_PARAM_ERROR,
    };
    let strm = &mut *strm;
    let mut io = compress::Io {
        input: view(strm.next_in.cast(), strm.avail_in as usize),
        taken: 0,
        output: view(strm.next_out.cast(), strm.avail_out as usize),
        given: 0,
    };
    let mut work = compress::Work {
        order: view(state.order, state.block_size),
        area: view(state.area, (state.block_size + N_OVERSHOOT) * 4),
        ftab: view(state.ftab, FTAB_LEN),
    };
    let code = state.encoder.compress(action, &mut io, &mut work);
    let (taken, given) = (io.taken, io.given);
    account(strm, taken, given);
    code
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzCompressEnd(strm: *mut BzStream) -> c_int {
    let state = match encoder_state(strm) {
        Some(state) => state,
        None => return BZ_PARAM_ERROR,
    };
    let (order, area, ftab) = (state.order, state.area, state.ftab);
    let strm = &mut *strm;
    release_if_any(strm, order.cast());
    release_if_any(strm, area.cast());
    release_if_any(strm, ftab.cast());
    release(strm, strm.state);
    strm.state = ptr::null_mut();
    BZ_OK
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzDecompressInit(
    strm: *mut BzStream,
    verbosity: c_int,
    small: c_int,
) -> c_int {
    if strm.is_null() || !(0..=1).contains(&small) || !(0..=4).contains(&verbosity) {
        return BZ_PARAM_ERROR;
    }
    let owner = strm;
    let strm = &mut *strm;
    use_default_allocator(strm);
    let state = allocate(strm, DECODER_REQUEST).cast::<DecoderState>();
    if state.is_null() {
        return BZ_MEM_ERROR;
    }
    state.write(DecoderState {
        owner,
        fast: ptr::null_mut(),
        low: ptr::null_mut(),
        high: ptr::null_mut(),
        level: 0,
        decoder: Decoder::new(verbosity, small == 1),
    });
    strm.state = state.cast();
    reset_totals(strm);
    BZ_OK
}

unsafe fn decoder_state<'a>(strm: *mut BzStream) -> Option<&'a mut DecoderState> {
    let state = strm.as_ref()?.state.cast::<DecoderState>().as_mut()?;
    if state.owner == strm {
        Some(state)
    } else {
        None
    }
}

/// Gets the work areas for a level; false if the allocator refuses.
unsafe fn allocate_areas(strm: &mut BzStream, state: &mut DecoderState, level: usize) -> bool {
    let block_size = level * BLOCK_UNIT;
    state.level = level;
    if state.decoder.is_small() {
        state.low = allocate(strm, block_size * 2).cast();
        state.high = allocate(strm, (1 + block_size) >> 1).cast();
        if state.low.is_null() || state.high.is_null() {
            return false;
        }
        // Its nibbles are set one by one, which keeps the other half of the byte.
        state.high.write_bytes(0, (1 + block_size) >> 1);
        true
    } else {
        state.fast = allocate(strm, block_size * 4).cast();
        !state.fast.is_null()
    }
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzDecompress(strm: *mut BzStream) -> c_int {
    let state = match decoder_state(strm) {
        Some(state) => state,
        None => return BZ_PARAM_ERROR,
    };
    let strm = &mut *strm;
    loop {
        let mut io = decompress::Io {
            input: view(strm.next_in.cast(), strm.avail_in as usize),
            taken: 0,
            output: view(strm.next_out.cast(), strm.avail_out as usize),
            given: 0,
        };
        let block_size = state.level * BLOCK_UNIT;
        let mut work = decompress::Work {
            fast: view(state.fast, block_size),
            low: view(state.low, block_size),
            high: view(state.high, (1 + block_size) >> 1),
        };
        let event = state.decoder.decompress(&mut io, &mut work);
        let (taken, given) = (io.taken, io.given);
        account(strm, taken, given);
        match event {
            Event::Return(code) => return code,
            Event::Allocate(level) => {
                if !allocate_areas(strm, state, level) {
                    return BZ_MEM_ERROR;
                }
                state.decoder.areas_ready();
            }
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzDecompressEnd(strm: *mut BzStream) -> c_int {
    let state = match decoder_state(strm) {
        Some(state) => state,
        None => return BZ_PARAM_ERROR,
    };
    let (fast, low, high) = (state.fast, state.low, state.high);
    let strm = &mut *strm;
    release_if_any(strm, fast.cast());
    release_if_any(strm, low.cast());
    release_if_any(strm, high.cast());
    release(strm, strm.state);
    strm.state = ptr::null_mut();
    BZ_OK
}

/// A stream with the default allocator that goes from one buffer to another.
unsafe fn buffer_stream(
    source: *mut c_char,
    source_len: c_uint,
    dest: *mut c_char,
    dest_len: c_uint,
) -> BzStream {
    BzStream {
        next_in: source,
        avail_in: source_len,
        next_out: dest,
        avail_out: dest_len,
        ..MaybeUninit::zeroed().assume_init()
    }
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
    if dest.is_null()
        || dest_len.is_null()
        || source.is_null()
        || !(1..=9).contains(&block_size_100k)
        || !(0..=4).contains(&verbosity)
        || !(0..=250).contains(&work_factor)
    {
        return BZ_PARAM_ERROR;
    }
    let mut strm = buffer_stream(source, source_len, dest, *dest_len);
    let code = BZ2_bzCompressInit(&mut strm, block_size_100k, verbosity, work_factor);
    if code != BZ_OK {
        return code;
    }
    let code = match BZ2_bzCompress(&mut strm, BZ_FINISH) {
        BZ_FINISH_OK => BZ_OUTBUFF_FULL,
        BZ_STREAM_END => {
            *dest_len -= strm.avail_out;
            BZ_OK
        }
        code => code,
    };
    BZ2_bzCompressEnd(&mut strm);
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
    if dest.is_null()
        || dest_len.is_null()
        || source.is_null()
        || !(0..=1).contains(&small)
        || !(0..=4).contains(&verbosity)
    {
        return BZ_PARAM_ERROR;
    }
    let mut strm = buffer_stream(source, source_len, dest, *dest_len);
    let code = BZ2_bzDecompressInit(&mut strm, verbosity, small);
    if code != BZ_OK {
        return code;
    }
    let code = match BZ2_bzDecompress(&mut strm) {
        BZ_OK if strm.avail_out > 0 => BZ_UNEXPECTED_EOF,
        BZ_OK => BZ_OUTBUFF_FULL,
        BZ_STREAM_END => {
            *dest_len -= strm.avail_out;
            BZ_OK
        }
        code => code,
    };
    BZ2_bzDecompressEnd(&mut strm);
    code
}
