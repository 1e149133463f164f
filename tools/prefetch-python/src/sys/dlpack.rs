// SPDX-License-Identifier: MIT OR Apache-2.0
//! DLPack: a tensor in a capsule, for another library in this process. The layouts are those of
//! `dlpack.h`, of version 1 and of those before.

use std::ffi::{c_void, CStr};
use std::ptr::NonNull;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::Buffer;
use crate::element::Code;

/// Memory that each thread of this process can read: `kDLCPU`.
pub(super) const CPU: (i32, i32) = (1, 0);
/// The version of the layouts here.
pub(super) const VERSION: (u32, u32) = (1, 1);
pub(super) const READ_ONLY: u64 = 1;
pub(super) const IS_COPIED: u64 = 2;

#[repr(C)]
struct Device {
    kind: i32,
    number: i32,
}

#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
pub(super) struct Unversioned {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
pub(super) struct Versioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: DlTensor,
}

/// A tensor to be exported.
pub(super) struct Export<'a> {
    pub(super) buffer: Arc<Buffer>,
    pub(super) shape: &'a [u64],
    pub(super) strides: &'a [u64],
    pub(super) code: Code,
    pub(super) version: (u32, u32),
    pub(super) flags: u64,
}

/// One of the two layouts.
trait Layout: Sized {
    /// The name of its capsule, until somebody takes what is in there.
    const NAME: &'static CStr;

    fn new(
        tensor: DlTensor,
        context: *mut c_void,
        export: &Export<'_>,
        deleter: unsafe extern "C" fn(*mut Self),
    ) -> Self;

    fn context(&self) -> *mut c_void;
}

impl Layout for Unversioned {
    const NAME: &'static CStr = c"dltensor";

    fn new(
        tensor: DlTensor,
        context: *mut c_void,
        _: &Export<'_>,
        deleter: unsafe extern "C" fn(*mut Self),
    ) -> Self {
        Self {
            tensor,
            context,
            deleter: Some(deleter),
        }
    }

    fn context(&self) -> *mut c_void {
        self.context
    }
}

impl Layout for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";

    fn new(
        tensor: DlTensor,
        context: *mut c_void,
        export: &Export<'_>,
        deleter: unsafe extern "C" fn(*mut Self),
    ) -> Self {
        Self {
            version: [export.version.0, export.version.1],
            context,
            deleter: Some(deleter),
            flags: export.flags,
            tensor,
        }
    }

    fn context(&self) -> *mut c_void {
        self.context
    }
}

/// All that a tensor refers to.
struct Kept<L> {
    layout: Option<L>,
    _shape: Vec<i64>,
    _strides: Vec<i64>,
    _buffer: Arc<Buffer>,
}

/// Frees a tensor. It can be called in any thread, and needs no Python.
///
/// # Safety
///
/// `tensor` is one of [`put`], and is not used any more.
unsafe extern "C" fn delete<L: Layout>(tensor: *mut L) {
    // SAFETY: Its context is the box that it was put in, which nobody else frees.
    drop(unsafe { Box::from_raw((*tensor).context().cast::<Kept<L>>()) });
}

/// The end of a capsule whose tensor nobody took.
///
/// # Safety
///
/// `capsule` is one of [`put`].
unsafe extern "C" fn destroy<L: Layout>(capsule: *mut ffi::PyObject) {
    // SAFETY: It is a capsule. One whose tensor was taken has another name.
    if unsafe { ffi::PyCapsule_IsValid(capsule, L::NAME.as_ptr()) } == 0 {
        return;
    }
    // SAFETY: A valid capsule of this name has a tensor of `put`, which nobody has taken.
    unsafe { delete(ffi::PyCapsule_GetPointer(capsule, L::NAME.as_ptr()).cast::<L>()) };
}

fn signed(numbers: &[u64]) -> Vec<i64> {
    // None is larger than what memory holds.
    numbers.iter().map(|number| *number as i64).collect()
}

fn put<'py, L: Layout>(py: Python<'py>, export: &Export<'_>) -> PyResult<Bound<'py, PyCapsule>> {
    let (mut shape, mut strides) = (signed(export.shape), signed(export.strides));
    let data = match export.buffer.len() {
        0 => std::ptr::null_mut(),
        _ => export.buffer.start().cast(),
    };
    let (kind, number) = CPU;
    let tensor = DlTensor {
        data,
        device: Device { kind, number },
        ndim: export.shape.len() as i32,
        dtype: DataType {
            code: export.code.code,
            bits: export.code.bits,
            lanes: 1,
        },
        shape: shape.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let kept = Box::into_raw(Box::new(Kept::<L> {
        layout: None,
        _shape: shape,
        _strides: strides,
        _buffer: Arc::clone(&export.buffer),
    }));
    let layout = L::new(tensor, kept.cast(), export, delete::<L>);
    // SAFETY: The box is there until its deleter, and nobody else has it yet.
    let place = unsafe { &mut (*kept).layout };
    let tensor = NonNull::from(place.insert(layout));
    // SAFETY: The tensor is valid until its deleter, which `destroy` calls unless one who took the tensor
    // does, as the protocol says.
    let capsule = unsafe {
        PyCapsule::new_with_pointer_and_destructor(py, tensor.cast(), L::NAME, Some(destroy::<L>))
    };
    if capsule.is_err() {
        // SAFETY: There is no capsule that has it.
        unsafe { delete(tensor.as_ptr()) };
    }
    capsule
}

/// A capsule of version 1, or of those before if the version is lower.
pub(super) fn capsule<'py>(
    py: Python<'py>,
    export: &Export<'_>,
) -> PyResult<Bound<'py, PyCapsule>> {
    match export.version.0 {
        0 => put::<Unversioned>(py, export),
        _ => put::<Versioned>(py, export),
    }
}
