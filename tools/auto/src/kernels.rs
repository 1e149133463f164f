// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels that were launched. The driver may load a kernel when it is first launched, which
//! waits for all that runs in the context.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Kernels that are told apart. In a program that has more, others count as new at each launch.
const SIZE: usize = 4_096;
/// Places where a kernel may be.
const TRIES: usize = 8;

/// A set of handles. It has a fixed size, and no lock.
#[derive(Debug)]
pub struct Kernels {
    /// Handles; 0: free.
    places: [AtomicU64; SIZE],
    has_some: AtomicBool,
}

impl Kernels {
    /// Without any.
    pub const fn new() -> Self {
        Self {
            places: [const { AtomicU64::new(0) }; SIZE],
            has_some: AtomicBool::new(false),
        }
    }

    /// True at the first launch of a kernel, and at each of one that there is no room for. `handle`: 0
    /// for none.
    #[inline]
    pub fn is_first(&self, handle: u64) -> bool {
        let start = (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
        let first = self.places.get(start).map(|place| place.load(Relaxed));
        first != Some(handle) && handle != 0 && self.add(start, handle)
    }

    #[cold]
    fn add(&self, start: usize, handle: u64) -> bool {
        for at in (0..TRIES).map(|step| (start + step) % SIZE) {
            match self.places[at].compare_exchange(0, handle, Relaxed, Relaxed) {
                Ok(_) => {
                    self.has_some.store(true, Relaxed);
                    return true;
                }
                Err(other) if other == handle => return false,
                Err(_) => {}
            }
        }
        true
    }

    /// A module is gone: a kernel of another one may get one of its handles.
    pub fn forget(&self) {
        if self.has_some.swap(false, Relaxed) {
            for place in &self.places {
                place.store(0, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_first_once() {
        let kernels = Box::new(Kernels::new());
        assert!(kernels.is_first(0x7f00_1000));
        assert!(!kernels.is_first(0x7f00_1000));
        assert!(kernels.is_first(0x7f00_2000));
        assert!(!kernels.is_first(0));
        kernels.forget();
        assert!(kernels.is_first(0x7f00_1000));
    }

    #[test]
    fn without_room_each_is_first() {
        let kernels = Box::new(Kernels::new());
        let handles = || (1..=4 * SIZE as u64).map(|number| number << 8);
        assert!(handles().all(|handle| kernels.is_first(handle)));
        let known = handles()
            .filter(|&handle| !kernels.is_first(handle))
            .count();
        assert!((SIZE / 2..=SIZE).contains(&known), "{known}");
    }

    #[test]
    fn of_two_threads_one_is_first() {
        let kernels = Box::new(Kernels::new());
        let firsts = std::thread::scope(|scope| {
            let count = || {
                (1..1_000)
                    .filter(|&handle| kernels.is_first(handle))
                    .count()
            };
            let other = scope.spawn(count);
            count() + other.join().unwrap()
        });
        assert_eq!(firsts, 999);
    }
}
