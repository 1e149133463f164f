// SPDX-License-Identifier: MIT OR Apache-2.0
//! The class `Tensor`: the elements of a sample, for other libraries to have without a copy.

use std::sync::Arc;

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use zernel_prefetch::prefetcher::Sample;
use zernel_prefetch::region::Numbers;
use zernel_prefetch::{Fault, Kind};

use super::dlpack::{self, Export};
use super::Buffer;
use crate::element::Element;
use crate::error::Error;

/// The elements of a sample, in C order.
///
/// # Invariants
///
/// `buffer` has room for the elements of a box of `sample`, and the strides are within it.
#[pyclass(frozen, weakref, module = "zernel_prefetch")]
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    sample: Sample,
    element: Element,
    /// Elements from one to the next, for each dimension.
    strides: Numbers,
    buffer: Arc<Buffer>,
    is_read_only: bool,
}

/// Strides in C order, in elements.
fn strides(shape: &[u64]) -> Numbers {
    let mut strides = Numbers::from(shape);
    let mut next = 1;
    for (stride, side) in strides.iter_mut().zip(shape).rev() {
        *stride = next;
        // One of 0 elements has any.
        next *= (*side).max(1);
    }
    strides
}

impl Tensor {
    pub(crate) fn new(
        sample: Sample,
        element: Element,
        buffer: Arc<Buffer>,
        is_read_only: bool,
    ) -> Result<Self, Error> {
        let elements = sample.region.elements();
        let bytes = elements.and_then(|count| count.checked_mul(element.size as u64));
        if bytes != Some(buffer.len() as u64) {
            return Err(Error::Internal(
                "a sample of another size than its box".into(),
            ));
        }
        // Sides beside one of 0 can have any size.
        let mut sides = sample.region.shape.iter().map(|side| (*side).max(1));
        let all = sides.try_fold(element.size as u64, u64::checked_mul);
        if all.is_none_or(|all| all > isize::MAX as u64) {
            let text = format!(
                "no memory is addressed by a box of {:?}",
                sample.region.shape
            );
            return Err(Fault::new(Kind::TooLarge, text).into());
        }
        // INVARIANT: It was looked at.
        Ok(Self {
            strides: strides(&sample.region.shape),
            sample,
            element,
            buffer,
            is_read_only,
        })
    }
}

fn refused(text: impl Into<String>) -> PyErr {
    PyBufferError::new_err(text.into())
}

#[pymethods]
impl Tensor {
    /// The array's place in the store.
    #[getter]
    fn array(&self) -> &str {
        &self.sample.array
    }

    /// The first element, for each dimension.
    #[getter]
    fn start<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.sample.region.start.iter())
    }

    /// The number of elements, for each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.sample.region.shape.iter())
    }

    /// The name of the type of its elements, as Zarr has it.
    #[getter]
    fn dtype(&self) -> &str {
        &self.element.name
    }

    /// Bytes of an element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.element.size
    }

    /// Bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.buffer.len()
    }

    /// Nobody is to write into it.
    #[getter]
    fn readonly(&self) -> bool {
        self.is_read_only
    }

    /// The elements in a capsule of DLPack.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        if stream.is_some() {
            return Err(refused("memory of the CPU has no stream: stream is None"));
        }
        if dl_device.is_some_and(|device| device != dlpack::CPU) {
            return Err(refused(
                "it is in memory of the CPU, dl_device=(1, 0), alone",
            ));
        }
        let version = match max_version {
            None | Some((0, _)) => (0, 0),
            Some(version) => version.min(dlpack::VERSION),
        };
        let has_code = |since| since == 0 || version >= (1, since);
        let code = self.element.code.filter(|code| has_code(code.since));
        let Some(code) = code else {
            let (major, minor) = version;
            let text = format!(
                "DLPack {major}.{minor} has no code for {}",
                self.element.name
            );
            return Err(refused(text));
        };
        let (buffer, flags) = match copy {
            Some(true) => {
                let copied = self.buffer.copy();
                let none = || Fault::new(Kind::TooLarge, "there is no memory for a copy");
                (
                    copied.ok_or_else(none).map_err(Error::from)?,
                    dlpack::IS_COPIED,
                )
            }
            _ => (Arc::clone(&self.buffer), 0),
        };
        let is_read_only = self.is_read_only && flags == 0;
        if is_read_only && version.0 == 0 {
            return Err(refused("DLPack before 1.0 has no memory that is read-only"));
        }
        let export = Export {
            buffer,
            shape: &self.sample.region.shape,
            strides: &self.strides,
            code,
            version,
            flags: flags | if is_read_only { dlpack::READ_ONLY } else { 0 },
        };
        dlpack::capsule(py, &export)
    }

    /// The CPU: `kDLCPU`, 0.
    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::CPU
    }

    fn __repr__(&self) -> String {
        let Sample { array, region } = &self.sample;
        format!(
            "<zernel_prefetch.Tensor {}{:?} of {array} at {:?}>",
            self.element.name,
            &region.shape[..],
            &region.start[..]
        )
    }

    /// Fills a buffer of Python.
    ///
    /// # Safety
    ///
    /// `view` is a buffer that the interpreter wants to have filled.
    #[cfg(Py_3_11)]
    unsafe fn __getbuffer__(
        this: Bound<'_, Self>,
        view: *mut pyo3::ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        // SAFETY: As of this function.
        unsafe { super::view::fill(this, view, flags) }
    }

    /// Frees what belongs to a buffer.
    ///
    /// # Safety
    ///
    /// `view` is a buffer that was filled, and is not used any more.
    #[cfg(Py_3_11)]
    unsafe fn __releasebuffer__(&self, view: *mut pyo3::ffi::Py_buffer) {
        // SAFETY: As of this function.
        unsafe { super::view::release(view) }
    }
}

#[cfg(Py_3_11)]
impl Tensor {
    pub(super) fn parts(&self) -> (&Element, &[u64], &Buffer, bool) {
        let shape = &self.sample.region.shape[..];
        (&self.element, shape, &self.buffer, self.is_read_only)
    }
}
