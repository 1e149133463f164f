// SPDX-License-Identifier: GPL-2.0
//! Error codes that the `kernel` crate of the older series lacks.

use kernel::{
    bindings,
    prelude::*, //
};

/// The user has as much as it may have.
pub(crate) fn over_quota() -> Error {
    Error::from_errno(-(bindings::EDQUOT as c_int))
}

/// The deadline has passed.
pub(crate) fn timed_out() -> Error {
    Error::from_errno(-(bindings::ETIME as c_int))
}
