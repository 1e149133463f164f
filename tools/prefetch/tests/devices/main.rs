// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoding on a GPU, by libraries that stand for CUDA and nvCOMP (tools/tests/fakeio).
#![cfg(not(loom))]

mod fake;
mod gpu;
#[path = "../loading/lab.rs"]
#[allow(dead_code)]
mod lab;
mod memory;
