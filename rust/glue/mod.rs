// SPDX-License-Identifier: GPL-2.0
//! Kernel glue: the only place with `unsafe` and `bindings`.
//!
//! `kernel` is for all modules, the other folders for one each, behind the cfgs of their crates:
//! `zernel_core`, `zernel_sim`, `zernel_simrm` and `zernel_nvidia`. `zernel_simrm` has `sim`, too.
#![allow(
    improper_ctypes,
    reason = "bindgen has empty structs for kernel options that are off, behind pointers"
)]

#[cfg(zernel_core)]
mod core;
mod kernel;
#[cfg(zernel_nvidia)]
pub(crate) mod nvidia;
#[cfg(any(zernel_sim, zernel_simrm))]
pub(crate) mod sim;
#[cfg(zernel_simrm)]
pub(crate) mod simrm;

#[cfg(zernel_core)]
pub(crate) use self::core::*;
pub(crate) use self::kernel::*;
