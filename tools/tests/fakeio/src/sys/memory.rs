// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the GPU: memory of the host, whose places are checked.

use std::alloc::{alloc, dealloc, Layout};
use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::knobs;
use crate::stream::lock;

/// Allocations: the length by the address.
static ALL: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

fn layout(length: usize) -> Option<Layout> {
    Layout::from_size_align(length.max(1), 256).ok()
}

/// Memory with other bytes than zeroes. `None`: there is not so much.
pub(crate) fn allocate(length: usize) -> Option<u64> {
    let mut all = lock(&ALL);
    let most = knobs::number("FAKEIO_MEMORY").unwrap_or(1 << 30);
    let used: usize = all.values().sum();
    if used.checked_add(length)? > most {
        return None;
    }
    // SAFETY: The layout has a size.
    let place = unsafe { alloc(layout(length)?) };
    if place.is_null() {
        return None;
    }
    // SAFETY: It has so many bytes.
    unsafe { place.write_bytes(0xa5, length) };
    all.insert(place as u64, length);
    Some(place as u64)
}

/// True if there was memory at an address.
pub(crate) fn free(base: u64) -> bool {
    let Some(length) = lock(&ALL).remove(&base) else {
        return false;
    };
    if let Some(layout) = layout(length) {
        // SAFETY: It was allocated so, and is freed once.
        unsafe { dealloc(base as *mut u8, layout) };
    }
    true
}

/// True if so many bytes at an address are memory of the GPU.
pub(crate) fn has(address: u64, length: usize) -> bool {
    let all = lock(&ALL);
    let found = all.range(..=address).next_back();
    found.is_some_and(|(base, size)| {
        let offset = (address - base) as usize;
        offset.checked_add(length).is_some_and(|end| end <= *size)
    })
}

/// Bytes of the GPU. `None`: they are none of it.
///
/// # Safety
///
/// They are not changed meanwhile.
pub(crate) unsafe fn bytes<'a>(address: u64, length: usize) -> Option<&'a [u8]> {
    // SAFETY: Just checked; the rest is the caller's.
    has(address, length)
        .then(|| unsafe { std::slice::from_raw_parts(address as *const u8, length) })
}

/// Bytes of the GPU, to be changed. `None`: they are none of it.
///
/// # Safety
///
/// Nobody else uses them meanwhile.
pub(crate) unsafe fn bytes_mut<'a>(address: u64, length: usize) -> Option<&'a mut [u8]> {
    // SAFETY: Just checked; the rest is the caller's.
    has(address, length)
        .then(|| unsafe { std::slice::from_raw_parts_mut(address as *mut u8, length) })
}
