// SPDX-License-Identifier: MIT OR Apache-2.0
//! A context with the streams that were made for it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cuda::{Context, Driver, Own, OwnStream, Stream};

use crate::fault::Fault;

/// The driver of this process, or the reason for which there is none. It stays loaded.
fn driver() -> cuda::Result<Arc<Driver>> {
    static DRIVER: OnceLock<cuda::Result<Arc<Driver>>> = OnceLock::new();
    let open = || Driver::open(Path::new(cuda::LIBRARY));
    DRIVER.get_or_init(open).clone()
}

/// A context, and its streams by their handles. The streams end before it.
pub(crate) struct Gpu {
    streams: Mutex<BTreeMap<usize, OwnStream>>,
    context: Context,
    /// Where it is the primary one, which was retained.
    _primary: Option<Own>,
    driver: Arc<Driver>,
}

impl Gpu {
    /// The context of this thread's calls, if it is of this device, or the device's primary one.
    pub(crate) fn open(number: u32) -> Result<Self, Fault> {
        let driver = driver()?;
        let device = driver.devices()?.nth(number as usize);
        let device = device.ok_or(Fault::Device(number))?;
        let (context, primary) = match driver.current()? {
            Some(context) if driver.enter(context)?.device()? == device => (context, None),
            _ => {
                let own = driver.primary_context(device)?;
                (own.context(), Some(own))
            }
        };
        Ok(Self {
            streams: Mutex::default(),
            context,
            _primary: primary,
            driver,
        })
    }

    /// Makes its context that of this thread's calls.
    pub(crate) fn enter(&self) -> Result<(), Fault> {
        Ok(self.driver.set_current(Some(self.context))?)
    }

    fn streams(&self) -> MutexGuard<'_, BTreeMap<usize, OwnStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new stream.
    pub(crate) fn create_stream(&self, is_urgent: bool) -> Result<Stream, Fault> {
        let own = match is_urgent {
            true => self.driver.create_stream(self.context),
            false => self.driver.create_usual_stream(self.context),
        }?;
        let stream = own.stream();
        self.streams().insert(stream.as_raw() as usize, own);
        Ok(stream)
    }

    /// Destroys a stream.
    pub(crate) fn destroy_stream(&self, handle: usize) -> Result<(), Fault> {
        let own = self.streams().remove(&handle);
        own.map(drop).ok_or(Fault::Stream)
    }

    /// Waits for a stream. Others may use theirs meanwhile.
    pub(crate) fn wait_idle(&self, handle: usize) -> Result<(), Fault> {
        let stream = self.streams().get(&handle).map(OwnStream::stream);
        let stream = stream.ok_or(Fault::Stream)?;
        Ok(self.driver.enter(self.context)?.wait_idle(stream)?)
    }
}
