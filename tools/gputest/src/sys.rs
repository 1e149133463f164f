// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only unsafe code of the program: functions of the driver that the runtime does not need,
//! launches, memory that both sides see, and calls of the driver's own files.
#![allow(unsafe_code)]

pub mod control;
pub mod memory;

use std::ffi::{c_int, c_uint, c_void, CStr};
use std::path::Path;
use std::ptr;

use anyhow::{ensure, Result};
use cuda::{Function, Grid, Module, Stream};
use libloading::Library;

/// Makes a stream that does not wait for the default stream, nor this for it.
const NON_BLOCKING: c_uint = 1;
/// Calls of other threads are allowed while a stream is captured.
const RELAXED: c_int = 2;

/// An opaque handle of the driver.
type Raw = *mut c_void;

/// Declares functions by the name of their symbol, with the types that they have in C.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// Functions of the driver library. Their result is the driver's status.
        #[derive(Debug)]
        pub struct Api(Library);

        impl Api {
            $(
                #[allow(clippy::too_many_arguments)]
                fn $name(&self, $($argument: $type),*) -> c_int {
                    type Of = unsafe extern "C" fn($($type),*) -> c_int;
                    // SAFETY: The symbol has this type in cuda.h. References are valid for the call,
                    // pointers by the callers here, and the driver checks handles and addresses.
                    unsafe {
                        match self.0.get::<Of>($symbol) {
                            Ok(function) => function($($argument),*),
                            Err(_) => ABSENT,
                        }
                    }
                }
            )*
        }
    };
}

/// In place of a status: the library lacks the function.
pub const ABSENT: c_int = -1;

functions! {
    mem_alloc = b"cuMemAlloc_v2\0" (address: &mut u64, length: usize);
    mem_free = b"cuMemFree_v2\0" (address: u64);
    mem_set = b"cuMemsetD32_v2\0" (address: u64, value: c_uint, count: usize);
    to_gpu = b"cuMemcpyHtoD_v2\0" (to: u64, from: *const c_void, length: usize);
    to_cpu = b"cuMemcpyDtoH_v2\0" (to: *mut c_void, from: u64, length: usize);
    copy_in = b"cuMemcpyDtoDAsync_v2\0" (to: u64, from: u64, length: usize, stream: Raw);
    host_alloc = b"cuMemHostAlloc\0" (address: &mut Raw, length: usize, flags: c_uint);
    host_free = b"cuMemFreeHost\0" (address: Raw);
    stream_create = b"cuStreamCreate\0" (stream: &mut Raw, flags: c_uint);
    stream_destroy = b"cuStreamDestroy_v2\0" (stream: Raw);
    first_wait = b"cuStreamWaitValue32\0" (stream: Raw, word: u64, value: u32, flags: c_uint);
    cooperative = b"cuLaunchCooperativeKernel\0" (
        function: Raw, x: c_uint, y: c_uint, z: c_uint, threads_x: c_uint, threads_y: c_uint,
        threads_z: c_uint, shared: c_uint, stream: Raw, arguments: *mut Raw);
    module_load = b"cuModuleLoadData\0" (module: &mut Raw, text: *const c_void);
    module_unload = b"cuModuleUnload\0" (module: Raw);
    module_function = b"cuModuleGetFunction\0" (
        function: &mut Raw, module: Raw, name: *const std::ffi::c_char);
    library_load = b"cuLibraryLoadData\0" (
        library: &mut Raw, text: *const c_void, options: *mut c_int, values: *mut Raw,
        count: c_uint, others: *mut c_int, other_values: *mut Raw, other_count: c_uint);
    library_kernel = b"cuLibraryGetKernel\0" (
        kernel: &mut Raw, library: Raw, name: *const std::ffi::c_char);
    plain_launch = b"cuLaunchKernel\0" (
        function: Raw, x: c_uint, y: c_uint, z: c_uint, threads_x: c_uint, threads_y: c_uint,
        threads_z: c_uint, shared: c_uint, stream: Raw, arguments: *mut Raw, extra: *mut Raw);
    begin_capture = b"cuStreamBeginCapture_v2\0" (stream: Raw, mode: c_int);
    end_capture = b"cuStreamEndCapture\0" (stream: Raw, graph: &mut Raw);
    instantiate = b"cuGraphInstantiateWithFlags\0" (made: &mut Raw, graph: Raw, flags: u64);
    graph_launch = b"cuGraphLaunch\0" (graph: Raw, stream: Raw);
    graph_destroy = b"cuGraphDestroy\0" (graph: Raw);
    made_destroy = b"cuGraphExecDestroy\0" (made: Raw);
}

/// Fails with the name of a call unless its status is success.
pub fn check(call: &str, status: c_int) -> Result<()> {
    ensure!(status != ABSENT, "the driver lacks {call}");
    ensure!(status == 0, "{call} failed with status {status}");
    Ok(())
}

/// A stream that was made here, of the usual priority.
#[derive(Debug)]
pub struct OwnStream<'a> {
    api: &'a Api,
    handle: usize,
}

impl OwnStream<'_> {
    /// Its handle.
    pub fn stream(&self) -> Stream {
        // SAFETY: The driver made it, and it is there while this is.
        unsafe { Stream::from_raw(self.handle as Raw) }
    }
}

impl Drop for OwnStream<'_> {
    fn drop(&mut self) {
        self.api.stream_destroy(self.handle as Raw);
    }
}

/// A graph that can be launched.
#[derive(Debug)]
pub struct Graph<'a> {
    api: &'a Api,
    made: Raw,
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        self.api.made_destroy(self.made);
    }
}

impl Api {
    /// Of a library that is loaded already, or is now.
    pub fn open(library: &Path) -> Result<Self> {
        // SAFETY: As for any program that uses CUDA.
        Ok(Self(unsafe { Library::new(library) }?))
    }

    /// A stream of the current context.
    pub fn stream(&self) -> Result<OwnStream<'_>> {
        let mut raw = ptr::null_mut();
        check("cuStreamCreate", self.stream_create(&mut raw, NON_BLOCKING))?;
        Ok(OwnStream {
            api: self,
            handle: raw as usize,
        })
    }

    /// Memory of the GPU, in bytes; the address.
    pub fn allocate(&self, length: usize) -> Result<u64> {
        let mut address = 0;
        check("cuMemAlloc", self.mem_alloc(&mut address, length))?;
        Ok(address)
    }

    /// Frees it.
    pub fn free(&self, address: u64) -> Result<()> {
        check("cuMemFree", self.mem_free(address))
    }

    /// Fills words of the GPU's memory.
    pub fn fill(&self, address: u64, value: u32, count: usize) -> Result<()> {
        check("cuMemsetD32", self.mem_set(address, value, count))
    }

    /// Copies to the GPU's memory.
    pub fn write(&self, address: u64, values: &[u8]) -> Result<()> {
        let status = self.to_gpu(address, values.as_ptr().cast(), values.len());
        check("cuMemcpyHtoD", status)
    }

    /// Copies from the GPU's memory.
    pub fn read<T: bytemuck::Pod>(&self, address: u64, count: usize) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); count];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        let status = self.to_cpu(bytes.as_mut_ptr().cast(), address, bytes.len());
        check("cuMemcpyDtoH", status)?;
        Ok(values)
    }

    /// Copies within the GPU's memory, in a stream.
    pub fn copy(&self, to: u64, from: u64, length: usize, stream: Stream) -> Result<()> {
        check(
            "cuMemcpyDtoDAsync",
            self.copy_in(to, from, length, stream.as_raw()),
        )
    }

    /// Makes pinned memory and frees it.
    pub fn pin_and_free(&self) -> Result<()> {
        let mut address = ptr::null_mut();
        check("cuMemHostAlloc", self.host_alloc(&mut address, 1 << 16, 0))?;
        check("cuMemFreeHost", self.host_free(address))
    }

    /// Makes a stream and ends it.
    pub fn stream_and_end(&self) -> Result<()> {
        self.stream().map(drop)
    }

    /// Loads a module, returns its handle.
    pub fn load(&self, text: &CStr) -> Result<usize> {
        let mut module = ptr::null_mut();
        check(
            "cuModuleLoadData",
            self.module_load(&mut module, text.as_ptr().cast()),
        )?;
        Ok(module as usize)
    }

    /// Unloads one.
    pub fn unload(&self, module: usize) -> Result<()> {
        check("cuModuleUnload", self.module_unload(module as Raw))
    }

    /// Waits for a word in the first form of the call; the status.
    pub fn wait_in_first_form(&self, stream: Stream, word: u64, value: u32) -> c_int {
        self.first_wait(stream.as_raw(), word, value, 0)
    }

    /// The launch of a kernel whose blocks are all on the GPU at once.
    pub fn launch_together<const N: usize>(
        &self,
        (module, name): (usize, &CStr),
        grid: Grid,
        stream: Stream,
        mut arguments: [u64; N],
    ) -> Result<()> {
        let mut function = ptr::null_mut();
        let status = self.module_function(&mut function, module as Raw, name.as_ptr());
        check("cuModuleGetFunction", status)?;
        let mut places = arguments
            .each_mut()
            .map(|argument| ptr::from_mut(argument).cast::<c_void>());
        let (blocks, threads) = (grid.blocks, grid.threads);
        let at = places.as_mut_ptr();
        let raw = stream.as_raw();
        let status = self.cooperative(function, blocks, 1, 1, threads, 1, 1, 0, raw, at);
        check("cuLaunchCooperativeKernel", status)
    }

    /// A kernel as the CUDA runtime has it: of a library that no context has loaded yet. Its handle.
    pub fn lazy_kernel(&self, text: &CStr, name: &CStr) -> Result<usize> {
        let (none, null) = (ptr::null_mut(), ptr::null_mut());
        let (mut library, mut kernel) = (ptr::null_mut(), ptr::null_mut());
        let from = text.as_ptr().cast();
        let status = self.library_load(&mut library, from, none, null, 0, none, null, 0);
        check("cuLibraryLoadData", status)?;
        check(
            "cuLibraryGetKernel",
            self.library_kernel(&mut kernel, library, name.as_ptr()),
        )?;
        Ok(kernel as usize)
    }

    /// Launches one thread of a kernel of a library, which has one argument.
    pub fn launch_lazy(&self, kernel: usize, stream: Stream, mut argument: u64) -> Result<()> {
        let mut places = [ptr::from_mut(&mut argument).cast::<c_void>()];
        let (at, null) = (places.as_mut_ptr(), ptr::null_mut());
        let raw = stream.as_raw();
        let status = self.plain_launch(kernel as Raw, 1, 1, 1, 1, 1, 1, 0, raw, at, null);
        check("cuLaunchKernel", status)
    }

    /// Captures what a function does with a stream, and makes a graph of it.
    pub fn graph(&self, stream: Stream, work: impl FnOnce() -> Result<()>) -> Result<Graph<'_>> {
        check(
            "cuStreamBeginCapture",
            self.begin_capture(stream.as_raw(), RELAXED),
        )?;
        let done = work();
        let mut graph = ptr::null_mut();
        let ended = self.end_capture(stream.as_raw(), &mut graph);
        done?;
        check("cuStreamEndCapture", ended)?;
        let mut made = ptr::null_mut();
        let status = self.instantiate(&mut made, graph, 0);
        self.graph_destroy(graph);
        check("cuGraphInstantiate", status)?;
        Ok(Graph { api: self, made })
    }

    /// Launches a graph.
    pub fn launch(&self, graph: &Graph<'_>, stream: Stream) -> Result<()> {
        check(
            "cuGraphLaunch",
            self.graph_launch(graph.made, stream.as_raw()),
        )
    }
}

/// A kernel of a module with a text of this program.
pub fn function(module: &Module, name: &CStr, parameters: usize) -> cuda::Result<Function> {
    // SAFETY: The texts of this program have the numbers of parameters that it tells.
    unsafe { module.function(name, parameters) }
}

/// Launches a kernel of this program, with memory that it has, in a stream that is there.
pub fn launch<const N: usize>(
    kernel: &Function,
    grid: Grid,
    stream: Stream,
    arguments: [u64; N],
) -> cuda::Result<()> {
    // SAFETY: Programs keep memory and streams until they have waited for the work.
    unsafe { kernel.launch(grid, stream, arguments) }
}

/// Has a stream store a number to a word.
pub fn write_word(
    entered: &cuda::Entered<'_>,
    stream: Stream,
    word: u64,
    number: u32,
) -> cuda::Result<()> {
    // SAFETY: Words are shared; each side may store to them at any time.
    unsafe { entered.write_word(stream, word, number) }
}
