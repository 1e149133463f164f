// SPDX-License-Identifier: MIT OR Apache-2.0
//! The class `GraphRequests`.

use std::sync::{Arc, Mutex, PoisonError};

use cuda::Executable;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};
use zernel_runtime::Recorded;

use crate::context::Attached;
use crate::error::{call, Fault};
use crate::request::Request;
use crate::runtime::drop_detached;
use crate::stream::{number, stream_of};
use crate::{argument, sys};

/// The method of PyTorch's graphs that tells the handle.
const METHOD: &str = "raw_cuda_graph_exec";

/// For requests that are closed.
const CLOSED: Fault = Fault::Closed("the requests of the graph are closed");

/// The requests of a graph.
#[pyclass(frozen, weakref, module = "zernel", name = "GraphRequests")]
pub(crate) struct GraphRequests {
    /// No other thread runs while it is locked.
    state: Mutex<Option<Held>>,
}

/// The requests of a graph that are not closed, in the order in which their parts end.
#[derive(Clone)]
struct Held {
    /// Once the graph can be launched.
    requests: Option<Arc<zernel_runtime::GraphRequests>>,
    recorded: Arc<Recorded>,
    attached: Arc<Attached>,
}

fn is_handle(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>()
}

fn executable_of(object: &Bound<'_, PyAny>) -> PyResult<Executable> {
    let handle = match (is_handle(object), object.getattr_opt(METHOD)?) {
        (true, _) => object.clone(),
        (false, Some(method)) => method.call0()?,
        (false, None) => {
            return Err(PyTypeError::new_err(format!(
                "{} is no graph to launch: it takes an int, or an object with {METHOD}()",
                object.get_type().name()?
            )))
        }
    };
    if !is_handle(&handle) {
        return Err(PyTypeError::new_err(format!(
            "{} is no graph to launch: its {METHOD}() gives {}, and not an int",
            object.get_type().name()?,
            handle.get_type().name()?
        )));
    }
    match number("graph", &handle)? {
        0 => Err(Fault::Argument("0 is no graph to launch".to_owned()).into()),
        handle => Ok(sys::executable(handle)),
    }
}

impl GraphRequests {
    pub(crate) fn record(
        py: Python<'_>,
        attached: Arc<Attached>,
        stream: cuda::Stream,
    ) -> PyResult<Self> {
        let recorded = Arc::new(call(py, || attached.runtime.record(stream))?);
        Ok(Self {
            state: Mutex::new(Some(Held {
                requests: None,
                recorded,
                attached,
            })),
        })
    }

    fn held(&self) -> Result<Held, Fault> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let held = state.clone();
        held.ok_or(CLOSED)
    }
}

#[pymethods]
impl GraphRequests {
    /// The graph can be launched.
    fn instantiated(&self, py: Python<'_>, graph: &Bound<'_, PyAny>) -> PyResult<()> {
        let graph = executable_of(graph)?;
        let held = self.held()?;
        let requests = call(py, move || held.recorded.instantiated(graph))?;
        let mut requests = Some(Arc::new(requests));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let held = state.as_mut().ok_or(CLOSED);
        let result = held.map(|held| std::mem::swap(&mut held.requests, &mut requests));
        drop(state);
        py.detach(|| drop(requests));
        Ok(result?)
    }

    /// Begins the request of the next launch.
    #[pyo3(signature = (
        stream = None, *, key = None, expected_us = 0.0, slo_ms = 0.0, exact = false
    ))]
    fn request(
        &self,
        py: Python<'_>,
        stream: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        expected_us: f64,
        slo_ms: f64,
        exact: bool,
    ) -> PyResult<Request> {
        let stream = stream_of(stream)?;
        let spec = argument::spec(key, expected_us, slo_ms, exact)?;
        let held = self.held()?;
        let requests = held.requests.ok_or(Fault::NotInstantiated)?;
        Request::begin(py, held.attached, stream, || Ok(requests.begin(&spec)))
    }

    /// Ends them, but for the request that is under way.
    fn close(&self, py: Python<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let held = state.take();
        drop(state);
        py.detach(|| drop(held));
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        let state = match self.held() {
            Ok(held) if held.requests.is_some() => "instantiated",
            Ok(_) => "recorded",
            Err(_) => "closed",
        };
        format!("<zernel.GraphRequests {state}>")
    }
}

/// The end of the last part of a runtime that is closed may wait.
impl Drop for GraphRequests {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = state.take() {
            drop_detached(held);
        }
    }
}
