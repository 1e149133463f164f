// SPDX-License-Identifier: MIT OR Apache-2.0
//! The native part of the Python package `zernel_prefetch`: stores, loads, and the memory of samples.
//! Orders of samples, states and the iterators are in `python/zernel_prefetch/`.

mod bell;
mod element;
mod error;
mod loads;
mod numbers;
mod prefetcher;
mod store;
mod sys;

use pyo3::prelude::*;

/// Loads of samples.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<prefetcher::Prefetcher>()?;
    module.add_class::<loads::Loads>()?;
    module.add_class::<numbers::Numbers>()?;
    module.add_class::<sys::Tensor>()?;
    module.add_function(wrap_pyfunction!(numbers::batches, module)?)?;
    module.add_function(wrap_pyfunction!(loads::alive, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
