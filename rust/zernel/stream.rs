// SPDX-License-Identifier: GPL-2.0
//! Streams of events: one ring per reader, and no writer waits for a reader.
//!
//! # Locking
//!
//! Order: registry → the [list of streams](list) → [ring](file::Stream). A writer marks the
//! streams that it wrote to, and a worker wakes their readers, without a lock.

mod event;
mod file;
mod list;
mod running;

pub(crate) use event::{
    Event,
    Filter,
    Subject,
    EVENT_MAX,
    KINDS, //
};
pub(crate) use file::{
    Changed,
    State,
    Stream, //
};
pub(crate) use list::{
    count,
    counts,
    forget,
    init_lock,
    is_heard,
    push,
    start,
    Installed, //
};
pub(crate) use running::Running;
