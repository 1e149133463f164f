// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weights: how much a best-effort TSG gets of the GPU, where they take turns.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::sys::abi;

/// The share of a target's best-effort TSGs in the GPU, relative to the others: 1 to 10,000.
///
/// # Invariants
///
/// The number lies within [`Weight::MIN`] and [`Weight::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Weight(u32);

/// Text or number that is no weight.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a weight: it takes a number from 1 to 10000")]
pub struct ParseWeightError(String);

impl Weight {
    /// The least.
    pub const MIN: Self = Self(abi::ZERNEL_WEIGHT_MIN);
    /// The weight of TSGs without one of their own.
    pub const DEFAULT: Self = Self(abi::ZERNEL_WEIGHT_DEFAULT);
    /// The most.
    pub const MAX: Self = Self(abi::ZERNEL_WEIGHT_MAX);

    /// The weight of this number, if there is one.
    pub const fn new(number: u32) -> Option<Self> {
        // INVARIANT: Checked here.
        if Self::MIN.0 <= number && number <= Self::MAX.0 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Its number, 1 to 10,000.
    pub const fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn from_abi(raw: u32) -> crate::Result<Self> {
        Self::new(raw).ok_or(crate::Error::Malformed("a weight that does not exist"))
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Weight {
    type Err = ParseWeightError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.parse().ok();
        number
            .and_then(Self::new)
            .ok_or_else(|| ParseWeightError(text.to_owned()))
    }
}

impl TryFrom<u32> for Weight {
    type Error = ParseWeightError;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        Self::new(number).ok_or_else(|| ParseWeightError(number.to_string()))
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> Self {
        weight.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_are_those_of_the_header() {
        assert_eq!(Weight::new(0), None);
        assert_eq!(Weight::new(1), Some(Weight::MIN));
        assert_eq!(Weight::new(10_000), Some(Weight::MAX));
        assert_eq!(Weight::new(10_001), None);
        assert_eq!(Weight::default().number(), 1024);
        assert!(Weight::from_abi(0).is_err());
    }

    #[test]
    fn json_is_the_number() {
        assert_eq!(serde_json::to_string(&Weight::DEFAULT).unwrap(), "1024");
        assert_eq!(serde_json::from_str::<Weight>("7").unwrap(), Weight(7));
        assert!(serde_json::from_str::<Weight>("0").is_err());
    }

    proptest! {
        #[test]
        fn text_round_trips(number in 1u32..=10_000) {
            let weight = Weight(number);
            prop_assert_eq!(weight.to_string().parse::<Weight>(), Ok(weight));
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "0", "-1", "10001", "1.5", "x", "99999999999999"] {
            assert!(text.parse::<Weight>().is_err(), "{text}");
        }
    }
}
