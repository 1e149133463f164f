// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions to the driver, and to the loader of programs.

use std::ffi::{c_int, c_void, CStr};
use std::mem::{transmute, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use cuda::Context;

use super::find;
use super::streams::handle_of;

/// A function of the driver that is not seen, found once; 0: it has none.
struct Other {
    symbol: &'static CStr,
    address: AtomicUsize,
}

impl Other {
    const fn new(symbol: &'static CStr) -> Self {
        Self {
            symbol,
            address: AtomicUsize::new(0),
        }
    }

    fn get(&self) -> usize {
        let mut address = self.address.load(Relaxed);
        if address == 0 {
            address = find::other(self.symbol);
            self.address.store(address, Relaxed);
        }
        address
    }
}

/// The context of this thread's calls.
pub fn current() -> Option<Context> {
    static CURRENT: Other = Other::new(c"cuCtxGetCurrent");
    let address = CURRENT.get();
    if address == 0 {
        return None;
    }
    let mut context = ptr::null_mut();
    // SAFETY: The driver's function of this name has this type; `context` is valid for writes.
    let status = unsafe {
        transmute::<usize, unsafe extern "C" fn(*mut *mut c_void) -> c_int>(address)(&mut context)
    };
    match status {
        // SAFETY: The driver says so.
        0 => unsafe { Context::from_raw(context) },
        _ => None,
    }
}

/// A context as a number, which is its handle.
pub fn number(context: Context) -> usize {
    const _: () = assert!(size_of::<Context>() == size_of::<usize>());
    // SAFETY: It is a handle and nothing else, of the size that was just checked.
    unsafe { transmute::<Context, usize>(context) }
}

/// True if an address is that of memory of a device.
pub fn is_of_device(address: u64) -> bool {
    static ATTRIBUTE: Other = Other::new(c"cuPointerGetAttribute");
    const MEMORY_TYPE: c_int = 2;
    const DEVICE: u32 = 2;
    let function = ATTRIBUTE.get();
    if function == 0 {
        return false;
    }
    let mut kind = 0_u32;
    // SAFETY: The driver's function of this name has this type; `kind` is valid for writes. An
    // address that the driver does not know is an error.
    let status = unsafe {
        transmute::<usize, unsafe extern "C" fn(*mut u32, c_int, u64) -> c_int>(function)(
            &mut kind,
            MEMORY_TYPE,
            address,
        )
    };
    status == 0 && kind == DEVICE
}

/// True if calls on a stream are captured for a graph, or if the driver does not say.
pub fn is_capturing(stream: u64) -> bool {
    static CAPTURING: Other = Other::new(c"cuStreamIsCapturing");
    let function = CAPTURING.get();
    if function == 0 {
        return true;
    }
    let mut state = 0;
    // SAFETY: The driver's function of this name has this type; the stream is that of a call that
    // this thread makes, `state` is valid for writes.
    let status = unsafe {
        transmute::<usize, unsafe extern "C" fn(u64, *mut c_int) -> c_int>(function)(
            handle_of(stream),
            &mut state,
        )
    };
    status != 0 || state != 0
}

/// A time in which calls of this thread end no capture of another one.
#[derive(Debug)]
pub struct Quiet(Option<c_int>);

/// The way in which captures concern calls of a thread.
fn exchange(mut mode: c_int) -> Option<c_int> {
    static EXCHANGE: Other = Other::new(c"cuThreadExchangeStreamCaptureMode");
    let function = EXCHANGE.get();
    if function == 0 {
        return None;
    }
    // SAFETY: The driver's function of this name has this type; `mode` is valid for reads and
    // writes.
    let status = unsafe {
        transmute::<usize, unsafe extern "C" fn(*mut c_int) -> c_int>(function)(&mut mode)
    };
    (status == 0).then_some(mode)
}

impl Quiet {
    /// From now on.
    pub fn begin() -> Self {
        const RELAXED: c_int = 2;
        Self(exchange(RELAXED))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(mode) = self.0 {
            // It was taken a moment ago.
            let _ = exchange(mode);
        }
    }
}

/// The file that holds an address, and the place in it. The file stays loaded meanwhile: it has
/// made the call.
pub fn place(address: usize) -> (&'static [u8], u64) {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `found` is valid for writes, and zeroes make a valid value.
    let found = unsafe {
        let known = libc::dladdr(address as *const c_void, found.as_mut_ptr());
        (known != 0).then(|| found.assume_init())
    };
    let Some(found) = found.filter(|found| !found.dli_fname.is_null()) else {
        return (b"", address as u64);
    };
    // SAFETY: The loader's name of a file ends with a zero, and is there while the file is loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    (
        name.to_bytes(),
        (address as u64).wrapping_sub(found.dli_fbase as u64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_and_an_offset() {
        let (file, offset) = place(number as *const () as usize);
        assert!(!file.is_empty());
        let (same, next) = place(number as *const () as usize + 1);
        assert_eq!((same, next), (file, offset + 1));
        assert_eq!(place(0), (b"".as_slice(), 0));
    }
}
