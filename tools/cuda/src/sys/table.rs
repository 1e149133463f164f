// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions that are needed, by name and form.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::transmute;

use super::graph::{KernelNode, WordsNode};
use super::{Address, Raw};

/// Declares the table of functions. Each has the number of the interface that has it in this form:
/// the driver keeps all forms.
macro_rules! functions {
    ($($name:ident = $symbol:literal of $version:literal ($($argument:ty),* $(,)?);)*) => {
        /// The functions.
        #[derive(Debug)]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            /// The names of all of them.
            #[cfg(test)]
            pub const NAMES: &'static [&'static str] = &[$($symbol),*];

            /// Finds all of them. Those that are absent are named.
            pub fn find(find: impl Fn(&str, c_int) -> Raw) -> Result<Self, Vec<&'static str>> {
                let mut absent = Vec::new();
                $(
                    let $name = find($symbol, $version);
                    if $name.is_null() {
                        absent.push($symbol);
                    }
                )*
                if !absent.is_empty() {
                    return Err(absent);
                }
                Ok(Self {
                    $(
                        // SAFETY: Not null; the driver says that it is the function of this name in
                        // the form of this version, whose arguments these are.
                        $name: unsafe {
                            transmute::<Raw, unsafe extern "C" fn($($argument),*) -> c_int>($name)
                        },
                    )*
                })
            }
        }
    };
}

functions! {
    init = "cuInit" of 2000 (c_uint);
    error_name = "cuGetErrorName" of 6000 (c_int, *mut *const c_char);

    device_count = "cuDeviceGetCount" of 2000 (*mut c_int);
    device_by_bus = "cuDeviceGetByPCIBusId" of 4010 (*mut c_int, *const c_char);
    device_bus = "cuDeviceGetPCIBusId" of 4010 (*mut c_char, c_int, c_int);
    device_name = "cuDeviceGetName" of 2000 (*mut c_char, c_int, c_int);
    device_uuid = "cuDeviceGetUuid" of 11040 (*mut [u8; 16], c_int);
    device_attribute = "cuDeviceGetAttribute" of 2000 (*mut c_int, c_int, c_int);

    context_create = "cuCtxCreate" of 3020 (*mut Raw, c_uint, c_int);
    context_destroy = "cuCtxDestroy" of 4000 (Raw);
    context_current = "cuCtxGetCurrent" of 4000 (*mut Raw);
    context_set = "cuCtxSetCurrent" of 4000 (Raw);
    context_push = "cuCtxPushCurrent" of 4000 (Raw);
    context_pop = "cuCtxPopCurrent" of 4000 (*mut Raw);
    context_device = "cuCtxGetDevice" of 2000 (*mut c_int);
    context_synchronize = "cuCtxSynchronize" of 2000 ();
    context_priorities = "cuCtxGetStreamPriorityRange" of 5050 (*mut c_int, *mut c_int);
    primary_retain = "cuDevicePrimaryCtxRetain" of 7000 (*mut Raw, c_int);
    primary_release = "cuDevicePrimaryCtxRelease" of 11000 (c_int);

    module_load = "cuModuleLoadData" of 2000 (*mut Raw, *const c_void);
    module_unload = "cuModuleUnload" of 2000 (Raw);
    module_function = "cuModuleGetFunction" of 2000 (*mut Raw, Raw, *const c_char);
    launch = "cuLaunchKernel" of 4000 (
        Raw, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Raw, *mut *mut c_void,
        *mut *mut c_void,
    );

    stream_create = "cuStreamCreateWithPriority" of 5050 (*mut Raw, c_uint, c_int);
    stream_destroy = "cuStreamDestroy" of 4000 (Raw);
    stream_query = "cuStreamQuery" of 2000 (Raw);
    stream_synchronize = "cuStreamSynchronize" of 2000 (Raw);
    stream_context = "cuStreamGetCtx" of 9020 (Raw, *mut Raw);
    stream_capturing = "cuStreamIsCapturing" of 10000 (Raw, *mut c_int);
    stream_capture = "cuStreamGetCaptureInfo" of 11030 (
        Raw, *mut c_int, *mut u64, *mut Raw, *mut *const Raw, *mut usize,
    );
    stream_wait_event = "cuStreamWaitEvent" of 3020 (Raw, Raw, c_uint);
    stream_wait = "cuStreamWaitValue32" of 11070 (Raw, Address, u32, c_uint);
    stream_write = "cuStreamWriteValue32" of 11070 (Raw, Address, u32, c_uint);

    host_function = "cuLaunchHostFunc" of 10000 (
        Raw, unsafe extern "C" fn(*mut c_void), *mut c_void,
    );
    copy_in = "cuMemcpyHtoDAsync" of 3020 (Address, *const c_void, usize, Raw);
    copy_out = "cuMemcpyDtoHAsync" of 3020 (*mut c_void, Address, usize, Raw);
    memory_allocate_behind = "cuMemAllocAsync" of 11020 (*mut Address, usize, Raw);
    memory_free_behind = "cuMemFreeAsync" of 11020 (Address, Raw);

    graph_kernel = "cuGraphExecKernelNodeSetParams" of 12000 (Raw, Raw, *const KernelNode);
    graph_words = "cuGraphExecBatchMemOpNodeSetParams" of 11070 (Raw, Raw, *const WordsNode);

    event_create = "cuEventCreate" of 2000 (*mut Raw, c_uint);
    event_destroy = "cuEventDestroy" of 4000 (Raw);
    event_record = "cuEventRecord" of 2000 (Raw, Raw);
    event_query = "cuEventQuery" of 2000 (Raw);
    event_synchronize = "cuEventSynchronize" of 2000 (Raw);

    register = "cuMemHostRegister" of 6050 (*mut c_void, usize, c_uint);
    unregister = "cuMemHostUnregister" of 4000 (*mut c_void);
    device_address = "cuMemHostGetDevicePointer" of 3020 (*mut Address, *mut c_void, c_uint);
    memory_allocate = "cuMemAlloc" of 3020 (*mut Address, usize);
    memory_free = "cuMemFree" of 3020 (Address);
    memory_info = "cuMemGetInfo" of 3020 (*mut usize, *mut usize);
}
