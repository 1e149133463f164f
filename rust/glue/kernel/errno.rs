// SPDX-License-Identifier: GPL-2.0
//! Error codes that the `kernel` crate of the older series lacks.

use kernel::{
    bindings,
    prelude::*, //
};

/// `EDQUOT`: the user has as much as it may have.
#[cfg(any(zernel_core, zernel_sim, zernel_simrm))]
pub(crate) fn over_quota() -> Error {
    Error::from_errno(-(bindings::EDQUOT as c_int))
}

/// `ETIME`: the deadline has passed.
#[cfg(any(zernel_sim, zernel_simrm))]
pub(crate) fn timed_out() -> Error {
    Error::from_errno(-(bindings::ETIME as c_int))
}

/// `ENODATA`: there is nothing of the kind.
#[cfg(zernel_core)]
pub(crate) fn no_data() -> Error {
    Error::from_errno(-(bindings::ENODATA as c_int))
}

/// `ELOOP`: there are more levels than count.
#[cfg(zernel_core)]
pub(crate) fn too_deep() -> Error {
    Error::from_errno(-(bindings::ELOOP as c_int))
}

/// `EPROTO`: another version of an interface.
#[cfg(zernel_core)]
pub(crate) fn protocol() -> Error {
    Error::from_errno(-(bindings::EPROTO as c_int))
}

/// `EOPNOTSUPP`: the provider or the driver cannot do this.
pub(crate) fn unsupported() -> Error {
    Error::from_errno(-(bindings::EOPNOTSUPP as c_int))
}

/// `ESTALE`: the named request is over.
#[cfg(zernel_core)]
pub(crate) fn stale() -> Error {
    Error::from_errno(-(bindings::ESTALE as c_int))
}

/// `ECANCELED`: it was given up before it began.
#[cfg(zernel_core)]
pub(crate) fn cancelled() -> Error {
    Error::from_errno(-(bindings::ECANCELED as c_int))
}

/// `ENOLCK`: there is no order to take part in.
#[cfg(zernel_core)]
pub(crate) fn no_order() -> Error {
    Error::from_errno(-(bindings::ENOLCK as c_int))
}
