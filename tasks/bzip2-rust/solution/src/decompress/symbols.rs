//! Decoding of the Huffman symbols of a block into the order of its rotations.

use super::{Decoder, Io, Site, State, Stop, Work, CORRUPT};
use crate::tables::*;

/// No code is longer.
const MAX_BITS: usize = 20;
/// Runs cannot be longer than a block, so a greater weight means corruption.
const MAX_RUN_WEIGHT: i32 = 2 * 1024 * 1024;

impl Decoder {
    pub(super) fn start_symbols(&mut self) -> Result<(), Stop> {
        // The first symbol opens group 0.
        self.group_no = usize::MAX;
        self.group_left = 0;
        self.byte_counts = [0; 256];
        for (i, slot) in self.mtf_list.iter_mut().enumerate() {
            *slot = i as u8;
        }
        self.nblock = 0;
        self.begin_symbol(Site::First)
    }

    #[inline(always)]
    fn begin_symbol(&mut self, site: Site) -> Result<(), Stop> {
        if self.group_left == 0 {
            self.group_no = self.group_no.wrapping_add(1);
            if self.group_no >= self.n_selectors {
                return Err(CORRUPT);
            }
            self.group_left = GROUP_SIZE;
            self.code_no = usize::from(self.selector[self.group_no]);
        }
        self.group_left -= 1;
        self.code_len = usize::from(self.codes[self.code_no].min_len);
        self.state = State::SymbolBits(site);
        Ok(())
    }

    #[inline(always)]
    fn finish_symbol(&mut self, io: &mut Io, site: Site) -> Result<u16, Stop> {
        if let State::SymbolBits(_) = self.state {
            self.code_bits = self.bits(io, self.code_len as u32)? as i32;
        } else {
            self.code_bits = self.code_bits << 1 | self.bits(io, 1)? as i32;
        }
        loop {
            if self.code_len > MAX_BITS {
                return Err(CORRUPT);
            }
            let code = &self.codes[self.code_no];
            if self.code_bits <= code.limit[self.code_len] {
                let index = self.code_bits.wrapping_sub(code.base[self.code_len]);
                return match code.perm.get(index as usize) {
                    Some(&symbol) if index >= 0 => Ok(symbol),
                    _ => Err(CORRUPT),
                };
            }
            self.code_len += 1;
            self.state = State::SymbolExtraBit(site);
            self.code_bits = self.code_bits << 1 | self.bits(io, 1)? as i32;
        }
    }

    /// Decodes up to the end-of-block symbol, going on with the symbol under way.
    pub(super) fn read_symbols(
        &mut self,
        io: &mut Io,
        work: &mut Work,
        mut site: Site,
    ) -> Result<(), Stop> {
        let eob = self.n_in_use as u16 + 1;
        loop {
            let symbol = self.finish_symbol(io, site)?;
            if site == Site::Run && symbol > RUN_B {
                self.append_run(work)?;
            }
            if symbol <= RUN_B {
                if site != Site::Run {
                    self.run_len = -1;
                    self.run_weight = 1;
                    site = Site::Run;
                }
                if self.run_weight >= MAX_RUN_WEIGHT {
                    return Err(CORRUPT);
                }
                self.run_len += self.run_weight << symbol;
                self.run_weight *= 2;
            } else if symbol == eob {
                return Ok(());
            } else {
                site = Site::Literal;
                self.append_literal(usize::from(symbol - 1), work)?;
            }
            self.begin_symbol(site)?;
        }
    }

    fn append_run(&mut self, work: &mut Work) -> Result<(), Stop> {
        self.run_len += 1;
        let byte = self.seq_to_byte[usize::from(self.mtf_list[0])];
        let count = &mut self.byte_counts[usize::from(byte)];
        *count = count.wrapping_add(self.run_len);

        let room = self.level * BLOCK_UNIT - self.nblock;
        let wanted = self.run_len.max(0) as usize;
        let fitting = wanted.min(room);
        let range = self.nblock..self.nblock + fitting;
        if self.small {
            work.low[range].fill(u16::from(byte));
        } else {
            work.fast[range].fill(u32::from(byte));
        }
        self.nblock += fitting;
        self.run_len -= fitting as i32;
        if fitting < wanted {
            return Err(CORRUPT);
        }
        Ok(())
    }

    #[inline(always)]
    fn append_literal(&mut self, position: usize, work: &mut Work) -> Result<(), Stop> {
        if self.nblock >= self.level * BLOCK_UNIT {
            return Err(CORRUPT);
        }
        let byte = self.seq_to_byte[usize::from(self.move_front(position))];
        self.byte_counts[usize::from(byte)] += 1;
        if self.small {
            work.low[self.nblock] = u16::from(byte);
        } else {
            work.fast[self.nblock] = u32::from(byte);
        }
        self.nblock += 1;
        Ok(())
    }

    #[inline(always)]
    fn move_front(&mut self, position: usize) -> u8 {
        let list = &mut self.mtf_list;
        let position = position & 0xff;
        let moved = list[position];
        if position < 16 {
            // A call of memmove costs more than so short a move.
            let mut i = position;
            while i > 0 {
                list[i] = list[i - 1];
                i -= 1;
            }
        } else {
            list.copy_within(..position, 1);
        }
        list[0] = moved;
        moved
    }
}
