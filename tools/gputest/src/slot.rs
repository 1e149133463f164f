// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of a slot, by their place in it, as zernel has them.

pub const TRIGGER: usize = 0;
pub const RELEASE: usize = 1;
pub const DONE: usize = 2;
pub const HELD: usize = 3;
/// Words from one slot to the next.
pub const SLOT: usize = 16;
