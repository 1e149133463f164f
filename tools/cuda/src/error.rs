// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of the driver.

use std::ffi::c_int;
use std::fmt;

/// A status of the driver (`CUresult`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub c_int);

impl Status {
    /// A value is out of range.
    pub const INVALID_VALUE: Self = Self(1);
    /// The library has not been initialised, or this is a child of `fork()`.
    pub const NOT_INITIALIZED: Self = Self(3);
    /// The process ends.
    pub const DEINITIALIZED: Self = Self(4);
    /// There is no device.
    pub const NO_DEVICE: Self = Self(100);
    /// There is no such context.
    pub const INVALID_CONTEXT: Self = Self(201);
    /// There is no such thing.
    pub const INVALID_HANDLE: Self = Self(400);
    /// The work is not over yet.
    pub const NOT_READY: Self = Self(600);
    /// The context has been destroyed.
    pub const CONTEXT_IS_DESTROYED: Self = Self(709);
    /// The memory has been registered before.
    pub const ALREADY_REGISTERED: Self = Self(712);
    /// The driver or the device cannot do that.
    pub const NOT_SUPPORTED: Self = Self(801);
    /// The stream is captured, and the call cannot be.
    pub const CAPTURE_UNSUPPORTED: Self = Self(900);

    /// Errors after which a context is of no use: each call fails until it is destroyed.
    const LOST: [c_int; 17] = [
        4, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810,
    ];

    /// True if the context is of no use any more.
    pub fn is_lost(self) -> bool {
        Self::LOST.contains(&self.0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An error of CUDA.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no library, or it is too old or lacks a function; a sentence for people.
    #[error("{0}")]
    NotHere(String),
    /// A call failed.
    #[error("{call}: {name} ({status})")]
    Call {
        /// Name of the function.
        call: &'static str,
        /// Its status.
        status: Status,
        /// The name of the status, or `CUDA error`.
        name: String,
    },
    /// The CPU cannot store to memory of the GPU: GDRCopy is missing, too old, or refuses it; a
    /// sentence for people.
    #[error("no word in memory of the GPU: {0}")]
    NoWindow(String),
    /// Text that the driver takes has a zero in it.
    #[error("'{0}' has a zero byte")]
    Zero(String),
}

impl Error {
    /// The status, if a call failed.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Call { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// True if the context is of no use any more.
    pub fn is_lost(&self) -> bool {
        self.status().is_some_and(Status::is_lost)
    }
}

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_with_its_status() {
        let error = Error::Call {
            call: "cuInit",
            status: Status::NO_DEVICE,
            name: "CUDA_ERROR_NO_DEVICE".to_owned(),
        };
        assert_eq!(error.to_string(), "cuInit: CUDA_ERROR_NO_DEVICE (100)");
        assert_eq!(error.status(), Some(Status::NO_DEVICE));
        assert!(!error.is_lost());
        assert_eq!(Error::NotHere("none".to_owned()).status(), None);
        let none = Error::NoWindow("none".to_owned());
        assert_eq!((none.status(), none.is_lost()), (None, false));
    }

    #[test]
    fn errors_of_a_context_are_told_from_those_of_a_call() {
        for status in [700, 709, 719, 201, 4] {
            assert!(Status(status).is_lost(), "{status}");
        }
        for status in [0, 1, 2, 3, 400, 600, 712, 713, 801, 900, 999] {
            assert!(!Status(status).is_lost(), "{status}");
        }
    }
}
