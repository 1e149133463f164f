// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only unsafe code of the crate: memory at addresses, and the functions of the libraries.
#![allow(unsafe_code)]

mod cuda;
mod cufile;
mod memory;
mod nvcomp;
