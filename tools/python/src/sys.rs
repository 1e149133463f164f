// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only unsafe code of the crate: handles that Python has as numbers.
#![allow(unsafe_code)]

use cuda::{Executable, Stream};

/// The stream of a handle of the program.
pub(crate) fn stream(handle: usize) -> Stream {
    // SAFETY: Python says that it is a stream that is there, as the page of the package demands.
    unsafe { Stream::from_raw(handle as *mut std::ffi::c_void) }
}

/// A graph to launch, of a handle of the program.
pub(crate) fn executable(handle: usize) -> Executable {
    // SAFETY: As above.
    unsafe { Executable::from_raw(handle as *mut std::ffi::c_void) }
}
