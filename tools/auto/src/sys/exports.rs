// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launches, synchronisations, events, contexts, and calls that wait for a whole context.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::transmute;

use cuda::Context;

use super::find;
use super::forms::Form;
use super::guard;
use super::streams::{default_stream, stream_of};
use crate::watch::{self, Wait};

/// `CUDA_ERROR_NOT_INITIALIZED`: the driver is not there.
pub const NOT_INITIALIZED: c_int = 3;

type Raw = *mut c_void;

/// Declares functions in the place of the driver's: something before the call, and something after
/// one that succeeds, which gets the value of what was before.
macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?)
        { $before:expr } then |$handed:pat_param| { $after:expr })*) => {
        $(
            /// As the driver's function of this name.
            ///
            /// # Safety
            ///
            /// As the driver's.
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments)]
            pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
                let real = find::real(Form::$name as usize);
                if real == 0 {
                    return NOT_INITIALIZED;
                }
                // SAFETY: The driver's function of this name has this type.
                let real = unsafe {
                    transmute::<usize, unsafe extern "C-unwind" fn($($type),*) -> c_int>(real)
                };
                if !guard::is_watching() {
                    // SAFETY: The arguments are the program's.
                    return unsafe { real($($argument),*) };
                }
                let $handed = $before;
                // SAFETY: As above.
                let status = unsafe { real($($argument),*) };
                if status == 0 {
                    $after;
                }
                status
            }
        )*
    };
}

/// A call with nothing before it, or after it.
const fn nothing() {}

/// The launch of a graph: its kernels are on the GPU since it was instantiated.
const NO_KERNEL: u64 = 0;

/// A context of the program.
fn context(handle: Raw) -> Option<Context> {
    // SAFETY: The program gives it to the driver as one, and the driver has made it.
    unsafe { Context::from_raw(handle) }
}

/// The handle that the driver has stored.
///
/// # Safety
///
/// `made` is null or valid for reads.
unsafe fn stored(made: *mut Raw) -> Option<Context> {
    // SAFETY: By the caller.
    unsafe { made.as_ref() }.copied().and_then(context)
}

/// The stream of `CUlaunchConfig`, which comes behind seven numbers of 32 bits.
///
/// # Safety
///
/// `config` is null or the address of one.
unsafe fn stream_of_config(config: *const c_void, is_per_thread: bool) -> u64 {
    const STREAM: usize = 32;
    if config.is_null() {
        return default_stream(is_per_thread);
    }
    // SAFETY: By the caller.
    let stream = unsafe { config.byte_add(STREAM).cast::<u64>().read() };
    stream_of(stream, is_per_thread)
}

type Arguments = *mut *mut c_void;

functions! {
    cuLaunchKernel(
        function: u64, x: c_uint, y: c_uint, z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: u64, arguments: Arguments, extra: Arguments,
    ) { watch::launching(stream_of(stream, false), function) } then |_launch| { nothing() }

    cuLaunchKernel_ptsz(
        function: u64, x: c_uint, y: c_uint, z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: u64, arguments: Arguments, extra: Arguments,
    ) { watch::launching(stream_of(stream, true), function) } then |_launch| { nothing() }

    cuLaunchCooperativeKernel(
        function: u64, x: c_uint, y: c_uint, z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: u64, arguments: Arguments,
    ) { watch::launching(stream_of(stream, false), function) } then |_launch| { nothing() }

    cuLaunchCooperativeKernel_ptsz(
        function: u64, x: c_uint, y: c_uint, z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: u64, arguments: Arguments,
    ) { watch::launching(stream_of(stream, true), function) } then |_launch| { nothing() }

    cuLaunchKernelEx(config: *const c_void, function: u64, arguments: Arguments, extra: Arguments)
    {
        // SAFETY: The program's configuration.
        watch::launching(unsafe { stream_of_config(config, false) }, function)
    } then |_launch| { nothing() }

    cuLaunchKernelEx_ptsz(
        config: *const c_void, function: u64, arguments: Arguments, extra: Arguments,
    ) {
        // SAFETY: The program's configuration.
        watch::launching(unsafe { stream_of_config(config, true) }, function)
    } then |_launch| { nothing() }

    cuGraphLaunch(graph: Raw, stream: u64)
    { watch::launching(stream_of(stream, false), NO_KERNEL) } then |_launch| { nothing() }

    cuGraphLaunch_ptsz(graph: Raw, stream: u64)
    { watch::launching(stream_of(stream, true), NO_KERNEL) } then |_launch| { nothing() }

    cuStreamSynchronize(stream: u64)
    { nothing() } then |()| { watch::synchronized(Wait::Stream(stream_of(stream, false))) }

    cuStreamSynchronize_ptsz(stream: u64)
    { nothing() } then |()| { watch::synchronized(Wait::Stream(stream_of(stream, true))) }

    cuStreamQuery(stream: u64)
    { nothing() } then |()| { watch::queried(Wait::Stream(stream_of(stream, false))) }

    cuStreamQuery_ptsz(stream: u64)
    { nothing() } then |()| { watch::queried(Wait::Stream(stream_of(stream, true))) }

    cuEventSynchronize(event: u64)
    { nothing() } then |()| { watch::synchronized(Wait::Event(event)) }

    cuEventQuery(event: u64)
    { nothing() } then |()| { watch::queried(Wait::Event(event)) }

    cuEventRecord(event: u64, stream: u64)
    { nothing() } then |()| { watch::recorded(event, stream_of(stream, false)) }

    cuEventRecord_ptsz(event: u64, stream: u64)
    { nothing() } then |()| { watch::recorded(event, stream_of(stream, true)) }

    cuEventRecordWithFlags(event: u64, stream: u64, flags: c_uint)
    { nothing() } then |()| { watch::recorded(event, stream_of(stream, false)) }

    cuEventRecordWithFlags_ptsz(event: u64, stream: u64, flags: c_uint)
    { nothing() } then |()| { watch::recorded(event, stream_of(stream, true)) }

    cuCtxSynchronize()
    { watch::stalling(None) } then |()| { watch::synchronized(Wait::Context(None)) }

    cuCtxSynchronize_v2(own: Raw)
    { watch::stalling(context(own)) }
    then |()| { watch::synchronized(Wait::Context(context(own))) }

    cuMemFree_v2(address: u64) { watch::stalling(None) } then |()| { nothing() }

    cuMemFreeHost(address: Raw) { watch::stalling(None) } then |()| { nothing() }

    cuMemHostUnregister(address: Raw) { watch::stalling(None) } then |()| { nothing() }

    cuModuleUnload(module: Raw) { watch::stalling(None) } then |()| { watch::unloaded() }

    cuModuleLoad(module: Raw, name: Raw) { watch::stalling(None) } then |()| { nothing() }

    cuModuleLoadData(module: Raw, image: Raw) { watch::stalling(None) } then |()| { nothing() }

    cuModuleLoadDataEx(module: Raw, image: Raw, count: c_uint, options: Raw, values: Raw)
    { watch::stalling(None) } then |()| { nothing() }

    cuModuleLoadFatBinary(module: Raw, image: Raw) { watch::stalling(None) }
    then |()| { nothing() }

    cuLibraryUnload(library: Raw) { watch::stalling(None) } then |()| { watch::unloaded() }

    cuCtxCreate_v2(made: *mut Raw, flags: c_uint, device: c_int)
    { watch::making() } then |before| {
        // SAFETY: The driver has just stored to it.
        watch::made(unsafe { stored(made) }, before)
    }

    cuCtxCreate_v3(made: *mut Raw, affinity: Raw, count: c_int, flags: c_uint, device: c_int)
    { watch::making() } then |before| {
        // SAFETY: As above.
        watch::made(unsafe { stored(made) }, before)
    }

    cuCtxCreate_v4(made: *mut Raw, parameters: Raw, flags: c_uint, device: c_int)
    { watch::making() } then |before| {
        // SAFETY: As above.
        watch::made(unsafe { stored(made) }, before)
    }

    cuCtxDestroy(own: Raw) { watch::destroying(context(own)) } then |()| { nothing() }

    cuCtxDestroy_v2(own: Raw) { watch::destroying(context(own)) } then |()| { nothing() }

    cuCtxDetach(own: Raw) { watch::destroying(context(own)) } then |()| { nothing() }

    cuDevicePrimaryCtxRetain(made: *mut Raw, device: c_int)
    { watch::retaining(device) } then |before| {
        // SAFETY: As above.
        watch::retained(unsafe { stored(made) }, device, before)
    }

    cuDevicePrimaryCtxRelease(device: c_int)
    { watch::releasing(device, false) } then |()| { watch::released(device) }

    cuDevicePrimaryCtxRelease_v2(device: c_int)
    { watch::releasing(device, false) } then |()| { watch::released(device) }

    cuDevicePrimaryCtxReset(device: c_int)
    { watch::releasing(device, true) } then |()| { nothing() }

    cuDevicePrimaryCtxReset_v2(device: c_int)
    { watch::releasing(device, true) } then |()| { nothing() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_has_its_stream_behind_its_numbers() {
        #[repr(C)]
        struct Config {
            grid: [u32; 3],
            block: [u32; 3],
            shared: u32,
            stream: u64,
            attributes: u64,
            count: u32,
        }
        let mut config = Config {
            grid: [1; 3],
            block: [2; 3],
            shared: 3,
            stream: 77,
            attributes: 4,
            count: 5,
        };
        let read = |config: &Config, is_per_thread| {
            // SAFETY: It is one.
            unsafe { stream_of_config((&raw const *config).cast(), is_per_thread) }
        };
        assert_eq!(read(&config, false), 77);
        config.stream = 0;
        let own = default_stream(true);
        assert_eq!((read(&config, false), read(&config, true)), (1, own));
        // SAFETY: It is null.
        assert_eq!(unsafe { stream_of_config(std::ptr::null(), true) }, own);
    }

    #[test]
    fn without_a_driver_nothing_is_initialised() {
        // SAFETY: There is no driver to call.
        unsafe {
            assert_eq!(cuStreamSynchronize(0), NOT_INITIALIZED);
            assert_eq!(cuCtxSynchronize(), NOT_INITIALIZED);
            assert_eq!(super::super::copies::cuMemcpyHtoD_v2(), NOT_INITIALIZED);
        }
    }
}
