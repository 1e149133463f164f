// SPDX-License-Identifier: GPL-2.0
//! The registers of a GPU: BAR 0, which the driver has mapped.

use core::ptr::NonNull;
use kernel::prelude::*;

extern "C" {
    fn zernel_simrm_helper_write(register: *mut c_void, value: u32);
}

/// The registers of a GPU that is started.
///
/// # Invariants
///
/// `base` is mapped as `size` bytes of device memory.
pub(crate) struct Registers {
    base: NonNull<u8>,
    size: usize,
}

// SAFETY: Device memory may be written by any thread.
unsafe impl Send for Registers {}

impl Registers {
    /// # Safety
    ///
    /// `base` is mapped as `size` bytes of device memory for as long as this is there.
    pub(super) unsafe fn new(base: NonNull<u8>, size: usize) -> Self {
        // INVARIANT: By the caller.
        Self { base, size }
    }

    /// Writes a register, if there is such a register.
    pub(crate) fn write(&self, offset: u32, value: u32) {
        let offset = offset as usize;
        if offset % size_of::<u32>() != 0 || offset.saturating_add(size_of::<u32>()) > self.size {
            return;
        }
        // SAFETY: Within the mapping, by the type invariant.
        unsafe { zernel_simrm_helper_write(self.base.as_ptr().add(offset).cast(), value) };
    }
}
