// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only unsafe code of the program: real-time priority, and CUDA's functions for memory and
//! kernels, which the runtime does not need.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void, CStr};
use std::{io, ptr};

use anyhow::{ensure, Result};
use cuda::{Function, Grid, Module};
use libloading::Library;

/// Gives the calling thread, and those that it starts, the lowest real-time priority.
///
/// Errors: as `sched_setscheduler()`.
pub fn run_in_real_time() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: `param` is valid for reads for the length of the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

type Raw = *mut c_void;
type Allocate = unsafe extern "C" fn(*mut u64, usize) -> c_int;
type AllocateHost = unsafe extern "C" fn(*mut Raw, usize, c_uint) -> c_int;
type CopyIn = unsafe extern "C" fn(u64, Raw, usize, Raw) -> c_int;
type CopyOut = unsafe extern "C" fn(Raw, u64, usize, Raw) -> c_int;

/// Memory of a device and of the host, and copies between them. They last as long as the process.
#[derive(Debug)]
pub struct Copies {
    library: Library,
    device: u64,
    host: usize,
    bytes: usize,
}

fn check(call: &str, status: c_int) -> Result<()> {
    ensure!(status == 0, "{call} failed with status {status}");
    Ok(())
}

impl Copies {
    /// So many bytes in the context that is current in this thread.
    pub fn new(bytes: usize) -> Result<Self> {
        let (mut device, mut host) = (0, ptr::null_mut());
        // SAFETY: Loading it is what any program of CUDA does. The symbols have these types in cuda.h,
        // and both places are valid for writes.
        let (library, results) = unsafe {
            let library = Library::new(cuda::LIBRARY)?;
            let results = (
                library.get::<Allocate>(b"cuMemAlloc_v2\0")?(&mut device, bytes),
                library.get::<AllocateHost>(b"cuMemHostAlloc\0")?(&mut host, bytes, 0),
            );
            (library, results)
        };
        check("cuMemAlloc", results.0)?;
        check("cuMemHostAlloc", results.1)?;
        Ok(Self {
            library,
            device,
            host: host as usize,
            bytes,
        })
    }

    /// Copies this many of them to the device, behind what is in a stream of the context.
    pub fn copy_in(&self, stream: cuda::Stream, bytes: usize) -> Result<()> {
        let bytes = bytes.min(self.bytes);
        // SAFETY: As above; both ranges were allocated, and nobody else uses them.
        let status = unsafe {
            let copy = self.library.get::<CopyIn>(b"cuMemcpyHtoDAsync_v2\0")?;
            copy(self.device, self.host as Raw, bytes, stream.as_raw())
        };
        check("cuMemcpyHtoDAsync", status)
    }

    /// The same from the device.
    pub fn copy_out(&self, stream: cuda::Stream, bytes: usize) -> Result<()> {
        let bytes = bytes.min(self.bytes);
        // SAFETY: As above.
        let status = unsafe {
            let copy = self.library.get::<CopyOut>(b"cuMemcpyDtoHAsync_v2\0")?;
            copy(self.host as Raw, self.device, bytes, stream.as_raw())
        };
        check("cuMemcpyDtoHAsync", status)
    }
}

/// The kernel of a module that takes as long as its only parameter says, in nanoseconds.
pub fn spin(module: &Module, name: &CStr) -> Result<Function> {
    // SAFETY: Such is its parameter, and it stores nothing.
    Ok(unsafe { module.function(name, 1) }?)
}

/// Launches it in a stream of the context that is current in this thread.
pub fn launch(spin: &Function, grid: Grid, stream: cuda::Stream, ns: u64) -> Result<()> {
    // SAFETY: The stream is there, by the callers, and no argument is an address.
    Ok(unsafe { spin.launch(grid, stream, [ns]) }?)
}

/// The holder of a module, with the parameters of that of the runtime.
pub fn holder(module: &Module, name: &CStr) -> Result<Function> {
    // SAFETY: Such are its parameters, and it stores to the first one alone.
    Ok(unsafe { module.function(name, 4) }?)
}

/// Launches it; both words are of memory that is registered.
pub fn hold(
    holder: &Function,
    stream: cuda::Stream,
    held: u64,
    release: u64,
    number: u32,
) -> Result<()> {
    const WARP: Grid = Grid {
        blocks: 1,
        threads: 32,
    };
    const BOUND_NS: u64 = 15_000_000;
    // SAFETY: The stream is there, and the words are, by the callers.
    Ok(unsafe { holder.launch(WARP, stream, [held, release, number.into(), BOUND_NS]) }?)
}
