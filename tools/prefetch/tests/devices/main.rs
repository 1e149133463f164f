// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoding on a GPU, and reads into its memory, by libraries that stand for CUDA, nvCOMP and cuFile
//! (tools/tests/fakeio).
#![cfg(not(loom))]

mod direct;
mod fake;
mod gpu;
#[path = "../loading/lab.rs"]
#[allow(dead_code)]
mod lab;
mod memory;
