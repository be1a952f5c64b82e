//! Construction of length-limited Huffman codes and of their decoding tables.

use crate::sys::bug;
use crate::tables::{MAX_ALPHA_SIZE, MAX_CODE_LEN};

/// Weight in the upper 24 bits, depth of the subtree in the low 8.
fn add_weights(a: i32, b: i32) -> i32 {
    let weight = (a & !0xff) + (b & !0xff);
    weight | (1 + (a & 0xff).max(b & 0xff))
}

/// A binary heap of node numbers ordered by weight; entry 0 is a sentinel.
struct Heap {
    nodes: [usize; MAX_ALPHA_SIZE + 2],
    len: usize,
}

impl Heap {
    fn push(&mut self, node: usize, weight: &[i32]) {
        self.len += 1;
        let mut at = self.len;
        while weight[node] < weight[self.nodes[at >> 1]] {
            self.nodes[at] = self.nodes[at >> 1];
            at >>= 1;
        }
        self.nodes[at] = node;
    }

    fn pop(&mut self, weight: &[i32]) -> usize {
        let top = self.nodes[1];
        let moved = self.nodes[self.len];
        self.nodes[1] = moved;
        self.len -= 1;
        let mut at = 1;
        loop {
            let mut child = at << 1;
            if child > self.len {
                break;
            }
            if child < self.len
                && weight[self.nodes[child + 1]] < weight[self.nodes[child]]
            {
                child += 1;
            }
            if weight[moved] < weight[self.nodes[child]] {
                break;
            }
            self.nodes[at] = self.nodes[child];
            at = child;
        }
        self.nodes[at] = moved;
        top
    }
}

/// Fills `parent` with the tree for the leaves `1..=alpha_size`; the root has parent 0.
fn build_tree(weight: &mut [i32], parent: &mut [usize], alpha_size: usize) {
    let mut heap = Heap { nodes: [0; MAX_ALPHA_SIZE + 2], len: 0 };
    weight[0] = 0;
    parent[1..=alpha_size].fill(0);
    for leaf in 1..=alpha_size {
        heap.push(leaf, weight);
    }
    if heap.len >= MAX_ALPHA_SIZE + 2 {
        bug(2001);
    }
    let mut node_count = alpha_size;
    while heap.len > 1 {
        let a = heap.pop(weight);
        let b = heap.pop(weight);
        node_count += 1;
        parent[a] = node_count;
        parent[b] = node_count;
        weight[node_count] = add_weights(weight[a], weight[b]);
        parent[node_count] = 0;
        heap.push(node_count, weight);
    }
    if node_count >= MAX_ALPHA_SIZE * 2 {
        bug(2002);
    }
}

/// Chooses a code length of at most `max_len` for every symbol.
pub fn make_code_lengths(len: &mut [u8], freq: &[i32], max_len: u8) {
    let alpha_size = len.len();
    let mut weight = [0i32; MAX_ALPHA_SIZE * 2];
    let mut parent = [0usize; MAX_ALPHA_SIZE * 2];
    for (w, &f) in weight[1..].iter_mut().zip(freq) {
        *w = f.max(1) << 8;
    }
    loop {
        build_tree(&mut weight, &mut parent, alpha_size);
        let mut too_long = false;
        for (i, slot) in len.iter_mut().enumerate() {
            let mut depth = 0u8;
            let mut node = parent[i + 1];
            while node != 0 {
                node = parent[node];
                depth += 1;
            }
            *slot = depth;
            too_long |= depth > max_len;
        }
        if !too_long {
            return;
        }
        // Flattening the frequencies shortens the longest codes.
        for w in &mut weight[1..=alpha_size] {
            *w = (1 + (*w >> 8) / 2) << 8;
        }
    }
}

/// Gives each symbol its canonical code.
pub fn assign_codes(code: &mut [u32], len: &[u8], min_len: u8, max_len: u8) {
    let mut next = 0;
    for n in min_len..=max_len {
        for (slot, &l) in code.iter_mut().zip(len) {
            if l == n {
                *slot = next;
                next += 1;
            }
        }
        next <<= 1;
    }
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
        let (min, max) = (usize::from(min_len), usize::from(max_len));

        let mut filled = 0;
        for n in min_len..=max_len {
            for (symbol, &l) in len.iter().enumerate() {
                if l == n {
                    self.perm[filled] = symbol as u16;
                    filled += 1;
                }
            }
        }

        self.base = [0; MAX_CODE_LEN];
        for &l in len {
            self.base[usize::from(l) + 1] += 1;
        }
        for n in 1..MAX_CODE_LEN {
            self.base[n] += self.base[n - 1];
        }

        self.limit = [0; MAX_CODE_LEN];
        let mut next = 0;
        for n in min..=max {
            next += self.base[n + 1] - self.base[n];
            self.limit[n] = next - 1;
            next <<= 1;
        }
        for n in min + 1..=max {
            self.base[n] = ((self.limit[n - 1] + 1) << 1) - self.base[n];
        }
    }
}
