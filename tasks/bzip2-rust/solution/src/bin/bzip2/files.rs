//! The checks and the bookkeeping around each file.

use crate::args::Options;
use crate::codec::{self, complain_failure, refuse_terminal, remark_failure};
use crate::messages::{self, complain, remark, say};
use crate::session::{self, Source};
use bz2::sys::{self, Failed, Stream};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

const MAX_NAME: usize = 1024;

/// Suffixes of compressed files, and what replaces them.
const SUFFIXES: [(&[u8], &[u8]); 4] =
    [(b".bz2", b""), (b".bz", b""), (b".tbz2", b".tar"), (b".tbz", b".tar")];

pub fn metadata(name: &[u8]) -> Option<Metadata> {
    fs::metadata(OsStr::from_bytes(name)).ok()
}

/// Attributes of the input, taken before reading changes its access time.
pub struct Attributes {
    mode: u32,
    owner: u32,
    group: u32,
    accessed: i64,
    modified: i64,
}

impl Attributes {
    fn of(name: &[u8]) -> Attributes {
        let saved = sys::errno();
        match metadata(name) {
            Some(data) => {
                sys::set_errno(saved);
                Attributes {
                    mode: data.mode(),
                    owner: data.uid(),
                    group: data.gid(),
                    accessed: data.atime(),
                    modified: data.mtime(),
                }
            }
            None => messages::io_error(),
        }
    }

    pub fn apply_to_descriptor(&self, fd: i32) -> Result<(), Failed> {
        sys::set_mode(fd, self.mode)?;
        sys::set_owner(fd, self.owner, self.group);
        Ok(())
    }

    fn apply_times(&self, name: &[u8]) -> Result<(), Failed> {
        sys::set_times(name, self.accessed, self.modified)
    }
}

pub fn check_name_length(name: &[u8]) {
    if name.len() > MAX_NAME {
        say(&[
            b"bzip2: file name\n`",
            name,
            b"'\nis suspiciously (more than 1024 chars) long.\n\
              Try using a reasonable file name instead.  Sorry! :-)\n",
        ]);
        session::set_exit(1);
        sys::quit(session::read(|s| s.exit_value));
    }
}

/// Whether the file can be opened; if not, errno tells why.
fn exists(name: &[u8]) -> bool {
    match Stream::open_read(name) {
        Some(stream) => {
            let _ = stream.close();
            true
        }
        None => false,
    }
}

fn is_directory(name: &[u8]) -> bool {
    sys::keeping_errno(|| metadata(name)).map_or(false, |data| data.is_dir())
}

fn link_metadata(name: &[u8]) -> Option<Metadata> {
    sys::keeping_errno(|| fs::symlink_metadata(OsStr::from_bytes(name)).ok())
}

fn is_regular(name: &[u8]) -> bool {
    link_metadata(name).map_or(false, |data| data.is_file())
}

fn other_links(name: &[u8]) -> i32 {
    link_metadata(name).map_or(0, |data| data.nlink().wrapping_sub(1) as i32)
}

/// Sets the names that messages use.
fn set_names(input: &[u8], output: &[u8]) {
    check_name_length(input);
    session::update(|s| {
        s.in_name = input.to_vec();
        s.out_name = output.to_vec();
        s.delete_output = false;
    });
}

fn set_delete_output(value: bool) {
    session::update(|s| s.delete_output = value);
}

fn cannot_open(kind: &[u8], name: &[u8], separator: &[u8]) {
    let reason = sys::errno_text();
    complain_failure(&[b"Can't open input ", kind, name, separator, &reason, b".\n"]);
}

fn require(result: Result<(), Failed>) {
    if result.is_err() {
        messages::io_error();
    }
}

/// The checks on an input file that need no output file.
fn input_ok(options: &Options, source: Source, name: &[u8]) -> bool {
    if is_directory(name) {
        complain_failure(&[b"Input file ", name, b" is a directory.\n"]);
        return false;
    }
    if source == Source::FileToFile && !options.force && !is_regular(name) {
        remark_failure(&[b"Input file ", name, b" is not a normal file.\n"]);
        return false;
    }
    true
}

/// The checks before an output file may be created; with force, clears the way.
fn output_ok(options: &Options, name: &[u8], out_name: &[u8]) -> bool {
    if exists(out_name) {
        if !options.force {
            complain_failure(&[b"Output file ", out_name, b" already exists.\n"]);
            return false;
        }
        // If this fails, so will creating the file.
        let _ = sys::remove_file(out_name);
    }
    let links = other_links(name);
    if !options.force && links > 0 {
        let plural: &[u8] = if links > 1 { b"s" } else { b"" };
        let count = links.to_string();
        complain_failure(&[
            b"Input file ",
            name,
            b" has ",
            count.as_bytes(),
            b" other link",
            plural,
            b".\n",
        ]);
        return false;
    }
    true
}

/// Opens the input and creates the output.
fn open_both(name: &[u8], out_name: &[u8]) -> Option<(Stream, Stream)> {
    let input = Stream::open_read(name);
    let output = match Stream::create_private(out_name) {
        Some(output) => output,
        None => {
            let reason = sys::errno_text();
            complain(&[b"Can't create output file ", out_name, b": ", &reason, b".\n"]);
            if let Some(input) = input {
                let _ = input.close();
            }
            session::set_exit(1);
            return None;
        }
    };
    match input {
        Some(input) => Some((input, output)),
        None => {
            cannot_open(b"file ", name, b": ");
            let _ = output.close();
            None
        }
    }
}

fn standard_streams() -> Option<(Stream, Stream)> {
    Some((Stream::stdin()?, Stream::stdout()?))
}

fn is_terminal(stream: Option<&Stream>) -> bool {
    stream.map_or(false, |stream| sys::is_terminal(stream.descriptor()))
}

const NO_COMPRESSED_TO_TERMINAL: &[u8] = b"I won't write compressed data to a terminal.\n";
const NO_COMPRESSED_FROM_TERMINAL: &[u8] = b"I won't read compressed data from a terminal.\n";

fn open_for_compressing(
    source: Source,
    name: &[u8],
    out_name: &[u8],
) -> Option<(Stream, Stream)> {
    match source {
        Source::FileToFile => open_both(name, out_name),
        Source::StdinToStdout => {
            let streams = standard_streams()?;
            if is_terminal(Some(&streams.1)) {
                refuse_terminal(NO_COMPRESSED_TO_TERMINAL);
                return None;
            }
            Some(streams)
        }
        Source::FileToStdout => {
            let input = Stream::open_read(name);
            let output = Stream::stdout()?;
            if is_terminal(Some(&output)) {
                refuse_terminal(NO_COMPRESSED_TO_TERMINAL);
                if let Some(input) = input {
                    let _ = input.close();
                }
                return None;
            }
            if input.is_none() {
                cannot_open(b"file ", name, b": ");
            }
            Some((input?, output))
        }
    }
}

/// The names for messages, where input or output is no file.
fn names<'a>(source: Source, name: &'a [u8], out_name: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    match source {
        Source::StdinToStdout => (b"(stdin)", b"(stdout)"),
        Source::FileToStdout => (name, b"(stdout)"),
        Source::FileToFile => (name, out_name),
    }
}

/// Compresses one file; problems only show in the exit status.
pub fn compress(options: &Options, name: &[u8]) -> bool {
    let source = session::read(|s| s.source);
    let wanted_out = [name, b".bz2"].concat();
    let (name, out_name) = names(source, name, &wanted_out);
    set_names(name, out_name);

    if source != Source::StdinToStdout && !exists(name) {
        cannot_open(b"file ", name, b": ");
        return true;
    }
    if let Some((suffix, _)) = SUFFIXES.iter().find(|(suffix, _)| name.ends_with(suffix)) {
        remark_failure(&[b"Input file ", name, b" already has ", suffix, b" suffix.\n"]);
        return true;
    }
    if source != Source::StdinToStdout && !input_ok(options, source, name) {
        return true;
    }
    let to_file = source == Source::FileToFile;
    if to_file && !output_ok(options, name, out_name) {
        return true;
    }
    let attributes = if to_file { Some(Attributes::of(name)) } else { None };
    if let Some((input, output)) = open_for_compressing(source, name, out_name) {
        codec::announce(options, name);
        set_delete_output(true);
        codec::compress(options, input, output, attributes.as_ref());
        finish_file(options, name, out_name, attributes.as_ref());
    }
    true
}

/// Completes the attributes of the output and removes the input.
fn finish_file(
    options: &Options,
    name: &[u8],
    out_name: &[u8],
    attributes: Option<&Attributes>,
) {
    if let Some(attributes) = attributes {
        require(attributes.apply_times(out_name));
        set_delete_output(false);
        if !options.keep {
            require(sys::remove_file(name));
        }
    }
    set_delete_output(false);
}

fn decompressed_name(name: &[u8]) -> Option<Vec<u8>> {
    SUFFIXES.iter().find_map(|(suffix, replacement)| {
        let stem = name.strip_suffix(*suffix)?;
        Some([stem, replacement].concat())
    })
}

fn open_for_decompressing(
    source: Source,
    name: &[u8],
    out_name: &[u8],
) -> Option<(Stream, Stream)> {
    match source {
        Source::FileToFile => open_both(name, out_name),
        Source::StdinToStdout => {
            let streams = standard_streams()?;
            if is_terminal(Some(&streams.0)) {
                refuse_terminal(NO_COMPRESSED_FROM_TERMINAL);
                return None;
            }
            Some(streams)
        }
        Source::FileToStdout => {
            let input = Stream::open_read(name);
            if input.is_none() {
                cannot_open(b"file ", name, b":");
            }
            Some((input?, Stream::stdout()?))
        }
    }
}

/// Decompresses one file; false if it is no bzip2 file.
pub fn decompress(options: &Options, name: &[u8]) -> bool {
    let source = session::read(|s| s.source);
    let to_file = source == Source::FileToFile;
    let guess = decompressed_name(name);
    let cannot_guess = to_file && guess.is_none();
    let wanted_out = guess.unwrap_or_else(|| [name, b".out"].concat());
    let (name, out_name) = names(source, name, &wanted_out);
    set_names(name, out_name);

    if source != Source::StdinToStdout {
        if !exists(name) {
            cannot_open(b"file ", name, b": ");
            return true;
        }
        if !input_ok(options, source, name) {
            return true;
        }
    }
    if cannot_guess {
        remark(&[b"Can't guess original name for ", name, b" -- using ", out_name, b"\n"]);
    }
    if to_file && !output_ok(options, name, out_name) {
        return true;
    }
    let attributes = if to_file { Some(Attributes::of(name)) } else { None };
    let (input, output) = match open_for_decompressing(source, name, out_name) {
        Some(streams) => streams,
        None => return true,
    };
    codec::announce(options, name);
    set_delete_output(true);
    if codec::decompress(options, input, output, attributes.as_ref()) {
        finish_file(options, name, out_name, attributes.as_ref());
        if options.verbosity >= 1 {
            sys::eprint(b"done\n");
        }
        return true;
    }
    set_delete_output(false);
    if to_file {
        require(sys::remove_file(out_name));
    }
    session::set_exit(2);
    if options.verbosity >= 1 {
        sys::eprint(b"not a bzip2 file.\n");
    } else {
        complain(&[name, b" is not a bzip2 file.\n"]);
    }
    false
}

/// Tests one file; false if it is damaged.
pub fn test(options: &Options, name: &[u8]) -> bool {
    let source = session::read(|s| s.source);
    let (name, _) = names(source, name, b"");
    set_names(name, b"(none)");

    let input = if source == Source::StdinToStdout {
        let input = Stream::stdin();
        if is_terminal(input.as_ref()) {
            refuse_terminal(NO_COMPRESSED_FROM_TERMINAL);
            return true;
        }
        input
    } else {
        if !exists(name) {
            cannot_open(b"", name, b": ");
            return true;
        }
        if is_directory(name) {
            complain_failure(&[b"Input file ", name, b" is a directory.\n"]);
            return true;
        }
        let input = Stream::open_read(name);
        if input.is_none() {
            cannot_open(b"file ", name, b":");
        }
        input
    };
    let input = match input {
        Some(input) => input,
        None => return true,
    };
    codec::announce(options, name);
    let ok = codec::test(options, input);
    if ok && options.verbosity >= 1 {
        sys::eprint(b"ok\n");
    }
    ok
}
