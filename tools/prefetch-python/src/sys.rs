// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only unsafe code of the crate: memory of samples that others have as bare addresses.
#![allow(unsafe_code)]

mod buffer;
mod dlpack;
mod tensor;
#[cfg(Py_3_11)]
mod view;

pub(crate) use buffer::{alive, Buffer};
pub(crate) use tensor::Tensor;
