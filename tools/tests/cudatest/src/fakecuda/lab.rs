// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common part of the suites: the modules, a context with kernels, slots.

use std::ffi::{CStr, CString};
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::request::{Of, Slots};
use libzernel::tunable::Tunables;
use libzernel::{Target, Tsg, Zernel};
use testkit::harness::Surroundings;
use testkit::module::{is_loaded, load, unload_each};
use testkit::wait_until;

use crate::sys::Cuda;

/// zernel and the software GPU are loaded; nothing is left of a case.
pub const LOADED: Surroundings = Surroundings {
    prepare: || {
        if !is_loaded("zernel") {
            load("zernel", "")?;
        }
        if !is_loaded("zernel_sim") {
            load("zernel_sim", "gpus=2")?;
        }
        // On a busy host the default is over before a case has looked.
        Ok(Tunables::open()?.set("lease_us", "10000000")?)
    },
    settle: || {
        let zernel = Zernel::open()?;
        wait_until("nothing is left of the case", || {
            let requests = zernel.request_stats(Of::All)?.in_flight;
            Ok((zernel.stats()?.tsgs, requests) == (0, 0))
        })
    },
};

/// No module is loaded.
pub const UNLOADED: Surroundings = Surroundings {
    prepare: || unload_each(&["zernel_sim", "zernel"]),
    settle: || Ok(()),
};

/// Kernels that the library knows, one that it does not, and a variable.
pub const KERNELS: &CStr = c".version 6.4
.target sm_70
.address_size 64
.visible .global .align 4 .u32 table[16];
.visible .entry zernel_holder(.param .u64 held, .param .u64 release, .param .u32 number,
    .param .u64 bound) { ret; }
.visible .entry zernel_spin(.param .u64 ns) { ret; }
.visible .entry zernel_fault() { ret; }
.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) { ret; }
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y) { ret; }
.visible .entry zernel_mac(.param .u64 out, .param .u32 n, .param .u32 seed, .param .u32 rounds)
    { ret; }
.visible .entry unknown(.param .align 8 .b8 all[12]) { ret; }
";

/// A context on a device, with the module.
#[derive(Debug)]
pub struct Program {
    pub cuda: Cuda,
    pub context: u64,
    pub module: u64,
}

/// The legacy default stream.
pub const LEGACY: u64 = 1;
/// That of the thread.
pub const PER_THREAD: u64 = 2;
/// A stream does not wait for the legacy default stream.
pub const NON_BLOCKING: u32 = 1;

impl Program {
    /// On the first device. The context is current.
    pub fn new() -> Result<Self> {
        let cuda = Cuda::open()?;
        let mut context = 0;
        cuda.context_create(&mut context, 0, 0).ok()?;
        let mut module = 0;
        cuda.module_load(&mut module, KERNELS.as_ptr()).ok()?;
        Ok(Self {
            cuda,
            context,
            module,
        })
    }

    /// With an environment variable, which the library has not read yet.
    pub fn with(name: &str, value: &str) -> Result<Self> {
        std::env::set_var(name, value);
        Self::new()
    }

    /// A kernel of the module.
    pub fn kernel(&self, name: &str) -> Result<u64> {
        let (mut function, name) = (0, CString::new(name)?);
        self.cuda
            .module_function(&mut function, self.module, name.as_ptr())
            .ok()?;
        Ok(function)
    }

    /// A new stream.
    pub fn stream(&self, flags: u32) -> Result<u64> {
        let mut stream = 0;
        self.cuda.stream_create(&mut stream, flags).ok()?;
        Ok(stream)
    }

    /// Works in a stream for a time.
    pub fn work(&self, stream: u64, time: Duration) -> Result<()> {
        let spin = self.kernel("zernel_spin")?;
        self.cuda
            .launch(spin, 1, 32, stream, &[time.as_nanos() as u64])
            .ok()
    }

    /// Puts a holder into a stream; addresses are the GPU's.
    pub fn hold(
        &self,
        stream: u64,
        held: u64,
        release: u64,
        number: u32,
        bound: Duration,
    ) -> Result<()> {
        let holder = self.kernel("zernel_holder")?;
        let arguments = [held, release, number.into(), bound.as_nanos() as u64];
        self.cuda.launch(holder, 1, 32, stream, &arguments).ok()
    }

    /// True if a stream has nothing left to do.
    pub fn is_idle(&self, stream: u64) -> Result<bool> {
        let outcome = self.cuda.stream_query(stream);
        match outcome.status {
            600 => Ok(false),
            _ => outcome.ok().map(|()| true),
        }
    }

    /// Memory of the device.
    pub fn alloc(&self, length: usize) -> Result<u64> {
        let mut address = 0;
        self.cuda.alloc(&mut address, length).ok()?;
        Ok(address)
    }

    /// Memory of the host that the GPU sees.
    pub fn alloc_host(&self, length: usize) -> Result<u64> {
        let mut address = 0;
        self.cuda.alloc_host(&mut address, length, 0).ok()?;
        Ok(address)
    }

    /// Registers memory; returns its address as the GPU sees it.
    pub fn register(&self, host: u64, length: usize) -> Result<u64> {
        let mut address = 0;
        self.cuda.register(host, length, 3).ok()?;
        self.cuda.device_pointer(&mut address, host, 0).ok()?;
        Ok(address)
    }

    /// Values of memory of the device.
    pub fn values(&self, address: u64, count: usize) -> Result<Vec<u32>> {
        let values = vec![0_u32; count];
        self.cuda
            .copy_out(values.as_ptr() as u64, address, 4 * count)
            .ok()?;
        Ok(values)
    }

    /// Sets memory of the device.
    pub fn put(&self, address: u64, values: &[u32]) -> Result<()> {
        self.cuda
            .copy_in(address, values.as_ptr() as u64, size_of_val(values))
            .ok()
    }
}

/// Slots of zernel, as a runtime has them.
pub fn slots() -> Result<(Zernel, Slots)> {
    let zernel = Zernel::open()?;
    let slots = Slots::map(&zernel, 0..64)?;
    Ok((zernel, slots))
}

/// The compute TSGs of this process.
pub fn tsgs() -> Result<Vec<Tsg>> {
    let zernel = Zernel::open()?;
    let own: Vec<Tsg> = zernel
        .tsgs_of(&Target::current_process())
        .collect::<libzernel::Result<_>>()?;
    Ok(own.into_iter().filter(|tsg| tsg.compute).collect())
}

/// The first one.
pub fn tsg() -> Result<Tsg> {
    tsgs()?.into_iter().next().context("no TSG")
}

/// Runs something that is not to hang, in a thread that has the context. If it does, the case fails
/// at once: nothing could end it.
pub fn finishes(
    program: &Program,
    what: &str,
    run: impl FnOnce() -> Result<()> + Send,
) -> Result<()> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            program.cuda.context_set(program.context).ok()?;
            run()
        });
        if let Err(error) = wait_until(what, || Ok(thread.is_finished())) {
            eprintln!("{error:#}");
            std::process::abort();
        }
        thread.join().map_err(|_| anyhow::anyhow!("panicked"))?
    })
}
