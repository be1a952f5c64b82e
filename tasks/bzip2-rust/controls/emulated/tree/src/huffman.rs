//! Construction of length-limited Huffman codes and of their decoding tables.

use crate::machine::{with, Machine};
use crate::tables::{MAX_ALPHA_SIZE, MAX_CODE_LEN};

const MAKE_LENGTHS: usize = 0;
const ASSIGN_CODES: usize = 1;
const CREATE_TABLES: usize = 2;

// Where the arguments lie.
const A: usize = 0x100;
const B: usize = 0x800;
const C: usize = 0x1000;
const D: usize = 0x1800;

fn int(number: u8) -> u64 {
    u64::from(number)
}

/// Chooses a code length of at most `max_len` for every symbol.
pub fn make_code_lengths(len: &mut [u8], freq: &[i32], max_len: u8) {
    with(|m: &mut Machine| {
        for (i, f) in freq.iter().enumerate() {
            m.put(B + 4 * i, &f.to_le_bytes());
        }
        m.call(MAKE_LENGTHS, &[A as u64, B as u64, len.len() as u64, int(max_len)]);
        len.copy_from_slice(m.get(A, len.len()));
    });
}

/// Gives each symbol its canonical code.
pub fn assign_codes(code: &mut [u32], len: &[u8], min_len: u8, max_len: u8) {
    with(|m: &mut Machine| {
        m.put(A, len);
        for i in 0..code.len() {
            m.put(B + 4 * i, &code[i].to_le_bytes());
        }
        let n = len.len() as u64;
        m.call(ASSIGN_CODES, &[B as u64, A as u64, int(min_len), int(max_len), n]);
        for (i, slot) in code.iter_mut().enumerate() {
            *slot = m.word(B + 4 * i);
        }
    });
}

/// Shortest and longest code length in a table.
pub fn length_range(len: &[u8]) -> (u8, u8) {
    len.iter().fold((32, 0), |(lo, hi), &l| (lo.min(l), hi.max(l)))
}

/// Tables for decoding a canonical code one length at a time.
pub struct DecodeTable {
    pub limit: [i32; MAX_CODE_LEN],
    pub base: [i32; MAX_CODE_LEN],
    pub perm: [u16; MAX_ALPHA_SIZE],
    pub min_len: u8,
}

impl DecodeTable {
    pub const EMPTY: DecodeTable = DecodeTable {
        limit: [0; MAX_CODE_LEN],
        base: [0; MAX_CODE_LEN],
        perm: [0; MAX_ALPHA_SIZE],
        min_len: 0,
    };

    pub fn build(&mut self, len: &[u8]) {
        let (min_len, max_len) = length_range(len);
        self.min_len = min_len;
        with(|m: &mut Machine| {
            m.put(A, len);
            let n = len.len() as u64;
            let places = [B as u64, C as u64, D as u64, A as u64, int(min_len), int(max_len), n];
            m.call(CREATE_TABLES, &places);
            for i in 0..MAX_CODE_LEN {
                self.limit[i] = m.word(B + 4 * i) as i32;
                self.base[i] = m.word(C + 4 * i) as i32;
            }
            for (i, slot) in self.perm[..len.len()].iter_mut().enumerate() {
                *slot = m.word(D + 4 * i) as u16;
            }
        });
    }
}
