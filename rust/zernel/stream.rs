// SPDX-License-Identifier: GPL-2.0
//! Streams of events: one ring per reader, and no writer waits for a reader.
//!
//! # Locking
//!
//! Order: registry → the [list of streams](list) → [ring](file::Stream). A writer puts an event into
//! the [inbox] of its audience, or into the one of all audiences. With the registry given back it hands
//! it to the streams, some at a time, and marks them; a worker wakes their readers, without a lock.

mod audience;
mod event;
mod file;
mod inbox;
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
    catch_up,
    counts,
    deliver,
    forget,
    init_lock,
    is_heard,
    push,
    start,
    tickets,
    Installed, //
};
pub(crate) use running::Running;
