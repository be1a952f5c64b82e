//! Encoding of one block: move-to-front, choice of the Huffman tables, bit output.

use super::{Encoder, Work};
use crate::blocksort::{block_sort, Job};
use crate::crc;
use crate::format::fixed;
use crate::huffman;
use crate::sys::{bug, eprint};
use crate::tables::*;

const LESSER_COST: u8 = 0;
const GREATER_COST: u8 = 15;
const N_ITERS: usize = 4;
/// The format allows 20, but shorter codes cost next to nothing.
const MAX_LEN: u8 = 17;

/// Bits not yet written; kept from one block to the next.
#[derive(Default)]
pub struct BitState {
    buffer: u32,
    live: u32,
}

/// Tables of the block being encoded.
pub struct Tables {
    n_mtf: usize,
    n_in_use: usize,
    mtf_freq: [i32; MAX_ALPHA_SIZE],
    selector: [u8; MAX_SELECTORS],
    selector_mtf: [u8; MAX_SELECTORS],
    len: [[u8; MAX_ALPHA_SIZE]; N_GROUPS],
    code: [[u32; MAX_ALPHA_SIZE]; N_GROUPS],
    freq: [[i32; MAX_ALPHA_SIZE]; N_GROUPS],
}

impl Tables {
    pub const EMPTY: Tables = Tables {
        n_mtf: 0,
        n_in_use: 0,
        mtf_freq: [0; MAX_ALPHA_SIZE],
        selector: [0; MAX_SELECTORS],
        selector_mtf: [0; MAX_SELECTORS],
        len: [[0; MAX_ALPHA_SIZE]; N_GROUPS],
        code: [[0; MAX_ALPHA_SIZE]; N_GROUPS],
        freq: [[0; MAX_ALPHA_SIZE]; N_GROUPS],
    };
}

/// Writes bits to the compressed bytes of a block.
struct BitWriter<'a> {
    bits: &'a mut BitState,
    out: &'a mut [u8],
    written: usize,
}

impl BitWriter<'_> {
    fn emit_byte(&mut self) {
        self.out[self.written] = (self.bits.buffer >> 24) as u8;
        self.written += 1;
        self.bits.buffer <<= 8;
    }

    #[inline(always)]
    fn put(&mut self, count: u32, value: u32) {
        while self.bits.live >= 8 {
            self.emit_byte();
            self.bits.live -= 8;
        }
        self.bits.buffer |= value << (32 - self.bits.live - count);
        self.bits.live += count;
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.put(8, u32::from(byte));
        }
    }

    fn finish(&mut self) {
        while self.bits.live > 0 {
            self.emit_byte();
            self.bits.live = self.bits.live.saturating_sub(8);
        }
    }
}

fn set_mtf_value(words: &mut [u32], at: usize, value: u16) {
    let word = &mut words[at >> 1];
    if at & 1 == 0 {
        *word = u32::from(value);
    } else {
        *word |= u32::from(value) << 16;
    }
}

#[inline(always)]
fn mtf_value(words: &[u32], at: usize) -> usize {
    (words[at >> 1] >> ((at & 1) << 4)) as usize & 0xffff
}

/// Calls `action` on the values of one group; groups start at even positions.
#[inline(always)]
fn for_group(words: &[u32], start: usize, end: usize, mut action: impl FnMut(usize)) {
    let full = &words[start >> 1..end >> 1];
    for &word in full {
        action(word as usize & 0xffff);
        action(word as usize >> 16);
    }
    if end & 1 != 0 {
        action(mtf_value(words, end - 1));
    }
}

impl Tables {
    fn emit(&mut self, words: &mut [u32], value: u16) {
        set_mtf_value(words, self.n_mtf, value);
        self.n_mtf += 1;
        self.mtf_freq[usize::from(value)] += 1;
    }

    /// A run of zeros in bijective base 2.
    fn emit_zeros(&mut self, words: &mut [u32], mut count: usize) {
        while count > 0 {
            count -= 1;
            self.emit(words, if count & 1 != 0 { RUN_B } else { RUN_A });
            count >>= 1;
        }
    }

    /// Replaces the sorted order by move-to-front values: there are never more values
    /// than positions already read.
    fn move_to_front(&mut self, in_use: &[bool; 256], nblock: usize, work: &mut Work) {
        let mut to_seq = [0u8; 256];
        self.n_in_use = 0;
        for (slot, _) in to_seq.iter_mut().zip(in_use).filter(|(_, &used)| used) {
            *slot = self.n_in_use as u8;
            self.n_in_use += 1;
        }
        let eob = self.n_in_use + 1;
        self.mtf_freq[..=eob].fill(0);
        self.n_mtf = 0;

        let mut list = [0u8; 256];
        for (i, slot) in list[..self.n_in_use].iter_mut().enumerate() {
            *slot = i as u8;
        }
        let block = &work.area[..nblock];
        let words = &mut *work.order;
        let mut zeros = 0;
        for i in 0..nblock {
            let at = words[i] as usize;
            let at = if at == 0 { nblock } else { at } - 1;
            let seq = to_seq[usize::from(block[at])];
            if list[0] == seq {
                zeros += 1;
                continue;
            }
            self.emit_zeros(words, zeros);
            zeros = 0;
            let position = to_front(&mut list, seq);
            self.emit(words, position + 1);
        }
        self.emit_zeros(words, zeros);
        self.emit(words, eob as u16);
    }

    fn group_count(&self) -> usize {
        match self.n_mtf {
            0..=199 => 2,
            200..=599 => 3,
            600..=1199 => 4,
            1200..=2399 => 5,
            _ => 6,
        }
    }

    /// Gives each table a contiguous share of the symbols of about equal frequency.
    fn initial_lengths(&mut self, n_groups: usize, alpha_size: usize, verbosity: i32) {
        let mut remaining = self.n_mtf as i32;
        let mut start = 0i32;
        for part in (1..=n_groups).rev() {
            let target = remaining / part as i32;
            let mut end = start - 1;
            let mut sum = 0;
            while sum < target && end < alpha_size as i32 - 1 {
                end += 1;
                sum += self.mtf_freq[end as usize];
            }
            let inner = part != n_groups && part != 1;
            if end > start && inner && (n_groups - part) % 2 == 1 {
                sum -= self.mtf_freq[end as usize];
                end -= 1;
            }
            if verbosity >= 3 {
                let share = 100.0 * f64::from(sum as f32) / f64::from(self.n_mtf as f32);
                eprint(
                    format!(
                        "      initial group {}, [{} .. {}], has {} syms ({}%)\n",
                        part,
                        start,
                        end,
                        sum,
                        fixed(share, 4, 1)
                    )
                    .as_bytes(),
                );
            }
            for (v, len) in self.len[part - 1][..alpha_size].iter_mut().enumerate() {
                let mine = (start..=end).contains(&(v as i32));
                *len = if mine { LESSER_COST } else { GREATER_COST };
            }
            start = end + 1;
            remaining -= sum;
        }
    }

    /// Assigns each group of values to its cheapest table, then adapts the tables.
    fn improve(&mut self, words: &[u32], n_groups: usize, alpha_size: usize) -> Pass {
        let mut pass = Pass { total: 0, uses: [0; N_GROUPS], n_selectors: 0 };
        // Six costs of at most 50 * 20 in one word.
        const LANE: usize = 10;
        let mut packed = [0u64; MAX_ALPHA_SIZE];
        for (t, len) in self.len[..n_groups].iter().enumerate() {
            for (sum, &l) in packed.iter_mut().zip(&len[..alpha_size]) {
                *sum |= u64::from(l) << (LANE * t);
            }
            self.freq[t][..alpha_size].fill(0);
        }

        let mut start = 0;
        while start < self.n_mtf {
            let end = (start + GROUP_SIZE).min(self.n_mtf);
            let mut costs = 0;
            for_group(words, start, end, |v| costs += packed[v]);
            let mut best = 0;
            let mut best_cost = u64::MAX;
            for t in 0..n_groups {
                let cost = costs >> (LANE * t) & ((1 << LANE) - 1);
                if cost < best_cost {
                    best = t;
                    best_cost = cost;
                }
            }
            pass.total += best_cost;
            pass.uses[best] += 1;
            self.selector[pass.n_selectors] = best as u8;
            pass.n_selectors += 1;
            let freq = &mut self.freq[best];
            for_group(words, start, end, |v| freq[v] += 1);
            start = end;
        }
        for t in 0..n_groups {
            let len = &mut self.len[t][..alpha_size];
            huffman::make_code_lengths(len, &self.freq[t], MAX_LEN);
        }
        pass
    }

    fn move_selectors_to_front(&mut self, n_selectors: usize) {
        let mut list = [0u8; N_GROUPS];
        for (i, slot) in list.iter_mut().enumerate() {
            *slot = i as u8;
        }
        let selectors = self.selector[..n_selectors].iter();
        for (slot, &selector) in self.selector_mtf.iter_mut().zip(selectors) {
            *slot = to_front(&mut list, selector) as u8;
        }
    }

    fn assign_codes(&mut self, n_groups: usize, alpha_size: usize) {
        for t in 0..n_groups {
            let len = &self.len[t][..alpha_size];
            let (min_len, max_len) = huffman::length_range(len);
            if max_len > MAX_LEN {
                bug(3004);
            }
            if min_len < 1 {
                bug(3005);
            }
            huffman::assign_codes(&mut self.code[t], len, min_len, max_len);
        }
    }

    fn write_lengths(&self, out: &mut BitWriter, n_groups: usize, alpha_size: usize) {
        for len in &self.len[..n_groups] {
            let mut current = len[0];
            out.put(5, u32::from(current));
            for &l in &len[..alpha_size] {
                while current < l {
                    out.put(2, 2);
                    current += 1;
                }
                while current > l {
                    out.put(2, 3);
                    current -= 1;
                }
                out.put(1, 0);
            }
        }
    }

    fn write_values(&self, out: &mut BitWriter, words: &[u32]) {
        let starts = (0..self.n_mtf).step_by(GROUP_SIZE);
        for (start, &selector) in starts.zip(&self.selector) {
            let end = (start + GROUP_SIZE).min(self.n_mtf);
            let len = &self.len[usize::from(selector)];
            let code = &self.code[usize::from(selector)];
            for_group(words, start, end, |v| out.put(u32::from(len[v]), code[v]));
        }
    }

    /// Writes the block after its header.
    fn send(
        &mut self,
        in_use: &[bool; 256],
        words: &[u32],
        out: &mut BitWriter,
        nblock: usize,
        verbosity: i32,
    ) {
        let verbose = verbosity >= 3;
        if verbose {
            eprint(
                format!(
                    "      {} in block, {} after MTF & 1-2 coding, {}+2 syms in use\n",
                    nblock, self.n_mtf, self.n_in_use
                )
                .as_bytes(),
            );
        }
        let alpha_size = self.n_in_use + 2;
        let n_groups = self.group_count();
        self.initial_lengths(n_groups, alpha_size, verbosity);
        let mut n_selectors = 0;
        for iteration in 1..=N_ITERS {
            let pass = self.improve(words, n_groups, alpha_size);
            if verbose {
                pass.report(iteration, n_groups);
            }
            n_selectors = pass.n_selectors;
        }
        if n_selectors >= 32768 || n_selectors > MAX_SELECTORS {
            bug(3003);
        }
        self.move_selectors_to_front(n_selectors);
        self.assign_codes(n_groups, alpha_size);

        let before = out.written;
        write_mapping(out, in_use);
        if verbose {
            eprint(format!("      bytes: mapping {}, ", out.written - before).as_bytes());
        }
        let before = out.written;
        out.put(3, n_groups as u32);
        out.put(15, n_selectors as u32);
        for &position in &self.selector_mtf[..n_selectors] {
            for _ in 0..position {
                out.put(1, 1);
            }
            out.put(1, 0);
        }
        if verbose {
            eprint(format!("selectors {}, ", out.written - before).as_bytes());
        }
        let before = out.written;
        self.write_lengths(out, n_groups, alpha_size);
        if verbose {
            eprint(format!("code lengths {}, ", out.written - before).as_bytes());
        }
        let before = out.written;
        self.write_values(out, words);
        if verbose {
            eprint(format!("codes {}\n", out.written - before).as_bytes());
        }
    }
}

/// Result of one round of improving the tables.
struct Pass {
    total: u64,
    uses: [i32; N_GROUPS],
    n_selectors: usize,
}

impl Pass {
    fn report(&self, iteration: usize, n_groups: usize) {
        let size = self.total / 8;
        let mut line = format!("      pass {}: size is {}, grp uses are ", iteration, size);
        for uses in &self.uses[..n_groups] {
            line.push_str(&format!("{} ", uses));
        }
        line.push('\n');
        eprint(line.as_bytes());
    }
}

/// Moves a value that is in the list to its front and returns where it was.
#[inline(always)]
fn to_front(list: &mut [u8], value: u8) -> u16 {
    let mut carried = list[0];
    let mut position = 0;
    while carried != value {
        position += 1;
        std::mem::swap(&mut carried, &mut list[position]);
    }
    list[0] = value;
    position as u16
}

fn write_mapping(out: &mut BitWriter, in_use: &[bool; 256]) {
    for row in in_use.chunks_exact(16) {
        out.put(1, u32::from(row.contains(&true)));
    }
    for row in in_use.chunks_exact(16).filter(|row| row.contains(&true)) {
        for &used in row {
            out.put(1, u32::from(used));
        }
    }
}

impl Encoder {
    /// Encodes the collected block, if there is one, behind it in the area.
    pub(super) fn compress_block(&mut self, work: &mut Work, is_last: bool) {
        let mut orig = 0;
        if self.nblock > 0 {
            self.block_crc = !self.block_crc;
            self.combined_crc = crc::combine(self.combined_crc, self.block_crc);
            if self.verbosity >= 2 {
                eprint(
                    format!(
                        "    block {}: crc = 0x{:08x}, combined CRC = 0x{:08x}, size = {}\n",
                        self.block_no, self.block_crc, self.combined_crc, self.nblock
                    )
                    .as_bytes(),
                );
            }
            let job = Job {
                nblock: self.nblock,
                verbosity: self.verbosity,
                work_factor: self.work_factor,
            };
            orig = block_sort(&job, work.order, work.area, work.ftab);
            self.tables.move_to_front(&self.in_use, self.nblock, work);
        }

        self.zbits_at = self.nblock;
        if self.block_no == 1 {
            self.bits = BitState::default();
        }
        let mut out = BitWriter {
            bits: &mut self.bits,
            out: &mut work.area[self.nblock..],
            written: self.num_z,
        };
        if self.block_no == 1 {
            out.put_bytes(&STREAM_MAGIC);
            out.put_bytes(&[LEVEL_BASE + self.level]);
        }
        if self.nblock > 0 {
            out.put_bytes(&BLOCK_MAGIC);
            out.put_bytes(&self.block_crc.to_be_bytes());
            // Never randomised: the sort copes with repetitive blocks.
            out.put(1, 0);
            out.put(24, orig);
            self.tables.send(&self.in_use, work.order, &mut out, self.nblock, self.verbosity);
        }
        if is_last {
            out.put_bytes(&END_MAGIC);
            out.put_bytes(&self.combined_crc.to_be_bytes());
            if self.verbosity >= 2 {
                eprint(
                    format!("    final combined CRC = 0x{:08x}\n   ", self.combined_crc)
                        .as_bytes(),
                );
            }
            out.finish();
        }
        self.num_z = out.written;
    }
}
