// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of cuFile, as cufile.h declares them.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Mutex;

use super::memory;
use crate::stream::lock;
use crate::{knobs, stream};

const NOT_INITIALIZED: c_int = 5_001;
const INVALID_VALUE: c_int = 5_022;
const INTERNAL: c_int = 5_030;

/// `CUfileError_t`.
#[repr(C)]
pub struct Status {
    error: c_int,
    cuda: c_int,
}

fn status(error: c_int) -> Status {
    Status { error, cuda: 0 }
}

/// `CUfileDescr_t`, of a descriptor of Linux.
#[repr(C)]
pub struct Description {
    kind: c_int,
    file: usize,
    functions: *const c_void,
}

struct State {
    opened: usize,
    /// Descriptors of files; handles are those and 1,000.
    files: BTreeSet<usize>,
    streams: BTreeSet<usize>,
}

static STATE: Mutex<State> = Mutex::new(State {
    opened: 0,
    files: BTreeSet::new(),
    streams: BTreeSet::new(),
});

/// Handles of files follow their descriptors.
const FIRST: usize = 1_000;

/// Declares functions whose result is a status.
macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            #[no_mangle]
            unsafe extern "C" fn $name($($arg: $type),*) -> Status {
                if knobs::fails(stringify!($name)) {
                    return status(INTERNAL);
                }
                status($body)
            }
        )*
    };
}

functions! {
    cuFileDriverOpen() {
        lock(&STATE).opened += 1;
        knobs::log("cuFileDriverOpen");
        0
    }

    cuFileHandleRegister(handle: *mut usize, description: *mut Description) {
        let mut state = lock(&STATE);
        if state.opened == 0 {
            return status(NOT_INITIALIZED);
        }
        // SAFETY: Callers have both.
        let (kind, file, functions) = unsafe {
            ((*description).kind, (*description).file, (*description).functions)
        };
        let file = file & 0xffff_ffff;
        if kind != 1 || !functions.is_null() || !state.files.insert(file) {
            return status(INVALID_VALUE);
        }
        // SAFETY: As above.
        unsafe { handle.write(FIRST + file) };
        knobs::log("cuFileHandleRegister");
        0
    }

    cuFileStreamRegister(handle: usize, flags: c_uint) {
        if stream::find(handle).is_none() || flags > 15 {
            return status(INVALID_VALUE);
        }
        knobs::log(&format!("cuFileStreamRegister {handle}"));
        if lock(&STATE).streams.insert(handle) { 0 } else { INVALID_VALUE }
    }

    cuFileStreamDeregister(handle: usize) {
        knobs::log(&format!("cuFileStreamDeregister {handle}"));
        let Some(stream) = stream::find(handle) else {
            return status(INVALID_VALUE);
        };
        let was_there = lock(&STATE).streams.remove(&handle);
        if was_there && stream.is_idle() { 0 } else { INVALID_VALUE }
    }

    cuFileReadAsync(
        file: usize,
        base: u64,
        size: *const usize,
        from: *const i64,
        at: *const i64,
        found: *mut isize,
        handle: usize,
    ) {
        let state = lock(&STATE);
        let file = file.wrapping_sub(FIRST);
        let is_known = state.files.contains(&file) && state.streams.contains(&handle);
        let Some(stream) = stream::find(handle).filter(|_| is_known) else {
            return status(INVALID_VALUE);
        };
        knobs::log(&format!("cuFileReadAsync {handle}"));
        let ask = Ask {
            file,
            base,
            size,
            from,
            at,
            found,
        };
        stream.give(move || ask.read());
        0
    }
}

#[no_mangle]
unsafe extern "C" fn cuFileHandleDeregister(handle: usize) {
    knobs::log("cuFileHandleDeregister");
    lock(&STATE).files.remove(&handle.wrapping_sub(FIRST));
}

/// A read. Its places are those of the caller until it is over, and are looked at then.
struct Ask {
    file: usize,
    base: u64,
    size: *const usize,
    from: *const i64,
    at: *const i64,
    found: *mut isize,
}

// SAFETY: The caller says that its places are there until the read is over, for any thread.
unsafe impl Send for Ask {}

impl Ask {
    fn read(&self) {
        // SAFETY: As above.
        let (size, from, at) = unsafe { (*self.size, *self.from, *self.at) };
        // SAFETY: The stream does one thing after another.
        let place = unsafe { memory::bytes_mut(self.base + at as u64, size) };
        let found = match place {
            Some(place) => self.fill(place, from as u64),
            None => -(INVALID_VALUE as isize),
        };
        // SAFETY: As above.
        unsafe { self.found.write(found) };
    }

    fn fill(&self, place: &mut [u8], from: u64) -> isize {
        if knobs::fails("read") {
            return -(INTERNAL as isize);
        }
        let end = place.len() - knobs::number("FAKEIO_SHORT").unwrap_or(0).min(place.len());
        // Through the cache of the system: the file may take whole blocks alone.
        let Ok(file) = File::open(format!("/proc/self/fd/{}", self.file)) else {
            return -(INTERNAL as isize);
        };
        let mut done = 0;
        while done < end {
            match file.read_at(&mut place[done..end], from + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(_) => return -(INTERNAL as isize),
            }
        }
        done as isize
    }
}
