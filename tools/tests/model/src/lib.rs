// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host crate over the files of `rust/model/`: the same tests, and properties over random input.
#![cfg_attr(not(test), no_std)]

#[cfg(test)]
#[allow(dead_code)]
#[path = "../../../../rust/model/mod.rs"]
pub(crate) mod model;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod reference;
