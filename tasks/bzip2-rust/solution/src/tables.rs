//! Constants of the format and the return codes of the library.

pub const VERSION: &str = "1.0.8, 13-Jul-2019";

pub const BZ_RUN: i32 = 0;
pub const BZ_FLUSH: i32 = 1;
pub const BZ_FINISH: i32 = 2;

pub const BZ_OK: i32 = 0;
pub const BZ_RUN_OK: i32 = 1;
pub const BZ_FLUSH_OK: i32 = 2;
pub const BZ_FINISH_OK: i32 = 3;
pub const BZ_STREAM_END: i32 = 4;
pub const BZ_SEQUENCE_ERROR: i32 = -1;
pub const BZ_PARAM_ERROR: i32 = -2;
pub const BZ_MEM_ERROR: i32 = -3;
pub const BZ_DATA_ERROR: i32 = -4;
pub const BZ_DATA_ERROR_MAGIC: i32 = -5;
pub const BZ_IO_ERROR: i32 = -6;
pub const BZ_UNEXPECTED_EOF: i32 = -7;
pub const BZ_OUTBUFF_FULL: i32 = -8;
pub const BZ_CONFIG_ERROR: i32 = -9;

/// Size of the buffers between the library and a file.
pub const MAX_UNUSED: usize = 5000;

pub const STREAM_MAGIC: [u8; 3] = *b"BZh";
pub const LEVEL_BASE: u8 = b'0';
pub const BLOCK_MAGIC: [u8; 6] = [0x31, 0x41, 0x59, 0x26, 0x53, 0x59];
pub const END_MAGIC: [u8; 6] = [0x17, 0x72, 0x45, 0x38, 0x50, 0x90];

/// Bytes of block per step of the level.
pub const BLOCK_UNIT: usize = 100_000;

pub const MAX_ALPHA_SIZE: usize = 258;
pub const MAX_CODE_LEN: usize = 23;
pub const RUN_A: u16 = 0;
pub const RUN_B: u16 = 1;
pub const N_GROUPS: usize = 6;
pub const GROUP_SIZE: usize = 50;
pub const MAX_SELECTORS: usize = 2 + 900_000 / GROUP_SIZE;

const N_RADIX: usize = 2;
const N_QSORT: usize = 12;
const N_SHELL: usize = 18;
/// Bytes repeated after the end of a block so that comparisons need no wrap test.
pub const N_OVERSHOOT: usize = N_RADIX + N_QSORT + N_SHELL + 2;
/// Depth at which sorting starts: the radix pass has settled this many bytes.
pub const RADIX_DEPTH: i32 = N_RADIX as i32;
/// Depth beyond which quicksort hands over to the simple sort.
pub const QSORT_DEPTH: i32 = (N_RADIX + N_QSORT) as i32;
