// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common part of the suites: the modules, a driver with a context, kernels that take time.
#![allow(unsafe_code)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{ensure, Result};
use cuda::{Context, Device, Driver, Executable, Function, Grid, Own, Stream, LIBRARY};
use libzernel::request::Of;
use libzernel::tunable::Tunables;
use libzernel::{tsg, Target, Zernel};
use testkit::harness::Surroundings;
use testkit::module::{is_loaded, load};
use testkit::wait_until;

/// zernel and the software GPU are loaded; nothing is left of a case.
pub const LOADED: Surroundings = Surroundings {
    prepare: || {
        if !is_loaded("zernel") {
            load("zernel", "")?;
        }
        if !is_loaded("zernel_sim") {
            load("zernel_sim", "gpus=2")?;
        }
        Ok(())
    },
    settle: || {
        lease("10000")?;
        let zernel = Zernel::open()?;
        wait_until("nothing is left of the case", || {
            let requests = zernel.request_stats(Of::All)?.in_flight;
            Ok((zernel.stats()?.tsgs, requests) == (0, 0))
        })
    },
};

/// Sets the lease of requests, in microseconds.
pub fn lease(us: &str) -> Result<()> {
    Ok(Tunables::open()?.set("lease_us", us)?)
}

/// The stand-in for CUDA, which is one for GDRCopy, too.
pub const STANDIN: &str = "/lib/x86_64-linux-gnu/libcuda.so.1";

/// Runs something while GDRCopy is installed.
pub fn with_gdrcopy(run: impl FnOnce() -> Result<()>) -> Result<()> {
    let place = Path::new(STANDIN).with_file_name(cuda::GDRCOPY);
    std::os::unix::fs::symlink(STANDIN, &place)?;
    let result = run();
    std::fs::remove_file(&place)?;
    result
}

const KERNELS: &std::ffi::CStr = c"
.version 6.4
.target sm_70
.address_size 64
.visible .entry zernel_spin(.param .u64 ns) { ret; }
.visible .entry zernel_fault() { ret; }
";

/// The driver library.
pub fn driver() -> Result<Arc<Driver>> {
    Ok(Driver::open(Path::new(LIBRARY))?)
}

/// A context on a device, with kernels. Its fields end before it.
pub struct Program {
    pub spin: Function,
    pub fault: Function,
    pub own: Own,
    pub driver: Arc<Driver>,
}

const ONE: Grid = Grid {
    blocks: 1,
    threads: 1,
};

impl Program {
    /// On the first device.
    pub fn new() -> Result<Self> {
        let driver = driver()?;
        let device = device(&driver, 0)?;
        Self::on(driver, device)
    }

    /// On a device.
    pub fn on(driver: Arc<Driver>, device: Device) -> Result<Self> {
        let own = driver.create_context(device)?;
        let module = driver.load(own.context(), KERNELS)?;
        // SAFETY: Such are its parameters, and neither stores anything.
        let (spin, fault) = unsafe {
            (
                module.function(c"zernel_spin", 1)?,
                module.function(c"zernel_fault", 0)?,
            )
        };
        Ok(Self {
            spin,
            fault,
            own,
            driver,
        })
    }

    /// Its context.
    pub fn context(&self) -> Context {
        self.own.context()
    }

    /// Works for a time in a stream.
    pub fn work(&self, stream: Stream, time: Duration) -> cuda::Result<()> {
        let _entered = self.driver.enter(self.context())?;
        // SAFETY: The stream is there, and no argument is an address.
        unsafe { self.spin.launch(ONE, stream, [time.as_nanos() as u64]) }
    }

    /// Makes an error that stays with the context, and waits until it is there.
    pub fn fail(&self) -> Result<()> {
        let entered = self.driver.enter(self.context())?;
        // SAFETY: As above.
        unsafe { self.fault.launch(ONE, Stream::LEGACY, []) }?;
        ensure!(entered.wait_idle(Stream::LEGACY).is_err());
        Ok(())
    }

    /// Waits for a stream.
    pub fn wait(&self, stream: Stream) -> cuda::Result<()> {
        self.driver.enter(self.context())?.wait_idle(stream)
    }
}

/// A device by its number.
pub fn device(driver: &Driver, number: usize) -> Result<Device> {
    let mut devices = driver.devices()?;
    devices
        .nth(number)
        .ok_or_else(|| anyhow::anyhow!("no device {number}"))
}

/// The compute TSGs of this process, as zernel lists them.
pub fn tsgs() -> Result<Vec<tsg::Id>> {
    let zernel = Zernel::open()?;
    let own = zernel.tsgs_of(&Target::current_process());
    let own: Vec<_> = own.collect::<libzernel::Result<_>>()?;
    let compute = own.iter().filter(|tsg| tsg.compute);
    Ok(compute.map(|tsg| tsg.id).collect())
}

/// A stream by its handle, of this or of no driver.
pub fn stream_of(handle: u64) -> Stream {
    // SAFETY: The stand-in refuses handles that are none, which is what tests give it.
    unsafe { Stream::from_raw(std::ptr::without_provenance_mut(handle as usize)) }
}

/// A graph that can be launched, by its handle, likewise.
pub fn executable_of(handle: u64) -> Executable {
    // SAFETY: As above.
    unsafe { Executable::from_raw(std::ptr::without_provenance_mut(handle as usize)) }
}

/// The addresses of the slots of this process, which has one runtime.
pub fn slots() -> Result<std::ops::Range<usize>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.ends_with("/dev/zernel"));
    let range = line.and_then(|line| line.split(' ').next()?.split_once('-'));
    let (from, to) = range.ok_or_else(|| anyhow::anyhow!("no slots"))?;
    Ok(usize::from_str_radix(from, 16)?..usize::from_str_radix(to, 16)?)
}

/// Takes memory of this process away: what uses it then ends the process.
pub fn unmap(range: std::ops::Range<usize>) -> Result<()> {
    let from = std::ptr::without_provenance_mut(range.start);
    // SAFETY: The process is a child that a test has made to end of it.
    Ok(unsafe { rustix::mm::munmap(from, range.len()) }?)
}
