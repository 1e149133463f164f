// SPDX-License-Identifier: MIT OR Apache-2.0
//! The class `GraphRequests`.
//!
//! CUDA does not notice the use of a graph that is destroyed. So the object of the graph is kept for as long
//! as its handle is used, and an end waits for the calls of other threads that use it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda::Executable;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};
use pyo3::{PyTraverseError, PyVisit};
use zernel_runtime::Recorded;

use crate::calls::{Call, Calls};
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
    /// No other thread runs while it is locked, nor code of Python.
    state: Mutex<Option<Held>>,
}

/// The requests of a graph that are not closed, in the order in which their parts end.
struct Held {
    /// Once the graph can be launched.
    graph: Option<Graph>,
    recorded: Arc<Recorded>,
    /// Those to which a graph was given.
    calls: Arc<Calls>,
    attached: Arc<Attached>,
}

/// A graph that can be launched.
struct Graph {
    requests: Arc<zernel_runtime::GraphRequests>,
    /// Those that use the graph.
    calls: Arc<Calls>,
    /// As it was given.
    object: Py<PyAny>,
}

impl Graph {
    /// Ends its requests, without the interpreter: its object is left.
    fn end(self, attached: &Attached) -> Py<PyAny> {
        if attached.may_call() {
            self.calls.wait();
        }
        self.object
    }
}

impl Held {
    /// Ends them, without the interpreter: the object of the graph is left.
    fn end(self) -> Option<Py<PyAny>> {
        let object = self.graph.map(|graph| graph.end(&self.attached));
        if self.attached.may_call() {
            self.calls.wait();
        }
        object
    }

    /// Ends them without an end of the graph, which may be launched still: the words of its nodes stay
    /// its own. The object of the graph is left.
    fn forget(self) -> Option<Py<PyAny>> {
        let Self {
            graph,
            recorded,
            calls: _,
            attached,
        } = self;
        let object = graph.map(|graph| graph.object);
        if attached.runtime.inert().is_none() {
            attached.keep(&recorded);
        }
        drop_detached((recorded, attached));
        object
    }
}

/// A call that uses a part of what is held.
struct Use<T> {
    attached: Arc<Attached>,
    part: Arc<T>,
    under_way: Option<Call>,
}

impl<T> Use<T> {
    fn begin(attached: &Arc<Attached>, part: &Arc<T>, calls: &Arc<Calls>) -> Self {
        Self {
            attached: attached.clone(),
            part: part.clone(),
            under_way: attached.may_call().then(|| calls.begin()),
        }
    }
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
                graph: None,
                recorded,
                calls: Arc::default(),
                attached,
            })),
        })
    }

    fn locked(&self) -> MutexGuard<'_, Option<Held>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of the requests, for a call to which a graph is given.
    fn place(&self) -> Result<Use<Recorded>, Fault> {
        let state = self.locked();
        let held = state.as_ref().ok_or(CLOSED)?;
        Ok(Use::begin(&held.attached, &held.recorded, &held.calls))
    }

    /// The requests of the graph, for a call that uses it.
    fn requests(&self) -> Result<Use<zernel_runtime::GraphRequests>, Fault> {
        let state = self.locked();
        let held = state.as_ref().ok_or(CLOSED)?;
        let graph = held.graph.as_ref().ok_or(Fault::NotInstantiated)?;
        Ok(Use::begin(&held.attached, &graph.requests, &graph.calls))
    }

    /// Has another graph be the one that is launched, unless they are closed. The one that is not, if there
    /// is one.
    fn replace(&self, graph: Graph) -> (Option<Graph>, Result<(), Fault>) {
        match self.locked().as_mut() {
            Some(held) => (held.graph.replace(graph), Ok(())),
            None => (Some(graph), Err(CLOSED)),
        }
    }
}

#[pymethods]
impl GraphRequests {
    /// The graph can be launched.
    fn instantiated(&self, py: Python<'_>, graph: &Bound<'_, PyAny>) -> PyResult<()> {
        let executable = executable_of(graph)?;
        let Use {
            attached,
            part: recorded,
            under_way,
        } = self.place()?;
        let instantiated = call(py, || {
            let requests = recorded.instantiated(executable);
            drop(under_way);
            requests
        });
        let requests = match instantiated {
            Ok(requests) => requests,
            Err(error) => {
                drop_detached((recorded, attached));
                return Err(error);
            }
        };
        let graph = Graph {
            requests: Arc::new(requests),
            calls: Arc::default(),
            object: graph.clone().unbind(),
        };
        let (other, result) = self.replace(graph);
        // Its object ends with the interpreter.
        let object = py.detach(move || {
            let object = other.map(|other| other.end(&attached));
            drop((recorded, attached));
            object
        });
        drop(object);
        Ok(result?)
    }

    /// Begins the request of the next launch.
    #[pyo3(signature = (
        stream = None, *, key = None, expected_us = 0.0, slo_ms = 0.0, exact = false,
        features = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python has them by name")]
    fn request(
        &self,
        py: Python<'_>,
        stream: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        expected_us: f64,
        slo_ms: f64,
        exact: bool,
        features: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Request> {
        let stream = stream_of(stream)?;
        let spec = argument::spec(key, expected_us, slo_ms, exact, features, None)?;
        let Use {
            attached,
            part: requests,
            under_way,
        } = self.requests()?;
        Request::begin(py, attached, stream, move || {
            let request = requests.begin(&spec);
            drop(under_way);
            Ok(request)
        })
    }

    /// Ends them, but for the request that is under way.
    fn close(&self, py: Python<'_>) {
        let held = self.locked().take();
        let object = py.detach(move || held.and_then(Held::end));
        // With the interpreter, as it may be the last reference.
        drop(object);
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

    /// A graph that refers to its requests is collected with them.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Ok(state) = self.state.try_lock() {
            let graph = state.as_ref().and_then(|held| held.graph.as_ref());
            visit.call(graph.map(|graph| &graph.object))?;
        }
        Ok(())
    }

    fn __repr__(&self) -> String {
        let state = match self.locked().as_ref() {
            Some(held) if held.graph.is_some() => "instantiated",
            Some(_) => "recorded",
            None => "closed",
        };
        format!("<zernel.GraphRequests {state}>")
    }
}

/// Nobody has said that the graph is not launched any more.
impl Drop for GraphRequests {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = state.take() {
            drop(held.forget());
        }
    }
}
