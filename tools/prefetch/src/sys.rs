// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only unsafe code of the crate: functions of libraries, and calls of them.
#![allow(unsafe_code)]

pub(crate) mod cufile;
pub(crate) mod lane;
pub(crate) mod nvcomp;
