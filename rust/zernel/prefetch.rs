// SPDX-License-Identifier: GPL-2.0
//! Subscriptions to prefetch signals, and their actions.
//!
//! # Locking
//!
//! One mutex protects the table, one the quotas. The quotas alone are locked under the table, and
//! nothing is allocated under either; entries that leave the table are dropped without it. They are
//! taken in system calls, by the sampler, and when a range of a file was read.

mod bell;
pub(crate) mod file;
pub(crate) mod quota;
mod reader;
mod subscription;
pub(crate) mod table;

pub(crate) use bell::Bell;
pub(crate) use quota::Charge;
pub(crate) use reader::Reader;
pub(crate) use subscription::{
    Subscription,
    Way, //
};
pub(crate) use table::{
    signal,
    Installed, //
};
