// SPDX-License-Identifier: GPL-2.0 OR MIT
//! An order of deadlines for tests: it is too large for the stack of the kernel.

use super::line::Line;

/// Nobody has a place.
#[cfg(test)]
pub(super) fn fresh() -> Option<Box<Line>> {
    Some(Box::new(Line::EMPTY))
}

#[cfg(not(test))]
static EMPTY: Line = Line::EMPTY;

/// Nobody has a place; `None`: no memory.
#[cfg(not(test))]
pub(super) fn fresh() -> Option<kernel::alloc::KBox<Line>> {
    crate::glue::boxed::boxed(&EMPTY).ok()
}
