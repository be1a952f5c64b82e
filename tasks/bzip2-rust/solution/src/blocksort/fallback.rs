//! The O(N log(N)^2) sort, used for short and for repetitive blocks.

use crate::sys::{bug, eprint};

const QSORT_SMALL: i32 = 10;
const STACK_SIZE: usize = 100;

/// Equivalence classes of the rotations, kept as words in the bytes of the block area.
struct Classes<'a>(&'a mut [u8]);

impl Classes<'_> {
    #[inline(always)]
    fn get(&self, i: u32) -> u32 {
        let at = i as usize * 4;
        match self.0[at..at + 4] {
            [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
            _ => 0,
        }
    }

    #[inline(always)]
    fn set(&mut self, i: usize, class: u32) {
        self.0[i * 4..i * 4 + 4].copy_from_slice(&class.to_ne_bytes());
    }
}

/// One bit per position: set where a bucket starts.
struct Headers<'a>(&'a mut [u32]);

impl Headers<'_> {
    #[inline(always)]
    fn set(&mut self, i: usize) {
        self.0[i >> 5] |= 1 << (i & 31);
    }

    #[inline(always)]
    fn clear(&mut self, i: usize) {
        self.0[i >> 5] &= !(1 << (i & 31));
    }

    #[inline(always)]
    fn is_set(&self, i: usize) -> bool {
        self.0[i >> 5] & (1 << (i & 31)) != 0
    }

    /// First position from `i` on whose bit differs from `bit`.
    fn skip(&self, mut i: usize, bit: bool) -> usize {
        let full = if bit { u32::MAX } else { 0 };
        while i & 31 != 0 && self.is_set(i) == bit {
            i += 1;
        }
        if self.is_set(i) == bit {
            while self.0[i >> 5] == full {
                i += 32;
            }
            while self.is_set(i) == bit {
                i += 1;
            }
        }
        i
    }
}

fn simple_sort(fmap: &mut [u32], classes: &Classes, lo: i32, hi: i32) {
    if lo == hi {
        return;
    }
    if hi - lo > 3 {
        insertion_pass(fmap, classes, lo, hi, 4);
    }
    insertion_pass(fmap, classes, lo, hi, 1);
}

#[inline(always)]
fn insertion_pass(fmap: &mut [u32], classes: &Classes, lo: i32, hi: i32, step: i32) {
    let mut i = hi - step;
    while i >= lo {
        let moved = fmap[i as usize];
        let class = classes.get(moved);
        let mut j = i + step;
        while j <= hi && class > classes.get(fmap[j as usize]) {
            fmap[(j - step) as usize] = fmap[j as usize];
            j += step;
        }
        fmap[(j - step) as usize] = moved;
        i -= 1;
    }
}

pub(super) fn swap_ranges(data: &mut [u32], a: i32, b: i32, count: i32) {
    for i in 0..count {
        data.swap((a + i) as usize, (b + i) as usize);
    }
}

fn qsort3(fmap: &mut [u32], classes: &Classes, lo: i32, hi: i32) {
    let mut random = 0u32;
    let mut stack = [(0, 0); STACK_SIZE];
    stack[0] = (lo, hi);
    let mut depth = 1;

    while depth > 0 {
        if depth >= STACK_SIZE - 1 {
            bug(1004);
        }
        depth -= 1;
        let (lo, hi) = stack[depth];
        if hi - lo < QSORT_SMALL {
            simple_sort(fmap, classes, lo, hi);
            continue;
        }

        // A random pivot: medians of a few fixed elements sometimes go quadratic.
        random = (random * 7621 + 1) % 32768;
        let pivot_at = match random % 3 {
            0 => lo,
            1 => (lo + hi) >> 1,
            _ => hi,
        };
        let pivot = classes.get(fmap[pivot_at as usize]);

        let (mut un_lo, mut lt_lo) = (lo, lo);
        let (mut un_hi, mut gt_hi) = (hi, hi);
        loop {
            while un_lo <= un_hi {
                let class = classes.get(fmap[un_lo as usize]);
                if class > pivot {
                    break;
                }
                if class == pivot {
                    fmap.swap(un_lo as usize, lt_lo as usize);
                    lt_lo += 1;
                }
                un_lo += 1;
            }
            while un_lo <= un_hi {
                let class = classes.get(fmap[un_hi as usize]);
                if class < pivot {
                    break;
                }
                if class == pivot {
                    fmap.swap(un_hi as usize, gt_hi as usize);
                    gt_hi -= 1;
                }
                un_hi -= 1;
            }
            if un_lo > un_hi {
                break;
            }
            fmap.swap(un_lo as usize, un_hi as usize);
            un_lo += 1;
            un_hi -= 1;
        }
        if gt_hi < lt_lo {
            continue;
        }

        let n = (lt_lo - lo).min(un_lo - lt_lo);
        swap_ranges(fmap, lo, un_lo - n, n);
        let m = (hi - gt_hi).min(gt_hi - un_hi);
        swap_ranges(fmap, un_lo, hi - m + 1, m);

        let n = lo + un_lo - lt_lo - 1;
        let m = hi - (gt_hi - un_hi) + 1;
        // The smaller part is on top, which bounds the stack.
        let (first, second) =
            if n - lo > hi - m { ((lo, n), (m, hi)) } else { ((m, hi), (lo, n)) };
        stack[depth] = first;
        stack[depth + 1] = second;
        depth += 2;
    }
}

/// Sorts by first byte and marks the buckets; returns the count of each byte.
fn radix_pass(fmap: &mut [u32], block: &[u8], headers: &mut Headers) -> [u32; 256] {
    let mut counts = [0u32; 256];
    for &byte in block {
        counts[usize::from(byte)] += 1;
    }
    let mut ends = counts;
    for i in 1..256 {
        ends[i] += ends[i - 1];
    }
    for (i, &byte) in block.iter().enumerate() {
        let slot = &mut ends[usize::from(byte)];
        *slot -= 1;
        fmap[*slot as usize] = i as u32;
    }
    for start in ends {
        headers.set(start as usize);
    }
    counts
}

/// Sorts every unfinished bucket by the classes; returns how many strings were in them.
fn refine(fmap: &mut [u32], classes: &Classes, headers: &mut Headers) -> i32 {
    let nblock = fmap.len();
    let mut unresolved = 0;
    let mut next = 0;
    loop {
        let left = headers.skip(next, true) as i32 - 1;
        if left >= nblock as i32 {
            return unresolved;
        }
        let past = headers.skip((left + 1) as usize, false);
        let right = past as i32 - 1;
        if right >= nblock as i32 {
            return unresolved;
        }
        next = past;
        if right > left {
            unresolved += right - left + 1;
            qsort3(fmap, classes, left, right);
            let mut previous = None;
            let left = left as usize;
            for (i, &at) in fmap[left..past].iter().enumerate() {
                let class = Some(classes.get(at));
                if class != previous {
                    headers.set(left + i);
                    previous = class;
                }
            }
        }
    }
}

/// Sorts the rotations of the block at the start of `area`, whose words hold the
/// classes meanwhile; the block is restored at the end.
pub(super) fn sort(fmap: &mut [u32], area: &mut [u8], bits: &mut [u32], verbosity: i32) {
    let nblock = fmap.len();
    if verbosity >= 4 {
        eprint(b"        bucket sorting ...\n");
    }
    bits[..3 + nblock / 32].fill(0);
    let mut headers = Headers(bits);
    let mut counts = radix_pass(fmap, &area[..nblock], &mut headers);

    // Alternating bits past the end stop the searches for bucket limits.
    for i in 0..32 {
        headers.set(nblock + 2 * i);
        headers.clear(nblock + 2 * i + 1);
    }

    let mut classes = Classes(&mut area[..nblock * 4]);
    let mut depth = 1;
    loop {
        if verbosity >= 4 {
            eprint(format!("        depth {:6} has ", depth).as_bytes());
        }
        let mut class = 0;
        for (i, &at) in fmap.iter().enumerate() {
            if headers.is_set(i) {
                class = i as u32;
            }
            let at = at as usize;
            let at = if at < depth { at + nblock - depth } else { at - depth };
            classes.set(at, class);
        }
        let unresolved = refine(fmap, &classes, &mut headers);
        if verbosity >= 4 {
            eprint(format!("{:6} unresolved strings\n", unresolved).as_bytes());
        }
        depth *= 2;
        if depth > nblock || unresolved == 0 {
            break;
        }
    }

    if verbosity >= 4 {
        eprint(b"        reconstructing block ...\n");
    }
    let mut byte = 0;
    for &at in fmap.iter() {
        while counts[byte] == 0 {
            byte += 1;
        }
        counts[byte] -= 1;
        area[at as usize] = byte as u8;
    }
}
