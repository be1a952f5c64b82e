use std::time::Instant;

fn main() {
    let start = Instant::now();
    let crc = (0..10_000_000u32).fold(!0, |crc, n| crc_msb::update(crc, n as u8));
    println!("{:08x} in {:?}", crc, start.elapsed());
}
