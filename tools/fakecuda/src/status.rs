// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statuses of calls (`CUresult`).

use std::ffi::CStr;

use libzernel::Error;
use rustix::io::Errno;

/// Declares the statuses.
macro_rules! statuses {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// A status of a call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Status {
            $(#[doc = $text] $name = $number,)*
        }

        impl Status {
            /// The name of a number.
            pub fn name(number: i32) -> Option<&'static CStr> {
                match number {
                    $($number => CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()).ok(),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    Success = 0, "CUDA_SUCCESS";
    InvalidValue = 1, "CUDA_ERROR_INVALID_VALUE";
    OutOfMemory = 2, "CUDA_ERROR_OUT_OF_MEMORY";
    NotInitialized = 3, "CUDA_ERROR_NOT_INITIALIZED";
    NoDevice = 100, "CUDA_ERROR_NO_DEVICE";
    InvalidDevice = 101, "CUDA_ERROR_INVALID_DEVICE";
    InvalidImage = 200, "CUDA_ERROR_INVALID_IMAGE";
    InvalidContext = 201, "CUDA_ERROR_INVALID_CONTEXT";
    InvalidHandle = 400, "CUDA_ERROR_INVALID_HANDLE";
    NotFound = 500, "CUDA_ERROR_NOT_FOUND";
    NotReady = 600, "CUDA_ERROR_NOT_READY";
    IllegalAddress = 700, "CUDA_ERROR_ILLEGAL_ADDRESS";
    ContextIsDestroyed = 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED";
    AlreadyRegistered = 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED";
    NotRegistered = 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED";
    LaunchFailed = 719, "CUDA_ERROR_LAUNCH_FAILED";
    NotSupported = 801, "CUDA_ERROR_NOT_SUPPORTED";
    Unknown = 999, "CUDA_ERROR_UNKNOWN";
}

/// The result of a call.
pub(crate) type Result<T> = std::result::Result<T, Status>;

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match error.errno() {
            Some(Errno::NOMEM | Errno::DQUOT | Errno::NOSPC | Errno::AGAIN) => Self::OutOfMemory,
            Some(Errno::NOENT | Errno::NODEV) => Self::ContextIsDestroyed,
            Some(Errno::INVAL | Errno::FAULT) => Self::InvalidValue,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_names_of_the_header() {
        let name = |number| Status::name(number).map(|name| name.to_str().unwrap());
        assert_eq!(name(0), Some("CUDA_SUCCESS"));
        assert_eq!(name(709), Some("CUDA_ERROR_CONTEXT_IS_DESTROYED"));
        assert_eq!(name(-1), None);
        assert_eq!(Status::NotSupported as i32, 801);
    }
}
