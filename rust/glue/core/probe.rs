// SPDX-License-Identifier: GPL-2.0
//! Probes of functions in libraries, by which a thread is seen to wait for the GPU.

use crate::policy::elf;
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::from_err_ptr,
    prelude::*, //
};

extern "C" {
    fn zernel_helper_may_probe() -> bool;
    fn zernel_helper_probe_file(fd: c_int, offset: u64) -> *mut bindings::file;
    fn zernel_helper_probe_read(
        file: *mut bindings::file,
        offset: u64,
        bytes: *mut c_void,
        length: usize,
    ) -> isize;
    fn zernel_helper_probe_put(file: *mut bindings::file);
    fn zernel_helper_probe_begin(file: *mut bindings::file, offset: u64, id: u64) -> *mut c_void;
    fn zernel_helper_probe_end(point: *mut c_void);
    fn zernel_helper_probes_wait();
    fn zernel_helper_probe_free(point: *mut c_void);
}

/// True if this kernel has the parts that a probe needs.
pub(crate) const IS_SUPPORTED: bool = super::scheduler_hooks::IS_SUPPORTED && cfg!(CONFIG_UPROBES);

/// True if the caller may probe (`CAP_SYS_ADMIN`), and the kernel is not locked down. Audited.
pub(crate) fn caller_may() -> bool {
    // SAFETY: FFI.
    unsafe { zernel_helper_may_probe() }
}

/// A file to be probed.
///
/// # Invariants
///
/// Holds a reference to an open file that is regular and open for reading.
pub(crate) struct File(NonNull<bindings::file>);

impl File {
    /// The caller's open file, to be probed at `offset`.
    ///
    /// # Errors
    ///
    /// `EBADF`, `EACCES`, `ENODEV`, `ERANGE`: see `struct zernel_probe`; `EOPNOTSUPP`.
    pub(crate) fn open(fd: i32, offset: u64) -> Result<Self> {
        // SAFETY: FFI; the helper takes a reference.
        let file = from_err_ptr(unsafe { zernel_helper_probe_file(fd, offset) })?;
        // INVARIANT: The helper has checked it, and taken the reference.
        NonNull::new(file).map(Self).ok_or(EBADF)
    }
}

impl elf::File for File {
    type Error = Error;

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<bool> {
        let to = bytes.as_mut_ptr().cast();
        // SAFETY: Open by the type invariant; `bytes` is valid for writes of its length.
        let read = unsafe { zernel_helper_probe_read(self.0.as_ptr(), offset, to, bytes.len()) };
        // Any other error of the file system.
        usize::try_from(read)
            .map(|read| read == bytes.len())
            .map_err(|_| EIO)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: Held by the type invariant.
        unsafe { zernel_helper_probe_put(self.0.as_ptr()) };
    }
}

/// A place in a file; the kernel reports its execution.
///
/// # Invariants
///
/// Valid. Its handlers are called unless `ended`, and nobody is in them any more then.
pub(crate) struct Point {
    raw: NonNull<c_void>,
    id: u64,
    ended: bool,
}

// SAFETY: Any thread may end a point, in process context.
unsafe impl Send for Point {}

impl Point {
    /// Has calls of the function at `offset` in a file told with the number `id`. May wait for every
    /// process that maps the file.
    ///
    /// # Errors
    ///
    /// `ENOEXEC`, `EIO`: see `struct zernel_probe`; `ENOMEM`.
    pub(crate) fn new(file: &File, offset: u64, id: u64) -> Result<Self> {
        let file = file.0.as_ptr();
        // SAFETY: The file is open.
        let raw = from_err_ptr(unsafe { zernel_helper_probe_begin(file, offset, id) })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // INVARIANT: Just begun.
        Ok(Self {
            raw,
            id,
            ended: false,
        })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Ends all that are held, with one wait for threads in their handlers.
    pub(crate) fn end<T>(holders: &mut [T], of: impl Fn(&mut T) -> &mut Self) {
        if holders.is_empty() {
            return;
        }
        for point in holders.iter_mut().map(&of) {
            if !point.ended {
                // SAFETY: Valid, and not ended.
                unsafe { zernel_helper_probe_end(point.raw.as_ptr()) };
            }
        }
        // SAFETY: The caller may sleep.
        unsafe { zernel_helper_probes_wait() };
        for point in holders.iter_mut().map(&of) {
            // INVARIANT: Ended, and waited for.
            point.ended = true;
        }
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        if !self.ended {
            Self::end(core::slice::from_mut(self), |point| point);
        }
        // SAFETY: Ended, and this was the last use.
        unsafe { zernel_helper_probe_free(self.raw.as_ptr()) };
    }
}
