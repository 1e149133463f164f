// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration file, as a dictionary.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zernel_config::Config;

use crate::error::{call, Fault};

/// The values of a file, or the usual ones.
#[pyfunction]
pub(crate) fn load_config(py: Python<'_>, path: Option<PathBuf>) -> PyResult<Bound<'_, PyDict>> {
    let config = call(py, || match path {
        Some(path) => Config::from_file(path).map_err(Fault::Config),
        None => Ok(Config::default()),
    })?;
    let us = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let preemption = &config.preemption;
    let found = PyDict::new(py);
    found.set_item("gpu_id", config.scheduler.gpu_id)?;
    found.set_item("lc_level", config.priorities.latency_critical.number())?;
    found.set_item("be_level", config.priorities.best_effort.number())?;
    found.set_item("lc_slice_us", config.slices.latency_critical_us)?;
    found.set_item("be_slice_us", config.slices.best_effort_us)?;
    found.set_item("requests", preemption.enabled)?;
    found.set_item("lanes", preemption.lanes)?;
    found.set_item("linger_us", us(preemption.linger))?;
    found.set_item("bound_us", preemption.bound.map(us))?;
    found.set_item("release_word", preemption.release_word.name())?;
    found.set_item("inline", preemption.inline)?;
    found.set_item("workers", config.resources.workers)?;
    found.set_item("queue", config.resources.queue)?;
    found.set_item("policy", &config.policy.name)?;
    found.set_item("window", config.monitoring.window)?;
    Ok(found)
}
