// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stand-in for `libcuda.so.1`, `libnvcomp.so.5` and `libcufile.so.0`, as far as the prefetcher uses
//! them, over memory of the host. Each stream is a thread, which does one thing after another.
//!
//! Environment variables change it, and are read at each call:
//!
//! - `FAKEIO_FAILS`: names of functions that fail, between commas.
//! - `FAKEIO_MEMORY`: bytes of the GPU; 1 GiB if it is not set.
//! - `FAKEIO_NVCOMP`: the version of nvCOMP, 5300 if it is not set.
//! - `FAKEIO_SHORT`: reads of cuFile end so many bytes before their end.
//! - `FAKEIO_CAPTURES`: a number: each stream is captured.
//! - `FAKEIO_LOG`: a file that gets a line for each call of cuFile, and for each call that ends a stream,
//!   frees memory or gives a context back.

mod knobs;
mod stream;
mod sys;
