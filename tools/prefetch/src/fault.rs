// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons for which there is no value.

use std::fmt;
use std::sync::Arc;

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The work for it was given up before it had a result.
    Cancelled,
    /// The store did not answer well, as often as it was asked.
    Unavailable,
    /// The store refuses access.
    Denied,
    /// There is no such array.
    Missing,
    /// The bytes are none of the format's.
    Corrupt,
    /// The format allows it; this crate does not read it.
    Unsupported,
    /// It is larger than values may be.
    TooLarge,
    /// The store's object changed while it was read.
    Changed,
    /// The cache had no room for as long as that was waited for.
    Saturated,
    /// A rule of this crate was broken, by a caller or by itself.
    Misuse,
}

impl Kind {
    /// Asking once more can give another answer at once.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Cancelled | Self::Unavailable | Self::Saturated)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Unavailable => "unavailable",
            Self::Denied => "denied",
            Self::Missing => "missing",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::TooLarge => "too large",
            Self::Changed => "changed",
            Self::Saturated => "no room",
            Self::Misuse => "misuse",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A fault: its kind, and a sentence for people. Copies are cheap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {text}")]
pub struct Fault {
    kind: Kind,
    text: Arc<str>,
}

impl Fault {
    /// A fault with a sentence that names its place.
    pub fn new(kind: Kind, text: impl Into<Arc<str>>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its sentence.
    pub fn text(&self) -> &str {
        &self.text
    }
}
