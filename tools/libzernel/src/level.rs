// SPDX-License-Identifier: MIT OR Apache-2.0
//! Levels: how urgent the work of a target is.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::sys::abi;

/// The urgency of work: 0, latency-critical, to 7, best-effort.
///
/// # Invariants
///
/// The number is below [`Level::COUNT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Level(u8);

/// Text or number that names no level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a level: it takes lc, be, critical, high, above-normal, normal, below-normal, low, \
     background or a number from 0 (most urgent) to 7"
)]
pub struct ParseLevelError(String);

/// Names of levels besides `lc` and `be`. Level 6, where work without a class ranks, has none.
const NAMES: [(&str, u8); 7] = [
    ("critical", 0),
    ("high", 1),
    ("above-normal", 2),
    ("normal", 3),
    ("below-normal", 4),
    ("low", 5),
    ("background", 7),
];

impl Level {
    /// Number of levels.
    pub const COUNT: u8 = 8;
    /// Latency-critical, the most urgent.
    pub const LC: Self = Self(abi::ZERNEL_LEVEL_LC as u8);
    /// Where work without a class ranks.
    pub const UNCLASSED_RANK: Self = Self(abi::ZERNEL_LEVEL_DEFAULT as u8);
    /// Best-effort, the least urgent.
    pub const BE: Self = Self(abi::ZERNEL_LEVEL_BE as u8);

    /// The level of this number, if there is one.
    pub const fn new(number: u8) -> Option<Self> {
        // INVARIANT: Checked here.
        if number < Self::COUNT {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Its number, 0 to 7.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// All levels, the most urgent first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// As the ABI writes it: `None` stands for `ZERNEL_LEVEL_NONE`.
    pub(crate) fn from_abi(raw: u32) -> crate::Result<Option<Self>> {
        if raw == abi::ZERNEL_LEVEL_NONE {
            return Ok(None);
        }
        u8::try_from(raw)
            .ok()
            .and_then(Self::new)
            .map(Some)
            .ok_or(crate::Error::Malformed("a level that does not exist"))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::LC => f.pad("lc"),
            Self::BE => f.pad("be"),
            Self(number) => number.fmt(f),
        }
    }
}

impl FromStr for Level {
    type Err = ParseLevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = match text {
            _ if text.eq_ignore_ascii_case("lc") => Some(Self::LC.0),
            _ if text.eq_ignore_ascii_case("be") => Some(Self::BE.0),
            _ if text.len() == 1 => text.parse().ok(),
            _ => NAMES
                .iter()
                .find(|(name, _)| text.eq_ignore_ascii_case(name))
                .map(|&(_, number)| number),
        };
        number
            .and_then(Self::new)
            .ok_or_else(|| ParseLevelError(text.to_owned()))
    }
}

impl TryFrom<u8> for Level {
    type Error = ParseLevelError;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        Self::new(number).ok_or_else(|| ParseLevelError(number.to_string()))
    }
}

impl From<Level> for u8 {
    fn from(level: Level) -> Self {
        level.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_the_ends_of_the_range() {
        assert_eq!("lc".parse(), Ok(Level::LC));
        assert_eq!("BE".parse(), Ok(Level::BE));
        assert_eq!(Level::LC.number(), 0);
        assert_eq!(Level::BE.number(), 7);
        assert_eq!("3".parse::<Level>().map(Level::number), Ok(3));
        assert_eq!(format!("{:>4}|{:>4}", Level::LC, Level(3)), "  lc|   3");
    }

    #[test]
    fn levels_have_names() {
        for (name, number) in NAMES {
            for text in [name.to_owned(), name.to_uppercase()] {
                assert_eq!(text.parse(), Ok(Level(number)));
            }
            assert!(format!("{name}s").parse::<Level>().is_err());
        }
        assert!("default".parse::<Level>().is_err());
    }

    #[test]
    fn abi_value_none_is_no_level_and_others_are_refused() {
        assert_eq!(Level::from_abi(u32::MAX), Ok(None));
        assert_eq!(Level::from_abi(7), Ok(Some(Level::BE)));
        assert!(Level::from_abi(8).is_err());
        assert!(Level::from_abi(256).is_err());
    }

    #[test]
    fn json_is_the_number() {
        assert_eq!(serde_json::to_string(&Level::BE).unwrap(), "7");
        assert_eq!(serde_json::from_str::<Level>("0").unwrap(), Level::LC);
        assert!(serde_json::from_str::<Level>("8").is_err());
    }

    proptest! {
        #[test]
        fn text_round_trips(number in 0u8..8) {
            let level = Level(number);
            prop_assert_eq!(level.to_string().parse::<Level>(), Ok(level));
        }

        #[test]
        fn other_text_is_refused(text in "\\PC{0,4}") {
            let known = ["lc", "be", "0", "1", "2", "3", "4", "5", "6", "7"];
            let text = text.to_ascii_lowercase();
            let is_name = NAMES.iter().any(|(name, _)| *name == text);
            prop_assume!(!is_name && !known.contains(&text.as_str()));
            prop_assert!(text.parse::<Level>().is_err());
        }
    }
}
