// SPDX-License-Identifier: GPL-2.0
//! Values in memory of their own that are too large for a stack.

use core::ptr;
use kernel::prelude::*;

/// A copy of a value, made where it stays.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn boxed<T: Copy>(from: &T) -> Result<KBox<T>> {
    let mut place = KBox::<T>::new_uninit(GFP_KERNEL)?;
    // SAFETY: Both are valid for a value, and do not overlap, as one of them is new.
    unsafe { ptr::copy_nonoverlapping(from, place.as_mut_ptr(), 1) };
    // SAFETY: It was initialised just now.
    Ok(unsafe { place.assume_init() })
}
