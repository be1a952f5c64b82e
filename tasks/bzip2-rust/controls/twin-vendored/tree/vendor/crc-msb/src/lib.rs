//! Checksums of 32 bits that take the most significant bit first.

#![no_std]

use bit_order::Bits;

#[allow(dead_code)]
mod tables {
    include!(concat!(env!("OUT_DIR"), "/tables.rs"));
}

/// Which checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Polynomial 0x04c11db7.
    Ieee,
    /// Polynomial 0x1edc6f41.
    Castagnoli,
}

impl Kind {
    /// One step, bit by bit.
    pub fn slow(self, crc: u32, byte: u8) -> u32 {
        let polynomial = match self {
            Kind::Ieee => 0x04c1_1db7,
            Kind::Castagnoli => 0x1edc_6f41,
        };
        (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| {
            if crc.top() {
                crc.up() ^ polynomial
            } else {
                crc.up()
            }
        })
    }
}

/// One byte more, polynomial 0x04c11db7.
#[inline(always)]
pub fn update(crc: u32, byte: u8) -> u32 {
    if cfg!(crc_const_table) {
        (crc << 8) ^ tables::IEEE[usize::from((crc >> 24) as u8 ^ byte)]
    } else {
        Kind::Ieee.slow(crc, byte)
    }
}
