// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client of the driver's resource manager, as a compute runtime is one.

pub mod abi;
pub mod file;
pub mod program;
pub mod runtime;
pub mod status;

use std::fmt;

use rustix::io::Errno;

pub use file::{ControlFile, Form};
pub use program::Program;
pub use runtime::{Runtime, Spec};
pub use status::Status;

/// Number by which a client names one of its objects, or itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Handle(pub u32);

impl Handle {
    /// No object; where a new one is asked for: any number.
    pub const NONE: Self = Self(0);
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The call did not reach the resource manager.
    Call(Errno),
    /// The resource manager's answer.
    Status(Status),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(errno) => write!(f, "the ioctl failed: {errno:?}"),
            Self::Status(status) => write!(f, "the resource manager answered {status:?}"),
        }
    }
}

impl std::error::Error for Error {}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// The status of a call that reached the resource manager.
///
/// Errors: those of the call itself.
pub fn status_of<T>(result: Result<T>) -> anyhow::Result<Status> {
    match result {
        Ok(_) => Ok(Status::OK),
        Err(Error::Status(status)) => Ok(status),
        Err(error @ Error::Call(_)) => Err(error.into()),
    }
}
