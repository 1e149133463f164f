// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stand-in for `libcuda.so.1`, loaded as programs of CUDA load it: these suites know nothing
//! of its inside, nor of the crate `cuda`.

pub mod capture;
pub mod context;
pub mod device;
pub mod fault;
pub mod graph;
mod lab;
pub mod limits;
pub mod memory;
pub mod orders;
pub mod stall;
pub mod stream;
pub mod words;
