//! The C library as the commands see it: stdio streams, signals and file attributes.
//!
//! stdio rather than std::io, because buffering, sticky error flags and the errno that
//! perror reports are part of what users of the commands observe.

use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_long, c_void};
use std::ptr;

/// An opaque C stream.
#[repr(C)]
pub struct File {
    _private: [u8; 0],
}

#[repr(C)]
struct UtimBuf {
    access: c_long,
    modification: c_long,
}

extern "C" {
    static mut stdin: *mut File;
    static mut stdout: *mut File;
    static mut stderr: *mut File;

    fn fopen(path: *const c_char, mode: *const c_char) -> *mut File;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut File;
    fn fclose(stream: *mut File) -> c_int;
    fn fflush(stream: *mut File) -> c_int;
    fn ferror(stream: *mut File) -> c_int;
    fn fgetc(stream: *mut File) -> c_int;
    fn ungetc(byte: c_int, stream: *mut File) -> c_int;
    fn fputc(byte: c_int, stream: *mut File) -> c_int;
    fn fread(data: *mut c_void, size: usize, count: usize, stream: *mut File) -> usize;
    fn fwrite(data: *const c_void, size: usize, count: usize, stream: *mut File) -> usize;
    fn fileno(stream: *mut File) -> c_int;
    fn rewind(stream: *mut File);
    fn perror(prefix: *const c_char);
    fn strerror(number: c_int) -> *mut c_char;
    fn __errno_location() -> *mut c_int;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn remove(path: *const c_char) -> c_int;
    fn isatty(fd: c_int) -> c_int;
    fn fchmod(fd: c_int, mode: u32) -> c_int;
    fn fchown(fd: c_int, owner: u32, group: u32) -> c_int;
    fn utime(path: *const c_char, times: *const UtimBuf) -> c_int;
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> *mut c_void;
    fn exit(status: c_int) -> !;
}

pub const SIGHUP: i32 = 1;
pub const SIGINT: i32 = 2;
pub const SIGBUS: i32 = 7;
pub const SIGSEGV: i32 = 11;
pub const SIGTERM: i32 = 15;

const O_WRONLY: c_int = 0o1;
const O_CREAT: c_int = 0o100;
const O_EXCL: c_int = 0o200;
const EOF: c_int = -1;

/// A C string from bytes that came from the system and so hold no NUL.
fn c_string(bytes: &[u8]) -> CString {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}

/// A failed call; the reason is in errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed;

fn check(status: c_int) -> Result<(), Failed> {
    if status == 0 {
        Ok(())
    } else {
        Err(Failed)
    }
}

/// An open stdio stream. Not closed on drop: exit() flushes what is left, as in C.
pub struct Stream {
    raw: ptr::NonNull<File>,
    standard: bool,
}

impl Stream {
    fn from_raw(raw: *mut File, standard: bool) -> Option<Stream> {
        ptr::NonNull::new(raw).map(|raw| Stream { raw, standard })
    }

    pub fn stdin() -> Option<Stream> {
        Stream::from_raw(unsafe { stdin }, true)
    }

    pub fn stdout() -> Option<Stream> {
        Stream::from_raw(unsafe { stdout }, true)
    }

    pub fn open_read(path: &[u8]) -> Option<Stream> {
        let path = c_string(path);
        let mode = b"rb\0".as_ptr().cast();
        Stream::from_raw(unsafe { fopen(path.as_ptr(), mode) }, false)
    }

    /// Creates or truncates the file.
    pub fn open_write(path: &[u8]) -> Option<Stream> {
        let path = c_string(path);
        let mode = b"wb\0".as_ptr().cast();
        Stream::from_raw(unsafe { fopen(path.as_ptr(), mode) }, false)
    }

    /// Creates a file that must not exist, private until its final mode is set.
    pub fn create_private(path: &[u8]) -> Option<Stream> {
        let path = c_string(path);
        let private: c_int = 0o600;
        let fd = unsafe { open(path.as_ptr(), O_WRONLY | O_CREAT | O_EXCL, private) };
        if fd == -1 {
            return None;
        }
        let stream = Stream::from_raw(unsafe { fdopen(fd, b"wb\0".as_ptr().cast()) }, false);
        if stream.is_none() {
            unsafe { close(fd) };
        }
        stream
    }

    pub fn is_standard(&self) -> bool {
        self.standard
    }

    pub fn as_raw(&self) -> *mut File {
        self.raw.as_ptr()
    }

    pub fn has_error(&self) -> bool {
        unsafe { ferror(self.as_raw()) != 0 }
    }

    /// The next byte; None at the end and on errors.
    pub fn get(&self) -> Option<u8> {
        let byte = unsafe { fgetc(self.as_raw()) };
        if byte == EOF {
            None
        } else {
            Some(byte as u8)
        }
    }

    pub fn put(&self, byte: u8) -> Result<(), Failed> {
        if unsafe { fputc(c_int::from(byte), self.as_raw()) } == EOF {
            Err(Failed)
        } else {
            Ok(())
        }
    }

    /// Looks one byte ahead, so an unreadable stream is at its end too.
    pub fn at_end(&self) -> bool {
        match self.get() {
            None => true,
            Some(byte) => {
                unsafe { ungetc(c_int::from(byte), self.as_raw()) };
                false
            }
        }
    }

    pub fn read(&self, data: &mut [u8]) -> usize {
        unsafe { fread(data.as_mut_ptr().cast(), 1, data.len(), self.as_raw()) }
    }

    pub fn write(&self, data: &[u8]) -> usize {
        unsafe { fwrite(data.as_ptr().cast(), 1, data.len(), self.as_raw()) }
    }

    pub fn flush(&self) -> Result<(), Failed> {
        check(unsafe { fflush(self.as_raw()) })
    }

    pub fn rewind(&self) {
        unsafe { rewind(self.as_raw()) }
    }

    pub fn descriptor(&self) -> i32 {
        unsafe { fileno(self.as_raw()) }
    }

    pub fn close(self) -> Result<(), Failed> {
        check(unsafe { fclose(self.as_raw()) })
    }
}

/// Writes to the C stderr, so that output keeps its order with that of the caller.
pub fn eprint(text: &[u8]) {
    if !text.is_empty() {
        unsafe { fwrite(text.as_ptr().cast(), 1, text.len(), stderr) };
    }
}

/// Prints the prefix and the text of errno.
pub fn print_errno(prefix: &[u8]) {
    let prefix = c_string(prefix);
    unsafe { perror(prefix.as_ptr()) }
}

pub fn errno() -> i32 {
    unsafe { *__errno_location() }
}

pub fn set_errno(number: i32) {
    unsafe { *__errno_location() = number }
}

/// Runs code that may make more system calls than the message about it should show.
pub fn keeping_errno<R>(action: impl FnOnce() -> R) -> R {
    let saved = errno();
    let result = action();
    set_errno(saved);
    result
}

/// The text of errno.
pub fn errno_text() -> Vec<u8> {
    let text = unsafe { CStr::from_ptr(strerror(errno())) };
    text.to_bytes().to_vec()
}

pub fn is_terminal(fd: i32) -> bool {
    unsafe { isatty(fd) != 0 }
}

/// Removes a file or an empty directory.
pub fn remove_file(path: &[u8]) -> Result<(), Failed> {
    let path = c_string(path);
    check(unsafe { remove(path.as_ptr()) })
}

pub fn set_mode(fd: i32, mode: u32) -> Result<(), Failed> {
    check(unsafe { fchmod(fd, mode) })
}

/// Failure is ignored: only root may give files away.
pub fn set_owner(fd: i32, owner: u32, group: u32) {
    unsafe { fchown(fd, owner, group) };
}

pub fn set_times(path: &[u8], access: i64, modification: i64) -> Result<(), Failed> {
    let path = c_string(path);
    let times = UtimBuf { access: access as c_long, modification: modification as c_long };
    check(unsafe { utime(path.as_ptr(), &times) })
}

pub fn on_signal(number: i32, handler: extern "C" fn(c_int)) {
    unsafe { signal(number, handler) };
}

/// Ends the process; stdio flushes its streams.
pub fn quit(status: i32) -> ! {
    unsafe { exit(status) }
}

/// Reports a broken invariant of the library and ends the process.
pub fn bug(code: i32) -> ! {
    eprint(
        format!(
            "\n\nbzip2/libbzip2: internal error number {}.\n\
             This is a bug in bzip2/libbzip2, {}.\n\
             Please report it to: bzip2-devel@sourceware.org.  If this happened\n\
             when you were using some program which uses libbzip2 as a\n\
             component, you should also report this bug to the author(s)\n\
             of that program.  Please make an effort to report this bug;\n\
             timely and accurate bug reports eventually lead to higher\n\
             quality software.  Thanks.\n\n",
            code,
            crate::tables::VERSION
        )
        .as_bytes(),
    );
    quit(3)
}
