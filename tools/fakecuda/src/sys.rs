// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only unsafe code of the crate: memory at addresses of the program, its process, and the
//! functions of the library.
#![allow(unsafe_code)]

pub(crate) mod args;
pub(crate) mod exports;
pub(crate) mod memory;
pub(crate) mod process;
