// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults as exceptions of Python, one class for each kind.

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::prelude::*;
use zernel_prefetch::{Fault, Kind};

/// A cause for an exception.
#[derive(Debug, Clone)]
pub(crate) enum Error {
    /// A fault of a batch, or of an argument.
    Fault(Fault),
    /// A fault of this library.
    Internal(String),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Error {
    /// An argument that means nothing.
    pub(crate) fn misuse(text: impl Into<String>) -> Self {
        Self::Fault(Fault::new(Kind::Misuse, text.into()))
    }

    /// The class of the exception, and its sentence.
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Internal(text) => ("InternalError", text),
            Self::Fault(fault) => {
                let class = match fault.kind() {
                    Kind::Cancelled => "CancelledError",
                    Kind::Unavailable => "UnavailableError",
                    Kind::Denied => "DeniedError",
                    Kind::Missing => "MissingError",
                    Kind::Corrupt => "CorruptError",
                    Kind::Unsupported => "UnsupportedError",
                    Kind::TooLarge => "TooLargeError",
                    Kind::Changed => "ChangedError",
                    Kind::Saturated => "SaturatedError",
                    Kind::Misuse => "MisuseError",
                };
                (class, fault.text())
            }
        }
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let (class, text) = error.parts();
        let object = |py: Python<'_>| -> PyResult<Self> {
            let module = py.import("zernel_prefetch._errors")?;
            let exception = module.getattr(class)?.call1((text,))?;
            Ok(Self::from_value(exception))
        };
        Python::attach(|py| object(py).unwrap_or_else(|error| error))
    }
}

/// Makes a call of the loader's library. A panic is an exception.
pub(crate) fn call<T>(call: impl FnOnce() -> Result<T, Error>) -> PyResult<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => Ok(result?),
        Err(_) => {
            let text = "a fault of the library: its message is on the standard error";
            Err(Error::Internal(text.to_owned()).into())
        }
    }
}
