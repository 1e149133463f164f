// SPDX-License-Identifier: MIT OR Apache-2.0
//! The buffer protocol: the memory of a tensor as a buffer of Python.

use std::ffi::{c_int, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::Tensor;

/// Memory of the shape and the strides of a buffer.
struct Sides {
    _shape: Vec<isize>,
    _strides: Vec<isize>,
}

/// Fills a buffer. A type without a code is bytes, in one dimension more.
///
/// # Safety
///
/// `view` is a buffer that the interpreter wants to have filled.
pub(super) unsafe fn fill(
    tensor: Bound<'_, Tensor>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let (element, shape, buffer, is_read_only) = tensor.get().parts();
    let has = |flag: c_int| flags & flag == flag;
    if is_read_only && has(ffi::PyBUF_WRITABLE) {
        // SAFETY: As of this function.
        unsafe { (*view).obj = std::ptr::null_mut() };
        return Err(PyBufferError::new_err("the tensor is read-only"));
    }
    let mut shape: Vec<isize> = shape.iter().map(|side| *side as isize).collect();
    let (format, size) = match element.format {
        Some(format) => (format, element.size as isize),
        None => {
            shape.push(element.size as isize);
            (c"B", 1)
        }
    };
    let mut strides = shape.clone();
    let mut next = size;
    for (stride, side) in strides.iter_mut().zip(&shape).rev() {
        *stride = next;
        next *= (*side).max(1);
    }
    // Of one dimension, or less, both orders are the same.
    let long = shape.iter().filter(|side| **side > 1).count();
    let is_fortran = has(ffi::PyBUF_F_CONTIGUOUS) && !has(ffi::PyBUF_C_CONTIGUOUS);
    if is_fortran && long > 1 && !shape.contains(&0) {
        // SAFETY: As of this function.
        unsafe { (*view).obj = std::ptr::null_mut() };
        return Err(PyBufferError::new_err("the tensor is in C order"));
    }
    let ndim = shape.len() as c_int;
    let (sides_at, strides_at) = (shape.as_mut_ptr(), strides.as_mut_ptr());
    let sides = Box::into_raw(Box::new(Sides {
        _shape: shape,
        _strides: strides,
    }));
    // SAFETY: The box is there until the buffer is released, as is the tensor, which the buffer has and
    // which has the memory.
    unsafe {
        let null = std::ptr::null_mut();
        (*view).buf = buffer.start().cast::<c_void>();
        (*view).len = buffer.len() as isize;
        (*view).itemsize = size;
        (*view).readonly = is_read_only.into();
        (*view).format = match has(ffi::PyBUF_FORMAT) {
            true => format.as_ptr().cast_mut(),
            false => std::ptr::null_mut(),
        };
        (*view).ndim = if has(ffi::PyBUF_ND) { ndim } else { 1 };
        (*view).shape = if has(ffi::PyBUF_ND) { sides_at } else { null };
        (*view).strides = match has(ffi::PyBUF_STRIDES) {
            true => strides_at,
            false => null,
        };
        (*view).suboffsets = null;
        (*view).internal = sides.cast();
        (*view).obj = tensor.into_ptr();
    }
    Ok(())
}

/// Frees what belongs to a buffer.
///
/// # Safety
///
/// `view` is one of [`fill`], and is not used any more.
pub(super) unsafe fn release(view: *mut ffi::Py_buffer) {
    // SAFETY: As of this function: nobody else frees the box.
    drop(unsafe { Box::from_raw((*view).internal.cast::<Sides>()) });
}
