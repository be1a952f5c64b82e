//! Sorting of all rotations of a block.

mod fallback;
mod mainsort;

use crate::format::fixed;
use crate::sys::{bug, eprint};
use crate::tables::N_OVERSHOOT;

/// Blocks shorter than this go straight to the fallback sort.
const MAIN_SORT_MIN: usize = 10_000;

/// What the sort needs to know about a block.
pub struct Job {
    pub nblock: usize,
    pub verbosity: i32,
    pub work_factor: i32,
}

/// Leaves the sorted rotations in `ptr` and returns the index of the unrotated block.
///
/// The block is the start of `area`, the rest of which is scratch space.
pub fn block_sort(job: &Job, ptr: &mut [u32], area: &mut [u8], ftab: &mut [u32]) -> u32 {
    let nblock = job.nblock;
    let ptr = &mut ptr[..nblock];
    if nblock < MAIN_SORT_MIN || !main_sort_within_budget(job, ptr, area, ftab) {
        fallback::sort(ptr, area, ftab, job.verbosity);
    }
    match ptr.iter().position(|&p| p == 0) {
        Some(orig) => orig as u32,
        None => bug(1003),
    }
}

/// False if the block proved too repetitive for the main sort.
fn main_sort_within_budget(
    job: &Job,
    ptr: &mut [u32],
    area: &mut [u8],
    ftab: &mut [u32],
) -> bool {
    let nblock = job.nblock;
    let quadrant_at = (nblock + N_OVERSHOOT + 1) & !1;
    let (block, quadrant) = area.split_at_mut(quadrant_at);
    let work_factor = job.work_factor.clamp(1, 100);
    let budget = nblock as i32 * ((work_factor - 1) / 3);

    let left = mainsort::sort(
        ptr,
        &mut block[..nblock + N_OVERSHOOT],
        &mut quadrant[..2 * (nblock + N_OVERSHOOT)],
        ftab,
        job.verbosity,
        budget,
    );
    if job.verbosity >= 3 {
        let work = budget - left;
        let ratio = work as f32 / nblock as f32;
        eprint(
            format!(
                "      {} work, {} block, ratio {}\n",
                work,
                nblock,
                fixed(f64::from(ratio), 5, 2)
            )
            .as_bytes(),
        );
    }
    if left < 0 && job.verbosity >= 2 {
        eprint(b"    too repetitive; using fallback sorting algorithm\n");
    }
    left >= 0
}
