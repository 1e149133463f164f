// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stand-in for CUDA's driver library, `libcuda.so.1`, on the software GPU.
//!
//! A context is a TSG of the software GPU and a stream one of its channels, so that zernel schedules
//! programs of CUDA as it does on a GPU. Kernels are known by name and take time; they compute
//! nothing. Documentation/fakecuda.rst tells which functions there are.

mod border;
mod context;
mod driver;
mod module;
mod status;

pub use status::Status;
