// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's resource manager, from both sides: clients of it, and its true state.

pub mod truth;

pub use nvrm::{abi, file, runtime};
pub use nvrm::{status_of, ControlFile, Error, Form, Handle, Runtime, Spec, Status};
