// SPDX-License-Identifier: MIT OR Apache-2.0
//! A context with the kernels of the checks. The only unsafe code of the crate.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use cuda::{Device, Driver, Entered, Function, Grid, Own, OwnStream, Registered};

/// A stream of a context, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Of spinning work.
    Spin,
    /// Of items and holders.
    Items,
}

/// Functions of the module, in the order of [`Gpu::KERNELS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Spins.
    Spin,
    /// Runs for a time.
    Item,
    /// Holds.
    Holder,
}

/// A context on a GPU, with the kernels.
///
/// # Invariants
///
/// Kernels store to memory in `registered` alone. The fields before the context end before it.
pub struct Gpu {
    kernels: Vec<Function>,
    streams: [OwnStream; 2],
    registered: Vec<Registered>,
    context: Own,
    driver: Arc<Driver>,
}

impl Gpu {
    /// Names and numbers of parameters.
    const KERNELS: [(&'static CStr, usize); 3] = [(c"spin", 3), (c"item", 2), (c"holder", 5)];

    /// A new context on a device; `module` is the text of the kernels.
    pub fn new(driver: Arc<Driver>, device: Device, module: &CStr) -> Result<Self> {
        let context = driver.create_context(device)?;
        let stream = || driver.create_stream(context.context());
        let streams = [stream()?, stream()?];
        let module = driver.load(context.context(), module)?;
        let kernels = Self::KERNELS.iter().map(|&(name, parameters)| {
            // SAFETY: The text is that of kernels.ptx, by the callers: such are its parameters, and
            // each kernel stores to what lies behind its first or second and third one.
            unsafe { module.function(name, parameters) }
        });
        let kernels = kernels.collect::<Result<_, _>>()?;
        Ok(Self {
            kernels,
            streams,
            registered: Vec::new(),
            context,
            driver,
        })
    }

    /// Makes it the context of the calls of this thread for a while.
    fn enter(&self) -> Result<Entered<'_>> {
        Ok(self.driver.enter(self.context.context())?)
    }

    fn stream(&self, stream: Stream) -> cuda::Stream {
        self.streams[stream as usize].stream()
    }

    /// Gives it memory of this process; returns the address as the GPU sees it.
    pub fn register(&mut self, address: u64, length: u64) -> Result<u64> {
        let context = self.context.context();
        let registered = self.driver.register(context, address, length)?;
        let base = registered.base();
        self.registered.push(registered);
        Ok(base)
    }

    /// Launches a kernel; the arguments are its parameters, in order.
    pub fn launch<const N: usize>(
        &self,
        kernel: Kernel,
        stream: Stream,
        grid: Grid,
        arguments: [u64; N],
    ) -> Result<()> {
        let _entered = self.enter()?;
        let function = self.kernels.get(kernel as usize).context("a kernel")?;
        // SAFETY: The stream is of this context; addresses are those of registered memory, by the
        // callers. Another one is an error of the GPU's, and of this process alone.
        let launched = unsafe { function.launch(grid, self.stream(stream), arguments) };
        launched.map_err(anyhow::Error::from)
    }

    /// Has a stream wait until a word has reached a value, cyclic.
    pub fn wait_word(&self, stream: Stream, address: u64, value: u32) -> Result<()> {
        let entered = self.enter()?;
        Ok(entered.wait_word(self.stream(stream), address, value)?)
    }

    /// True if a stream has nothing left to do.
    pub fn is_idle(&self, stream: Stream) -> Result<bool> {
        Ok(self.enter()?.is_idle(self.stream(stream))?)
    }

    /// Asks how much memory is free, which goes to the resource manager.
    pub fn ask_memory(&self) -> Result<()> {
        self.enter()?.memory()?;
        Ok(())
    }
}
