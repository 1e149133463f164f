// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only unsafe code of the crate: functions of the same names as the driver's, and the driver's
//! own.
#![allow(unsafe_code)]

mod copies;
mod driver;
mod exports;
mod find;
mod forms;
mod guard;
mod lookup;
mod sockets;
mod streams;

pub use driver::{current, is_capturing, is_of_device, number, place, Quiet};
pub use guard::{aside, is_watching};

/// All functions in the place of the driver's.
mod functions {
    pub use super::copies::*;
    pub use super::exports::*;
    pub use super::lookup::{cuGetProcAddress, cuGetProcAddress_v2};
}
