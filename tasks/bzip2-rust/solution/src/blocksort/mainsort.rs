//! The O(N^2 log(N)) sort, faster for blocks that are not repetitive.

use super::fallback::swap_ranges;
use crate::sys::{bug, eprint};
use crate::tables::{N_OVERSHOOT, QSORT_DEPTH, RADIX_DEPTH};

const QSORT_SMALL: i32 = 20;
const STACK_SIZE: usize = 100;
/// Marks a small bucket as sorted.
const DONE: u32 = 1 << 21;

/// Knuth's increments for shell sort.
const INCREMENTS: [i32; 14] = [
    1, 4, 13, 40, 121, 364, 1093, 3280, 9841, 29524, 88573, 265_720, 797_161, 2_391_484,
];

/// The block with the rank of each position within its bucket, as far as known, kept
/// as 16-bit words in bytes.
struct Text<'a> {
    block: &'a mut [u8],
    quadrant: &'a mut [u8],
    nblock: usize,
    budget: i32,
}

#[inline(always)]
fn eight(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(word)
}

#[inline(always)]
fn four(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}

#[inline(always)]
fn ranks(quadrant: &[u8], at: usize) -> u128 {
    let mut word = [0; 16];
    word.copy_from_slice(&quadrant[at * 2..at * 2 + 16]);
    u128::from_ne_bytes(word)
}

impl Text<'_> {
    #[inline(always)]
    fn rank(&self, at: usize) -> u16 {
        u16::from_ne_bytes([self.quadrant[at * 2], self.quadrant[at * 2 + 1]])
    }

    #[inline(always)]
    fn set_rank(&mut self, at: usize, rank: u16) {
        self.quadrant[at * 2..at * 2 + 2].copy_from_slice(&rank.to_ne_bytes());
    }

    /// Whether the rotation at `a` is greater than that at `b`.
    #[inline(always)]
    fn greater(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (a as usize, b as usize);
        let (x, y) = (eight(self.block, a), eight(self.block, b));
        if x != y {
            return x > y;
        }
        self.greater_after_eight(a, b)
    }

    fn greater_after_eight(&mut self, a: usize, b: usize) -> bool {
        let (x, y) = (four(self.block, a + 8), four(self.block, b + 8));
        if x != y {
            return x > y;
        }
        let (mut a, mut b) = (a + 12, b + 12);
        let nblock = self.nblock;
        for _ in 0..(nblock + 8) / 8 + 1 {
            let (x, y) = (eight(self.block, a), eight(self.block, b));
            if x != y || ranks(self.quadrant, a) != ranks(self.quadrant, b) {
                return self.decide(a, b, x, y);
            }
            a += 8;
            b += 8;
            if a >= nblock {
                a -= nblock;
            }
            if b >= nblock {
                b -= nblock;
            }
            self.budget -= 1;
        }
        false
    }

    /// Compares eight positions of which some byte or rank differs; at each position
    /// the byte counts before the rank.
    fn decide(&self, a: usize, b: usize, x: u64, y: u64) -> bool {
        let equal_bytes = (x ^ y).leading_zeros() as usize / 8;
        for i in 0..equal_bytes {
            let (r, s) = (self.rank(a + i), self.rank(b + i));
            if r != s {
                return r > s;
            }
        }
        x > y
    }

    fn byte(&self, rotation: u32, depth: i32) -> u8 {
        self.block[(rotation + depth as u32) as usize]
    }

    /// Shell sort; gives up when the budget is spent.
    fn simple_sort(&mut self, ptr: &mut [u32], lo: i32, hi: i32, depth: i32) {
        let count = hi - lo + 1;
        if count < 2 {
            return;
        }
        let usable = INCREMENTS.iter().take_while(|&&h| h < count).count();
        for &h in INCREMENTS[..usable].iter().rev() {
            let mut i = lo + h;
            while i <= hi {
                // The budget is looked at once per three insertions.
                let stop = (i + 2).min(hi);
                let complete = stop == i + 2;
                while i <= stop {
                    self.insert(ptr, i, lo + h, h, depth);
                    i += 1;
                }
                if complete && self.budget < 0 {
                    return;
                }
            }
        }
    }

    #[inline(always)]
    fn insert(&mut self, ptr: &mut [u32], i: i32, first: i32, h: i32, depth: i32) {
        let moved = ptr[i as usize];
        let depth = depth as u32;
        let mut j = i;
        while self.greater(ptr[(j - h) as usize] + depth, moved + depth) {
            ptr[j as usize] = ptr[(j - h) as usize];
            j -= h;
            if j < first {
                break;
            }
        }
        ptr[j as usize] = moved;
    }

    /// Multikey quicksort.
    fn qsort3(&mut self, ptr: &mut [u32], lo: i32, hi: i32) {
        let mut stack = [(0, 0, 0); STACK_SIZE];
        stack[0] = (lo, hi, RADIX_DEPTH);
        let mut top = 1;

        while top > 0 {
            if top >= STACK_SIZE - 2 {
                bug(1001);
            }
            top -= 1;
            let (lo, hi, depth) = stack[top];
            if hi - lo < QSORT_SMALL || depth > QSORT_DEPTH {
                self.simple_sort(ptr, lo, hi, depth);
                if self.budget < 0 {
                    return;
                }
                continue;
            }

            let pivot = median(
                self.byte(ptr[lo as usize], depth),
                self.byte(ptr[hi as usize], depth),
                self.byte(ptr[((lo + hi) >> 1) as usize], depth),
            );
            let (lt_lo, un_lo, un_hi, gt_hi) = self.partition(ptr, lo, hi, depth, pivot);
            if gt_hi < lt_lo {
                stack[top] = (lo, hi, depth + 1);
                top += 1;
                continue;
            }

            let n = (lt_lo - lo).min(un_lo - lt_lo);
            swap_ranges(ptr, lo, un_lo - n, n);
            let m = (hi - gt_hi).min(gt_hi - un_hi);
            swap_ranges(ptr, un_lo, hi - m + 1, m);

            let n = lo + un_lo - lt_lo - 1;
            let m = hi - (gt_hi - un_hi) + 1;
            let mut parts = [(lo, n, depth), (m, hi, depth), (n + 1, m - 1, depth + 1)];
            let size = |part: (i32, i32, i32)| part.1 - part.0;
            // Largest first, so that the stack stays short.
            for (a, b) in [(0, 1), (1, 2), (0, 1)] {
                if size(parts[a]) < size(parts[b]) {
                    parts.swap(a, b);
                }
            }
            stack[top..top + 3].copy_from_slice(&parts);
            top += 3;
        }
    }

    /// Splits into less, equal and greater, with equal ones at both ends for now.
    fn partition(
        &self,
        ptr: &mut [u32],
        lo: i32,
        hi: i32,
        depth: i32,
        pivot: u8,
    ) -> (i32, i32, i32, i32) {
        let (mut un_lo, mut lt_lo) = (lo, lo);
        let (mut un_hi, mut gt_hi) = (hi, hi);
        loop {
            while un_lo <= un_hi {
                let byte = self.byte(ptr[un_lo as usize], depth);
                if byte > pivot {
                    break;
                }
                if byte == pivot {
                    ptr.swap(un_lo as usize, lt_lo as usize);
                    lt_lo += 1;
                }
                un_lo += 1;
            }
            while un_lo <= un_hi {
                let byte = self.byte(ptr[un_hi as usize], depth);
                if byte < pivot {
                    break;
                }
                if byte == pivot {
                    ptr.swap(un_hi as usize, gt_hi as usize);
                    gt_hi -= 1;
                }
                un_hi -= 1;
            }
            if un_lo > un_hi {
                return (lt_lo, un_lo, un_hi, gt_hi);
            }
            ptr.swap(un_lo as usize, un_hi as usize);
            un_lo += 1;
            un_hi -= 1;
        }
    }

    /// Sorts by the first two bytes; `ftab` ends with the start of each small bucket.
    fn radix_pass(&mut self, ptr: &mut [u32], ftab: &mut [u32], verbosity: i32) {
        let nblock = self.nblock;
        ftab[..=65536].fill(0);
        let mut pair = usize::from(self.block[0]) << 8;
        for &byte in self.block[..nblock].iter().rev() {
            pair = pair >> 8 | usize::from(byte) << 8;
            ftab[pair] += 1;
        }
        self.quadrant.fill(0);
        self.block.copy_within(..N_OVERSHOOT, nblock);

        if verbosity >= 4 {
            eprint(b"        bucket sorting ...\n");
        }
        let mut total = 0;
        for count in &mut ftab[..=65536] {
            total += *count;
            *count = total;
        }
        let mut pair = usize::from(self.block[0]) << 8;
        for (i, &byte) in self.block[..nblock].iter().enumerate().rev() {
            pair = pair >> 8 | usize::from(byte) << 8;
            ftab[pair] -= 1;
            ptr[ftab[pair] as usize] = i as u32;
        }
    }

    /// Derives the order of all small buckets [t, big] from the sorted bucket `big`.
    fn scan_bucket(&self, ptr: &mut [u32], ftab: &[u32], big: usize, done: &[bool; 256]) {
        let nblock = self.nblock as i32;
        let mut start = [0i32; 256];
        let mut end = [0i32; 256];
        for t in 0..256 {
            start[t] = (ftab[(t << 8) + big] & !DONE) as i32;
            end[t] = (ftab[(t << 8) + big + 1] & !DONE) as i32 - 1;
        }
        let preceding = |p: u32| if p == 0 { nblock as u32 - 1 } else { p - 1 };

        let mut j = (ftab[big << 8] & !DONE) as i32;
        while j < start[big] {
            let k = preceding(ptr[j as usize]);
            let byte = usize::from(self.block[k as usize]);
            if !done[byte] {
                ptr[start[byte] as usize] = k;
                start[byte] += 1;
            }
            j += 1;
        }
        let mut j = (ftab[(big + 1) << 8] & !DONE) as i32 - 1;
        while j > end[big] {
            let k = preceding(ptr[j as usize]);
            let byte = usize::from(self.block[k as usize]);
            if !done[byte] {
                ptr[end[byte] as usize] = k;
                end[byte] -= 1;
            }
            j -= 1;
        }
        // The second case is a block that consists of one byte value only.
        let met = start[big] - 1 == end[big];
        let untouched = start[big] == 0 && end[big] == nblock - 1;
        if !(met || untouched) {
            bug(1007);
        }
    }

    /// Records the order within the finished bucket, for later comparisons.
    fn update_ranks(&mut self, ptr: &[u32], ftab: &[u32], big: usize) {
        let start = (ftab[big << 8] & !DONE) as usize;
        let size = (ftab[(big + 1) << 8] & !DONE) as usize - start;
        let mut shifts = 0;
        while size >> shifts > 65534 {
            shifts += 1;
        }
        for j in (0..size).rev() {
            let at = ptr[start + j] as usize;
            let rank = (j >> shifts) as u16;
            self.set_rank(at, rank);
            if at < N_OVERSHOOT {
                self.set_rank(at + self.nblock, rank);
            }
        }
    }
}

fn median(a: u8, b: u8, c: u8) -> u8 {
    a.min(b).max(a.max(b).min(c))
}

/// The big buckets from the least to the most full.
fn running_order(ftab: &[u32]) -> [usize; 256] {
    let size = |big: usize| ftab[(big + 1) << 8] - ftab[big << 8];
    let mut order = [0; 256];
    for (i, slot) in order.iter_mut().enumerate() {
        *slot = i;
    }
    // A shell sort is not stable: ties have to fall as they always did.
    let mut h = 364;
    loop {
        h /= 3;
        for i in h..256 {
            let moved = order[i];
            let mut j = i;
            while size(order[j - h]) > size(moved) {
                order[j] = order[j - h];
                j -= h;
                if j < h {
                    break;
                }
            }
            order[j] = moved;
        }
        if h == 1 {
            return order;
        }
    }
}

/// Sorts the rotations into `ptr` and returns what is left of the budget; if that is
/// negative, sorting was abandoned.
pub(super) fn sort(
    ptr: &mut [u32],
    block: &mut [u8],
    quadrant: &mut [u8],
    ftab: &mut [u32],
    verbosity: i32,
    budget: i32,
) -> i32 {
    let nblock = ptr.len();
    if verbosity >= 4 {
        eprint(b"        main sort initialise ...\n");
    }
    let mut text = Text { block, quadrant, nblock, budget };
    text.radix_pass(ptr, ftab, verbosity);
    let order = running_order(ftab);
    let mut done = [false; 256];
    let mut sorted = 0;

    for (i, &big) in order.iter().enumerate() {
        for small in (0..256).filter(|&small| small != big) {
            let at = (big << 8) + small;
            if ftab[at] & DONE == 0 {
                let lo = (ftab[at] & !DONE) as i32;
                let hi = (ftab[at + 1] & !DONE) as i32 - 1;
                if hi > lo {
                    if verbosity >= 4 {
                        report_bucket(big, small, sorted, hi - lo + 1);
                    }
                    text.qsort3(ptr, lo, hi);
                    sorted += hi - lo + 1;
                    if text.budget < 0 {
                        return text.budget;
                    }
                }
            }
            ftab[at] |= DONE;
        }
        if done[big] {
            bug(1006);
        }
        text.scan_bucket(ptr, ftab, big, &done);
        for t in 0..256 {
            ftab[(t << 8) + big] |= DONE;
        }
        done[big] = true;
        if i < 255 {
            text.update_ranks(ptr, ftab, big);
        }
    }
    if verbosity >= 4 {
        let scanned = nblock as i32 - sorted;
        eprint(
            format!("        {} pointers, {} sorted, {} scanned\n", nblock, sorted, scanned)
                .as_bytes(),
        );
    }
    text.budget
}

fn report_bucket(big: usize, small: usize, sorted: i32, count: i32) {
    eprint(
        format!(
            "        qsort [{:#x}, {:#x}]   done {}   this {}\n",
            big, small, sorted, count
        )
        .as_bytes(),
    );
}
