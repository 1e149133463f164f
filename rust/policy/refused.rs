// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Why a value of a tunable is refused.

/// Why a value is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It lies outside the range that is documented for it.
    OutOfRange,
}
