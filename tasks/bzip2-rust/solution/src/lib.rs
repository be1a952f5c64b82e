//! The bzip2 library: the algorithms in safe Rust, and the C interface of `bzlib.h`.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod abi;
mod blocksort;
mod compress;
mod crc;
mod decompress;
pub mod format;
mod huffman;
mod randtable;
#[allow(unsafe_code)]
pub mod sys;
pub mod tables;
