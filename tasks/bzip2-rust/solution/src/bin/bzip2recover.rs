//! The bzip2recover command: splits a damaged file into its blocks.

// The C entry point, for the same reasons as in bzip2.
#![no_main]
#![deny(unsafe_code)]

use bz2::sys::{self, eprint, Stream};
use bz2::tables::{BLOCK_MAGIC, END_MAGIC, STREAM_MAGIC};
use std::os::raw::{c_char, c_int};
use std::os::unix::ffi::OsStringExt;

const MAX_FILENAME: usize = 2000;
const MAX_BLOCKS: usize = 50_000;
/// Bits of header and trailer without which there is no block.
const MIN_BLOCK_BITS: u64 = 130;
const MARKER_MASK: u64 = 0xffff_ffff_ffff;

#[allow(unsafe_code)]
#[no_mangle]
pub extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    let args: Vec<Vec<u8>> = std::env::args_os().map(OsStringExt::into_vec).collect();
    run(&args)
}

fn say(parts: &[&[u8]]) {
    eprint(&parts.concat());
}

/// The names that appear in messages.
struct Names<'a> {
    program: &'a [u8],
    input: &'a [u8],
}

impl Names<'_> {
    fn complain(&self, parts: &[&[u8]]) {
        say(&[self.program, b": ", &parts.concat()]);
    }

    fn fail(&self, parts: &[&[u8]]) -> ! {
        self.complain(parts);
        sys::quit(1)
    }

    /// The wording is the same for output files.
    fn io_error(&self) -> ! {
        self.complain(&[b"I/O error reading `", self.input, b"', possible reason follows.\n"]);
        sys::print_errno(self.program);
        self.fail(&[b"warning: output file(s) may be incomplete.\n"])
    }

    fn too_many_blocks(&self) -> ! {
        let limit = MAX_BLOCKS.to_string();
        let limit = limit.as_bytes();
        self.complain(&[b"`", self.input, b"' appears to contain more than ", limit, b" blocks\n"]);
        self.complain(&[b"and cannot be handled.  To fix, increase\n"]);
        self.fail(&[b"BZ_MAX_HANDLED_BLOCKS in bzip2recover.c, and recompile.\n"])
    }
}

struct BitReader<'a> {
    stream: Stream,
    names: &'a Names<'a>,
    buffer: u8,
    live: u32,
    /// The last 64 bits.
    recent: u64,
}

impl<'a> BitReader<'a> {
    fn new(stream: Stream, names: &'a Names<'a>, recent: u64) -> BitReader<'a> {
        BitReader { stream, names, buffer: 0, live: 0, recent }
    }

    /// The next bit; None at the end of the file.
    fn next(&mut self) -> Option<u8> {
        if self.live == 0 {
            match self.stream.get() {
                Some(byte) => self.buffer = byte,
                None if sys::errno() != 0 => self.names.io_error(),
                None => return None,
            }
            self.live = 8;
        }
        self.live -= 1;
        let bit = self.buffer >> self.live & 1;
        self.recent = self.recent << 1 | u64::from(bit);
        Some(bit)
    }

    fn close(self) {
        if self.stream.close().is_err() {
            self.names.io_error();
        }
    }
}

struct BitWriter<'a> {
    stream: Stream,
    names: &'a Names<'a>,
    buffer: u8,
    live: u32,
}

impl BitWriter<'_> {
    fn emit(&self) {
        if self.stream.put(self.buffer).is_err() {
            self.names.io_error();
        }
    }

    fn put(&mut self, bit: u8) {
        if self.live == 8 {
            self.emit();
            self.live = 0;
        }
        self.buffer = self.buffer << 1 | bit;
        self.live += 1;
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            for shift in (0..8).rev() {
                self.put(byte >> shift & 1);
            }
        }
    }

    fn close(mut self) {
        self.buffer = self.buffer.checked_shl(8 - self.live).unwrap_or(0);
        self.emit();
        if self.stream.flush().is_err() || self.stream.close().is_err() {
            self.names.io_error();
        }
    }
}

/// First and last bit of a block, not counting its marker.
#[derive(Clone, Copy, Default)]
struct Block {
    start: u64,
    end: u64,
}

fn marker(bytes: &[u8; 6]) -> u64 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn report_block(number: usize, block: Block, suffix: &str) {
    eprint(
        format!("   block {} runs from {} to {}{}\n", number, block.start, block.end, suffix)
            .as_bytes(),
    );
}

/// Finds the stretches between markers that are long enough for a block.
fn find_blocks(reader: &mut BitReader) -> Vec<Block> {
    let markers = [marker(&BLOCK_MAGIC), marker(&END_MAGIC)];
    let mut found = Vec::new();
    let mut n_markers = 0;
    let mut current = Block::default();
    let mut bits_read = 0u64;
    loop {
        let bit = reader.next();
        bits_read += 1;
        if bit.is_none() {
            if bits_read >= current.start && bits_read - current.start >= 40 && n_markers > 0 {
                current.end = bits_read - 1;
                report_block(n_markers, current, " (incomplete)");
            }
            return found;
        }
        if !markers.contains(&(reader.recent & MARKER_MASK)) {
            continue;
        }
        current.end = bits_read.saturating_sub(49);
        // The end is before the start if two markers follow each other directly.
        let length = current.end.wrapping_sub(current.start);
        if n_markers > 0 && length >= MIN_BLOCK_BITS {
            report_block(found.len() + 1, current, "");
            found.push(current);
        }
        if n_markers >= MAX_BLOCKS {
            reader.names.too_many_blocks();
        }
        n_markers += 1;
        current = Block { start: bits_read, end: 0 };
    }
}

/// The name for a block: "rec" and its number before the base name.
fn output_name(input: &[u8], number: usize) -> Vec<u8> {
    let base_at = input.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    let (path, base) = input.split_at(base_at);
    let prefix = format!("rec{:05}", number);
    let mut name = [path, prefix.as_bytes(), base].concat();
    if !name.ends_with(b".bz2") {
        name.extend_from_slice(b".bz2");
    }
    name
}

fn create_output<'a>(names: &'a Names<'a>, number: usize) -> BitWriter<'a> {
    let name = output_name(names.input, number);
    let count = number.to_string();
    say(&[b"   writing block ", count.as_bytes(), b" to `", &name, b"' ...\n"]);
    let stream = match Stream::open_write(&name) {
        Some(stream) => stream,
        None => names.fail(&[b"can't write `", &name, b"'\n"]),
    };
    let mut writer = BitWriter { stream, names, buffer: 0, live: 0 };
    writer.put_bytes(&STREAM_MAGIC);
    // The largest block size fits any block.
    writer.put_bytes(b"9");
    writer.put_bytes(&BLOCK_MAGIC);
    writer
}

/// Writes each block to a file of its own, as a complete stream.
fn write_blocks(reader: &mut BitReader, blocks: &[Block]) {
    let names = reader.names;
    let mut writer: Option<BitWriter> = None;
    let mut block_crc = 0u32;
    let mut index = 0;
    let mut bits_read = 0u64;
    loop {
        let block = blocks.get(index).copied().unwrap_or_default();
        let bit = match reader.next() {
            Some(bit) => bit,
            None => return,
        };
        if bits_read == 47 + block.start {
            block_crc = (reader.recent >> 16) as u32;
        }
        if bits_read >= block.start && bits_read <= block.end {
            if let Some(writer) = &mut writer {
                writer.put(bit);
            }
        }
        bits_read += 1;
        if bits_read == block.end + 1 {
            if let Some(mut writer) = writer.take() {
                writer.put_bytes(&END_MAGIC);
                writer.put_bytes(&block_crc.to_be_bytes());
                writer.close();
            }
            if index >= blocks.len() {
                return;
            }
            index += 1;
        } else if bits_read == block.start {
            writer = Some(create_output(names, index + 1));
        }
    }
}

fn run(args: &[Vec<u8>]) -> i32 {
    let program = args.first().map_or(&b""[..], Vec::as_slice);
    let program = &program[..program.len().min(MAX_FILENAME - 1)];
    eprint(b"bzip2recover 1.0.8: extracts blocks from damaged .bz2 files.\n");
    if args.len() != 2 {
        say(&[program, b": usage is `", program, b" damaged_file_name'.\n"]);
        eprint(b"\trestrictions on size of recovered file: None\n");
        sys::quit(1);
    }
    let input = &args[1][..];
    let names = Names { program, input };
    if input.len() >= MAX_FILENAME - 20 {
        let length = input.len().to_string();
        names.fail(&[
            b"supplied filename is suspiciously (>= ",
            length.as_bytes(),
            b" chars) long.  Bye!\n",
        ]);
    }

    let stream = match Stream::open_read(input) {
        Some(stream) => stream,
        None => names.fail(&[b"can't read `", input, b"'\n"]),
    };
    let mut reader = BitReader::new(stream, &names, 0);
    names.complain(&[b"searching for block boundaries ...\n"]);
    let blocks = find_blocks(&mut reader);
    let recent = reader.recent;
    reader.close();
    if blocks.is_empty() {
        names.fail(&[b"sorry, I couldn't find any block boundaries.\n"]);
    }

    names.complain(&[b"splitting into blocks\n"]);
    let stream = match Stream::open_read(input) {
        Some(stream) => stream,
        None => names.fail(&[b"can't open `", input, b"'\n"]),
    };
    write_blocks(&mut BitReader::new(stream, &names, recent), &blocks);
    names.complain(&[b"finished\n"]);
    0
}
