// SPDX-License-Identifier: MIT OR Apache-2.0
//! The proof of the holder (`tools/runtime/src/holder.ptx`), on its machine code.
//!
//! [`assembler`] makes the code of a target, [`entry`], [`listing`] and [`code`] read it, and
//! [`rules`] look at it as a text. [`machine`] executes it, and [`world`] puts it among a program, zernel and a
//! timer, in every order. [`variants`] are holders with a fault, which must be found.
#![forbid(unsafe_code)]

pub mod assembler;
pub mod code;
pub mod entry;
pub mod listing;
pub mod machine;
pub mod rules;
#[cfg(test)]
mod sample;
pub mod variants;
pub mod world;

/// The holder, as the runtime has it.
pub const HOLDER: &str = include_str!("../../../runtime/src/holder.ptx");

/// The name of its entry.
pub const ENTRY: &str = "zernel_holder";

/// Bytes of its parameters: addresses of `held` and `release`, number, a gap, bound.
pub const PARAMETERS: u16 = 32;
