// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams, as the libraries of Python have them.

use cuda::Stream;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use crate::error::Fault;
use crate::sys;

/// Attributes that have the handle: of PyTorch and Numba's like, and of CuPy.
const ATTRIBUTES: [&str; 3] = ["cuda_stream", "ptr", "handle"];

/// The stream of an object; `None` for `None`.
pub(crate) fn stream_of(object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Stream>> {
    match object {
        None => Ok(None),
        Some(object) => of(object).map(Some),
    }
}

/// The stream of an object.
pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Stream> {
    number_of(object).map(sys::stream)
}

fn number_of(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    if object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>() {
        return number("stream", object);
    }
    if let Some(protocol) = object.getattr_opt("__cuda_stream__")? {
        // A method, and in the first libraries that had it a property.
        let pair = match protocol.is_callable() {
            true => protocol.call0()?,
            false => protocol,
        };
        let (version, handle): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
        if version.extract::<u64>()? != 0 {
            let text = format!("__cuda_stream__ of version {version}: version 0 is known");
            return Err(Fault::Argument(text).into());
        }
        return number("stream", &handle);
    }
    for name in ATTRIBUTES {
        let Some(handle) = object.getattr_opt(name)? else {
            continue;
        };
        if handle.is_instance_of::<PyInt>() {
            return number("stream", &handle);
        }
    }
    Err(PyTypeError::new_err(format!(
        "{} is no stream: it takes an int, an object with __cuda_stream__, cuda_stream, ptr or \
         handle, or None",
        object.get_type().name()?
    )))
}

/// The number of a handle.
pub(crate) fn number(kind: &str, handle: &Bound<'_, PyAny>) -> PyResult<usize> {
    handle.extract().map_err(|error: PyErr| {
        match error.is_instance_of::<PyOverflowError>(handle.py()) {
            true => Fault::Argument(format!("{handle} is no handle of a {kind}")).into(),
            false => error,
        }
    })
}
