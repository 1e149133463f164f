// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of CUDA's driver API that zernel uses.
//!
//! `libcuda.so.1` is loaded when a program runs, so that programs build and start without it. A
//! driver that lacks a function is refused, with the names of all that it lacks.
//!
//! `libgdrapi.so.2` (GDRCopy), by which the CPU stores to memory of the GPU, is loaded for a [`Window`]
//! alone.
//!
//! Objects of the driver that a program made are handles ([`Context`], [`Stream`]): the driver
//! checks them, as far as it does. Objects that this crate makes are owned ([`Own`], [`Module`],
//! [`OwnStream`], [`Memory`], [`Registered`], [`Event`], [`Window`]) and end when they are dropped.

mod error;
mod library;
mod sys;

pub use error::{Error, Result, Status};
#[doc(hidden)]
pub use libloading::Library;
pub use sys::context::{Context, Entered, Own};
pub use sys::driver::{Attribute, Device, Driver, LIBRARY};
pub use sys::graph::{Executable, Node};
pub use sys::memory::{Memory, Registered};
pub use sys::module::{Function, Grid, Module};
pub use sys::stream::{Event, OwnStream, Stream};
pub use sys::window::{Window, GDRCOPY};
