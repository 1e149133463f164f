// SPDX-License-Identifier: GPL-2.0
//! Why a request fails, and the errno that user space gets: the one place that maps them.

use crate::{
    glue::errno,
    policy::{
        permit::Denied,
        tunables::Refused, //
    },
};
use kernel::prelude::*;

/// Why a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It raises, or names another user's target, without privilege.
    NotPermitted,
    /// It is over the caller's quota or the admission budget.
    OverQuota,
    /// There is no room for one more assignment.
    TableFull,
    /// The target has no assignment.
    NotAssigned,
    /// The TSG carries the work of several processes, which the class would raise together.
    SharedTsg,
    /// No such TSG, or not one that the caller may see.
    NoTsg,
    /// The request is over, or was never begun.
    Stale,
    /// The gate of the request has failed before it began.
    GateFailed,
    /// A promise without a deadline.
    NoDeadline,
    /// A promise where requests have no order.
    NoOrder,
    /// A promise for a level that has no order.
    NoLevel,
    /// A promise for a burst that nothing is known of.
    NoBurst,
    /// The deadline cannot be met.
    Late,
    /// There is no place in the order of the GPU.
    NoPlace,
    /// An error of the kernel.
    Kernel(Error),
}

impl Failure {
    /// No record can be made.
    pub(crate) fn of_record(error: Error) -> Self {
        match error {
            ENOSPC => Self::TableFull,
            error if error == errno::over_quota() => Self::OverQuota,
            error => Self::Kernel(error),
        }
    }

    /// The errno for user space.
    pub(crate) fn errno(self) -> Error {
        match self {
            Self::NotPermitted => EPERM,
            Self::OverQuota => errno::over_quota(),
            Self::TableFull => ENOSPC,
            Self::NotAssigned => errno::no_data(),
            Self::SharedTsg => errno::unsupported(),
            Self::NoTsg => ENOENT,
            Self::Stale => errno::stale(),
            Self::GateFailed => errno::cancelled(),
            Self::NoDeadline => ERANGE,
            Self::NoOrder => errno::no_order(),
            Self::NoLevel => EDOM,
            Self::NoBurst => errno::no_data(),
            Self::Late => EBUSY,
            Self::NoPlace => ENOSPC,
            Self::Kernel(error) => error,
        }
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::NotPermitted => Self::NotPermitted,
            Denied::OverQuota => Self::OverQuota,
            Denied::NotAssigned => Self::NotAssigned,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Kernel(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.errno()
    }
}

impl From<kernel::alloc::AllocError> for Failure {
    fn from(error: kernel::alloc::AllocError) -> Self {
        Self::Kernel(error.into())
    }
}

/// The errno for a tunable's value that is refused.
pub(crate) fn refused(refused: Refused) -> Error {
    match refused {
        Refused::OutOfRange => ERANGE,
    }
}
