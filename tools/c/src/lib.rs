// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runtime for C, as the headers of `include/zernel/` have it.
//!
//! No panic crosses the border: a fault of the library is `-EPROTO`.

mod border;
mod fault;
mod gpu;
mod graph;
mod handle;
