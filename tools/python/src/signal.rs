// SPDX-License-Identifier: MIT OR Apache-2.0
//! The class `PrefetchSignal`: zernel's word that it is time to load the next batch.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use libzernel::{Subscription, Target, Tracking, Zernel};
use pyo3::prelude::*;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::argument;
use crate::error::{call, Fault};

/// The prefetch signals of this process.
#[pyclass(frozen, weakref, module = "zernel", name = "PrefetchSignal")]
pub(crate) struct PrefetchSignal {
    open: Mutex<Option<Arc<Open>>>,
}

struct Open {
    /// Until it is dropped.
    subscription: Option<Subscription>,
    /// 1 is added by zernel for each signal.
    bell: OwnedFd,
    /// 1 is added when it is closed.
    closed: OwnedFd,
    process: u32,
}

fn counter() -> Result<OwnedFd, Fault> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    eventfd(0, flags).map_err(|errno| Fault::System("eventfd", errno))
}

impl Open {
    fn new(device: &str, track: bool) -> Result<Self, Fault> {
        let zernel = Zernel::open_at(device)?;
        let process = Target::current_process();
        if track {
            zernel.track(&process, Tracking::ML)?;
        }
        let (bell, closed) = (counter()?, counter()?);
        Ok(Self {
            subscription: Some(zernel.subscribe_eventfd(&process, bell.as_fd())?),
            bell,
            closed,
            process: std::process::id(),
        })
    }

    /// True for a signal, false when the time is over or it is closed.
    fn wait(&self, time: Option<&Timespec>) -> Result<bool, Fault> {
        if self.process != std::process::id() {
            return Err(zernel_runtime::Error::Forked.into());
        }
        let mut both = [
            PollFd::new(&self.bell, PollFlags::IN),
            PollFd::new(&self.closed, PollFlags::IN),
        ];
        match poll(&mut both, time) {
            // Python looks at its signals, and waits anew.
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(errno) => return Err(Fault::System("poll", errno)),
        }
        if !both[1].revents().is_empty() {
            return Ok(false);
        }
        match rustix::io::read(&self.bell, &mut [0; 8]) {
            Ok(_) => Ok(true),
            // Another thread that waits has taken it.
            Err(Errno::AGAIN) => Ok(false),
            Err(errno) => Err(Fault::System("read", errno)),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let is_child = self.process != std::process::id();
        if let Some(subscription) = self.subscription.take().filter(|_| is_child) {
            // It is the parent's, in whose file it is.
            subscription.keep();
        }
    }
}

impl PrefetchSignal {
    fn open(&self) -> PyResult<Arc<Open>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.clone()
            .ok_or_else(|| Fault::Closed("the signal is closed").into())
    }
}

#[pymethods]
impl PrefetchSignal {
    #[new]
    // A literal, which Python shows: it is that of Zernel::PATH.
    #[pyo3(signature = (*, track = true, device = "/dev/zernel"))]
    fn new(py: Python<'_>, track: bool, device: &str) -> PyResult<Self> {
        let open = call(py, || Open::new(device, track))?;
        Ok(Self {
            open: Mutex::new(Some(Arc::new(open))),
        })
    }

    /// Waits for a signal.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let time = timeout.map(|time| argument::seconds("timeout", time));
        let time = time.transpose()?.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let open = self.open()?;
        let came = call(py, || open.wait(time.as_ref()))?;
        py.check_signals()?;
        Ok(came)
    }

    /// Ends the subscription; those that wait go on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.take()
        };
        let Some(open) = open else {
            return Ok(());
        };
        call(py, move || {
            if open.process == std::process::id() {
                // A counter that is full has been closed before.
                let _ = rustix::io::write(&open.closed, &1_u64.to_ne_bytes());
            }
            drop(open);
            Ok::<_, Fault>(())
        })
    }

    /// True after `close()`.
    #[getter]
    fn closed(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.is_none()
    }
}
