// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The refusals of the model, and their causes.

/// Why an operation on the model was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// The handle names no TSG that is alive.
    NoTsg,
    /// No such engine.
    NoEngine,
    /// No such channel in the TSG.
    NoChannel,
    /// The pool of TSGs, channels or items is used up.
    Full,
    /// The channel has no room for all of the items.
    NoRoom,
    /// Too many TSGs share the semaphore words.
    TooManySharers,
    /// A value is out of range.
    Invalid,
}
