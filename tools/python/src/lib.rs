// SPDX-License-Identifier: MIT OR Apache-2.0
//! The native part of the Python package `zernel`: runtimes, requests, graphs, prefetch signals, and the
//! configuration file. What Python says better is in `python/zernel/`.

mod argument;
mod calls;
mod config;
mod context;
mod error;
mod graph;
mod request;
mod runtime;
mod signal;
mod stream;
mod sys;

use pyo3::prelude::*;

/// Runtimes and requests.
#[pymodule]
fn _zernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<runtime::Runtime>()?;
    module.add_class::<request::Request>()?;
    module.add_class::<graph::GraphRequests>()?;
    module.add_class::<runtime::TsgsBefore>()?;
    module.add_class::<signal::PrefetchSignal>()?;
    module.add_function(wrap_pyfunction!(config::load_config, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::stats, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
