//! Inversion of the block sorting, and of the run-length coding on the way out.

use super::{Decoder, Io, State, Stop, Work, CORRUPT};
use crate::crc;
use crate::randtable::R_NUMS;
use crate::sys::eprint;
use crate::tables::BLOCK_UNIT;

fn get_low_high(low: &[u16], high: &[u8], i: usize) -> u32 {
    let nibble = high[i >> 1] >> ((i & 1) << 2) & 0xf;
    u32::from(low[i]) | u32::from(nibble) << 16
}

fn set_low_high(low: &mut [u16], high: &mut [u8], i: usize, value: u32) {
    low[i] = value as u16;
    let nibble = (value >> 16) as u8;
    let pair = &mut high[i >> 1];
    *pair = if i & 1 == 0 { *pair & 0xf0 | nibble } else { *pair & 0x0f | nibble << 4 };
}

/// The byte whose share of the sorted first column holds this position.
fn index_into_starts(position: u32, starts: &[i32; 257]) -> u8 {
    let (mut below, mut above) = (0, 256);
    while above - below != 1 {
        let middle = (below + above) >> 1;
        if position as i32 >= starts[middle] {
            below = middle;
        } else {
            above = middle;
        }
    }
    below as u8
}

impl Decoder {
    /// Checks what the symbols say about the block, and sums up the byte counts.
    pub(super) fn check_counts(&mut self) -> Result<(), Stop> {
        let nblock = self.nblock as i32;
        if self.orig_ptr >= self.nblock {
            return Err(CORRUPT);
        }
        if self.byte_counts.iter().any(|&count| count < 0 || count > nblock) {
            return Err(CORRUPT);
        }
        let mut sum = 0i32;
        self.starts[0] = 0;
        for (start, &count) in self.starts[1..].iter_mut().zip(&self.byte_counts) {
            sum = sum.wrapping_add(count);
            *start = sum;
        }
        if self.starts.iter().any(|&start| start < 0 || start > nblock) {
            return Err(CORRUPT);
        }
        if self.starts.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(CORRUPT);
        }
        Ok(())
    }

    pub(super) fn start_output(&mut self, work: &mut Work) {
        self.out_len = 0;
        self.out_byte = 0;
        self.block_crc = crc::INIT;
        self.state = State::Output;
        if self.verbosity >= 2 {
            eprint(b"rt+rld");
        }
        self.used = 0;
        self.random_left = 0;
        self.random_at = 0;
        if self.small {
            self.invert_small(work.low, work.high);
        } else {
            self.invert_fast(work.fast);
        }
        // In range, because the inversion is a permutation of the block.
        if let Some(byte) = self.next(work) {
            self.next_byte = byte;
        }
    }

    fn invert_small(&mut self, low: &mut [u16], high: &mut [u8]) {
        let mut fill = self.starts;
        for i in 0..self.nblock {
            let slot = &mut fill[usize::from(low[i] as u8)];
            set_low_high(low, high, i, *slot as u32);
            *slot += 1;
        }
        // Reverse the pointers along the cycle.
        let mut i = self.orig_ptr;
        let mut j = get_low_high(low, high, i) as usize;
        loop {
            let next = get_low_high(low, high, j) as usize;
            set_low_high(low, high, j, i as u32);
            i = j;
            j = next;
            if i == self.orig_ptr {
                break;
            }
        }
        self.position = self.orig_ptr as u32;
    }

    fn invert_fast(&mut self, words: &mut [u32]) {
        let words = &mut words[..self.nblock];
        for i in 0..words.len() {
            let slot = &mut self.starts[usize::from(words[i] as u8)];
            words[*slot as usize] |= (i as u32) << 8;
            *slot += 1;
        }
        self.position = words[self.orig_ptr] >> 8;
    }

    /// The next byte of the block; None if the data leads out of it.
    #[inline(always)]
    fn next(&mut self, work: &mut Work) -> Option<u8> {
        let byte = if self.small {
            if self.position as usize >= BLOCK_UNIT * self.level {
                return None;
            }
            let byte = index_into_starts(self.position, &self.starts);
            self.position = get_low_high(work.low, work.high, self.position as usize);
            byte
        } else {
            let word = *work.fast.get(self.position as usize)?;
            self.position = word >> 8;
            word as u8
        };
        self.used += 1;
        Some(byte ^ self.random_mask())
    }

    /// 1 for the bytes that randomisation has inverted in their lowest bit.
    #[inline(always)]
    fn random_mask(&mut self) -> u8 {
        if !self.randomised {
            return 0;
        }
        if self.random_left == 0 {
            self.random_left = i32::from(R_NUMS[self.random_at]);
            self.random_at = (self.random_at + 1) % R_NUMS.len();
        }
        self.random_left -= 1;
        u8::from(self.random_left == 1)
    }

    /// Writes output until it is full or the block is done.
    pub(super) fn expand(&mut self, io: &mut Io, work: &mut Work) -> Result<(), Stop> {
        if self.small || self.randomised {
            self.expand_stepwise(io, work)
        } else {
            self.expand_fast(io, work)
        }
    }

    fn expand_stepwise(&mut self, io: &mut Io, work: &mut Work) -> Result<(), Stop> {
        loop {
            let run = (self.out_len as usize).min(io.output.len() - io.given);
            for slot in &mut io.output[io.given..io.given + run] {
                *slot = self.out_byte;
                self.block_crc = crc::update(self.block_crc, self.out_byte);
            }
            io.given += run;
            self.out_len -= run as i32;
            if io.given == io.output.len() {
                return Ok(());
            }
            if self.used == self.nblock + 1 {
                return Ok(());
            }
            if self.used > self.nblock + 1 {
                return Err(CORRUPT);
            }
            self.start_run(work)?;
        }
    }

    /// Reads the length of the run of the pending byte, up to its count byte.
    fn start_run(&mut self, work: &mut Work) -> Result<(), Stop> {
        self.out_byte = self.next_byte;
        for len in 1..=3 {
            self.out_len = len;
            let byte = self.next(work).ok_or(CORRUPT)?;
            if self.used == self.nblock + 1 {
                return Ok(());
            }
            if byte != self.next_byte {
                self.next_byte = byte;
                return Ok(());
            }
        }
        let count = self.next(work).ok_or(CORRUPT)?;
        self.out_len = i32::from(count) + 4;
        self.next_byte = self.next(work).ok_or(CORRUPT)?;
        Ok(())
    }

    /// The common case, on local copies. On corruption they are dropped, so that the
    /// caller sees no progress.
    fn expand_fast(&mut self, io: &mut Io, work: &mut Work) -> Result<(), Stop> {
        let words: &[u32] = work.fast;
        let end = self.nblock + 1;
        let mut crc = self.block_crc;
        let mut out_byte = self.out_byte;
        let mut out_len = self.out_len as usize;
        let mut used = self.used;
        let mut next_byte = self.next_byte;
        let mut position = self.position;
        let mut given = io.given;
        let output = &mut *io.output;

        let mut next = || -> Result<u8, Stop> {
            let word = *words.get(position as usize).ok_or(CORRUPT)?;
            position = word >> 8;
            Ok(word as u8)
        };
        'full: loop {
            if out_len > 0 {
                let run = out_len.min(output.len() - given);
                for slot in &mut output[given..given + run] {
                    *slot = out_byte;
                    crc = crc::update(crc, out_byte);
                }
                given += run;
                out_len -= run;
                if out_len > 0 {
                    break;
                }
            }
            loop {
                if used > end {
                    return Err(CORRUPT);
                }
                if used == end {
                    break 'full;
                }
                out_byte = next_byte;
                let byte = next()?;
                used += 1;
                if byte == out_byte && used != end {
                    break;
                }
                // A byte on its own: most are.
                next_byte = byte;
                match output.get_mut(given) {
                    Some(slot) => *slot = out_byte,
                    None => {
                        out_len = 1;
                        break 'full;
                    }
                }
                crc = crc::update(crc, out_byte);
                given += 1;
            }

            out_len = 2;
            let byte = next()?;
            used += 1;
            if used == end {
                continue;
            }
            if byte != next_byte {
                next_byte = byte;
                continue;
            }
            out_len = 3;
            let byte = next()?;
            used += 1;
            if used == end {
                continue;
            }
            if byte != next_byte {
                next_byte = byte;
                continue;
            }
            out_len = usize::from(next()?) + 4;
            used += 1;
            next_byte = next()?;
            used += 1;
        }

        self.block_crc = crc;
        self.out_byte = out_byte;
        self.out_len = out_len as i32;
        self.used = used;
        self.next_byte = next_byte;
        self.position = position;
        io.given = given;
        Ok(())
    }
}
