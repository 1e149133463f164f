// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stand-in for NVIDIA's `libcuda.so.1` over the software GPU, `/dev/zernel-sim`.
//!
//! A context is a TSG of the software GPU, with another one for its copies, and streams are spread
//! over channels, so that zernel schedules programs of CUDA as it does on a GPU. Kernels are known
//! by name: some compute, all take time. Documentation/fakecuda.rst tells what there is.

mod call;
mod capture;
mod command;
mod context;
mod cost;
mod draft;
mod driver;
mod effect;
mod event;
mod gdrcopy;
mod gpu;
mod graph;
mod helper;
mod kernel;
mod knobs;
mod module;
mod names;
mod ptx;
mod queue;
mod space;
mod status;
mod stream;
mod sys;
mod transfer;

pub use status::Status;
