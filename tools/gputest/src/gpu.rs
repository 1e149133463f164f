// SPDX-License-Identifier: MIT OR Apache-2.0
//! A context on a device, with the kernels of this program.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use cuda::{Attribute, Context, Device, Driver, Entered, Function, Grid, Own, Window};

use crate::sys::memory::Words;
use crate::sys::{self, Api};

const COMMON: &CStr = text(concat!(include_str!("kernels/common.ptx"), "\0"));
const LOST: &CStr = text(concat!(include_str!("kernels/lost.ptx"), "\0"));
const HOLDER: &CStr = text(concat!(include_str!("../../runtime/src/holder.ptx"), "\0"));

const fn text(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a text of kernels has a zero"),
    }
}

/// One block of one warp.
pub const WARP: Grid = Grid {
    blocks: 1,
    threads: 32,
};

/// One thread.
pub const ONE: Grid = Grid {
    blocks: 1,
    threads: 1,
};

/// Options that all programs share.
#[derive(Debug, Clone)]
pub struct Options {
    /// The driver library.
    pub library: PathBuf,
    /// That of GDRCopy.
    pub gdrcopy: PathBuf,
    /// Number of the device.
    pub device: usize,
    /// A twentieth of the rounds.
    pub short: bool,
}

impl Options {
    /// So many rounds, or fewer if it shall be short.
    pub fn rounds(&self, rounds: usize) -> usize {
        match self.short {
            true => rounds.div_ceil(20),
            false => rounds,
        }
    }
}

/// The context. Its fields end before it.
#[derive(Debug)]
pub struct Gpu {
    pub api: Api,
    pub own: Own,
    pub device: Device,
    pub driver: Arc<Driver>,
    pub options: Options,
}

impl Gpu {
    /// On the device of the options.
    pub fn new(options: &Options) -> Result<Self> {
        let driver = Driver::open(&options.library)?;
        let device = driver.devices()?.nth(options.device);
        let device = device.with_context(|| format!("no device {}", options.device))?;
        let own = driver.create_context(device)?;
        Ok(Self {
            api: Api::open(Path::new(&options.library))?,
            own,
            device,
            driver,
            options: options.clone(),
        })
    }

    /// The context.
    pub fn context(&self) -> Context {
        self.own.context()
    }

    /// Calls on the context in this thread.
    pub fn enter(&self) -> Result<Entered<'_>> {
        Ok(self.driver.enter(self.context())?)
    }

    /// Its multiprocessors.
    pub fn multiprocessors(&self) -> Result<u32> {
        let found = self
            .driver
            .attribute(self.device, Attribute::Multiprocessors)?;
        Ok(u32::try_from(found)?)
    }

    /// The software GPU, under the stand-in for CUDA.
    pub fn is_software(&self) -> Result<bool> {
        Ok(self.driver.bus(self.device)?.starts_with("sim:"))
    }

    /// Words that it and the CPU see.
    pub fn words(&self) -> Result<Words> {
        Words::new(&self.driver, self.context())
    }

    /// Words in its memory that the CPU stores to, where GDRCopy is installed.
    pub fn window(&self) -> cuda::Result<Window> {
        Window::new(&self.driver, self.context(), &self.options.gdrcopy)
    }

    fn kernel(&self, text: &CStr, name: &CStr, parameters: usize) -> Result<Function> {
        let module = self.driver.load(self.context(), text)?;
        Ok(sys::function(&module, name, parameters)?)
    }

    /// `zernel_spin(ns)`.
    pub fn spin(&self) -> Result<Function> {
        self.kernel(COMMON, c"zernel_spin", 1)
    }

    /// `zernel_mark(word, number)`.
    pub fn mark(&self) -> Result<Function> {
        self.kernel(COMMON, c"zernel_mark", 2)
    }

    /// `zernel_mac(out, n, seed, rounds)`.
    pub fn mac(&self) -> Result<Function> {
        self.kernel(COMMON, c"zernel_mac", 4)
    }

    /// `zernel_stamp(out, turns)`.
    pub fn stamp(&self) -> Result<Function> {
        self.kernel(COMMON, c"zernel_stamp", 2)
    }

    /// `zernel_witness(pairs, room, gap, stop)`.
    pub fn witness(&self) -> Result<Function> {
        self.kernel(COMMON, c"zernel_witness", 4)
    }

    /// The holder of the runtime: `zernel_holder(held, release, number, bound)`.
    pub fn holder(&self) -> Result<Function> {
        self.kernel(HOLDER, c"zernel_holder", 4)
    }

    /// The holder, with a store to `held + 4` at its end.
    pub fn holder_with_end(&self) -> Result<Function> {
        self.kernel(COMMON, c"zernel_holder_end", 4)
    }

    /// A kernel whose results are compared: `(out, n, seed, rounds, scratch)`.
    pub fn lost(&self, name: &CStr) -> Result<Function> {
        self.kernel(LOST, name, 5)
    }

    /// The text of those kernels.
    pub fn lost_text() -> &'static CStr {
        LOST
    }

    /// A text of kernels that may be loaded at any time.
    pub fn text() -> &'static CStr {
        COMMON
    }
}

/// Looks without a pause until something is true; the time when it was.
pub fn look(about: &str, mut is_true: impl FnMut() -> bool) -> Result<Instant> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let until = Instant::now() + PATIENCE;
    loop {
        for _ in 0..64 {
            if is_true() {
                return Ok(Instant::now());
            }
            std::hint::spin_loop();
        }
        if Instant::now() > until {
            bail!("{about} did not come within {PATIENCE:?}");
        }
    }
}

/// Does nothing for a time, without giving the processor away.
pub fn pause(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Microseconds between two times.
pub fn us(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1e6
}
