// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runtime for C, as `include/zernel/runtime.h` has it.
//!
//! No panic crosses the border: a fault of the library is `-EPROTO`.

mod border;
mod fault;
mod handle;
