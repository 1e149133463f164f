// SPDX-License-Identifier: MIT OR Apache-2.0
//! The class `Runtime`.

use std::sync::{Arc, Mutex, PoisonError};

use libzernel::class::{Attributes, Set};
use libzernel::{tsg, Cause, Target, Zernel};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zernel_runtime::Options;

use crate::context::{Attached, Files};
use crate::error::{call, Fault};
use crate::graph::GraphRequests;
use crate::request::Request;
use crate::{argument, stream};

/// The TSGs of this process before it makes a context.
#[pyclass(frozen, module = "zernel", name = "TsgsBefore")]
pub(crate) struct TsgsBefore(zernel_runtime::TsgsBefore);

#[pymethods]
impl TsgsBefore {
    #[new]
    fn new(py: Python<'_>) -> Self {
        Self(py.detach(zernel_runtime::TsgsBefore::now))
    }
}

/// See [`Runtime::_gpu`].
type Load = (u64, Option<u64>, u64, u64);

/// See [`Runtime::_own_class`].
type OwnClass = (Option<u8>, Option<u32>);

/// Requests of a CUDA context.
#[pyclass(frozen, weakref, module = "zernel", name = "Runtime")]
pub(crate) struct Runtime {
    attached: Mutex<Option<Arc<Attached>>>,
}

/// Options of Python as those of the runtime.
struct Given<'a, 'py> {
    mode: Option<&'a str>,
    lanes: Option<&'a Bound<'py, PyAny>>,
    bound_us: Option<f64>,
    linger_us: f64,
    release_word: &'a str,
    tsg: Option<&'a Bound<'py, PyAny>>,
    before: Option<&'a Bound<'py, TsgsBefore>>,
    library: Option<String>,
    device: Option<String>,
}

impl Given<'_, '_> {
    fn options(&self) -> PyResult<(Options, zernel_runtime::Mode, Files)> {
        let mode = match self.mode {
            Some(mode) => mode.parse(),
            None => {
                let mode = std::env::var_os(Options::VARIABLE).unwrap_or_default();
                mode.to_string_lossy().parse()
            }
        };
        let mode = mode.map_err(Fault::Runtime)?;
        let linger = argument::us("linger_us", self.linger_us)?;
        let word = self.release_word.parse().map_err(Fault::Runtime)?;
        let mut options = Options::default().mode(mode).linger(linger);
        options = options.release_word(word);
        if let Some(lanes) = self.lanes {
            options = options.lanes(argument::lanes(lanes)?);
        }
        if let Some(bound) = self.bound_us {
            options = options.bound(argument::us("bound_us", bound)?);
        }
        if let Some(tsg) = self.tsg {
            options = options.tsg(tsg::Id::new(argument::tsg(tsg)?));
        }
        if let Some(before) = self.before {
            options = options.before(before.get().0.clone());
        }
        let usual = Files::default();
        let files = Files {
            library: self.library.clone().unwrap_or(usual.library),
            device: self.device.clone().unwrap_or(usual.device),
        };
        let options = options.library(&files.library).device(&files.device);
        Ok((options, mode, files))
    }
}

impl Runtime {
    fn of(attached: Attached) -> Self {
        Self {
            attached: Mutex::new(Some(Arc::new(attached))),
        }
    }

    fn attached(&self) -> PyResult<Arc<Attached>> {
        let held = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone()
            .ok_or_else(|| Fault::Closed("the runtime is closed").into())
    }

    fn take(&self) -> Option<Arc<Attached>> {
        let mut held = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        held.take()
    }
}

#[pymethods]
impl Runtime {
    /// For the context that is current in this thread.
    #[new]
    #[pyo3(signature = (
        *, mode = None, lanes = None, bound_us = None, linger_us = 0.0, release_word = "auto",
        tsg = None, before = None, library = None, device = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python has them by name")]
    fn new(
        py: Python<'_>,
        mode: Option<&str>,
        lanes: Option<&Bound<'_, PyAny>>,
        bound_us: Option<f64>,
        linger_us: f64,
        release_word: &str,
        tsg: Option<&Bound<'_, PyAny>>,
        before: Option<&Bound<'_, TsgsBefore>>,
        library: Option<String>,
        device: Option<String>,
    ) -> PyResult<Self> {
        let given = Given {
            mode,
            lanes,
            bound_us,
            linger_us,
            release_word,
            tsg,
            before,
            library,
            device,
        };
        let (options, _, files) = given.options()?;
        call(py, || Attached::current(&options, files)).map(Self::of)
    }

    /// For a device.
    #[staticmethod]
    #[pyo3(signature = (
        gpu_id, *, mode = None, lanes = None, bound_us = None, linger_us = 0.0,
        release_word = "auto", tsg = None, before = None, library = None, device = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python has them by name")]
    fn on_device(
        py: Python<'_>,
        gpu_id: &Bound<'_, PyAny>,
        mode: Option<&str>,
        lanes: Option<&Bound<'_, PyAny>>,
        bound_us: Option<f64>,
        linger_us: f64,
        release_word: &str,
        tsg: Option<&Bound<'_, PyAny>>,
        before: Option<&Bound<'_, TsgsBefore>>,
        library: Option<String>,
        device: Option<String>,
    ) -> PyResult<Self> {
        let given = Given {
            mode,
            lanes,
            bound_us,
            linger_us,
            release_word,
            tsg,
            before,
            library,
            device,
        };
        let number = argument::gpu(gpu_id)?;
        let (options, mode, files) = given.options()?;
        call(py, || Attached::on_device(number, mode, &options, files)).map(Self::of)
    }

    /// Begins a request.
    #[pyo3(signature = (
        stream = None, *, key = None, expected_us = 0.0, slo_ms = 0.0, exact = false,
        inline = false, features = None, admit_us = None
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
        inline: bool,
        features: Option<&Bound<'_, PyAny>>,
        admit_us: Option<f64>,
    ) -> PyResult<Request> {
        let stream = stream::stream_of(stream)?;
        let mut spec = argument::spec(key, expected_us, slo_ms, exact, features, admit_us)?;
        match (inline, stream) {
            (true, Some(stream)) => spec = spec.inline(stream),
            (true, None) => {
                let text = "inline=True needs the stream of the request";
                return Err(Fault::Argument(text.to_owned()).into());
            }
            (false, _) => {}
        }
        let attached = self.attached()?;
        let runtime = attached.runtime.clone();
        Request::begin(py, attached, stream, move || runtime.begin(&spec))
    }

    /// Records a request in a captured stream.
    fn record(&self, py: Python<'_>, stream: &Bound<'_, PyAny>) -> PyResult<GraphRequests> {
        let stream = stream::of(stream)?;
        GraphRequests::record(py, self.attached()?, stream)
    }

    /// Fails for a stream that requests cannot be put into.
    fn check_stream(&self, py: Python<'_>, stream: &Bound<'_, PyAny>) -> PyResult<()> {
        let stream = stream::stream_of(Some(stream))?;
        let attached = self.attached()?;
        call(py, || {
            stream.map_or(Ok(()), |stream| attached.runtime.check_stream(stream))
        })
    }

    /// Makes its context that of this thread's calls.
    fn make_current(&self, py: Python<'_>) -> PyResult<()> {
        let attached = self.attached()?;
        call(py, || attached.make_current())
    }

    /// Gives its TSG a class.
    #[pyo3(signature = (level, *, timeslice_us = None))]
    fn set_level(
        &self,
        py: Python<'_>,
        level: &Bound<'_, PyAny>,
        timeslice_us: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let mut class = Attributes::from(argument::level(level)?);
        if let Some(us) = argument::timeslice(timeslice_us)? {
            class = class.timeslice_us(us);
        }
        let attached = self.attached()?;
        call(py, || match attached.zernel()? {
            Some((zernel, tsg)) => Ok(zernel.set_class(&Target::Tsg(tsg), class)?),
            None => Ok::<_, Fault>(()),
        })
    }

    /// Takes the class away that its TSG has of its own.
    fn clear_level(&self, py: Python<'_>) -> PyResult<()> {
        let attached = self.attached()?;
        call(py, || {
            let Some((zernel, tsg)) = attached.zernel()? else {
                return Ok::<_, Fault>(());
            };
            let target = Target::Tsg(tsg);
            match zernel.class_of(&target)? {
                Some(_) => Ok(zernel.clear_class(&target)?),
                None => Ok(()),
            }
        })
    }

    /// The level and the time slice that its TSG has of its own.
    fn _own_class(&self, py: Python<'_>) -> PyResult<OwnClass> {
        let attached = self.attached()?;
        call(py, || {
            let Some((zernel, tsg)) = attached.zernel()? else {
                return Ok::<_, Fault>((None, None));
            };
            let own = zernel.class_of(&Target::Tsg(tsg))?.map(|class| class.own);
            let own = own.unwrap_or_default();
            Ok((own.level.map(u8::from), own.timeslice_us))
        })
    }

    /// Gives its TSG a level and a time slice of its own, in one call; `None` takes one away.
    #[pyo3(signature = (level, timeslice_us))]
    fn _set_own_class(
        &self,
        py: Python<'_>,
        level: Option<&Bound<'_, PyAny>>,
        timeslice_us: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let mut class = Attributes::default();
        class.level = level.map(argument::level).transpose()?;
        class.timeslice_us = argument::timeslice(timeslice_us)?;
        let attached = self.attached()?;
        call(py, || {
            let Some((zernel, tsg)) = attached.zernel()? else {
                return Ok::<_, Fault>(());
            };
            let target = Target::Tsg(tsg);
            if class.names().is_empty() && zernel.class_of(&target)?.is_none() {
                return Ok(());
            }
            Ok(zernel.change_class(&target, Set::LEVEL | Set::TIMESLICE, class)?)
        })
    }

    /// The level in force for its TSG.
    #[getter]
    fn level(&self, py: Python<'_>) -> PyResult<Option<u8>> {
        let attached = self.attached()?;
        call(py, || match attached.zernel()? {
            Some((zernel, tsg)) => {
                let level = zernel.class(&Target::Tsg(tsg))?.level;
                Ok::<_, Fault>(level.value.map(u8::from))
            }
            None => Ok(None),
        })
    }

    /// The reason for which its requests do nothing.
    #[getter]
    fn inert<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let inert = self.attached()?.runtime.inert();
        inert.map(|why| Fault::Runtime(why).object(py)).transpose()
    }

    /// The id of its TSG.
    #[getter]
    fn tsg(&self) -> PyResult<Option<u64>> {
        Ok(self.attached()?.runtime.tsg().map(tsg::Id::as_u64))
    }

    /// Its counters.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let attached = self.attached()?;
        let counters = attached.runtime.counters();
        let found = PyDict::new(py);
        for (name, value) in [
            ("begun", counters.begun),
            ("no_lane", counters.no_lane),
            ("refused", counters.refused),
            ("lost", counters.lost),
            ("forked", counters.forked),
            ("failed_calls", counters.failed_calls),
            ("kept_lanes", attached.kept_lanes()),
        ] {
            found.set_item(name, value)?;
        }
        Ok(found)
    }

    /// The outcomes of the requests of its TSG.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let attached = self.attached()?;
        let Some(stats) = call(py, || attached.runtime.stats())? else {
            return Ok(None);
        };
        let found = PyDict::new(py);
        for (name, value) in stats.entries() {
            found.set_item(name, value)?;
        }
        Ok(Some(found))
    }

    /// Busy time of its GPU in nanoseconds, the time up to which that is known, the time at which
    /// the GPU was added, and the times that its TSG was taken off the GPU with work.
    fn _gpu(&self, py: Python<'_>) -> PyResult<Option<Load>> {
        let attached = self.attached()?;
        call(py, || {
            let Some((zernel, id)) = attached.zernel()? else {
                return Ok::<_, Fault>(None);
            };
            let mut own = zernel.tsgs_of(&Target::Tsg(id));
            let Some(tsg) = own.next().transpose()? else {
                return Ok(None);
            };
            let mut gpus = zernel.gpus();
            let gpu = gpus.find(|gpu| gpu.as_ref().map_or(true, |gpu| gpu.id == tsg.gpu));
            let gpu = gpu.transpose()?;
            Ok(gpu.map(|gpu| {
                let at = gpu.busy_at_ns.map(|at| at.as_ns());
                (gpu.busy_ns, at, gpu.added_ns.as_ns(), tsg.preemptions)
            }))
        })
    }

    /// Ends it and its requests.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let attached = self.take();
        call(py, move || {
            drop(attached);
            Ok::<_, Fault>(())
        })
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
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let Ok(attached) = self.attached() else {
            return "<zernel.Runtime closed>".to_owned();
        };
        match (attached.runtime.inert(), attached.runtime.tsg()) {
            (Some(why), _) => format!("<zernel.Runtime inert: {}>", why.name()),
            (None, Some(tsg)) => format!("<zernel.Runtime of TSG {tsg}>"),
            (None, None) => "<zernel.Runtime>".to_owned(),
        }
    }
}

/// The end of a context may wait for its work, with other threads running.
impl Drop for Runtime {
    fn drop(&mut self) {
        let attached = self.attached.get_mut();
        let attached = attached.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(attached) = attached {
            drop_detached(attached);
        }
    }
}

/// The module's counters; `None` without it.
#[pyfunction]
pub(crate) fn stats(py: Python<'_>) -> PyResult<Option<Bound<'_, PyDict>>> {
    let stats = call(py, || match Zernel::open() {
        Ok(zernel) => Ok(Some(zernel.stats()?)),
        Err(error) if error.cause() == Cause::NoDevice => Ok(None),
        Err(error) => Err(Fault::from(error)),
    })?;
    let Some(stats) = stats else {
        return Ok(None);
    };
    let found = PyDict::new(py);
    for (name, value) in stats.entries() {
        found.set_item(name, value)?;
    }
    Ok(Some(found))
}

/// Drops something whose end may wait.
pub(crate) fn drop_detached(value: impl Send) {
    let mut value = Some(value);
    let dropped = Python::try_attach(|py| py.detach(|| drop(value.take())));
    if dropped.is_none() {
        // The interpreter ends: nobody else runs.
        drop(value);
    }
}
