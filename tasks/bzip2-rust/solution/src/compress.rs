//! The compressor: run-length coding of the input, and the encoding of blocks.

mod encode;

use crate::crc;
use crate::tables::*;
use encode::{BitState, Tables};

/// The caller's buffers during one call.
pub struct Io<'a> {
    pub input: &'a [u8],
    pub taken: usize,
    pub output: &'a mut [u8],
    pub given: usize,
}

impl Io<'_> {
    fn avail_in(&self) -> u32 {
        (self.input.len() - self.taken) as u32
    }
}

/// The big work areas, which live outside the state because the caller's allocator
/// provides each of them separately.
pub struct Work<'a> {
    /// Sorted order, then the move-to-front values, two to a word.
    pub order: &'a mut [u32],
    /// The block, with scratch space and later the compressed bytes behind it.
    pub area: &'a mut [u8],
    pub ftab: &'a mut [u32],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Idle,
    Running,
    Flushing,
    Finishing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Input,
    Output,
}

/// State of a compression stream, apart from its work areas.
pub struct Encoder {
    mode: Mode,
    phase: Phase,
    /// Input that was announced with the flush or finish under way.
    expected: u32,
    /// Byte of the run being collected; 256 if there is none.
    run_byte: u32,
    run_len: u32,
    nblock: usize,
    nblock_max: usize,
    /// Compressed bytes of the block, starting at `zbits_at` in the area.
    num_z: usize,
    zbits_at: usize,
    out_pos: usize,
    in_use: [bool; 256],
    bits: BitState,
    block_crc: u32,
    combined_crc: u32,
    verbosity: i32,
    work_factor: i32,
    block_no: i32,
    level: u8,
    tables: Tables,
}

impl Encoder {
    pub fn new(level: u8, verbosity: i32, work_factor: i32) -> Encoder {
        Encoder {
            mode: Mode::Running,
            phase: Phase::Input,
            expected: 0,
            run_byte: 256,
            run_len: 0,
            nblock: 0,
            nblock_max: usize::from(level) * BLOCK_UNIT - 19,
            num_z: 0,
            zbits_at: 0,
            out_pos: 0,
            in_use: [false; 256],
            bits: BitState::default(),
            block_crc: crc::INIT,
            combined_crc: 0,
            verbosity,
            work_factor,
            block_no: 1,
            level,
            tables: Tables::EMPTY,
        }
    }

    fn start_block(&mut self) {
        self.nblock = 0;
        self.num_z = 0;
        self.out_pos = 0;
        self.block_crc = crc::INIT;
        self.in_use = [false; 256];
        self.block_no += 1;
    }

    fn no_run(&self) -> bool {
        self.run_byte >= 256 || self.run_len == 0
    }

    fn append_run(&mut self, block: &mut [u8]) {
        let byte = self.run_byte as u8;
        for _ in 0..self.run_len {
            self.block_crc = crc::update(self.block_crc, byte);
        }
        self.in_use[usize::from(byte)] = true;
        let plain = (self.run_len as usize).min(4);
        block[self.nblock..self.nblock + plain].fill(byte);
        self.nblock += plain;
        if plain == 4 {
            let extra = (self.run_len - 4) as u8;
            self.in_use[usize::from(extra)] = true;
            block[self.nblock] = extra;
            self.nblock += 1;
        }
    }

    fn flush_run(&mut self, block: &mut [u8]) {
        if self.run_byte < 256 {
            self.append_run(block);
        }
        self.run_byte = 256;
        self.run_len = 0;
    }

    #[inline(always)]
    fn add_byte(&mut self, block: &mut [u8], byte: u8) {
        let byte = u32::from(byte);
        if byte != self.run_byte && self.run_len == 1 {
            let previous = self.run_byte as u8;
            self.block_crc = crc::update(self.block_crc, previous);
            self.in_use[usize::from(previous)] = true;
            block[self.nblock] = previous;
            self.nblock += 1;
            self.run_byte = byte;
        } else if byte != self.run_byte || self.run_len == 255 {
            if self.run_byte < 256 {
                self.append_run(block);
            }
            self.run_byte = byte;
            self.run_len = 1;
        } else {
            self.run_len += 1;
        }
    }

    /// Takes input until the block is full or the input of this call is used up.
    fn take_input(&mut self, io: &mut Io, block: &mut [u8]) -> bool {
        let mut rest = &io.input[io.taken..];
        if self.mode != Mode::Running {
            rest = &rest[..rest.len().min(self.expected as usize)];
        }
        let mut taken = 0;
        for &byte in rest {
            if self.nblock >= self.nblock_max {
                break;
            }
            self.add_byte(block, byte);
            taken += 1;
        }
        io.taken += taken;
        if self.mode != Mode::Running {
            self.expected -= taken as u32;
        }
        taken > 0
    }

    fn give_output(&mut self, io: &mut Io, area: &[u8]) -> bool {
        let count = (io.output.len() - io.given).min(self.num_z - self.out_pos);
        let from = self.zbits_at + self.out_pos;
        io.output[io.given..io.given + count].copy_from_slice(&area[from..from + count]);
        io.given += count;
        self.out_pos += count;
        count > 0
    }

    /// Works until input or output runs out; false if nothing could be done.
    fn advance(&mut self, io: &mut Io, work: &mut Work) -> bool {
        let mut progress = false;
        loop {
            if self.phase == Phase::Output {
                progress |= self.give_output(io, work.area);
                if self.out_pos < self.num_z {
                    break;
                }
                let drained = self.expected == 0 && self.no_run();
                if self.mode == Mode::Finishing && drained {
                    break;
                }
                self.start_block();
                self.phase = Phase::Input;
                if self.mode == Mode::Flushing && drained {
                    break;
                }
            }
            progress |= self.take_input(io, work.area);
            if self.mode != Mode::Running && self.expected == 0 {
                self.flush_run(work.area);
                self.compress_block(work, self.mode == Mode::Finishing);
                self.phase = Phase::Output;
            } else if self.nblock >= self.nblock_max {
                self.compress_block(work, false);
                self.phase = Phase::Output;
            } else if io.avail_in() == 0 {
                break;
            }
        }
        progress
    }

    pub fn compress(&mut self, action: i32, io: &mut Io, work: &mut Work) -> i32 {
        if self.mode == Mode::Running {
            match action {
                BZ_RUN if self.advance(io, work) => return BZ_RUN_OK,
                BZ_FLUSH => self.mode = Mode::Flushing,
                BZ_FINISH => self.mode = Mode::Finishing,
                _ => return BZ_PARAM_ERROR,
            }
            self.expected = io.avail_in();
        }
        let wanted = match self.mode {
            Mode::Flushing => BZ_FLUSH,
            Mode::Finishing => BZ_FINISH,
            _ => return BZ_SEQUENCE_ERROR,
        };
        if action != wanted || self.expected != io.avail_in() {
            return BZ_SEQUENCE_ERROR;
        }
        let progress = self.advance(io, work);
        let pending = self.expected > 0 || !self.no_run() || self.out_pos < self.num_z;
        if self.mode == Mode::Flushing {
            if pending {
                return BZ_FLUSH_OK;
            }
            self.mode = Mode::Running;
            return BZ_RUN_OK;
        }
        if !progress {
            return BZ_SEQUENCE_ERROR;
        }
        if pending {
            return BZ_FINISH_OK;
        }
        self.mode = Mode::Idle;
        BZ_STREAM_END
    }
}
