// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors at the border, and the last one of each thread.

use std::cell::RefCell;
use std::ffi::CString;

use rustix::io::Errno;

/// An error of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// A null pointer, a structure that is too short, an unknown flag, mode or level.
    #[error("{0}")]
    Argument(&'static str),
    /// A longer structure with something in its unknown part.
    #[error("a structure of {0} bytes has something in the part that this library does not know")]
    Size(u32),
    /// The request is over, or is none.
    #[error("the request is over, or is none of this runtime's")]
    Over,
    /// A panic.
    #[error("a fault of the library: {0}")]
    Internal(String),
    /// An error of the runtime.
    #[error(transparent)]
    Runtime(#[from] zernel_runtime::Error),
}

impl Fault {
    fn name(&self) -> &'static str {
        match self {
            Self::Argument(_) => "ZERNEL_BAD_ARGUMENT",
            Self::Size(_) => "ZERNEL_BAD_SIZE",
            Self::Over => "ZERNEL_REQUEST_OVER",
            Self::Internal(_) => "ZERNEL_INTERNAL",
            Self::Runtime(error) => error.name(),
        }
    }

    fn errno(&self) -> i32 {
        match self {
            Self::Argument(_) => Errno::INVAL.raw_os_error(),
            Self::Size(_) => Errno::TOOBIG.raw_os_error(),
            Self::Over => Errno::STALE.raw_os_error(),
            Self::Internal(_) => Errno::PROTO.raw_os_error(),
            Self::Runtime(error) => error.errno(),
        }
    }
}

/// A name and a sentence.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) name: CString,
    pub(crate) text: CString,
}

thread_local! {
    static LAST: RefCell<Told> = RefCell::default();
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Remembers an error of this thread. Returns the number for it.
#[cold]
pub(crate) fn remember(fault: &Fault) -> i32 {
    LAST.with_borrow_mut(|last| {
        *last = Told {
            name: c_string(fault.name()),
            text: c_string(&fault.to_string()),
        };
    });
    -fault.errno()
}

/// Reads the last error of this thread.
pub(crate) fn last<T>(read: impl FnOnce(&Told) -> T) -> T {
    LAST.with_borrow(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_that_of_the_thread() {
        assert_eq!(remember(&Fault::Over), -Errno::STALE.raw_os_error());
        let other = std::thread::spawn(|| last(|told| told.name.clone()));
        assert_eq!(other.join().unwrap(), CString::default());
        last(|told| assert_eq!(told.name.to_str(), Ok("ZERNEL_REQUEST_OVER")));
        let forked = Fault::from(zernel_runtime::Error::Forked);
        assert_eq!(remember(&forked), -Errno::CHILD.raw_os_error());
        last(|told| {
            assert_eq!(told.name.to_str(), Ok("ZERNEL_FORKED"));
            assert!(told.text.to_str().unwrap().contains("child of fork()"));
        });
        assert_eq!(remember(&Fault::Size(99)), -Errno::TOOBIG.raw_os_error());
        assert_eq!(
            remember(&Fault::Argument("x")),
            -Errno::INVAL.raw_os_error()
        );
        let internal = Fault::Internal("a\0b".to_owned());
        assert_eq!(remember(&internal), -Errno::PROTO.raw_os_error());
        last(|told| assert!(told.text.to_str().unwrap().ends_with("a b")));
    }
}
