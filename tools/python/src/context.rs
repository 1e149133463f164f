// SPDX-License-Identifier: MIT OR Apache-2.0
//! The context of a runtime: the one that is current, or that of a device.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use cuda::{Context, Driver, Own, LIBRARY};
use libzernel::Zernel;
use zernel_runtime::{Error, Mode, Options, Recorded, Runtime};

use crate::error::Fault;

/// The files that a runtime uses, the same as those of its options.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) library: String,
    pub(crate) device: String,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            library: LIBRARY.to_owned(),
            device: Zernel::PATH.to_owned(),
        }
    }
}

/// A runtime with its context, in the order in which they end.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) runtime: Runtime,
    /// `None` where it is inert.
    place: Option<Place>,
    files: Files,
    kept_lanes: AtomicU64,
}

#[derive(Debug)]
struct Place {
    driver: Arc<Driver>,
    context: Context,
    /// The primary context, if it was retained here.
    own: Option<Own>,
}

impl Attached {
    /// For the context that is current in this thread.
    pub(crate) fn current(options: &Options, files: Files) -> Result<Self, Fault> {
        let runtime = Runtime::attach(options)?;
        let place = match runtime.inert() {
            Some(_) => None,
            None => {
                let driver = Driver::open(Path::new(&files.library))?;
                driver.current()?.map(|context| Place {
                    driver: driver.clone(),
                    context,
                    own: None,
                })
            }
        };
        Ok(Self {
            runtime,
            place,
            files,
            kept_lanes: AtomicU64::new(0),
        })
    }

    /// For a device, by its number among those of CUDA: with the context that is current in this
    /// thread if it is of that device, else with its primary context.
    pub(crate) fn on_device(
        number: u32,
        mode: Mode,
        options: &Options,
        files: Files,
    ) -> Result<Self, Fault> {
        // The runtime says why there is nothing.
        let is_there = mode != Mode::Off && Zernel::open_at(&files.device).is_ok();
        let driver = match is_there.then(|| Driver::open(Path::new(&files.library))) {
            Some(Ok(driver)) => driver,
            _ => return Self::current(options, files),
        };
        let devices: Vec<_> = driver.devices()?.collect();
        let Some(&device) = devices.get(number as usize) else {
            let text = format!("gpu_id={number}: CUDA has {} devices", devices.len());
            return Err(Fault::Argument(text));
        };
        let current = match driver.current()? {
            Some(context) if driver.enter(context)?.device()? == device => Some(context),
            _ => None,
        };
        let own = match current {
            Some(_) => None,
            None => Some(driver.primary_context(device)?),
        };
        let context = current.or_else(|| own.as_ref().map(Own::context));
        let context = context.ok_or(Fault::Internal)?;
        let entered = driver.enter(context)?;
        let runtime = Runtime::attach(options)?;
        drop(entered);
        let place = runtime.inert().is_none().then_some(Place {
            driver,
            context,
            own,
        });
        Ok(Self {
            runtime,
            place,
            files,
            kept_lanes: AtomicU64::new(0),
        })
    }

    /// Makes its context that of this thread's calls.
    pub(crate) fn make_current(&self) -> Result<(), Fault> {
        if let Some(Error::Forked) = self.runtime.inert() {
            return Err(Error::Forked.into());
        }
        match &self.place {
            Some(place) => Ok(place.driver.set_current(Some(place.context))?),
            None => Ok(()),
        }
    }

    /// False where no call of it comes to CUDA: where it is inert from the beginning, and in a child of
    /// `fork()`.
    pub(crate) fn may_call(&self) -> bool {
        matches!(self.runtime.inert(), None | Some(Error::Lost(_)))
    }

    /// Has the place of a request in a graph stay to the end of the process, and with it the runtime.
    pub(crate) fn keep(self: &Arc<Self>, recorded: &Arc<Recorded>) {
        self.kept_lanes.fetch_add(1, Relaxed);
        std::mem::forget((self.clone(), recorded.clone()));
    }

    /// The places that stay.
    pub(crate) fn kept_lanes(&self) -> u64 {
        self.kept_lanes.load(Relaxed)
    }

    /// The device of zernel, and the TSG there; `None` where it is inert.
    pub(crate) fn zernel(&self) -> Result<Option<(Zernel, libzernel::tsg::Id)>, Fault> {
        match (self.runtime.inert(), self.runtime.tsg()) {
            (Some(Error::Forked), _) => Err(Error::Forked.into()),
            (_, Some(tsg)) => Ok(Some((Zernel::open_at(&self.files.device)?, tsg))),
            (_, None) => Ok(None),
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let own = self.place.as_mut().and_then(|place| place.own.take());
        match self.runtime.inert() {
            // It stayed with the parent.
            Some(Error::Forked) => std::mem::forget(own),
            // It ends after the runtime.
            _ => {
                if let Some(place) = &mut self.place {
                    place.own = own;
                }
            }
        }
    }
}
