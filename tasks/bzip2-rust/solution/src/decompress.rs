//! The decompressor: a state machine that can stop at any bit of the input and at any
//! byte of the output.

mod expand;
mod symbols;

use crate::crc;
use crate::huffman::DecodeTable;
use crate::sys::eprint;
use crate::tables::*;

/// The caller's buffers during one call.
pub struct Io<'a> {
    pub input: &'a [u8],
    pub taken: usize,
    pub output: &'a mut [u8],
    pub given: usize,
}

/// The big work areas: either `fast` or, in small mode, the other two.
pub struct Work<'a> {
    pub fast: &'a mut [u32],
    pub low: &'a mut [u16],
    /// Two 4-bit values to a byte.
    pub high: &'a mut [u8],
}

/// What the caller has to do next.
pub enum Event {
    Return(i32),
    /// Provide the work areas for this level, then call `areas_ready`.
    Allocate(usize),
}

/// Why decoding stopped before its goal.
enum Stop {
    NeedInput,
    NeedAreas,
    StreamEnd,
    Failed(i32),
}

const CORRUPT: Stop = Stop::Failed(BZ_DATA_ERROR);

/// Which of the three places in the block a Huffman symbol is read for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Site {
    First,
    Run,
    Literal,
}

/// The piece of input that is read next. Numbers count the bytes of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Output,
    Magic(usize),
    Level,
    BlockMagic(usize),
    BlockCrc(u8),
    RandomisedBit,
    OrigPtr(u8),
    MappingRows,
    MappingBytes,
    GroupCount,
    SelectorCount,
    Selectors,
    FirstLength,
    LengthStep,
    LengthSign,
    SymbolBits(Site),
    SymbolExtraBit(Site),
    EndMagic(usize),
    StreamCrc(u8),
}

/// State of a decompression stream, apart from its work areas.
pub struct Decoder {
    state: State,
    small: bool,
    verbosity: i32,
    level: usize,
    block_no: i32,

    bit_buffer: u32,
    bits_live: u32,

    stored_block_crc: u32,
    stored_stream_crc: u32,
    block_crc: u32,
    stream_crc: u32,

    randomised: bool,
    random_left: i32,
    random_at: usize,
    orig_ptr: usize,

    // Progress within the tables of the block.
    i: usize,
    j: usize,
    t: usize,
    current_len: i32,
    n_groups: usize,
    n_selectors: usize,

    n_in_use: usize,
    in_use: [bool; 256],
    in_use_rows: [bool; 16],
    seq_to_byte: [u8; 256],
    selector: [u8; MAX_SELECTORS],
    selector_mtf: [u8; MAX_SELECTORS],
    len: [[u8; MAX_ALPHA_SIZE]; N_GROUPS],
    codes: [DecodeTable; N_GROUPS],

    // Progress within the symbols of the block.
    group_no: usize,
    group_left: usize,
    code_no: usize,
    code_len: usize,
    code_bits: i32,
    run_len: i32,
    run_weight: i32,
    mtf_list: [u8; 256],
    nblock: usize,
    byte_counts: [i32; 256],

    // Progress within the output of the block.
    starts: [i32; 257],
    position: u32,
    next_byte: u8,
    used: usize,
    out_byte: u8,
    out_len: i32,
}

impl Decoder {
    pub fn new(verbosity: i32, small: bool) -> Decoder {
        Decoder {
            state: State::Magic(0),
            small,
            verbosity,
            level: 0,
            block_no: 0,
            bit_buffer: 0,
            bits_live: 0,
            stored_block_crc: 0,
            stored_stream_crc: 0,
            block_crc: 0,
            stream_crc: 0,
            randomised: false,
            random_left: 0,
            random_at: 0,
            orig_ptr: 0,
            i: 0,
            j: 0,
            t: 0,
            current_len: 0,
            n_groups: 0,
            n_selectors: 0,
            n_in_use: 0,
            in_use: [false; 256],
            in_use_rows: [false; 16],
            seq_to_byte: [0; 256],
            selector: [0; MAX_SELECTORS],
            selector_mtf: [0; MAX_SELECTORS],
            len: [[0; MAX_ALPHA_SIZE]; N_GROUPS],
            codes: [DecodeTable::EMPTY; N_GROUPS],
            group_no: 0,
            group_left: 0,
            code_no: 0,
            code_len: 0,
            code_bits: 0,
            run_len: 0,
            run_weight: 0,
            mtf_list: [0; 256],
            nblock: 0,
            byte_counts: [0; 256],
            starts: [0; 257],
            position: 0,
            next_byte: 0,
            used: 0,
            out_byte: 0,
            out_len: 0,
        }
    }

    pub fn is_small(&self) -> bool {
        self.small
    }

    /// Goes on with the blocks now that there is memory for them.
    pub fn areas_ready(&mut self) {
        self.state = State::BlockMagic(0);
    }

    /// Decodes until input, output or the stream ends.
    pub fn decompress(&mut self, io: &mut Io, work: &mut Work) -> Event {
        loop {
            if self.state == State::Idle {
                return Event::Return(BZ_SEQUENCE_ERROR);
            }
            if self.state == State::Output {
                if self.expand(io, work).is_err() {
                    return Event::Return(BZ_DATA_ERROR);
                }
                if self.used != self.nblock + 1 || self.out_len != 0 {
                    return Event::Return(BZ_OK);
                }
                if !self.finish_block() {
                    return Event::Return(BZ_DATA_ERROR);
                }
            }
            match self.read_block(io, work) {
                Ok(()) => self.state = State::Output,
                Err(Stop::NeedInput) => return Event::Return(BZ_OK),
                Err(Stop::NeedAreas) => return Event::Allocate(self.level),
                Err(Stop::StreamEnd) => return Event::Return(self.finish_stream()),
                Err(Stop::Failed(code)) => return Event::Return(code),
            }
        }
    }

    /// Checks the block just written; false if its checksum is wrong.
    fn finish_block(&mut self) -> bool {
        self.block_crc = !self.block_crc;
        if self.verbosity >= 3 {
            eprint(
                format!(" {{0x{:08x}, 0x{:08x}}}", self.stored_block_crc, self.block_crc)
                    .as_bytes(),
            );
        }
        if self.verbosity >= 2 {
            eprint(b"]");
        }
        if self.block_crc != self.stored_block_crc {
            return false;
        }
        self.stream_crc = crc::combine(self.stream_crc, self.block_crc);
        self.state = State::BlockMagic(0);
        true
    }

    fn finish_stream(&mut self) -> i32 {
        self.state = State::Idle;
        if self.verbosity >= 3 {
            eprint(
                format!(
                    "\n    combined CRCs: stored = 0x{:08x}, computed = 0x{:08x}",
                    self.stored_stream_crc, self.stream_crc
                )
                .as_bytes(),
            );
        }
        if self.stored_stream_crc == self.stream_crc {
            BZ_STREAM_END
        } else {
            BZ_DATA_ERROR
        }
    }

    /// Takes bits from the input. If it runs out, the bits so far stay in the buffer.
    #[inline(always)]
    fn bits(&mut self, io: &mut Io, count: u32) -> Result<u32, Stop> {
        while self.bits_live < count {
            let byte = *io.input.get(io.taken).ok_or(Stop::NeedInput)?;
            io.taken += 1;
            self.bit_buffer = self.bit_buffer << 8 | u32::from(byte);
            self.bits_live += 8;
        }
        self.bits_live -= count;
        Ok(self.bit_buffer >> self.bits_live & ((1 << count) - 1))
    }

    fn byte(&mut self, io: &mut Io) -> Result<u8, Stop> {
        Ok(self.bits(io, 8)? as u8)
    }

    fn bit(&mut self, io: &mut Io) -> Result<bool, Stop> {
        Ok(self.bits(io, 1)? != 0)
    }

    /// Reads up to the point where a block is ready for output.
    ///
    /// The state only moves on after a field was read, so each return resumes there.
    fn read_block(&mut self, io: &mut Io, work: &mut Work) -> Result<(), Stop> {
        loop {
            match self.state {
                State::Idle | State::Output => return Ok(()),
                State::Magic(n) => {
                    if self.byte(io)? != STREAM_MAGIC[n] {
                        return Err(Stop::Failed(BZ_DATA_ERROR_MAGIC));
                    }
                    let last = n + 1 == STREAM_MAGIC.len();
                    self.state = if last { State::Level } else { State::Magic(n + 1) };
                }
                State::Level => {
                    let level = self.byte(io)?.wrapping_sub(LEVEL_BASE);
                    if !(1..=9).contains(&level) {
                        return Err(Stop::Failed(BZ_DATA_ERROR_MAGIC));
                    }
                    self.level = usize::from(level);
                    return Err(Stop::NeedAreas);
                }
                State::BlockMagic(_)
                | State::BlockCrc(_)
                | State::RandomisedBit
                | State::OrigPtr(_) => self.read_block_header(io)?,
                State::MappingRows | State::MappingBytes => self.read_mapping(io)?,
                State::GroupCount | State::SelectorCount | State::Selectors => {
                    self.read_selectors(io)?;
                }
                State::FirstLength | State::LengthStep | State::LengthSign => {
                    self.read_lengths(io)?;
                }
                State::SymbolBits(site) | State::SymbolExtraBit(site) => {
                    self.read_symbols(io, work, site)?;
                    self.check_counts()?;
                    self.start_output(work);
                    return Ok(());
                }
                State::EndMagic(_) | State::StreamCrc(_) => self.read_trailer(io)?,
            }
        }
    }

    fn read_block_header(&mut self, io: &mut Io) -> Result<(), Stop> {
        match self.state {
            State::BlockMagic(n) => {
                let byte = self.byte(io)?;
                if n == 0 && byte == END_MAGIC[0] {
                    self.state = State::EndMagic(1);
                    return Ok(());
                }
                if byte != BLOCK_MAGIC[n] {
                    return Err(CORRUPT);
                }
                self.state = State::BlockMagic(n + 1);
                if n + 1 == BLOCK_MAGIC.len() {
                    self.block_no += 1;
                    if self.verbosity >= 2 {
                        eprint(format!("\n    [{}: huff+mtf ", self.block_no).as_bytes());
                    }
                    self.stored_block_crc = 0;
                    self.state = State::BlockCrc(0);
                }
            }
            State::BlockCrc(n) => {
                let byte = self.byte(io)?;
                self.stored_block_crc = self.stored_block_crc << 8 | u32::from(byte);
                self.state =
                    if n == 3 { State::RandomisedBit } else { State::BlockCrc(n + 1) };
            }
            State::RandomisedBit => {
                self.randomised = self.bit(io)?;
                self.orig_ptr = 0;
                self.state = State::OrigPtr(0);
            }
            State::OrigPtr(n) => {
                let byte = self.byte(io)?;
                self.orig_ptr = (self.orig_ptr << 8 | usize::from(byte)) & 0xff_ffff;
                if n < 2 {
                    self.state = State::OrigPtr(n + 1);
                    return Ok(());
                }
                if self.orig_ptr > 10 + BLOCK_UNIT * self.level {
                    return Err(CORRUPT);
                }
                self.i = 0;
                self.state = State::MappingRows;
            }
            _ => {}
        }
        Ok(())
    }

    fn read_mapping(&mut self, io: &mut Io) -> Result<(), Stop> {
        if self.state == State::MappingRows {
            while self.i < 16 {
                self.in_use_rows[self.i] = self.bit(io)?;
                self.i += 1;
            }
            self.in_use = [false; 256];
            self.i = 0;
            self.j = 0;
            self.state = State::MappingBytes;
        }
        while self.i < 16 {
            if self.in_use_rows[self.i] {
                while self.j < 16 {
                    self.in_use[self.i * 16 + self.j] = self.bit(io)?;
                    self.j += 1;
                }
            }
            self.j = 0;
            self.i += 1;
        }
        self.n_in_use = 0;
        for (byte, _) in self.in_use.iter().enumerate().filter(|(_, &used)| used) {
            self.seq_to_byte[self.n_in_use] = byte as u8;
            self.n_in_use += 1;
        }
        if self.n_in_use == 0 {
            return Err(CORRUPT);
        }
        self.state = State::GroupCount;
        Ok(())
    }

    fn read_selectors(&mut self, io: &mut Io) -> Result<(), Stop> {
        if self.state == State::GroupCount {
            self.n_groups = self.bits(io, 3)? as usize;
            if !(2..=N_GROUPS).contains(&self.n_groups) {
                return Err(CORRUPT);
            }
            self.state = State::SelectorCount;
        }
        if self.state == State::SelectorCount {
            self.n_selectors = self.bits(io, 15)? as usize;
            if self.n_selectors < 1 {
                return Err(CORRUPT);
            }
            self.i = 0;
            self.j = 0;
            self.state = State::Selectors;
        }
        while self.i < self.n_selectors {
            while self.bit(io)? {
                self.j += 1;
                if self.j >= self.n_groups {
                    return Err(CORRUPT);
                }
            }
            // Some compressors round the count up: the excess is read and ignored.
            if let Some(slot) = self.selector_mtf.get_mut(self.i) {
                *slot = self.j as u8;
            }
            self.j = 0;
            self.i += 1;
        }
        self.n_selectors = self.n_selectors.min(MAX_SELECTORS);
        self.undo_selector_mtf();
        self.t = 0;
        self.state = State::FirstLength;
        Ok(())
    }

    fn undo_selector_mtf(&mut self) {
        // Sized for any byte: a caller may go on after an error.
        let mut list = [0u8; 256];
        for (i, slot) in list[..self.n_groups].iter_mut().enumerate() {
            *slot = i as u8;
        }
        let positions = &self.selector_mtf[..self.n_selectors];
        for (selector, &position) in self.selector.iter_mut().zip(positions) {
            let position = usize::from(position);
            *selector = list[position];
            list.copy_within(..position, 1);
            list[0] = *selector;
        }
    }

    fn read_lengths(&mut self, io: &mut Io) -> Result<(), Stop> {
        let alpha_size = self.n_in_use + 2;
        while self.t < self.n_groups {
            match self.state {
                State::FirstLength => {
                    self.current_len = self.bits(io, 5)? as i32;
                    self.i = 0;
                    self.check_length()?;
                    self.state = State::LengthStep;
                }
                State::LengthStep => {
                    if self.bit(io)? {
                        self.state = State::LengthSign;
                        continue;
                    }
                    self.len[self.t][self.i] = self.current_len as u8;
                    self.i += 1;
                    if self.i >= alpha_size {
                        self.t += 1;
                        self.state = State::FirstLength;
                    }
                }
                _ => {
                    let down = self.bit(io)?;
                    self.current_len += if down { -1 } else { 1 };
                    self.check_length()?;
                    self.state = State::LengthStep;
                }
            }
        }
        for (code, len) in self.codes.iter_mut().zip(&self.len).take(self.n_groups) {
            code.build(&len[..alpha_size]);
        }
        self.start_symbols()
    }

    fn check_length(&self) -> Result<(), Stop> {
        if (1..=20).contains(&self.current_len) {
            Ok(())
        } else {
            Err(CORRUPT)
        }
    }

    fn read_trailer(&mut self, io: &mut Io) -> Result<(), Stop> {
        let byte = self.byte(io)?;
        match self.state {
            State::EndMagic(n) => {
                if byte != END_MAGIC[n] {
                    return Err(CORRUPT);
                }
                self.state = State::EndMagic(n + 1);
                if n + 1 == END_MAGIC.len() {
                    self.stored_stream_crc = 0;
                    self.state = State::StreamCrc(0);
                }
                Ok(())
            }
            State::StreamCrc(n) => {
                self.stored_stream_crc = self.stored_stream_crc << 8 | u32::from(byte);
                if n == 3 {
                    return Err(Stop::StreamEnd);
                }
                self.state = State::StreamCrc(n + 1);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
