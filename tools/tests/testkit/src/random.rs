// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that look random and are the same for the same seed.

/// A generator (xorshift64*).
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.draw() >> 16) % end
    }

    /// One time in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A number that is likely to hit an edge.
    pub fn edge(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => u64::from(u32::MAX),
            3 => 1 << self.below(64),
            4 => (1u64 << self.below(64)).wrapping_sub(1),
            5 => self.draw(),
            _ => self.below(20),
        }
    }
}
