// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The time slices that can be tuned.

use super::super::{refused::Refused, units::Us};

/// Time slices that can be asked for: 10 µs (below it an A100 spends its time in context
/// switches, about 80 µs each) to 10 s (twice GPreempt's LC slice).
pub(crate) const RANGE: (Us, Us) = (Us(10), Us(10_000_000));

/// Refuses a slice that lies outside.
pub(super) fn in_range(slice: Us) -> Result<Us, Refused> {
    if slice < RANGE.0 || slice > RANGE.1 {
        return Err(Refused::OutOfRange);
    }
    Ok(slice)
}
