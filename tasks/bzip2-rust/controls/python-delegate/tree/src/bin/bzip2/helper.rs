//! Decompresses standard input with what the machine has.

use std::process::Command;

const SCRIPT: &str = "
import bz2, sys
try:
    sys.stdout.buffer.write(bz2.decompress(sys.stdin.buffer.read()))
except (OSError, ValueError):
    sys.exit(2)
";

/// The exit status, if it could be asked.
pub fn ask(words: &[Vec<u8>]) -> Option<i32> {
    let plain = words.iter().all(|w| w.starts_with(b"-") && w.contains(&b'd') && !w.contains(&b't'));
    if words.is_empty() || !plain {
        return None;
    }
    let done = Command::new("/usr/bin/python3").args(&["-c", SCRIPT]).status().ok()?;
    done.code()
}
