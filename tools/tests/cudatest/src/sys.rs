// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only unsafe code of the program: functions of the library, and memory that both sides see.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::mem::transmute;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::{bail, ensure, Context as _, Result};
use libloading::Library;

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Outcome {
    name: &'static str,
    /// The number in cuda.h.
    pub status: c_int,
}

impl Outcome {
    /// Fails unless it is success.
    pub fn ok(self) -> Result<()> {
        self.is(0)
    }

    /// Fails unless it is this one.
    pub fn is(self, status: c_int) -> Result<()> {
        ensure!(
            self.status == status,
            "{}: {}, expected {status}",
            self.name,
            self.status
        );
        Ok(())
    }
}

/// A function that a stream calls.
pub type HostFunction = extern "C" fn(*mut c_void);

/// A callback of a stream.
pub type StreamFunction = extern "C" fn(*mut c_void, c_int, *mut c_void);

extern "C" {
    fn dup2(old: c_int, new: c_int) -> c_int;
    fn atexit(function: extern "C" fn()) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// Declares functions: the name of the symbol, and the types as C has them. A reference is a
/// pointer, `None` a null pointer.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// The library.
        #[derive(Debug)]
        pub struct Cuda {
            library: Library,
        }

        impl Cuda {
            $(
                #[allow(clippy::too_many_arguments)]
                pub fn $name(&self, $($argument: $type),*) -> Outcome {
                    type Function = unsafe extern "C" fn($($type),*) -> c_int;
                    // SAFETY: The symbol has this type in cuda.h. References are valid for the
                    // call, and addresses are numbers that the library checks.
                    let status = unsafe {
                        match self.library.get::<Function>($symbol) {
                            Ok(function) => function($($argument),*),
                            Err(_) => c_int::MIN,
                        }
                    };
                    Outcome { name: stringify!($name), status }
                }
            )*
        }
    };
}

functions! {
    init = b"cuInit\0" (flags: c_uint);
    driver_version = b"cuDriverGetVersion\0" (version: &mut c_int);
    error_name = b"cuGetErrorName\0" (error: c_int, name: &mut *const c_char);
    proc_address = b"cuGetProcAddress_v2\0" (
        name: *const c_char, found: &mut usize, version: c_int, flags: u64, status: &mut c_int);
    device_get = b"cuDeviceGet\0" (device: &mut c_int, number: c_int);
    device_count = b"cuDeviceGetCount\0" (count: &mut c_int);
    device_name = b"cuDeviceGetName\0" (name: &mut [u8; 64], room: c_int, device: c_int);
    device_uuid = b"cuDeviceGetUuid_v2\0" (uuid: &mut [u8; 16], device: c_int);
    device_memory = b"cuDeviceTotalMem_v2\0" (bytes: &mut usize, device: c_int);
    device_attribute = b"cuDeviceGetAttribute\0" (
        value: &mut c_int, attribute: c_int, device: c_int);
    device_bus = b"cuDeviceGetPCIBusId\0" (bus: &mut [u8; 64], room: c_int, device: c_int);
    device_by_bus = b"cuDeviceGetByPCIBusId\0" (device: &mut c_int, bus: *const c_char);
    context_create = b"cuCtxCreate_v2\0" (context: &mut u64, flags: c_uint, device: c_int);
    context_create_4 = b"cuCtxCreate_v4\0" (
        context: &mut u64, parameters: Option<&[u64; 3]>, flags: c_uint, device: c_int);
    context_destroy = b"cuCtxDestroy_v2\0" (context: u64);
    context_push = b"cuCtxPushCurrent_v2\0" (context: u64);
    context_pop = b"cuCtxPopCurrent_v2\0" (context: &mut u64);
    context_set = b"cuCtxSetCurrent\0" (context: u64);
    context_get = b"cuCtxGetCurrent\0" (context: &mut u64);
    context_device = b"cuCtxGetDevice\0" (device: &mut c_int);
    context_flags = b"cuCtxGetFlags\0" (flags: &mut c_uint);
    context_limit = b"cuCtxGetLimit\0" (value: &mut usize, limit: c_uint);
    context_set_limit = b"cuCtxSetLimit\0" (limit: c_uint, value: usize);
    synchronize = b"cuCtxSynchronize\0" ();
    priorities = b"cuCtxGetStreamPriorityRange\0" (least: &mut c_int, greatest: &mut c_int);
    primary_retain = b"cuDevicePrimaryCtxRetain\0" (context: &mut u64, device: c_int);
    primary_release = b"cuDevicePrimaryCtxRelease_v2\0" (device: c_int);
    primary_reset = b"cuDevicePrimaryCtxReset_v2\0" (device: c_int);
    primary_flags = b"cuDevicePrimaryCtxSetFlags_v2\0" (device: c_int, flags: c_uint);
    primary_state = b"cuDevicePrimaryCtxGetState\0" (
        device: c_int, flags: &mut c_uint, active: &mut c_int);
    module_load = b"cuModuleLoadData\0" (module: &mut u64, text: *const c_char);
    module_unload = b"cuModuleUnload\0" (module: u64);
    module_function = b"cuModuleGetFunction\0" (
        function: &mut u64, module: u64, name: *const c_char);
    module_global = b"cuModuleGetGlobal_v2\0" (
        address: &mut u64, bytes: &mut usize, module: u64, name: *const c_char);
    launch_raw = b"cuLaunchKernel\0" (
        function: u64, x: c_uint, y: c_uint, z: c_uint, a: c_uint, b: c_uint, c: c_uint,
        shared: c_uint, stream: u64, arguments: *const u64, extra: *const u64);
    launch_ex = b"cuLaunchKernelEx\0" (
        config: &[u64; 7], function: u64, arguments: *const u64, extra: *const u64);
    function_set = b"cuFuncSetAttribute\0" (function: u64, attribute: c_int, value: c_int);
    function_attribute = b"cuFuncGetAttribute\0" (
        value: &mut c_int, attribute: c_int, function: u64);
    occupancy = b"cuOccupancyMaxActiveBlocksPerMultiprocessor\0" (
        blocks: &mut c_int, function: u64, threads: c_int, shared: usize);
    stream_create = b"cuStreamCreate\0" (stream: &mut u64, flags: c_uint);
    stream_create_urgent = b"cuStreamCreateWithPriority\0" (
        stream: &mut u64, flags: c_uint, priority: c_int);
    stream_destroy = b"cuStreamDestroy_v2\0" (stream: u64);
    stream_synchronize = b"cuStreamSynchronize\0" (stream: u64);
    stream_synchronize_thread = b"cuStreamSynchronize_ptsz\0" (stream: u64);
    stream_query = b"cuStreamQuery\0" (stream: u64);
    stream_wait = b"cuStreamWaitEvent\0" (stream: u64, event: u64, flags: c_uint);
    stream_context = b"cuStreamGetCtx\0" (stream: u64, context: &mut u64);
    stream_flags = b"cuStreamGetFlags\0" (stream: u64, flags: &mut c_uint);
    stream_priority = b"cuStreamGetPriority\0" (stream: u64, priority: &mut c_int);
    stream_callback = b"cuStreamAddCallback\0" (
        stream: u64, function: StreamFunction, value: usize, flags: c_uint);
    host_function = b"cuLaunchHostFunc\0" (stream: u64, function: HostFunction, value: usize);
    event_create = b"cuEventCreate\0" (event: &mut u64, flags: c_uint);
    event_destroy = b"cuEventDestroy_v2\0" (event: u64);
    event_record = b"cuEventRecord\0" (event: u64, stream: u64);
    event_query = b"cuEventQuery\0" (event: u64);
    event_synchronize = b"cuEventSynchronize\0" (event: u64);
    event_elapsed = b"cuEventElapsedTime\0" (time: &mut f32, start: u64, end: u64);
    alloc = b"cuMemAlloc_v2\0" (address: &mut u64, length: usize);
    free = b"cuMemFree_v2\0" (address: u64);
    alloc_async = b"cuMemAllocAsync\0" (address: &mut u64, length: usize, stream: u64);
    free_async = b"cuMemFreeAsync\0" (address: u64, stream: u64);
    alloc_host = b"cuMemHostAlloc\0" (address: &mut u64, length: usize, flags: c_uint);
    free_host = b"cuMemFreeHost\0" (address: u64);
    register = b"cuMemHostRegister_v2\0" (address: u64, length: usize, flags: c_uint);
    unregister = b"cuMemHostUnregister\0" (address: u64);
    device_pointer = b"cuMemHostGetDevicePointer_v2\0" (
        address: &mut u64, host: u64, flags: c_uint);
    memory_info = b"cuMemGetInfo_v2\0" (free: &mut usize, total: &mut usize);
    address_range = b"cuMemGetAddressRange_v2\0" (
        base: &mut u64, length: &mut usize, address: u64);
    pointer_attribute = b"cuPointerGetAttribute\0" (
        value: &mut u64, attribute: c_int, address: u64);
    copy = b"cuMemcpy\0" (to: u64, from: u64, length: usize);
    copy_in = b"cuMemcpyHtoD_v2\0" (to: u64, from: u64, length: usize);
    copy_in_async = b"cuMemcpyHtoDAsync_v2\0" (to: u64, from: u64, length: usize, stream: u64);
    copy_out = b"cuMemcpyDtoH_v2\0" (to: u64, from: u64, length: usize);
    copy_out_async = b"cuMemcpyDtoHAsync_v2\0" (to: u64, from: u64, length: usize, stream: u64);
    copy_within_async = b"cuMemcpyDtoDAsync_v2\0" (
        to: u64, from: u64, length: usize, stream: u64);
    copy_2d = b"cuMemcpy2D_v2\0" (parameters: &[u64; 16]);
    set_8 = b"cuMemsetD8_v2\0" (to: u64, value: u8, count: usize);
    set_32 = b"cuMemsetD32_v2\0" (to: u64, value: c_uint, count: usize);
    set_32_async = b"cuMemsetD32Async\0" (to: u64, value: c_uint, count: usize, stream: u64);
    wait_32_old = b"cuStreamWaitValue32\0" (
        stream: u64, address: u64, value: c_uint, flags: c_uint);
    wait_32 = b"cuStreamWaitValue32_v2\0" (
        stream: u64, address: u64, value: c_uint, flags: c_uint);
    write_32 = b"cuStreamWriteValue32_v2\0" (
        stream: u64, address: u64, value: c_uint, flags: c_uint);
    wait_64 = b"cuStreamWaitValue64_v2\0" (stream: u64, address: u64, value: u64, flags: c_uint);
    write_64 = b"cuStreamWriteValue64_v2\0" (
        stream: u64, address: u64, value: u64, flags: c_uint);
    batch = b"cuStreamBatchMemOp_v2\0" (
        stream: u64, count: c_uint, list: *const [u64; 6], flags: c_uint);
    graph_create = b"cuGraphCreate\0" (graph: &mut u64, flags: c_uint);
    graph_destroy = b"cuGraphDestroy\0" (graph: u64);
    graph_nodes = b"cuGraphGetNodes\0" (graph: u64, nodes: usize, count: &mut usize);
    graph_kernel = b"cuGraphAddKernelNode_v2\0" (
        node: &mut u64, graph: u64, after: *const u64, count: usize, parameters: &[u64; 9]);
    graph_set = b"cuGraphAddMemsetNode\0" (
        node: &mut u64, graph: u64, after: *const u64, count: usize, parameters: &[u64; 5],
        context: u64);
    graph_copy = b"cuGraphAddMemcpyNode\0" (
        node: &mut u64, graph: u64, after: *const u64, count: usize, parameters: &[u64; 25],
        context: u64);
    graph_host = b"cuGraphAddHostNode\0" (
        node: &mut u64, graph: u64, after: *const u64, count: usize, parameters: &[usize; 2]);
    graph_empty = b"cuGraphAddEmptyNode\0" (
        node: &mut u64, graph: u64, after: *const u64, count: usize);
    graph_words = b"cuGraphAddBatchMemOpNode\0" (
        node: &mut u64, graph: u64, after: *const u64, count: usize, parameters: &[u64; 4]);
    graph_child = b"cuGraphAddChildGraphNode\0" (
        node: &mut u64, graph: u64, after: *const u64, count: usize, child: u64);
    graph_record = b"cuGraphAddEventRecordNode\0" (
        node: &mut u64, graph: u64, after: *const u64, count: usize, event: u64);
    graph_await = b"cuGraphAddEventWaitNode\0" (
        node: &mut u64, graph: u64, after: *const u64, count: usize, event: u64);
    graph_edges = b"cuGraphGetEdges_v2\0" (
        graph: u64, from: &mut [u64; 4], to: &mut [u64; 4], data: &mut [u64; 4],
        count: &mut usize);
    graph_edges_add_with = b"cuGraphAddDependencies_v2\0" (
        graph: u64, from: &u64, to: &u64, data: &u64, count: usize);
    graph_update = b"cuGraphExecUpdate_v2\0" (exec: u64, graph: u64, result: &mut [u64; 3]);
    graph_edges_add = b"cuGraphAddDependencies\0" (
        graph: u64, from: &u64, to: &u64, count: usize);
    graph_kind = b"cuGraphNodeGetType\0" (node: u64, kind: &mut c_int);
    graph_instantiate = b"cuGraphInstantiateWithFlags\0" (exec: &mut u64, graph: u64, flags: u64);
    graph_launch = b"cuGraphLaunch\0" (exec: u64, stream: u64);
    graph_set_kernel = b"cuGraphExecKernelNodeSetParams_v2\0" (
        exec: u64, node: u64, parameters: &[u64; 9]);
    graph_exec_destroy = b"cuGraphExecDestroy\0" (exec: u64);
    capture_begin = b"cuStreamBeginCapture_v2\0" (stream: u64, mode: c_int);
    capture_end = b"cuStreamEndCapture\0" (stream: u64, graph: &mut u64);
    capture_state = b"cuStreamIsCapturing\0" (stream: u64, state: &mut c_int);
    capture_mode = b"cuThreadExchangeStreamCaptureMode\0" (mode: &mut c_int);
    array_destroy = b"cuArrayDestroy\0" (array: u64);
    array_create = b"cuArrayCreate_v2\0" (array: &mut u64, description: usize);
}

/// The name of the library, as programs of CUDA have it.
const LIBRARY: &str = "libcuda.so.1";

impl Cuda {
    /// Loads the library.
    pub fn load() -> Result<Self> {
        // SAFETY: It is the library under test, whose initialisers are as safe as any.
        let library = unsafe { Library::new(LIBRARY) };
        Ok(Self {
            library: library.with_context(|| format!("load {LIBRARY}"))?,
        })
    }

    /// Loads and initialises it.
    pub fn open() -> Result<Self> {
        let cuda = Self::load()?;
        cuda.init(0).ok()?;
        Ok(cuda)
    }

    /// Launches a kernel with arguments of up to 8 bytes.
    pub fn launch(
        &self,
        function: u64,
        blocks: u32,
        threads: u32,
        stream: u64,
        arguments: &[u64],
    ) -> Outcome {
        let places: Vec<u64> = arguments.iter().map(address_of).collect();
        let none = std::ptr::null();
        let (x, a) = (blocks, threads);
        self.launch_raw(function, x, 1, 1, a, 1, 1, 0, stream, places.as_ptr(), none)
    }

    /// The name of an error.
    pub fn name_of(&self, error: c_int) -> Result<String> {
        let mut name = std::ptr::null();
        self.error_name(error, &mut name).ok()?;
        if name.is_null() {
            bail!("no name of {error}");
        }
        // SAFETY: The library gives a text that ends with a zero and stays.
        Ok(unsafe { CStr::from_ptr(name) }.to_str()?.to_owned())
    }

    /// Calls a function by its address, which takes one handle.
    pub fn call_by_address(&self, address: usize, handle: u64) -> Outcome {
        // SAFETY: The library has given the address for a function of this type.
        let function = unsafe { transmute::<usize, unsafe extern "C" fn(u64) -> c_int>(address) };
        // SAFETY: It takes a number.
        let status = unsafe { function(handle) };
        Outcome {
            name: "by address",
            status,
        }
    }
}

/// The address of something, as CUDA takes it.
pub fn address_of<T>(value: &T) -> u64 {
    value as *const T as u64
}

/// Memory of this process that the library writes to as well: all accesses are atomic.
#[derive(Debug)]
#[repr(align(4096))]
pub struct Words(pub [AtomicU32; 1024]);

impl Words {
    /// A page of zeroes.
    pub fn new() -> Box<Self> {
        Box::new(Self([const { AtomicU32::new(0) }; 1024]))
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        address_of(self)
    }

    pub fn load(&self, at: usize) -> u32 {
        self.0[at].load(Ordering::Acquire)
    }

    pub fn store(&self, at: usize, value: u32) {
        self.0[at].store(value, Ordering::Release);
    }
}

/// Reads a word of 8 bytes of memory that the library has given.
pub fn load_long(address: u64) -> u64 {
    // SAFETY: The callers got the address from the library, for a word of this size.
    unsafe { &*(address as *const AtomicU64) }.load(Ordering::Acquire)
}

/// Reads a word of 4 bytes of memory that the library has given.
pub fn load(address: u64) -> u32 {
    // SAFETY: As above.
    unsafe { &*(address as *const AtomicU32) }.load(Ordering::Acquire)
}

/// Stores to such a word.
pub fn store(address: u64, value: u32) {
    // SAFETY: As above.
    unsafe { &*(address as *const AtomicU32) }.store(value, Ordering::Release);
}

/// The counter of [`count`].
static COUNTED: AtomicU32 = AtomicU32::new(0);

/// A host function: adds its value to a counter.
pub extern "C" fn count(value: *mut c_void) {
    COUNTED.fetch_add(value as u32, Ordering::AcqRel);
}

/// The counter.
pub fn counted() -> u32 {
    COUNTED.load(Ordering::Acquire)
}

/// A host function: waits until the word at this address is not 0.
pub extern "C" fn wait_for_word(address: *mut c_void) {
    while load(address as u64) == 0 {
        std::thread::yield_now();
    }
}

/// The status that [`query_inside`] got.
static INNER: AtomicU32 = AtomicU32::new(u32::MAX);

/// A host function: calls `cuStreamQuery`, which has this address.
pub extern "C" fn query_inside(address: *mut c_void) {
    // SAFETY: The caller has the address from the library, for a function of this type.
    let status =
        unsafe { transmute::<*mut c_void, unsafe extern "C" fn(u64) -> c_int>(address)(0) };
    INNER.store(status as u32, Ordering::Release);
}

/// Its outcome.
pub fn inner_status() -> c_int {
    INNER.load(Ordering::Acquire) as c_int
}

/// The status that [`keep_status`] got last, and how often it was called.
static KEPT: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// A callback of a stream: keeps its status.
pub extern "C" fn keep_status(_: *mut c_void, status: c_int, _: *mut c_void) {
    KEPT[0].store(status as u32, Ordering::Release);
    KEPT[1].fetch_add(1, Ordering::AcqRel);
}

/// The status that it got, and the number of its calls.
pub fn kept() -> (c_int, u32) {
    let [status, calls] = &KEPT;
    (
        status.load(Ordering::Acquire) as c_int,
        calls.load(Ordering::Acquire),
    )
}

/// Has the standard error of this process go to a file.
pub fn redirect_errors(file: &impl std::os::fd::AsRawFd) -> Result<()> {
    // SAFETY: Both are numbers of files.
    ensure!(unsafe { dup2(file.as_raw_fd(), 2) } == 2, "dup2");
    Ok(())
}

/// Calls a function when the process ends by itself.
pub fn at_exit(function: extern "C" fn()) -> Result<()> {
    // SAFETY: The function stays.
    ensure!(unsafe { atexit(function) } == 0, "atexit");
    Ok(())
}

/// Ends the process at once.
pub fn end(status: c_int) -> ! {
    // SAFETY: It does not come back.
    unsafe { _exit(status) }
}
