// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of `gpu.h`.

use super::{abi, c_int, c_void, call, place, write, Fault};
use crate::gpu::Gpu;

/// The context behind a pointer.
///
/// # Safety
///
/// It is null, or of `zernel_gpu_open()` and not yet given to `zernel_gpu_close()`.
unsafe fn of<'a>(gpu: *mut abi::zernel_gpu) -> Result<&'a Gpu, Fault> {
    // SAFETY: By the caller.
    let gpu = unsafe { gpu.cast::<Gpu>().as_ref() };
    gpu.ok_or(Fault::Argument("the GPU is a null pointer"))
}

/// # Safety
///
/// As the header says, here and below.
#[no_mangle]
unsafe extern "C" fn zernel_gpu_open(device: u32, gpu: *mut *mut abi::zernel_gpu) -> c_int {
    call(|| {
        place(gpu)?;
        let opened = Box::new(Gpu::open(device)?);
        // SAFETY: By the caller, and not null.
        unsafe { write(gpu, Box::into_raw(opened).cast()) }
    })
}

#[no_mangle]
unsafe extern "C" fn zernel_gpu_close(gpu: *mut abi::zernel_gpu) {
    call(|| {
        if !gpu.is_null() {
            // SAFETY: By the caller, it was made of a box and is given back once.
            drop(unsafe { Box::from_raw(gpu.cast::<Gpu>()) });
        }
        Ok(())
    });
}

#[no_mangle]
unsafe extern "C" fn zernel_gpu_enter(gpu: *mut abi::zernel_gpu) -> c_int {
    // SAFETY: By the caller.
    call(|| unsafe { of(gpu)? }.enter())
}

#[no_mangle]
unsafe extern "C" fn zernel_stream_create(
    gpu: *mut abi::zernel_gpu,
    is_urgent: c_int,
    stream: *mut *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let gpu = unsafe { of(gpu)? };
        place(stream)?;
        let is_urgent = match is_urgent {
            0 | 1 => is_urgent == 1,
            _ => return Err(Fault::Argument("a stream is urgent (1) or not (0)")),
        };
        let created = gpu.create_stream(is_urgent)?;
        // SAFETY: By the caller, and not null.
        unsafe { write(stream, created.as_raw()) }
    })
}

#[no_mangle]
unsafe extern "C" fn zernel_stream_destroy(
    gpu: *mut abi::zernel_gpu,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: By the caller.
    call(|| unsafe { of(gpu)? }.destroy_stream(stream as usize))
}

#[no_mangle]
unsafe extern "C" fn zernel_stream_synchronize(
    gpu: *mut abi::zernel_gpu,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: By the caller.
    call(|| unsafe { of(gpu)? }.wait_idle(stream as usize))
}

/// The functions have the types that the header declares.
#[allow(clippy::type_complexity)]
const _: () = {
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_gpu_open, zernel_gpu_open];
    let _: [unsafe extern "C" fn(_); 2] = [abi::zernel_gpu_close, zernel_gpu_close];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [abi::zernel_gpu_enter, zernel_gpu_enter];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] =
        [abi::zernel_stream_create, zernel_stream_create];
    let _: [unsafe extern "C" fn(_, _) -> _; 4] = [
        abi::zernel_stream_destroy,
        zernel_stream_destroy,
        abi::zernel_stream_synchronize,
        zernel_stream_synchronize,
    ];
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn null_is_refused_everywhere() {
        let none = ptr::null_mut();
        let mut stream = ptr::without_provenance_mut(7);
        // SAFETY: Null pointers are refused.
        unsafe {
            zernel_gpu_close(none);
            for result in [
                zernel_gpu_open(0, ptr::null_mut()),
                zernel_gpu_enter(none),
                zernel_stream_create(none, 0, &mut stream),
                zernel_stream_destroy(none, stream),
                zernel_stream_synchronize(none, stream),
            ] {
                assert_eq!(result, -22);
            }
        }
        assert_eq!(stream as usize, 7);
    }
}
