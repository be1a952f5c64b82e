//! The bzip2 command, also run as bunzip2 and bzcat.

// The C entry point: the one of Rust reopens closed standard descriptors and ignores
// SIGPIPE before main, both of which users of the command would notice.
#![no_main]
#![deny(unsafe_code)]

mod args;
mod codec;
mod files;
mod messages;
mod session;

use bz2::sys;
use session::{Op, Source};
use std::os::raw::{c_char, c_int};
use std::os::unix::ffi::OsStringExt;

#[allow(unsafe_code)]
#[no_mangle]
pub extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    let mut words = std::env::args_os().map(OsStringExt::into_vec);
    let program = words.next().unwrap_or_default();
    run(&program, words.collect())
}

fn run(program: &[u8], words: Vec<Vec<u8>>) -> i32 {
    sys::on_signal(sys::SIGSEGV, messages::on_memory_fault);
    sys::on_signal(sys::SIGBUS, messages::on_memory_fault);

    files::check_name_length(program);
    let base = program.rsplit(|&b| b == b'/').next().unwrap_or(program);
    session::update(|s| s.program = base.to_vec());

    let mut list = args::from_environment("BZIP2");
    list.extend(args::from_environment("BZIP"));
    list.extend(words);
    let options = args::parse(base, &list);

    let (op, source) = session::read(|s| (s.op, s.source));
    if source == Source::FileToFile {
        sys::on_signal(sys::SIGINT, messages::on_interrupt);
        sys::on_signal(sys::SIGTERM, messages::on_interrupt);
        sys::on_signal(sys::SIGHUP, messages::on_interrupt);
    }
    let process = match op {
        Op::Compress => files::compress,
        Op::Decompress => files::decompress,
        Op::Test => files::test,
    };
    let mut failures = false;
    if source == Source::StdinToStdout {
        failures = !process(&options, b"");
    } else {
        for name in args::file_names(&list) {
            session::update(|s| s.n_processed += 1);
            failures |= !process(&options, name);
        }
    }
    if failures {
        if op == Op::Test {
            messages::advise_recovery();
        }
        session::set_exit(2);
    }
    session::read(|s| s.exit_value)
}
