// SPDX-License-Identifier: MIT OR Apache-2.0
//! The copies of a request, to the GPU and back.

use std::time::Duration;

use anyhow::{ensure, Result};
use serde::{Deserialize, Serialize};

/// Most bytes of a copy: the memory of a GPU.
const MAX_BYTES: u64 = 80_000_000_000;

/// Longest copy.
const LONGEST: Duration = Duration::from_secs(10);

/// A copy, by its size. One of no bytes takes the time of the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Bytes of each request, up to 80,000,000,000.
    #[serde(default)]
    pub bytes: u64,
    /// Bytes more for each unit of a request's size.
    #[serde(default)]
    pub bytes_per_size: u64,
    /// Rate of the link in MB/s, 100 to 1,000,000.
    #[serde(default = "link")]
    pub mb_per_s: u64,
}

/// PCIe 4.0 with 16 lanes moves 16 GT/s * 16 lanes * 128/130 / 8 bits = 31.5 GB/s; four fifths of
/// that remain below packet headers, an assumption.
const fn link() -> u64 {
    25_000
}

impl Default for Transfer {
    fn default() -> Self {
        Self {
            bytes: 0,
            bytes_per_size: 0,
            mb_per_s: link(),
        }
    }
}

impl Transfer {
    /// True if a workload file says nothing of it.
    pub(crate) fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Time of the copy of a request of this size; `least` is that of the smallest.
    pub(crate) fn time(&self, least: Duration, size: u64) -> Duration {
        let bytes = u128::from(self.bytes) + u128::from(self.bytes_per_size) * u128::from(size);
        // Bytes / (MB/s) are microseconds.
        let ns = bytes * 1_000 / u128::from(self.mb_per_s.max(1));
        least + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX / 2))
    }

    /// Checks its values, for sizes of up to `largest`.
    pub(crate) fn check(&self, name: &str, least: Duration, largest: u64) -> Result<()> {
        for (value, what) in [
            (self.bytes, "bytes"),
            (self.bytes_per_size, "bytes_per_size"),
        ] {
            ensure!(
                value <= MAX_BYTES,
                "the {what} of {name} are {value}; give it 0 to {MAX_BYTES}"
            );
        }
        ensure!(
            (100..=1_000_000).contains(&self.mb_per_s),
            "the mb_per_s of {name} is {}; give it 100 to 1000000",
            self.mb_per_s
        );
        let time = self.time(least, largest);
        ensure!(
            time <= LONGEST,
            "a {name} takes {:.1} s, and {} s at most are simulated",
            time.as_secs_f64(),
            LONGEST.as_secs()
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_micros(80);

    #[test]
    fn bytes_take_their_time_on_the_link() {
        assert_eq!(Transfer::default().time(LEAST, 9), LEAST);
        // A picture of 224 * 224 * 3 floats: 24 µs.
        let picture = Transfer {
            bytes: 602_112,
            ..Transfer::default()
        };
        let more = Duration::from_nanos(24_084);
        assert_eq!(picture.time(LEAST, 0), LEAST + more);
        let batch = Transfer {
            bytes: 1_000,
            bytes_per_size: 500,
            mb_per_s: 1_000,
        };
        assert_eq!(batch.time(LEAST, 4), LEAST + Duration::from_micros(3));
        let endless = Transfer {
            bytes_per_size: MAX_BYTES,
            ..batch
        };
        assert!(endless.time(LEAST, u64::MAX) > LONGEST);
    }

    #[test]
    fn values_have_their_ranges() {
        let usual = Transfer::default();
        usual.check("copy_in", LEAST, 1 << 40).unwrap();
        for (bad, said) in [
            (
                Transfer {
                    bytes: MAX_BYTES + 1,
                    ..usual
                },
                "the bytes of copy_in",
            ),
            (
                Transfer {
                    bytes_per_size: MAX_BYTES + 1,
                    ..usual
                },
                "the bytes_per_size of copy_in",
            ),
            (
                Transfer {
                    mb_per_s: 99,
                    ..usual
                },
                "the mb_per_s of copy_in",
            ),
            (
                Transfer {
                    bytes_per_size: 1_000_000,
                    ..usual
                },
                "a copy_in takes 40.0 s",
            ),
        ] {
            let error = bad.check("copy_in", LEAST, 1_000_000).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
