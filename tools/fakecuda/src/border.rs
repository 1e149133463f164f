// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the library, as cuda.h declares them. The only unsafe code of the crate.
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};

use libzernel::sim::Condition;

use crate::driver::{self, driver, Driver};
use crate::status::{Result, Status};

/// A handle: a number, which nobody follows.
type Handle = u64;

fn call(calls: impl FnOnce() -> Result<()>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(calls)).unwrap_or(Err(Status::Unknown));
    result.err().unwrap_or(Status::Success) as c_int
}

/// A place for a result, which the program has given.
///
/// # Invariants
///
/// It is null or valid for writes while the call lasts, as cuda.h says.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    fn is_null(&self) -> bool {
        self.0.is_null()
    }

    fn check(&self) -> Result<()> {
        match self.0.is_null() {
            true => Err(Status::InvalidValue),
            false => Ok(()),
        }
    }

    fn set(self, value: T) -> Result<()> {
        self.check()?;
        // SAFETY: By the invariants, and not null.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

/// A text of the program.
///
/// # Invariants
///
/// It is null or ends with a zero, as cuda.h says.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Text(*const c_char);

impl Text {
    fn get(&self) -> Result<&str> {
        if self.0.is_null() {
            return Err(Status::InvalidValue);
        }
        // SAFETY: By the invariants, and not null.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map_err(|_| Status::InvalidValue)
    }
}

/// # Safety
///
/// `to` is null or valid for `length` bytes.
unsafe fn write_text(to: *mut c_char, length: c_int, text: &str) -> Result<()> {
    let length = usize::try_from(length).ok().filter(|&length| length > 0);
    let (Some(length), false) = (length, to.is_null()) else {
        return Err(Status::InvalidValue);
    };
    let count = text.len().min(length - 1);
    // SAFETY: By the caller; there is room for the zero.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), count);
        to.add(count).write(0);
    }
    Ok(())
}

/// Declares the functions: the name that is exported, the one that `cuGetProcAddress()` knows, and the
/// body. Pointers are as cuda.h says, which each body relies on.
macro_rules! functions {
    ($($export:ident $name:literal ($($argument:ident: $type:ty),*) $body:block)*) => {
        $(
            /// # Safety
            ///
            /// As cuda.h says.
            #[no_mangle]
            pub unsafe extern "C" fn $export($($argument: $type),*) -> c_int {
                call(|| $body)
            }
        )*

        /// The address of a function by its name.
        fn find(name: &str) -> Option<*const c_void> {
            match name {
                $($name => Some($export as *const c_void),)*
                _ => None,
            }
        }
    };
}

/// Names of functions that are absent, for tests, with commas between them.
const ABSENT: &str = "FAKECUDA_ABSENT";

functions! {
    cuInit "cuInit" (flags: c_uint) {
        match flags {
            0 => driver::init(),
            _ => Err(Status::InvalidValue),
        }
    }
    cuDriverGetVersion "cuDriverGetVersion" (version: Out<c_int>) {
        version.set(driver::VERSION)
    }
    cuGetProcAddress_v2 "cuGetProcAddress" (
        symbol: Text, found: Out<*const c_void>, version: c_int, flags: u64,
        result: Out<c_int>
    ) {
        let address = look_up(symbol, version, flags);
        if !result.is_null() {
            result.set(c_int::from(matches!(address, Err(Status::NotFound))))?;
        }
        found.set(address?)
    }
    cuGetErrorName "cuGetErrorName" (error: c_int, name: Out<*const c_char>) {
        let found = Status::name(error);
        let address = found.map_or(std::ptr::null(), CStr::as_ptr);
        name.set(address)?;
        found.map(|_| ()).ok_or(Status::InvalidValue)
    }
    cuDeviceGetCount "cuDeviceGetCount" (count: Out<c_int>) {
        let devices = driver()?.devices();
        count.set(devices as c_int)
    }
    cuDeviceGet "cuDeviceGet" (device: Out<c_int>, number: c_int) {
        driver()?.device(number)?;
        device.set(number)
    }
    cuDeviceGetByPCIBusId "cuDeviceGetByPCIBusId" (device: Out<c_int>, bus: Text) {
        let bus = bus.get()?;
        let found = (0..driver()?.devices()).find(|&device| Driver::bus(device) == bus);
        let found = found.ok_or(Status::InvalidDevice)?;
        device.set(found as c_int)
    }
    cuDeviceGetPCIBusId "cuDeviceGetPCIBusId" (to: *mut c_char, length: c_int, device: c_int) {
        let device = driver()?.device(device)?;
        // SAFETY: As cuda.h says: there is so much room.
        unsafe { write_text(to, length, &Driver::bus(device)) }
    }
    cuDeviceGetName "cuDeviceGetName" (to: *mut c_char, length: c_int, device: c_int) {
        let driver = driver()?;
        let (name, _) = driver.describe(driver.device(device)?)?;
        // SAFETY: As cuda.h says: there is so much room.
        unsafe { write_text(to, length, &name) }
    }
    cuDeviceGetUuid_v2 "cuDeviceGetUuid" (uuid: Out<[u8; 16]>, device: c_int) {
        let device = driver()?.device(device)?;
        uuid.set(Driver::uuid(device))
    }
    cuDeviceGetAttribute "cuDeviceGetAttribute" (
        value: Out<c_int>, attribute: c_int, device: c_int
    ) {
        let driver = driver()?;
        let (_, multiprocessors) = driver.describe(driver.device(device)?)?;
        let told = match attribute {
            16 => multiprocessors as c_int,
            // It maps memory of the host, is of generation 8.0, and preempts; streams have priorities.
            19 | 78 | 90 | 99 => 1,
            75 => 8,
            // No stream memory operations of the first form, nor of 64 bits; no MPS.
            1..=150 => 0,
            _ => return Err(Status::InvalidValue),
        };
        value.set(told)
    }
    cuCtxCreate_v2 "cuCtxCreate" (context: Out<Handle>, _flags: c_uint, device: c_int) {
        let driver = driver()?;
        let device = driver.device(device)?;
        context.check()?;
        context.set(driver.create_context(device)?)
    }
    cuCtxDestroy_v2 "cuCtxDestroy" (context: Handle) {
        driver()?.destroy_context(context)
    }
    cuCtxGetCurrent "cuCtxGetCurrent" (context: Out<Handle>) {
        driver()?;
        context.set(driver::current())
    }
    cuCtxSetCurrent "cuCtxSetCurrent" (context: Handle) {
        driver()?.set_current(context, false)
    }
    cuCtxPushCurrent_v2 "cuCtxPushCurrent" (context: Handle) {
        match context {
            0 => Err(Status::InvalidContext),
            _ => driver()?.set_current(context, true),
        }
    }
    cuCtxPopCurrent_v2 "cuCtxPopCurrent" (context: Out<Handle>) {
        let popped = driver()?.pop_current()?;
        if !context.is_null() {
            context.set(popped)?;
        }
        Ok(())
    }
    cuCtxGetDevice "cuCtxGetDevice" (device: Out<c_int>) {
        let current = driver()?.current_device()?;
        device.set(current as c_int)
    }
    cuCtxSynchronize "cuCtxSynchronize" () {
        driver()?.synchronize()
    }
    cuCtxGetStreamPriorityRange "cuCtxGetStreamPriorityRange" (
        least: Out<c_int>, greatest: Out<c_int>
    ) {
        driver()?.current_device()?;
        for (to, priority) in [(least, 0), (greatest, -5)] {
            if !to.is_null() {
                to.set(priority)?;
            }
        }
        Ok(())
    }
    cuDevicePrimaryCtxRetain "cuDevicePrimaryCtxRetain" (context: Out<Handle>, device: c_int) {
        let driver = driver()?;
        let device = driver.device(device)?;
        context.check()?;
        context.set(driver.retain_primary(device)?)
    }
    cuDevicePrimaryCtxRelease_v2 "cuDevicePrimaryCtxRelease" (device: c_int) {
        let driver = driver()?;
        driver.release_primary(driver.device(device)?)
    }
    cuModuleLoadData "cuModuleLoadData" (module: Out<Handle>, image: Text) {
        let image = image.get().map_err(|_| Status::InvalidImage)?;
        module.check()?;
        module.set(driver()?.load(image)?)
    }
    cuModuleUnload "cuModuleUnload" (module: Handle) {
        driver()?.unload(module)
    }
    cuModuleGetFunction "cuModuleGetFunction" (
        function: Out<Handle>, module: Handle, name: Text
    ) {
        let name = name.get()?;
        function.set(driver()?.function(module, name)?)
    }
    cuLaunchKernel "cuLaunchKernel" (
        function: Handle, x: c_uint, y: c_uint, z: c_uint, threads_x: c_uint, threads_y: c_uint,
        threads_z: c_uint, _shared: c_uint, stream: Handle, parameters: *mut *mut c_void,
        extra: *mut *mut c_void
    ) {
        let driver = driver()?;
        if [x, y, z, threads_x, threads_y, threads_z].contains(&0) || !extra.is_null() {
            return Err(Status::InvalidValue);
        }
        let sizes = driver.parameters(function)?;
        // SAFETY: As cuda.h says: there is a place for each parameter.
        let values = unsafe { values(&sizes, parameters)? };
        driver.launch(function, stream, &values)
    }
    cuStreamCreate "cuStreamCreate" (stream: Out<Handle>, flags: c_uint) {
        create_stream(stream, flags)
    }
    cuStreamCreateWithPriority "cuStreamCreateWithPriority" (
        stream: Out<Handle>, flags: c_uint, _priority: c_int
    ) {
        create_stream(stream, flags)
    }
    cuStreamDestroy_v2 "cuStreamDestroy" (stream: Handle) {
        driver()?.destroy_stream(stream)
    }
    cuStreamQuery "cuStreamQuery" (stream: Handle) {
        ready(driver()?.is_idle(stream)?)
    }
    cuStreamSynchronize "cuStreamSynchronize" (stream: Handle) {
        driver()?.wait_idle(stream)
    }
    cuStreamGetCtx "cuStreamGetCtx" (stream: Handle, context: Out<Handle>) {
        context.set(driver()?.context_of(stream)?)
    }
    cuStreamIsCapturing "cuStreamIsCapturing" (stream: Handle, capturing: Out<c_int>) {
        driver()?.context_of(stream)?;
        capturing.set(0)
    }
    cuStreamWaitEvent "cuStreamWaitEvent" (stream: Handle, event: Handle, _flags: c_uint) {
        driver()?.wait_event(stream, event)
    }
    cuStreamWaitValue32_v2 "cuStreamWaitValue32" (
        stream: Handle, address: u64, value: u32, flags: c_uint
    ) {
        const FLUSH: c_uint = 1 << 30;
        let condition = match flags & !FLUSH {
            0 => Condition::AtLeast,
            1 => Condition::Equal,
            2 | 3 => return Err(Status::NotSupported),
            _ => return Err(Status::InvalidValue),
        };
        driver()?.wait_word(stream, address, condition, value)
    }
    cuStreamWriteValue32_v2 "cuStreamWriteValue32" (
        stream: Handle, address: u64, value: u32, flags: c_uint
    ) {
        match flags {
            0 | 1 => driver()?.write_word(stream, address, value),
            _ => Err(Status::InvalidValue),
        }
    }
    cuEventCreate "cuEventCreate" (event: Out<Handle>, flags: c_uint) {
        if event.is_null() || flags > 7 {
            return Err(Status::InvalidValue);
        }
        event.set(driver()?.create_event()?)
    }
    cuEventDestroy_v2 "cuEventDestroy" (event: Handle) {
        driver()?.destroy_event(event)
    }
    cuEventRecord "cuEventRecord" (event: Handle, stream: Handle) {
        driver()?.record(event, stream)
    }
    cuEventQuery "cuEventQuery" (event: Handle) {
        ready(driver()?.has_passed(event)?)
    }
    cuEventSynchronize "cuEventSynchronize" (event: Handle) {
        driver()?.wait_passed(event)
    }
    cuMemHostRegister_v2 "cuMemHostRegister" (host: u64, length: usize, flags: c_uint) {
        match flags {
            0..=15 => driver()?.register(host, length as u64),
            _ => Err(Status::InvalidValue),
        }
    }
    cuMemHostUnregister "cuMemHostUnregister" (host: u64) {
        driver()?.unregister(host)
    }
    cuMemHostGetDevicePointer_v2 "cuMemHostGetDevicePointer" (
        device: Out<u64>, host: u64, flags: c_uint
    ) {
        match flags {
            0 => device.set(driver()?.device_address(host)?),
            _ => Err(Status::InvalidValue),
        }
    }
    cuMemGetInfo_v2 "cuMemGetInfo" (free: Out<usize>, all: Out<usize>) {
        const BYTES: usize = 80 << 30;
        driver()?.current_device()?;
        free.set(BYTES)?;
        all.set(BYTES)
    }
}

/// The form with four arguments, which `dlsym()` finds by this name.
///
/// # Safety
///
/// As cuda.h says.
#[no_mangle]
pub unsafe extern "C" fn cuGetProcAddress(
    symbol: Text,
    found: Out<*const c_void>,
    version: c_int,
    flags: u64,
) -> c_int {
    // SAFETY: By the caller.
    unsafe { cuGetProcAddress_v2(symbol, found, version, flags, Out(std::ptr::null_mut())) }
}

fn look_up(symbol: Text, version: c_int, flags: u64) -> Result<*const c_void> {
    let name = symbol.get()?;
    if flags > 2 || version < 2000 {
        return Err(Status::InvalidValue);
    }
    let absent = std::env::var(ABSENT).unwrap_or_default();
    let is_there = !absent.split(',').any(|other| other == name);
    find(name).filter(|_| is_there).ok_or(Status::NotFound)
}

/// The values of parameters, 8 bytes each at most.
///
/// # Safety
///
/// `parameters` is null, or has an address for each size that is valid for reads of so many bytes.
unsafe fn values(sizes: &[usize], parameters: *mut *mut c_void) -> Result<Vec<u64>> {
    if !sizes.is_empty() && parameters.is_null() {
        return Err(Status::InvalidValue);
    }
    let value = |(at, &size): (usize, &usize)| {
        // SAFETY: By the caller.
        let place = unsafe { parameters.add(at).read() };
        let mut bytes = [0; 8];
        let size = size.min(bytes.len());
        if place.is_null() {
            return Err(Status::InvalidValue);
        }
        // SAFETY: By the caller, and not null.
        unsafe { std::ptr::copy_nonoverlapping(place.cast(), bytes.as_mut_ptr(), size) };
        Ok(u64::from_le_bytes(bytes))
    };
    sizes.iter().enumerate().map(value).collect()
}

fn create_stream(stream: Out<Handle>, flags: c_uint) -> Result<()> {
    const NON_BLOCKING: c_uint = 1;
    if flags > NON_BLOCKING {
        return Err(Status::InvalidValue);
    }
    stream.check()?;
    stream.set(driver()?.create_stream(flags != NON_BLOCKING)?)
}

fn ready(is_over: bool) -> Result<()> {
    match is_over {
        true => Ok(()),
        false => Err(Status::NotReady),
    }
}
