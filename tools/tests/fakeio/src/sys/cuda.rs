// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the driver. Those that nobody needs here are there, and fail.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use super::memory;
use crate::{knobs, stream};

const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const INVALID_HANDLE: c_int = 400;
const NOT_READY: c_int = 600;
const LAUNCH_FAILED: c_int = 719;
const NOT_SUPPORTED: c_int = 801;

/// The only context.
const CONTEXT: usize = 8;

thread_local! {
    /// The contexts of a thread.
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Memory that is to be freed in the order of a stream, and is not yet.
static LEAVING: AtomicUsize = AtomicUsize::new(0);

/// A place of the caller for a result.
type Out<T> = *mut T;

/// Declares functions, and finds them by their names.
macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
                if knobs::fails(stringify!($name)) {
                    return LAUNCH_FAILED;
                }
                $body
            }
        )*

        fn function(name: &str) -> *mut c_void {
            match name {
                $(stringify!($name) => $name as *mut c_void,)*
                _ => absent as *mut c_void,
            }
        }
    };
}

unsafe extern "C" fn absent() -> c_int {
    NOT_SUPPORTED
}

/// Stores a result.
fn set<T>(place: Out<T>, value: T) -> c_int {
    if place.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: Callers have room for it there.
    unsafe { place.write(value) };
    0
}

/// Gives a stream something to do.
fn give(handle: usize, work: impl FnOnce() + Send + 'static) -> c_int {
    match stream::find(handle) {
        Some(stream) => stream.give(work),
        None => return INVALID_HANDLE,
    }
    0
}

functions! {
    cuInit(flags: c_uint) {
        flags as c_int
    }

    cuGetErrorName(_status: c_int, name: Out<*const c_char>) {
        set(name, c"CUDA_ERROR_FAKE".as_ptr())
    }

    cuDeviceGetCount(count: Out<c_int>) {
        set(count, 1)
    }

    cuDevicePrimaryCtxRetain(context: Out<usize>, _device: c_int) {
        set(context, CONTEXT)
    }

    cuDevicePrimaryCtxRelease(_device: c_int) {
        knobs::log("cuDevicePrimaryCtxRelease");
        0
    }

    cuCtxGetCurrent(context: Out<usize>) {
        set(context, STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0)))
    }

    cuCtxPushCurrent(context: usize) {
        STACK.with_borrow_mut(|stack| stack.push(context));
        0
    }

    cuCtxPopCurrent(context: Out<usize>) {
        match STACK.with_borrow_mut(Vec::pop) {
            Some(old) => set(context, old),
            None => INVALID_VALUE,
        }
    }

    cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) {
        set(least, 0) | set(greatest, -5)
    }

    cuStreamCreateWithPriority(handle: Out<usize>, _flags: c_uint, _priority: c_int) {
        set(handle, stream::create())
    }

    cuStreamDestroy(handle: usize) {
        knobs::log(&format!("cuStreamDestroy {handle}"));
        if stream::destroy(handle) { 0 } else { INVALID_HANDLE }
    }

    cuStreamQuery(handle: usize) {
        match stream::find(handle) {
            Some(stream) if stream.is_idle() => 0,
            Some(_) => NOT_READY,
            None => INVALID_HANDLE,
        }
    }

    cuStreamIsCapturing(handle: usize, capturing: Out<c_int>) {
        match stream::find(handle) {
            Some(_) => set(capturing, c_int::from(knobs::number("FAKEIO_CAPTURES").is_some())),
            None => INVALID_HANDLE,
        }
    }

    cuStreamSynchronize(handle: usize) {
        match stream::find(handle) {
            Some(stream) => stream.wait(),
            None => return INVALID_HANDLE,
        }
        0
    }

    cuStreamWaitValue32(handle: usize, address: u64, value: u32, _flags: c_uint) {
        if !memory::has(address, 4) || address % 4 != 0 {
            return INVALID_VALUE;
        }
        give(handle, move || {
            // SAFETY: Just checked; tests keep it until the stream is idle.
            let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
            while (word.load(Ordering::Acquire).wrapping_sub(value) as i32) < 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
        })
    }

    cuStreamWriteValue32(handle: usize, address: u64, value: u32, _flags: c_uint) {
        if !memory::has(address, 4) || address % 4 != 0 {
            return INVALID_VALUE;
        }
        give(handle, move || {
            // SAFETY: As above.
            let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
            word.store(value, Ordering::Release);
        })
    }

    cuLaunchHostFunc(
        handle: usize, function: unsafe extern "C" fn(*mut c_void), value: usize
    ) {
        give(handle, move || {
            // SAFETY: The caller says that it takes this value.
            unsafe { function(value as *mut c_void) };
        })
    }

    cuMemAlloc(base: Out<u64>, length: usize) {
        match memory::allocate(length) {
            Some(found) => set(base, found),
            None => OUT_OF_MEMORY,
        }
    }

    cuMemAllocAsync(base: Out<u64>, length: usize, handle: usize) {
        if stream::find(handle).is_none() {
            return INVALID_HANDLE;
        }
        loop {
            // Looked at first: memory that leaves meanwhile is there for the next try.
            let leaving = LEAVING.load(Ordering::Acquire);
            match memory::allocate(length) {
                Some(found) => return set(base, found),
                None if leaving == 0 => return OUT_OF_MEMORY,
                None => std::thread::sleep(Duration::from_micros(100)),
            }
        }
    }

    cuMemFreeAsync(base: u64, handle: usize) {
        LEAVING.fetch_add(1, Ordering::AcqRel);
        let given = give(handle, move || {
            // Freed twice: that ends a test, and not a thread that others wait for.
            if !memory::free(base) {
                std::process::abort();
            }
            LEAVING.fetch_sub(1, Ordering::AcqRel);
        });
        if given != 0 {
            LEAVING.fetch_sub(1, Ordering::AcqRel);
        }
        given
    }

    cuMemFree(base: u64) {
        knobs::log("cuMemFree");
        if memory::free(base) { 0 } else { INVALID_VALUE }
    }

    cuMemcpyHtoDAsync(to: u64, from: usize, length: usize, handle: usize) {
        if !memory::has(to, length) {
            return INVALID_VALUE;
        }
        give(handle, move || {
            // SAFETY: The caller has so many bytes there until the stream is idle.
            let from = unsafe { std::slice::from_raw_parts(from as *const u8, length) };
            if let (4, 0, Ok(word)) = (length, to % 4, from.try_into()) {
                // SAFETY: It was checked. Others may look at a word.
                let place = unsafe { AtomicU32::from_ptr(to as *mut u32) };
                place.store(u32::from_le_bytes(word), Ordering::Release);
                return;
            }
            // SAFETY: The stream does one thing after another.
            if let Some(to) = unsafe { memory::bytes_mut(to, length) } {
                to.copy_from_slice(from);
            }
        })
    }

    cuMemcpyDtoHAsync(to: usize, from: u64, length: usize, handle: usize) {
        if !memory::has(from, length) {
            return INVALID_VALUE;
        }
        give(handle, move || {
            // SAFETY: The caller has room for so many bytes there until the stream is idle.
            let to = unsafe { std::slice::from_raw_parts_mut(to as *mut u8, length) };
            // SAFETY: The stream does one thing after another.
            if let Some(from) = unsafe { memory::bytes(from, length) } {
                to.copy_from_slice(from);
            }
        })
    }
}

#[no_mangle]
unsafe extern "C" fn cuDriverGetVersion(version: Out<c_int>) -> c_int {
    set(version, 12_080)
}

#[no_mangle]
unsafe extern "C" fn cuGetProcAddress(
    name: *const c_char,
    found: Out<*mut c_void>,
    _version: c_int,
    _flags: u64,
) -> c_int {
    // SAFETY: Callers give text that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) };
    set(found, function(&name.to_string_lossy()))
}
