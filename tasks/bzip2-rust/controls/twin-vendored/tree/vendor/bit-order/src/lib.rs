//! Bits of a stream, highest first.

#![cfg_attr(not(feature = "std"), no_std)]

/// Numbers from which and into which bits can be shifted.
pub trait Bits: Copy {
    /// The highest bit.
    fn top(self) -> bool;
    /// All bits one place up, a zero from below.
    fn up(self) -> Self;
}

macro_rules! bits {
    ($($number:ty)*) => {
        $(
            impl Bits for $number {
                #[inline]
                fn top(self) -> bool {
                    self >> (<$number>::BITS - 1) != 0
                }

                #[inline]
                fn up(self) -> Self {
                    self << 1
                }
            }
        )*
    };
}

bits!(u8 u16 u32 u64 u128 usize);

/// Appends up to 32 bits at a time to whole bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Appender {
    buffer: u32,
    live: u32,
}

impl Appender {
    /// Bits that are waiting for the rest of their byte.
    pub fn pending(&self) -> u32 {
        self.live
    }

    /// Gives whole bytes to `out`, then takes `count` bits, at most 24, of `value`.
    #[inline]
    pub fn put(&mut self, count: u32, value: u32, mut out: impl FnMut(u8)) {
        while self.live >= 8 {
            out((self.buffer >> 24) as u8);
            self.buffer <<= 8;
            self.live -= 8;
        }
        self.buffer |= value << (32 - self.live - count);
        self.live += count;
    }

    /// Gives what is left, the last byte filled up with zeros.
    pub fn finish(&mut self, mut out: impl FnMut(u8)) {
        while self.live > 0 {
            out((self.buffer >> 24) as u8);
            self.buffer <<= 8;
            self.live = self.live.saturating_sub(8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Appender, Bits};

    #[test]
    fn highest_first() {
        assert!(0x80u8.top() && !0x7fu8.top());
        assert_eq!(0x4001u16.up(), 0x8002);
    }

    #[test]
    fn the_rest_of_a_byte_is_zero() {
        let mut bytes = [0u8; 4];
        let mut n = 0;
        let mut bits = Appender::default();
        bits.put(3, 0b101, |_| unreachable!());
        bits.finish(|byte| {
            bytes[n] = byte;
            n += 1;
        });
        assert_eq!((n, bytes[0]), (1, 0b1010_0000));
    }
}
