//! The functions of `bzlib.h`, handed to a macro one by one: name, name in the core, arguments, result.

use std::os::raw::{c_char, c_int, c_uint, c_void};

pub type Stream = *mut c_void;
pub type File = *mut c_void;
pub type Number = *mut c_int;
pub type Count = *mut c_uint;
pub type Text = *const c_char;

macro_rules! for_each_function {
    ($with:ident) => {
        $with! {
            BZ2_bzCompressInit = core_BZ2_bzCompressInit(s: Stream, level: c_int, verbosity: c_int, work: c_int) -> c_int;
            BZ2_bzCompress = core_BZ2_bzCompress(s: Stream, action: c_int) -> c_int;
            BZ2_bzCompressEnd = core_BZ2_bzCompressEnd(s: Stream) -> c_int;
            BZ2_bzDecompressInit = core_BZ2_bzDecompressInit(s: Stream, verbosity: c_int, small: c_int) -> c_int;
            BZ2_bzDecompress = core_BZ2_bzDecompress(s: Stream) -> c_int;
            BZ2_bzDecompressEnd = core_BZ2_bzDecompressEnd(s: Stream) -> c_int;
            BZ2_bzReadOpen = core_BZ2_bzReadOpen(e: Number, f: File, verbosity: c_int, small: c_int, rest: File, n: c_int) -> File;
            BZ2_bzReadClose = core_BZ2_bzReadClose(e: Number, b: File) -> ();
            BZ2_bzReadGetUnused = core_BZ2_bzReadGetUnused(e: Number, b: File, rest: File, n: Number) -> ();
            BZ2_bzRead = core_BZ2_bzRead(e: Number, b: File, data: File, len: c_int) -> c_int;
            BZ2_bzWriteOpen = core_BZ2_bzWriteOpen(e: Number, f: File, level: c_int, verbosity: c_int, work: c_int) -> File;
            BZ2_bzWrite = core_BZ2_bzWrite(e: Number, b: File, data: File, len: c_int) -> ();
            BZ2_bzWriteClose = core_BZ2_bzWriteClose(e: Number, b: File, abandon: c_int, read: Count, wrote: Count) -> ();
            BZ2_bzWriteClose64 = core_BZ2_bzWriteClose64(e: Number, b: File, abandon: c_int, r: Count, r2: Count, w: Count, w2: Count) -> ();
            BZ2_bzBuffToBuffCompress = core_BZ2_bzBuffToBuffCompress(d: File, n: Count, s: File, m: c_uint, level: c_int, verbosity: c_int, work: c_int) -> c_int;
            BZ2_bzBuffToBuffDecompress = core_BZ2_bzBuffToBuffDecompress(d: File, n: Count, s: File, m: c_uint, small: c_int, verbosity: c_int) -> c_int;
            BZ2_bzlibVersion = core_BZ2_bzlibVersion() -> Text;
            BZ2_bzopen = core_BZ2_bzopen(path: Text, mode: Text) -> File;
            BZ2_bzdopen = core_BZ2_bzdopen(fd: c_int, mode: Text) -> File;
            BZ2_bzread = core_BZ2_bzread(b: File, data: File, len: c_int) -> c_int;
            BZ2_bzwrite = core_BZ2_bzwrite(b: File, data: File, len: c_int) -> c_int;
            BZ2_bzflush = core_BZ2_bzflush(b: File) -> c_int;
            BZ2_bzclose = core_BZ2_bzclose(b: File) -> ();
            BZ2_bzerror = core_BZ2_bzerror(b: File, e: Number) -> Text;
        }
    };
}
