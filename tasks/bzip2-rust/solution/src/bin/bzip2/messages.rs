//! Everything the command says on stderr, and the ways it gives up.

use crate::session::{self, Op, Session, Source};
use bz2::sys::{self, eprint};
use bz2::tables::VERSION;
use std::os::raw::c_int;

/// Prints the parts in one write.
pub fn say(parts: &[&[u8]]) {
    eprint(&parts.concat());
}

fn program() -> Vec<u8> {
    session::read(|s| s.program.clone())
}

/// Says something that starts with the name of the program.
pub fn complain(parts: &[&[u8]]) {
    say(&[&program(), b": ", &parts.concat()]);
}

/// Says it unless the user asked for quiet.
pub fn remark(parts: &[&[u8]]) {
    if session::read(|s| s.noisy) {
        complain(parts);
    }
}

fn advise_on_corruption(session: &Session) {
    if session.noisy {
        eprint(
            b"\nIt is possible that the compressed file(s) have become corrupted.\n\
              You can use the -tvv option to test integrity of such files.\n\n\
              You can use the `bzip2recover' program to attempt to recover\n\
              data from undamaged sections of corrupted files.\n\n",
        );
    }
}

pub fn advise_recovery() {
    if session::read(|s| s.noisy) {
        eprint(
            b"\n\
              You can use the `bzip2recover' program to attempt to recover\n\
              data from undamaged sections of corrupted files.\n\n",
        );
    }
}

fn show_file_names(session: &Session) {
    if session.noisy {
        let (input, output) = (&session.in_name, &session.out_name);
        say(&[b"\tInput file = ", input, b", output file = ", output, b"\n"]);
    }
}

/// Removes incomplete output, but not if the input is gone: then it is all there is.
fn remove_output(session: &Session) {
    let program = &session.program[..];
    if sys::keeping_errno(|| crate::files::metadata(&session.in_name)).is_some() {
        if session.noisy {
            let name = &session.out_name;
            say(&[program, b": Deleting output file ", name, b", if it exists.\n"]);
        }
        if sys::remove_file(&session.out_name).is_err() {
            say(&[
                program,
                b": WARNING: deletion of output file (apparently) failed.\n",
            ]);
        }
    } else {
        say(&[program, b": WARNING: deletion of output file suppressed\n"]);
        say(&[program, b":    since input file no longer exists.  Output file\n"]);
        say(&[program, b":    `", &session.out_name, b"' may be incomplete.\n"]);
        say(&[
            program,
            b":    I suggest doing an integrity test (bzip2 -tv) of it.\n",
        ]);
    }
}

fn clean_up_and_fail(session: &Session, status: i32) -> ! {
    let to_file = session.source == Source::FileToFile && session.op != Op::Test;
    if to_file && session.delete_output {
        remove_output(session);
    }
    let left = session.n_names - session.n_processed;
    if session.noisy && session.n_names > 0 && left > 0 {
        let program = &session.program[..];
        let counts = format!(
            "{} specified on command line, {} not processed yet.\n\n",
            session.n_names, left
        );
        say(&[
            program,
            b": WARNING: some files have not been processed:\n",
            program,
            b":    ",
            counts.as_bytes(),
        ]);
    }
    sys::quit(session.exit_value.max(status))
}

pub fn inconsistency(what: &str) -> ! {
    let session = session::snapshot();
    say(&[
        b"\n",
        &session.program,
        b": PANIC -- internal consistency error:\n\t",
        what.as_bytes(),
        b"\n\tThis is a BUG.  Please report it to:\n\tbzip2-devel@sourceware.org\n",
    ]);
    show_file_names(&session);
    clean_up_and_fail(&session, 3)
}

pub fn crc_error() -> ! {
    let session = session::snapshot();
    say(&[b"\n", &session.program, b": Data integrity error when decompressing.\n"]);
    show_file_names(&session);
    advise_on_corruption(&session);
    clean_up_and_fail(&session, 2)
}

pub fn unexpected_end() -> ! {
    let session = session::snapshot();
    if session.noisy {
        say(&[
            b"\n",
            &session.program,
            b": Compressed file ends unexpectedly;\n\t\
              perhaps it is corrupted?  *Possible* reason follows.\n",
        ]);
        sys::print_errno(&session.program);
        show_file_names(&session);
        advise_on_corruption(&session);
    }
    clean_up_and_fail(&session, 2)
}

pub fn io_error() -> ! {
    let session = session::snapshot();
    say(&[
        b"\n",
        &session.program,
        b": I/O or other error, bailing out.  Possible reason follows.\n",
    ]);
    sys::print_errno(&session.program);
    show_file_names(&session);
    clean_up_and_fail(&session, 1)
}

pub fn out_of_memory() -> ! {
    let session = session::snapshot();
    say(&[b"\n", &session.program, b": couldn't allocate enough memory\n"]);
    show_file_names(&session);
    clean_up_and_fail(&session, 1)
}

pub fn configuration_error() -> ! {
    eprint(
        b"bzip2: I'm not configured correctly for this platform!\n\
          \tI require Int32, Int16 and Char to have sizes\n\
          \tof 4, 2 and 1 bytes to run properly, and they don't.\n\
          \tProbably you can fix this by defining them correctly,\n\
          \tand recompiling.  Bye!\n",
    );
    session::set_exit(3);
    sys::quit(session::read(|s| s.exit_value))
}

pub fn interrupted(session: &Session) -> ! {
    say(&[b"\n", &session.program, b": Control-C or similar caught, quitting.\n"]);
    clean_up_and_fail(session, 1)
}

pub extern "C" fn on_interrupt(_signal: c_int) {
    if let Some(session) = session::snapshot_in_handler() {
        interrupted(&session);
    }
}

pub extern "C" fn on_memory_fault(_signal: c_int) {
    let session = match session::snapshot_in_handler() {
        Some(session) => session,
        // Returning would only fault again.
        None => sys::quit(3),
    };
    let text: &[&[u8]] = if session.op == Op::Compress {
        &[FAULT_COMPRESSING, FAULT_CAUSES_HARDWARE_1, FAULT_CAUSES_COMPILER_2, FAULT_END_3]
    } else {
        &[FAULT_DECOMPRESSING, FAULT_CAUSES_HARDWARE_2, FAULT_CAUSES_COMPILER_3, FAULT_END_4]
    };
    say(&[b"\n", &session.program, &text.concat()]);
    show_file_names(&session);
    if session.op == Op::Compress {
        clean_up_and_fail(&session, 3);
    }
    advise_on_corruption(&session);
    clean_up_and_fail(&session, 2)
}

const FAULT_COMPRESSING: &[u8] = b": Caught a SIGSEGV or SIGBUS whilst compressing.\n\
    \n   Possible causes are (most likely first):\n";
const FAULT_DECOMPRESSING: &[u8] = b": Caught a SIGSEGV or SIGBUS whilst decompressing.\n\
    \n   Possible causes are (most likely first):\n\
    \x20  (1) The compressed data is corrupted, and bzip2's usual checks\n\
    \x20      failed to detect this.  Try bzip2 -tvv my_file.bz2.\n";
const FAULT_CAUSES_HARDWARE_1: &[u8] =
    b"   (1) This computer has unreliable memory or cache hardware\n\
    \x20      (a surprisingly common problem; try a different machine.)\n";
const FAULT_CAUSES_HARDWARE_2: &[u8] =
    b"   (2) This computer has unreliable memory or cache hardware\n\
    \x20      (a surprisingly common problem; try a different machine.)\n";
const FAULT_CAUSES_COMPILER_2: &[u8] =
    b"   (2) A bug in the compiler used to create this executable\n\
    \x20      (unlikely, if you didn't compile bzip2 yourself.)\n\
    \x20  (3) A real bug in bzip2 -- I hope this should never be the case.\n\
    \x20  The user's manual, Section 4.3, has more info on (1) and (2).\n";
const FAULT_CAUSES_COMPILER_3: &[u8] =
    b"   (3) A bug in the compiler used to create this executable\n\
    \x20      (unlikely, if you didn't compile bzip2 yourself.)\n\
    \x20  (4) A real bug in bzip2 -- I hope this should never be the case.\n\
    \x20  The user's manual, Section 4.3, has more info on (2) and (3).\n";
const FAULT_END_3: &[u8] = b"   \n\
    \x20  If you suspect this is a bug in bzip2, or are unsure about (1)\n\
    \x20  or (2), feel free to report it to: bzip2-devel@sourceware.org.\n\
    \x20  Section 4.3 of the user's manual describes the info a useful\n\
    \x20  bug report should have.  If the manual is available on your\n\
    \x20  system, please try and read it before mailing me.  If you don't\n\
    \x20  have the manual or can't be bothered to read it, mail me anyway.\n\n";
const FAULT_END_4: &[u8] = b"   \n\
    \x20  If you suspect this is a bug in bzip2, or are unsure about (2)\n\
    \x20  or (3), feel free to report it to: bzip2-devel@sourceware.org.\n\
    \x20  Section 4.3 of the user's manual describes the info a useful\n\
    \x20  bug report should have.  If the manual is available on your\n\
    \x20  system, please try and read it before mailing me.  If you don't\n\
    \x20  have the manual or can't be bothered to read it, mail me anyway.\n\n";

pub fn license() {
    say(&[
        b"bzip2, a block-sorting file compressor.  Version ",
        VERSION.as_bytes(),
        b".\n\
          \x20  \n\
          \x20  Copyright (C) 1996-2019 by Julian Seward.\n\
          \x20  \n\
          \x20  This program is free software; you can redistribute it and/or modify\n\
          \x20  it under the terms set out in the LICENSE file, which is included\n\
          \x20  in the bzip2 source distribution.\n\
          \x20  \n\
          \x20  This program is distributed in the hope that it will be useful,\n\
          \x20  but WITHOUT ANY WARRANTY; without even the implied warranty of\n\
          \x20  MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE.  See the\n\
          \x20  LICENSE file for more details.\n\
          \x20  \n",
    ]);
}

pub fn usage(program: &[u8]) {
    say(&[
        b"bzip2, a block-sorting file compressor.  Version ",
        VERSION.as_bytes(),
        b".\n\n   usage: ",
        program,
        b" [flags and input files in any order]\n\
          \n\
          \x20  -h --help           print this message\n\
          \x20  -d --decompress     force decompression\n\
          \x20  -z --compress       force compression\n\
          \x20  -k --keep           keep (don't delete) input files\n\
          \x20  -f --force          overwrite existing output files\n\
          \x20  -t --test           test compressed file integrity\n\
          \x20  -c --stdout         output to standard out\n\
          \x20  -q --quiet          suppress noncritical error messages\n\
          \x20  -v --verbose        be verbose (a 2nd -v gives more)\n\
          \x20  -L --license        display software version & license\n\
          \x20  -V --version        display software version & license\n\
          \x20  -s --small          use less memory (at most 2500k)\n\
          \x20  -1 .. -9            set block size to 100k .. 900k\n\
          \x20  --fast              alias for -1\n\
          \x20  --best              alias for -9\n\
          \n\
          \x20  If invoked as `bzip2', default action is to compress.\n\
          \x20             as `bunzip2',  default action is to decompress.\n\
          \x20             as `bzcat', default action is to decompress to stdout.\n\
          \n\
          \x20  If no file names are given, bzip2 compresses or decompresses\n\
          \x20  from standard input to standard output.  You can combine\n\
          \x20  short flags, so `-v -4' means the same as -v4 or -4v, &c.\n\
          \n",
    ]);
}
