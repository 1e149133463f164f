// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only unsafe code of the crate: the functions of the driver, and calls of them.
#![allow(unsafe_code)]

pub mod context;
pub mod driver;
mod gdrcopy;
pub mod graph;
pub mod memory;
pub mod module;
pub mod stream;
mod table;
pub mod window;

use std::ffi::c_void;

/// An opaque handle of the driver.
type Raw = *mut c_void;

/// An address as the GPU sees it.
type Address = u64;
