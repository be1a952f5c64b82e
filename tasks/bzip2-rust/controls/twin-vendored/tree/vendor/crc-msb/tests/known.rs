use crc_msb::{update, Kind};

#[test]
fn known_value() {
    let crc = b"123456789".iter().fold(!0, |crc, &byte| update(crc, byte));
    assert_eq!(!crc, 0xfc89_1918);
}

#[test]
fn both_ways_agree() {
    for byte in 0..=255 {
        assert_eq!(update(0x1234_5678, byte), Kind::Ieee.slow(0x1234_5678, byte));
    }
}
