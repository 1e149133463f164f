// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a sample. It is freed when the last of those who have it lets go, in any thread.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Buffers that somebody has, and their bytes.
pub(crate) fn alive() -> (usize, usize) {
    (COUNT.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed))
}

/// Bytes at an address. Nothing here refers to them: those who have the address read and write there,
/// as the programs that they belong to agree on.
///
/// # Invariants
///
/// `start`, `len` and `capacity` are those of a `Vec<u8>` that nobody else has.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
}

// SAFETY: Memory has no thread; no reference to it is made here but by `copy`, whose caller has Python's
// lock, as those who write have.
unsafe impl Send for Buffer {}
// SAFETY: As above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) fn new(bytes: Vec<u8>) -> Arc<Self> {
        let mut bytes = ManuallyDrop::new(bytes);
        COUNT.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(bytes.len(), Ordering::Relaxed);
        // INVARIANT: The vector is not dropped.
        Arc::new(Self {
            // SAFETY: The address of a vector is not null.
            start: unsafe { NonNull::new_unchecked(bytes.as_mut_ptr()) },
            len: bytes.len(),
            capacity: bytes.capacity(),
        })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Other memory with the same bytes; `None`: there is none.
    pub(crate) fn copy(&self) -> Option<Arc<Self>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(self.len).ok()?;
        // SAFETY: By the invariant there are `len` bytes at `start`, and the vector has room for as many,
        // which are written before it has them.
        unsafe {
            self.start
                .as_ptr()
                .copy_to_nonoverlapping(bytes.as_mut_ptr(), self.len);
            bytes.set_len(self.len);
        }
        Some(Self::new(bytes))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: By the invariant they are those of a vector, which was not dropped.
        drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), self.len, self.capacity) });
        BYTES.fetch_sub(self.len, Ordering::Relaxed);
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}
