//! Compressing, decompressing and testing of open streams.

use crate::args::Options;
use crate::files::Attributes;
use crate::messages::{self, complain, remark, say};
use crate::session;
use bz2::abi::bzfile::{Reader, Totals, Writer};
use bz2::format::fixed;
use bz2::sys::{eprint, Stream};
use bz2::tables::*;

const BUFFER_SIZE: usize = 5000;

fn give_up_compressing(code: i32) -> ! {
    match code {
        BZ_CONFIG_ERROR => messages::configuration_error(),
        BZ_MEM_ERROR => messages::out_of_memory(),
        BZ_IO_ERROR => messages::io_error(),
        _ => messages::inconsistency("compress:unexpected error"),
    }
}

fn require(ok: bool) {
    if !ok {
        messages::io_error();
    }
}

/// Gives an output file the attributes of its source, while it is still open.
fn copy_attributes(output: &Stream, attributes: Option<&Attributes>) {
    let fd = output.descriptor();
    require(fd >= 0);
    if let Some(attributes) = attributes {
        require(attributes.apply_to_descriptor(fd).is_ok());
    }
}

/// Compresses all of the input and closes both streams, except for stdout.
pub fn compress(
    options: &Options,
    input: Stream,
    output: Stream,
    attributes: Option<&Attributes>,
) {
    require(!input.has_error());
    require(!output.has_error());
    let totals = match compress_all(options, &input, &output) {
        Ok(totals) => totals,
        Err(code) => give_up_compressing(code),
    };

    require(!output.has_error());
    require(output.flush().is_ok());
    if !output.is_standard() {
        copy_attributes(&output, attributes);
        require(output.close().is_ok());
    }
    require(!input.has_error());
    require(input.close().is_ok());
    if options.verbosity >= 1 {
        report_totals(totals);
    }
}

fn compress_all(options: &Options, input: &Stream, output: &Stream) -> Result<Totals, i32> {
    let mut writer =
        Writer::open(output, options.level, options.verbosity, options.work_factor)?;
    if options.verbosity >= 2 {
        eprint(b"\n");
    }
    let mut buffer = [0; BUFFER_SIZE];
    while !input.at_end() {
        let count = input.read(&mut buffer);
        require(!input.has_error());
        if count > 0 {
            writer.write(&buffer[..count])?;
        }
    }
    writer.close()
}

fn report_totals(totals: Totals) {
    if totals.bytes_in == 0 {
        eprint(b" no data compressed.\n");
        return;
    }
    let (input, output) = (totals.bytes_in as f64, totals.bytes_out as f64);
    eprint(
        format!(
            "{}:1, {} bits/byte, {}% saved, {} in, {} out.\n",
            fixed(input / output, 6, 3),
            fixed(8.0 * output / input, 6, 3),
            fixed(100.0 * (1.0 - output / input), 5, 2),
            totals.bytes_in,
            totals.bytes_out
        )
        .as_bytes(),
    );
}

/// How the decoding of a file ended.
enum End {
    Complete,
    /// The library failed on the stream of this number.
    Failed { code: i32, stream_no: i32 },
}

/// Decodes one stream after the other and hands the output to `sink`.
fn decode_all(options: &Options, input: &Stream, what: &str, sink: impl Fn(&[u8])) -> End {
    let mut unused = Vec::new();
    let mut stream_no = 0;
    loop {
        let mut reader =
            match Reader::open(input, options.verbosity, options.small, &unused) {
                Ok(reader) => reader,
                Err(code) => return End::Failed { code, stream_no },
            };
        stream_no += 1;
        let mut buffer = [0; BUFFER_SIZE];
        loop {
            let (code, count) = reader.read(&mut buffer);
            if code != BZ_OK && code != BZ_STREAM_END {
                return End::Failed { code, stream_no };
            }
            sink(&buffer[..count]);
            if code == BZ_STREAM_END {
                break;
            }
        }
        unused = match reader.take_unused() {
            Ok(unused) => unused,
            Err(_) => messages::inconsistency(&format!("{}:bzReadGetUnused", what)),
        };
        drop(reader);
        if unused.is_empty() && input.at_end() {
            return End::Complete;
        }
    }
}

/// Decompresses all of the input and closes both streams, except for stdout. False if
/// the input does not look like the work of bzip2 at all.
pub fn decompress(
    options: &Options,
    input: Stream,
    output: Stream,
    attributes: Option<&Attributes>,
) -> bool {
    require(!output.has_error());
    require(!input.has_error());
    let end = decode_all(options, &input, "decompress", |data| {
        if !data.is_empty() {
            output.write(data);
        }
        require(!output.has_error());
    });
    match end {
        End::Complete => {}
        End::Failed { code: BZ_DATA_ERROR_MAGIC, .. } if options.force => {
            copy_through(&input, &output);
        }
        End::Failed { code: BZ_DATA_ERROR_MAGIC, stream_no } => {
            // Errors no longer matter: what was decoded is complete.
            close_unless_standard(input);
            close_unless_standard(output);
            if stream_no == 1 {
                return false;
            }
            let (program, name) = session::read(|s| (s.program.clone(), s.in_name.clone()));
            if session::read(|s| s.noisy) {
                say(&[
                    b"\n",
                    &program,
                    b": ",
                    &name,
                    b": trailing garbage after EOF ignored\n",
                ]);
            }
            return true;
        }
        End::Failed { code, .. } => give_up_decompressing(code),
    }
    finish_decompressing(options, input, output, attributes);
    true
}

fn give_up_decompressing(code: i32) -> ! {
    match code {
        BZ_CONFIG_ERROR => messages::configuration_error(),
        BZ_IO_ERROR => messages::io_error(),
        BZ_DATA_ERROR => messages::crc_error(),
        BZ_MEM_ERROR => messages::out_of_memory(),
        BZ_UNEXPECTED_EOF => messages::unexpected_end(),
        _ => messages::inconsistency("decompress:unexpected error"),
    }
}

fn finish_decompressing(
    options: &Options,
    input: Stream,
    output: Stream,
    attributes: Option<&Attributes>,
) {
    require(!input.has_error());
    if !output.is_standard() {
        copy_attributes(&output, attributes);
    }
    require(input.close().is_ok());
    require(!output.has_error());
    require(output.flush().is_ok());
    if !output.is_standard() {
        require(output.close().is_ok());
    }
    if options.verbosity >= 2 {
        eprint(b"\n    ");
    }
}

/// With -f, what is not compressed passes through unchanged.
fn copy_through(input: &Stream, output: &Stream) {
    input.rewind();
    let mut buffer = [0; BUFFER_SIZE];
    while !input.at_end() {
        let count = input.read(&mut buffer);
        require(!input.has_error());
        if count > 0 {
            output.write(&buffer[..count]);
        }
        require(!output.has_error());
    }
}

fn close_unless_standard(stream: Stream) {
    if !stream.is_standard() {
        let _ = stream.close();
    }
}

/// Checks all of the input, and closes it if nothing is wrong.
pub fn test(options: &Options, input: Stream) -> bool {
    require(!input.has_error());
    let (code, stream_no) = match decode_all(options, &input, "test", |_| {}) {
        End::Complete => {
            require(!input.has_error());
            require(input.close().is_ok());
            if options.verbosity >= 2 {
                eprint(b"\n    ");
            }
            return true;
        }
        End::Failed { code, stream_no } => (code, stream_no),
    };
    if options.verbosity == 0 {
        let name = session::read(|s| s.in_name.clone());
        complain(&[&name, b": "]);
    }
    match code {
        BZ_CONFIG_ERROR => messages::configuration_error(),
        BZ_IO_ERROR => messages::io_error(),
        BZ_DATA_ERROR => eprint(b"data integrity (CRC) error in data\n"),
        BZ_MEM_ERROR => messages::out_of_memory(),
        BZ_UNEXPECTED_EOF => eprint(b"file ends unexpectedly\n"),
        BZ_DATA_ERROR_MAGIC => {
            close_unless_standard(input);
            if stream_no == 1 {
                eprint(b"bad magic number (file not created by bzip2)\n");
                return false;
            }
            if session::read(|s| s.noisy) {
                eprint(b"trailing garbage after EOF ignored\n");
            }
            return true;
        }
        _ => messages::inconsistency("test:unexpected error"),
    }
    false
}

/// Starts the line of verbose output on a file.
pub fn announce(options: &Options, name: &[u8]) {
    if options.verbosity >= 1 {
        let padding = vec![b' '; options.name_width.saturating_sub(name.len())];
        say(&[b"  ", name, b": ", &padding]);
    }
}

/// Names the help option after a refusal to use a terminal.
pub fn refuse_terminal(what: &[u8]) {
    complain(&[what]);
    let program = session::read(|s| s.program.clone());
    complain(&[b"For help, type: `", &program, b" --help'.\n"]);
    session::set_exit(1);
}

/// A remark that also makes the command fail in the end.
pub fn remark_failure(parts: &[&[u8]]) {
    remark(parts);
    session::set_exit(1);
}

/// Like `remark_failure`, but said even when quiet.
pub fn complain_failure(parts: &[&[u8]]) {
    complain(parts);
    session::set_exit(1);
}
