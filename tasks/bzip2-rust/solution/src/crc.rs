//! The CRC-32 of bzip2: most significant bit first, polynomial 0x04c11db7.

const POLYNOMIAL: u32 = 0x04c1_1db7;

const fn build_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000_0000 != 0 { (crc << 1) ^ POLYNOMIAL } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

static TABLE: [u32; 256] = build_table();

/// Value of the checksum before the first byte.
pub const INIT: u32 = 0xffff_ffff;

#[inline(always)]
pub fn update(crc: u32, byte: u8) -> u32 {
    (crc << 8) ^ TABLE[((crc >> 24) as u8 ^ byte) as usize]
}

/// Folds the checksum of one block into that of the whole stream.
pub fn combine(combined: u32, block: u32) -> u32 {
    combined.rotate_left(1) ^ block
}

#[cfg(test)]
mod tests {
    #[test]
    fn known_value() {
        let crc = b"123456789".iter().fold(super::INIT, |c, &b| super::update(c, b));
        assert_eq!(!crc, 0xfc89_1918);
    }
}
