// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors as exceptions of Python, and calls that let other threads run meanwhile.

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::prelude::*;
use rustix::io::Errno;
use zernel_runtime::Error;

/// A cause for an exception.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error of the runtime.
    Runtime(Error),
    /// An argument out of range, by its name.
    Argument(String),
    /// The runtime or the signal is closed.
    Closed(&'static str),
    /// The request is over.
    Over,
    /// Nobody has said which graph can be launched.
    NotInstantiated,
    /// The configuration file.
    Config(zernel_config::Error),
    /// A call of the system failed.
    System(&'static str, Errno),
    /// A fault of this library.
    Internal,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Runtime(error)
    }
}

impl From<libzernel::Error> for Fault {
    fn from(error: libzernel::Error) -> Self {
        Self::Runtime(error.into())
    }
}

impl From<cuda::Error> for Fault {
    fn from(error: cuda::Error) -> Self {
        Self::Runtime(error.into())
    }
}

impl Fault {
    /// The class of the exception, its name, errno and sentence.
    fn parts(&self) -> (&'static str, &'static str, i32, String) {
        let of = |class, name, errno: Errno, text: &str| {
            (class, name, errno.raw_os_error(), text.to_owned())
        };
        match self {
            Self::Runtime(error) => {
                let class = match error {
                    Error::Forked => "ForkedError",
                    Error::Lost(_) => "LostError",
                    _ if error.is_misuse() => "MisuseError",
                    Error::Cuda(cuda::Error::NotHere(_) | cuda::Error::NoWindow(_)) => {
                        "UnavailableError"
                    }
                    Error::Zernel(cause) if cause.cause() == libzernel::Cause::NoDevice => {
                        "UnavailableError"
                    }
                    Error::Cuda(_) | Error::Zernel(_) | Error::NoLane => "Error",
                    _ => "UnavailableError",
                };
                (class, error.name(), error.errno(), error.to_string())
            }
            Self::Argument(text) => of("MisuseError", "ZERNEL_BAD_ARGUMENT", Errno::INVAL, text),
            Self::Closed(text) => of("ClosedError", "ZERNEL_SHUT_DOWN", Errno::SHUTDOWN, text),
            Self::Over => of(
                "MisuseError",
                "ZERNEL_REQUEST_OVER",
                Errno::STALE,
                "the request is over",
            ),
            Self::NotInstantiated => of(
                "MisuseError",
                "ZERNEL_NOT_INSTANTIATED",
                Errno::NOEXEC,
                "the graph cannot be launched yet: instantiated() comes before",
            ),
            Self::Config(error) => (
                "ConfigError",
                error.name(),
                error.errno(),
                error.to_string(),
            ),
            Self::System(call, errno) => {
                let text = format!("{call}: {errno}");
                of("Error", "ZERNEL_CALL_FAILED", *errno, &text)
            }
            Self::Internal => of(
                "Error",
                "ZERNEL_INTERNAL",
                Errno::PROTO,
                "a fault of the library: its message is on the standard error",
            ),
        }
    }

    /// The exception, as an object.
    pub(crate) fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (class, name, errno, text) = self.parts();
        let module = py.import("zernel._errors")?;
        module.getattr(class)?.call1((errno, text, name))
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        Python::attach(|py| match fault.object(py) {
            Ok(exception) => Self::from_value(exception),
            Err(error) => error,
        })
    }
}

/// Makes a call that may wait: other threads of Python run meanwhile. A panic is an exception.
pub(crate) fn call<T: Send, E: Into<Fault> + Send>(
    py: Python<'_>,
    call: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    outcome(py.detach(|| catch_unwind(AssertUnwindSafe(call))))
}

/// Makes a call that never waits, which costs less.
pub(crate) fn call_at_once<T, E: Into<Fault>>(call: impl FnOnce() -> Result<T, E>) -> PyResult<T> {
    outcome(catch_unwind(AssertUnwindSafe(call)))
}

fn outcome<T, E: Into<Fault>>(called: std::thread::Result<Result<T, E>>) -> PyResult<T> {
    match called {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.into().into()),
        Err(_) => Err(Fault::Internal.into()),
    }
}
