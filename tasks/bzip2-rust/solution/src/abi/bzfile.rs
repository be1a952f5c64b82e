//! The functions on `BZFILE`, and the handles through which the commands use them.

use super::stream::*;
use super::{free, malloc, BzStream};
use crate::sys::{File, Stream};
use crate::tables::*;
use std::marker::PhantomData;
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::{mem, ptr, slice};

extern "C" {
    static mut stdin: *mut File;
    static mut stdout: *mut File;

    fn fopen(path: *const c_char, mode: *const c_char) -> *mut File;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut File;
    fn fclose(stream: *mut File) -> c_int;
    fn fflush(stream: *mut File) -> c_int;
    fn ferror(stream: *mut File) -> c_int;
    fn fgetc(stream: *mut File) -> c_int;
    fn ungetc(byte: c_int, stream: *mut File) -> c_int;
    fn fread(data: *mut c_void, size: usize, count: usize, stream: *mut File) -> usize;
    fn fwrite(data: *const c_void, size: usize, count: usize, stream: *mut File) -> usize;
}

const MAX_CHUNK: u32 = MAX_UNUSED as u32;

pub struct BzFile {
    handle: *mut File,
    buffer: [u8; MAX_UNUSED],
    writing: bool,
    strm: BzStream,
    last_error: c_int,
}

/// Leaves a result both where the caller wants it and in the handle.
unsafe fn set_error(target: *mut c_int, file: *mut BzFile, code: c_int) {
    if !target.is_null() {
        *target = code;
    }
    if !file.is_null() {
        (*file).last_error = code;
    }
}

unsafe fn at_end(handle: *mut File) -> bool {
    let byte = fgetc(handle);
    if byte == -1 {
        return true;
    }
    ungetc(byte, handle);
    false
}

/// A handle without a codec yet; null if there is no memory.
unsafe fn new_file(handle: *mut File, writing: bool) -> *mut BzFile {
    let file = malloc(mem::size_of::<BzFile>()).cast::<BzFile>();
    if let Some(file) = file.as_mut() {
        ptr::addr_of_mut!(file.strm).write_bytes(0, 1);
        file.handle = handle;
        file.writing = writing;
        file.last_error = BZ_OK;
    }
    file
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzWriteOpen(
    error: *mut c_int,
    handle: *mut File,
    block_size_100k: c_int,
    verbosity: c_int,
    work_factor: c_int,
) -> *mut BzFile {
    let none = ptr::null_mut();
    set_error(error, none, BZ_OK);
    if handle.is_null()
        || !(1..=9).contains(&block_size_100k)
        || !(0..=250).contains(&work_factor)
        || !(0..=4).contains(&verbosity)
    {
        set_error(error, none, BZ_PARAM_ERROR);
        return none;
    }
    if ferror(handle) != 0 {
        set_error(error, none, BZ_IO_ERROR);
        return none;
    }
    let file = new_file(handle, true);
    if file.is_null() {
        set_error(error, none, BZ_MEM_ERROR);
        return none;
    }
    let strm = ptr::addr_of_mut!((*file).strm);
    let code = BZ2_bzCompressInit(strm, block_size_100k, verbosity, work_factor);
    if code != BZ_OK {
        set_error(error, none, code);
        free(file.cast());
        return none;
    }
    file
}

/// Passes what the compressor produced on to the file.
unsafe fn write_out(file: &mut BzFile) -> bool {
    let count = (MAX_CHUNK - file.strm.avail_out) as usize;
    if count == 0 {
        return true;
    }
    let written = fwrite(file.buffer.as_ptr().cast(), 1, count, file.handle);
    written == count && ferror(file.handle) == 0
}

unsafe fn compress_some(file: *mut BzFile, action: c_int) -> c_int {
    (*file).strm.avail_out = MAX_CHUNK;
    (*file).strm.next_out = ptr::addr_of_mut!((*file).buffer).cast();
    BZ2_bzCompress(ptr::addr_of_mut!((*file).strm), action)
}

unsafe fn write(file: *mut BzFile, data: *mut c_void, len: c_int) -> c_int {
    if file.is_null() || data.is_null() || len < 0 {
        return BZ_PARAM_ERROR;
    }
    if !(*file).writing {
        return BZ_SEQUENCE_ERROR;
    }
    if ferror((*file).handle) != 0 {
        return BZ_IO_ERROR;
    }
    if len == 0 {
        return BZ_OK;
    }
    (*file).strm.avail_in = len as u32;
    (*file).strm.next_in = data.cast();
    loop {
        let code = compress_some(file, BZ_RUN);
        if code != BZ_RUN_OK {
            return code;
        }
        if !write_out(&mut *file) {
            return BZ_IO_ERROR;
        }
        if (*file).strm.avail_in == 0 {
            return BZ_OK;
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzWrite(
    error: *mut c_int,
    file: *mut BzFile,
    data: *mut c_void,
    len: c_int,
) {
    set_error(error, file, BZ_OK);
    let code = write(file, data, len);
    set_error(error, file, code);
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzWriteClose(
    error: *mut c_int,
    file: *mut BzFile,
    abandon: c_int,
    bytes_in: *mut c_uint,
    bytes_out: *mut c_uint,
) {
    let none = ptr::null_mut();
    BZ2_bzWriteClose64(error, file, abandon, bytes_in, none, bytes_out, none);
}

unsafe fn store(target: *mut c_uint, value: u32) {
    if !target.is_null() {
        *target = value;
    }
}

/// Completes the stream, unless it is abandoned, and flushes the file.
unsafe fn finish_writing(file: *mut BzFile, abandon: bool) -> c_int {
    if !abandon && (*file).last_error == BZ_OK {
        loop {
            let code = compress_some(file, BZ_FINISH);
            if code != BZ_FINISH_OK && code != BZ_STREAM_END {
                return code;
            }
            if !write_out(&mut *file) {
                return BZ_IO_ERROR;
            }
            if code == BZ_STREAM_END {
                break;
            }
        }
    }
    if !abandon && ferror((*file).handle) == 0 {
        fflush((*file).handle);
        if ferror((*file).handle) != 0 {
            return BZ_IO_ERROR;
        }
    }
    BZ_OK
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzWriteClose64(
    error: *mut c_int,
    file: *mut BzFile,
    abandon: c_int,
    bytes_in_lo32: *mut c_uint,
    bytes_in_hi32: *mut c_uint,
    bytes_out_lo32: *mut c_uint,
    bytes_out_hi32: *mut c_uint,
) {
    if file.is_null() {
        set_error(error, file, BZ_OK);
        return;
    }
    if !(*file).writing {
        set_error(error, file, BZ_SEQUENCE_ERROR);
        return;
    }
    if ferror((*file).handle) != 0 {
        set_error(error, file, BZ_IO_ERROR);
        return;
    }
    store(bytes_in_lo32, 0);
    store(bytes_in_hi32, 0);
    store(bytes_out_lo32, 0);
    store(bytes_out_hi32, 0);

    let code = finish_writing(file, abandon != 0);
    if code != BZ_OK {
        set_error(error, file, code);
        return;
    }
    let strm = &(*file).strm;
    store(bytes_in_lo32, strm.total_in_lo32);
    store(bytes_in_hi32, strm.total_in_hi32);
    store(bytes_out_lo32, strm.total_out_lo32);
    store(bytes_out_hi32, strm.total_out_hi32);

    set_error(error, file, BZ_OK);
    BZ2_bzCompressEnd(ptr::addr_of_mut!((*file).strm));
    free(file.cast());
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzReadOpen(
    error: *mut c_int,
    handle: *mut File,
    verbosity: c_int,
    small: c_int,
    unused: *mut c_void,
    n_unused: c_int,
) -> *mut BzFile {
    let none = ptr::null_mut();
    set_error(error, none, BZ_OK);
    let unused_ok = if unused.is_null() {
        n_unused == 0
    } else {
        (0..=MAX_UNUSED as c_int).contains(&n_unused)
    };
    if handle.is_null()
        || !(0..=1).contains(&small)
        || !(0..=4).contains(&verbosity)
        || !unused_ok
    {
        set_error(error, none, BZ_PARAM_ERROR);
        return none;
    }
    if ferror(handle) != 0 {
        set_error(error, none, BZ_IO_ERROR);
        return none;
    }
    let file = new_file(handle, false);
    if file.is_null() {
        set_error(error, none, BZ_MEM_ERROR);
        return none;
    }
    let buffer = ptr::addr_of_mut!((*file).buffer).cast::<u8>();
    if n_unused > 0 {
        ptr::copy(unused.cast::<u8>(), buffer, n_unused as usize);
    }
    let code = BZ2_bzDecompressInit(ptr::addr_of_mut!((*file).strm), verbosity, small);
    if code != BZ_OK {
        set_error(error, none, code);
        free(file.cast());
        return none;
    }
    (*file).strm.avail_in = n_unused as u32;
    (*file).strm.next_in = buffer.cast();
    file
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzReadClose(error: *mut c_int, file: *mut BzFile) {
    set_error(error, file, BZ_OK);
    if file.is_null() {
        return;
    }
    if (*file).writing {
        set_error(error, file, BZ_SEQUENCE_ERROR);
        return;
    }
    BZ2_bzDecompressEnd(ptr::addr_of_mut!((*file).strm));
    free(file.cast());
}

/// Returns the code and the number of bytes for the caller.
unsafe fn read(file: *mut BzFile, data: *mut c_void, len: c_int) -> (c_int, c_int) {
    if file.is_null() || data.is_null() || len < 0 {
        return (BZ_PARAM_ERROR, 0);
    }
    if (*file).writing {
        return (BZ_SEQUENCE_ERROR, 0);
    }
    if len == 0 {
        return (BZ_OK, 0);
    }
    let handle = (*file).handle;
    let buffer = ptr::addr_of_mut!((*file).buffer).cast::<c_void>();
    let strm = ptr::addr_of_mut!((*file).strm);
    (*strm).avail_out = len as u32;
    (*strm).next_out = data.cast();
    loop {
        if ferror(handle) != 0 {
            return (BZ_IO_ERROR, 0);
        }
        if (*strm).avail_in == 0 && !at_end(handle) {
            let count = fread(buffer, 1, MAX_UNUSED, handle);
            if ferror(handle) != 0 {
                return (BZ_IO_ERROR, 0);
            }
            (*strm).avail_in = count as u32;
            (*strm).next_in = buffer.cast();
        }
        let code = BZ2_bzDecompress(strm);
        if code != BZ_OK && code != BZ_STREAM_END {
            return (code, 0);
        }
        if code == BZ_OK
            && at_end(handle)
            && (*strm).avail_in == 0
            && (*strm).avail_out > 0
        {
            return (BZ_UNEXPECTED_EOF, 0);
        }
        if code == BZ_STREAM_END {
            return (BZ_STREAM_END, len - (*strm).avail_out as c_int);
        }
        if (*strm).avail_out == 0 {
            return (BZ_OK, len);
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzRead(
    error: *mut c_int,
    file: *mut BzFile,
    data: *mut c_void,
    len: c_int,
) -> c_int {
    set_error(error, file, BZ_OK);
    let (code, count) = read(file, data, len);
    set_error(error, file, code);
    count
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzReadGetUnused(
    error: *mut c_int,
    file: *mut BzFile,
    unused: *mut *mut c_void,
    n_unused: *mut c_int,
) {
    if file.is_null() {
        set_error(error, file, BZ_PARAM_ERROR);
    } else if (*file).last_error != BZ_STREAM_END {
        set_error(error, file, BZ_SEQUENCE_ERROR);
    } else if unused.is_null() || n_unused.is_null() {
        set_error(error, file, BZ_PARAM_ERROR);
    } else {
        set_error(error, file, BZ_OK);
        *n_unused = (*file).strm.avail_in as c_int;
        *unused = (*file).strm.next_in.cast();
    }
}

/// What a mode string like "w9" or "rs" asks for.
struct Mode {
    writing: bool,
    small: bool,
    level: c_int,
}

unsafe fn parse_mode(mut mode: *const c_char) -> Mode {
    let mut parsed = Mode { writing: false, small: false, level: 9 };
    while *mode != 0 {
        match *mode as u8 {
            b'r' => parsed.writing = false,
            b'w' => parsed.writing = true,
            b's' => parsed.small = true,
            digit @ b'0'..=b'9' => parsed.level = c_int::from(digit - b'0'),
            _ => {}
        }
        mode = mode.add(1);
    }
    parsed
}

fn stdio_mode(writing: bool) -> *const c_char {
    let mode: &[u8] = if writing { b"wb\0" } else { b"rb\0" };
    mode.as_ptr().cast()
}

unsafe fn is_standard(handle: *mut File) -> bool {
    handle == stdin || handle == stdout
}

unsafe fn open_on(handle: *mut File, mode: &Mode) -> *mut BzFile {
    if handle.is_null() {
        return ptr::null_mut();
    }
    let none = ptr::null_mut();
    let file = if mode.writing {
        BZ2_bzWriteOpen(none, handle, mode.level.max(1), 0, 30)
    } else {
        BZ2_bzReadOpen(none, handle, 0, c_int::from(mode.small), ptr::null_mut(), 0)
    };
    if file.is_null() && !is_standard(handle) {
        fclose(handle);
    }
    file
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzopen(path: *const c_char, mode: *const c_char) -> *mut BzFile {
    if mode.is_null() {
        return ptr::null_mut();
    }
    let mode = parse_mode(mode);
    let handle = if !path.is_null() && *path != 0 {
        fopen(path, stdio_mode(mode.writing))
    } else if mode.writing {
        stdout
    } else {
        stdin
    };
    open_on(handle, &mode)
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzdopen(fd: c_int, mode: *const c_char) -> *mut BzFile {
    if mode.is_null() {
        return ptr::null_mut();
    }
    let mode = parse_mode(mode);
    open_on(fdopen(fd, stdio_mode(mode.writing)), &mode)
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzread(file: *mut BzFile, data: *mut c_void, len: c_int) -> c_int {
    if (*file).last_error == BZ_STREAM_END {
        return 0;
    }
    let mut code = BZ_OK;
    let count = BZ2_bzRead(&mut code, file, data, len);
    if code == BZ_OK || code == BZ_STREAM_END {
        count
    } else {
        -1
    }
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzwrite(
    file: *mut BzFile,
    data: *mut c_void,
    len: c_int,
) -> c_int {
    let mut code = BZ_OK;
    BZ2_bzWrite(&mut code, file, data, len);
    if code == BZ_OK {
        len
    } else {
        -1
    }
}

#[no_mangle]
pub extern "C" fn BZ2_bzflush(_file: *mut BzFile) -> c_int {
    0
}

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzclose(file: *mut BzFile) {
    if file.is_null() {
        return;
    }
    let none = ptr::null_mut();
    let handle = (*file).handle;
    if (*file).writing {
        let mut code = BZ_OK;
        BZ2_bzWriteClose(&mut code, file, 0, none, none);
        if code != BZ_OK {
            BZ2_bzWriteClose(ptr::null_mut(), file, 1, none, none);
        }
    } else {
        BZ2_bzReadClose(ptr::null_mut(), file);
    }
    if !is_standard(handle) {
        fclose(handle);
    }
}

static ERROR_NAMES: [&[u8]; 10] = [
    b"OK\0",
    b"SEQUENCE_ERROR\0",
    b"PARAM_ERROR\0",
    b"MEM_ERROR\0",
    b"DATA_ERROR\0",
    b"DATA_ERROR_MAGIC\0",
    b"IO_ERROR\0",
    b"UNEXPECTED_EOF\0",
    b"OUTBUFF_FULL\0",
    b"CONFIG_ERROR\0",
];

#[no_mangle]
pub unsafe extern "C" fn BZ2_bzerror(file: *mut BzFile, number: *mut c_int) -> *const c_char {
    let code = (*file).last_error.min(BZ_OK);
    *number = code;
    let name = ERROR_NAMES.get(code.unsigned_abs() as usize).copied().unwrap_or(b"???\0");
    name.as_ptr().cast()
}

/// Byte counts of a finished stream.
#[derive(Clone, Copy, Default)]
pub struct Totals {
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// Compresses to a stdio stream; for the commands.
pub struct Writer<'a> {
    file: *mut BzFile,
    stream: PhantomData<&'a Stream>,
}

impl<'a> Writer<'a> {
    pub fn open(
        stream: &'a Stream,
        level: i32,
        verbosity: i32,
        work_factor: i32,
    ) -> Result<Writer<'a>, i32> {
        let mut code = BZ_OK;
        let file = unsafe {
            BZ2_bzWriteOpen(&mut code, stream.as_raw(), level, verbosity, work_factor)
        };
        if code == BZ_OK {
            Ok(Writer { file, stream: PhantomData })
        } else {
            Err(code)
        }
    }

    pub fn write(&mut self, data: &[u8]) -> Result<(), i32> {
        let mut code = BZ_OK;
        let start = data.as_ptr() as *mut c_void;
        unsafe { BZ2_bzWrite(&mut code, self.file, start, data.len() as c_int) };
        if code == BZ_OK {
            Ok(())
        } else {
            Err(code)
        }
    }

    /// Completes the stream. On failure the handle is lost, as the process then ends.
    pub fn close(self) -> Result<Totals, i32> {
        let mut code = BZ_OK;
        let (mut in_lo, mut in_hi, mut out_lo, mut out_hi) = (0, 0, 0, 0);
        unsafe {
            BZ2_bzWriteClose64(
                &mut code,
                self.file,
                0,
                &mut in_lo,
                &mut in_hi,
                &mut out_lo,
                &mut out_hi,
            );
        }
        if code != BZ_OK {
            return Err(code);
        }
        Ok(Totals {
            bytes_in: u64::from(in_hi) << 32 | u64::from(in_lo),
            bytes_out: u64::from(out_hi) << 32 | u64::from(out_lo),
        })
    }
}

/// Decompresses from a stdio stream; for the commands.
pub struct Reader<'a> {
    file: *mut BzFile,
    stream: PhantomData<&'a Stream>,
}

impl<'a> Reader<'a> {
    /// `unused` is what the previous reader took from the stream too much.
    pub fn open(
        stream: &'a Stream,
        verbosity: i32,
        small: bool,
        unused: &[u8],
    ) -> Result<Reader<'a>, i32> {
        let mut code = BZ_OK;
        let file = unsafe {
            BZ2_bzReadOpen(
                &mut code,
                stream.as_raw(),
                verbosity,
                c_int::from(small),
                unused.as_ptr() as *mut c_void,
                unused.len() as c_int,
            )
        };
        if code == BZ_OK {
            Ok(Reader { file, stream: PhantomData })
        } else {
            Err(code)
        }
    }

    /// Returns the code of the library and how many bytes are valid.
    pub fn read(&mut self, data: &mut [u8]) -> (i32, usize) {
        let mut code = BZ_OK;
        let start = data.as_mut_ptr().cast();
        let count = unsafe { BZ2_bzRead(&mut code, self.file, start, data.len() as c_int) };
        (code, count as usize)
    }

    /// What was read beyond the end of the compressed stream.
    pub fn take_unused(&mut self) -> Result<Vec<u8>, i32> {
        let mut code = BZ_OK;
        let mut start = ptr::null_mut();
        let mut len = 0;
        unsafe {
            BZ2_bzReadGetUnused(&mut code, self.file, &mut start, &mut len);
            if code != BZ_OK {
                return Err(code);
            }
            if len <= 0 {
                return Ok(Vec::new());
            }
            Ok(slice::from_raw_parts(start.cast::<u8>(), len as usize).to_vec())
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        unsafe { BZ2_bzReadClose(ptr::null_mut(), self.file) };
    }
}
