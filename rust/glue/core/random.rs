// SPDX-License-Identifier: GPL-2.0
//! Chance.

use kernel::bindings;

/// A number that nobody can guess. In any context but an NMI.
pub(crate) fn number() -> u64 {
    // SAFETY: FFI.
    unsafe { bindings::get_random_u64() }
}
