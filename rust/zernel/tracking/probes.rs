// SPDX-License-Identifier: GPL-2.0
//! The probes of an open file: functions in which threads wait for the GPU.

use crate::{
    error::Failure,
    glue::probe::{
        File,
        Point, //
    },
    policy::elf::{
        self,
        Refused, //
    },
    tracking, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    },
};

/// Most probes of an open file.
const MAX_PER_FILE: usize = 64;

/// Most probes.
const MAX: u32 = 256;

/// The number of probes.
static COUNT: Atomic<u32> = Atomic::new(0);

/// The number of the last one; none is used again.
static LAST: Atomic<u64> = Atomic::new(0);

/// Bytes of symbols that are read at a time.
const PART: usize = 4096;

/// Checks that a function of a file begins at `offset`.
fn check(file: &mut File, offset: u64) -> Result {
    let mut scratch = KVec::from_elem(0, PART, GFP_KERNEL)?;
    elf::check_function(file, offset, &mut scratch).map_err(|refused| match refused {
        Refused::NoFunction => ENOEXEC,
        Refused::Unreadable(error) => error,
    })
}

/// A place among [`MAX`] probes.
///
/// # Invariants
///
/// Counted.
struct Place(());

/// The number of probes.
pub(crate) fn count() -> u32 {
    COUNT.load(Relaxed)
}

impl Place {
    fn take() -> Option<Self> {
        if COUNT.fetch_add(1, Relaxed) >= MAX {
            COUNT.fetch_sub(1, Relaxed);
            return None;
        }
        // INVARIANT: Just counted.
        Some(Self(()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Relaxed);
    }
}

/// A probe.
struct Probe {
    /// Its handle in its open file.
    handle: u32,
    point: Point,
    _place: Place,
}

/// Those of an open file; they end when this is dropped.
pub(crate) struct Probes {
    all: KVec<Probe>,
}

impl Probes {
    /// None.
    pub(crate) const fn new() -> Self {
        Self { all: KVec::new() }
    }

    /// Probes the function at `offset` in the caller's file `fd`. May wait for every process that maps
    /// that file.
    ///
    /// # Errors
    ///
    /// See `struct zernel_probe`.
    pub(crate) fn add(&mut self, handle: u32, fd: i32, offset: u64) -> Result<(), Failure> {
        if self.all.len() >= MAX_PER_FILE {
            return Err(Failure::OverQuota);
        }
        let place = Place::take().ok_or(Failure::TableFull)?;
        self.all.reserve(1, GFP_KERNEL_ACCOUNT)?;
        let mut file = File::open(fd, offset)?;
        check(&mut file, offset)?;
        let id = LAST.fetch_add(1, Relaxed).wrapping_add(1);
        let probe = Probe {
            handle,
            point: Point::new(&file, offset, id)?,
            _place: place,
        };
        // There is room.
        self.all.push(probe, GFP_KERNEL_ACCOUNT)?;
        Ok(())
    }

    /// Ends a probe, and the waits that it has seen to begin. Returns whether there was one.
    pub(crate) fn remove(&mut self, handle: u32) -> bool {
        let at = self.all.iter().position(|probe| probe.handle == handle);
        let Some(Ok(probe)) = at.map(|at| self.all.remove(at)) else {
            return false;
        };
        let id = probe.point.id();
        drop(probe);
        tracking::end_waits(|ended| ended == id);
        true
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        if self.all.is_empty() {
            return;
        }
        Point::end(&mut self.all, |probe| &mut probe.point);
        let all = &self.all;
        tracking::end_waits(|ended| all.iter().any(|probe| probe.point.id() == ended));
    }
}
