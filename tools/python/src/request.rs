// SPDX-License-Identifier: MIT OR Apache-2.0
//! The class `Request`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use cuda::Stream;
use pyo3::prelude::*;
use zernel_runtime::Idle;

use crate::context::Attached;
use crate::error::{call, call_at_once, Fault};
use crate::runtime::drop_detached;
use crate::stream::stream_of;

/// A request, from its begin to its end.
#[pyclass(frozen, weakref, module = "zernel", name = "Request")]
pub(crate) struct Request {
    state: Mutex<State>,
    idle: Option<Idle>,
    number: Option<u32>,
    lane: Option<u32>,
    predicted: Option<Duration>,
    /// The stream that its work is in.
    stream: Option<Stream>,
}

struct State {
    is_ready: bool,
    held: Option<Held>,
}

/// A request that is not over, in the order in which its parts end.
struct Held {
    request: zernel_runtime::Request,
    attached: Arc<Attached>,
}

impl State {
    /// Ends a request that does nothing, if no end of its runtime comes with it. True if it did.
    fn end_idle(&mut self) -> bool {
        let ends = |held: &mut Held| {
            held.request.idle().is_some() && Arc::strong_count(&held.attached) > 1
        };
        self.held.take_if(ends).is_some()
    }
}

/// The way in which a request ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Done,
    DoneIn(Stream),
    Cancel,
}

impl Request {
    /// Begins one, whose work is in a stream, by a call.
    pub(crate) fn begin(
        py: Python<'_>,
        attached: Arc<Attached>,
        stream: Option<Stream>,
        begin: impl FnOnce() -> zernel_runtime::Result<zernel_runtime::Request> + Send,
    ) -> PyResult<Self> {
        let request = match attached.runtime.inert() {
            Some(_) => call_at_once(begin),
            None => call(py, || {
                if let Some(stream) = stream {
                    attached.runtime.check_stream(stream)?;
                }
                begin()
            }),
        }?;
        Ok(Self {
            idle: request.idle(),
            number: request.number().map(|number| number.get()),
            lane: request.lane(),
            predicted: request.predicted(),
            stream,
            state: Mutex::new(State {
                is_ready: false,
                held: Some(Held { request, attached }),
            }),
        })
    }

    /// A call of another thread on it is over soon, but not before this thread lets others run.
    fn with<T: Send>(&self, py: Python<'_>, change: impl FnOnce(&mut State) -> T + Send) -> T {
        match self.state.try_lock() {
            Ok(mut state) => change(&mut state),
            Err(TryLockError::Poisoned(state)) => change(&mut state.into_inner()),
            Err(TryLockError::WouldBlock) => py.detach(|| change(&mut self.locked())),
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it. Without a fault it is over.
    fn end(&self, py: Python<'_>, end: End) -> PyResult<()> {
        if self.with(py, |state| state.end_idle()) {
            return Ok(());
        }
        call(py, || {
            let mut state = self.locked();
            let Some(held) = &state.held else {
                return Err(Fault::Over);
            };
            let runtime = &held.attached.runtime;
            if let End::DoneIn(stream) = end {
                if held.request.idle().is_none() && runtime.inert().is_none() {
                    runtime.check_stream(stream)?;
                }
            }
            let held = state.held.take();
            drop(state);
            let Some(Held { request, attached }) = held else {
                return Err(Fault::Over);
            };
            match end {
                End::Done => request.done(),
                End::DoneIn(stream) => request.done_in(stream),
                End::Cancel => request.cancel(),
            }
            drop(attached);
            Ok(())
        })
    }
}

#[pymethods]
impl Request {
    /// Its data is ready.
    fn ready(&self, py: Python<'_>) -> PyResult<()> {
        let made = self.with(py, |state| {
            let held = state.held.as_mut().ok_or(Fault::Over)?;
            held.request.ready();
            state.is_ready = true;
            Ok::<_, Fault>(())
        });
        made.map_err(PyErr::from)
    }

    /// Its result is there.
    fn done(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, End::Done)
    }

    /// Its result is there when all that is in a stream now is over.
    fn done_in(&self, py: Python<'_>, stream: &Bound<'_, PyAny>) -> PyResult<()> {
        match stream_of(Some(stream))? {
            Some(stream) => self.end(py, End::DoneIn(stream)),
            None => self.end(py, End::Done),
        }
    }

    /// It is given up.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, End::Cancel)
    }

    /// The reason for which it does nothing.
    #[getter]
    fn idle(&self) -> Option<&'static str> {
        self.idle.map(|idle| match idle {
            Idle::Inert => "inert",
            Idle::NoLane => "no_lane",
            Idle::Refused => "refused",
            Idle::Late { .. } => "late",
            Idle::Lost => "lost",
            Idle::Forked => "forked",
            _ => "other",
        })
    }

    /// The shortest `slo_ms` that would have been promised to one that is late.
    #[getter]
    fn earliest_ms(&self) -> Option<f64> {
        match self.idle {
            Some(Idle::Late { earliest }) => Some(earliest?.as_secs_f64() * 1e3),
            _ => None,
        }
    }

    /// Its number in its slot.
    #[getter]
    fn number(&self) -> Option<u32> {
        self.number
    }

    /// Its lane.
    #[getter]
    fn lane(&self) -> Option<u32> {
        self.lane
    }

    /// The time that its preparation will take, in microseconds.
    #[getter]
    fn predicted_us(&self) -> Option<f64> {
        self.predicted.map(|time| time.as_secs_f64() * 1e6)
    }

    /// Its data has been ready.
    #[getter]
    fn is_ready(&self, py: Python<'_>) -> bool {
        self.with(py, |state| state.is_ready)
    }

    /// It is done or cancelled.
    #[getter]
    fn is_over(&self, py: Python<'_>) -> bool {
        self.with(py, |state| state.held.is_none())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (is_over, is_ready) = self.with(py, |state| (state.held.is_none(), state.is_ready));
        if is_over {
            return Ok(());
        }
        if !kind.is_none() && !is_ready {
            return self.end(py, End::Cancel);
        }
        let Some(stream) = self.stream else {
            return self.end(py, End::Done);
        };
        let ended = self.end(py, End::DoneIn(stream));
        if ended.is_err() {
            // The stream cannot tell, so it is done now.
            self.end(py, End::Done)?;
        }
        // The exception of the block is the one that counts.
        if kind.is_none() {
            ended
        } else {
            Ok(())
        }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let (is_over, is_ready) = self.with(py, |state| (state.held.is_none(), state.is_ready));
        let state = match (self.idle(), is_over, is_ready) {
            (Some(why), _, _) => why,
            (None, true, _) => "over",
            (None, false, true) => "ready",
            (None, false, false) => "begun",
        };
        format!("<zernel.Request {state}>")
    }
}

/// The end of the last request of a runtime that is closed may wait.
impl Drop for Request {
    fn drop(&mut self) {
        // Without the lock, which a child of `fork()` may have got in use.
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        match state.held.take() {
            Some(held) if held.request.idle().is_none() => drop_detached(held),
            Some(held) if Arc::strong_count(&held.attached) == 1 => drop_detached(held),
            _ => {}
        }
    }
}
