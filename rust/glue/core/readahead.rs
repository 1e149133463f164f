// SPDX-License-Identifier: GPL-2.0
//! Files that are read into the page cache before they are needed.

use crate::policy::prefetch::ranges::Range;
use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

/// `struct zernel_source` of `rust/helpers/readahead.h`.
#[repr(C)]
struct Raw {
    file: *mut bindings::file,
    memcg: *mut c_void,
    blkcg: *mut c_void,
}

extern "C" {
    fn zernel_helper_source_open(fd: c_int, source: *mut Raw) -> c_int;
    fn zernel_helper_source_close(source: *mut Raw);
    fn zernel_helper_source_size(source: *const Raw) -> u64;
    fn zernel_helper_source_most(source: *const Raw, offset: u64) -> u64;
    fn zernel_helper_source_read(source: *const Raw, offset: u64, length: u64) -> c_int;
}

/// A file that is open for reading, and the cgroups of the subscriber.
///
/// # Invariants
///
/// `raw` was opened, and is not closed.
pub(crate) struct Source {
    raw: Raw,
}

// SAFETY: Files and cgroups are reference-counted and may be used from any thread.
unsafe impl Send for Source {}
// SAFETY: As above; nothing of `raw` is ever written.
unsafe impl Sync for Source {}

impl Source {
    /// The caller's file `fd`. Reads of it are charged to the caller's cgroups.
    ///
    /// # Errors
    ///
    /// `EBADF` not open, or not for reading; `EINVAL` neither a regular file nor a block device.
    pub(crate) fn open(fd: i32) -> Result<Self> {
        let mut raw = Raw {
            file: core::ptr::null_mut(),
            memcg: core::ptr::null_mut(),
            blkcg: core::ptr::null_mut(),
        };
        // SAFETY: Called by a task; `raw` is valid for writes.
        to_result(unsafe { zernel_helper_source_open(fd, &mut raw) })?;
        // INVARIANT: Just opened.
        Ok(Self { raw })
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> u64 {
        // SAFETY: Open by the type invariant.
        unsafe { zernel_helper_source_size(&self.raw) }
    }

    /// The most bytes from `offset` on that can be asked for at once.
    pub(crate) fn most(&self, offset: u64) -> u64 {
        // SAFETY: Open by the type invariant.
        unsafe { zernel_helper_source_most(&self.raw, offset) }
    }

    /// Reads missing pages of a range into the page cache. By a thread of the kernel; the file
    /// system may have it sleep without bound.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub(crate) fn read(&self, range: Range) -> Result {
        // SAFETY: Open by the type invariant.
        to_result(unsafe { zernel_helper_source_read(&self.raw, range.offset, range.length) })
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: Open by the type invariant, and nobody uses it any more.
        unsafe { zernel_helper_source_close(&mut self.raw) };
    }
}
