// SPDX-License-Identifier: GPL-2.0
//! The probes of an open file: functions in which threads wait for the GPU.

use crate::{
    error::Failure,
    glue::{
        probe::Point,
        uapi, //
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
const MAX_PER_FILE: usize = uapi::ZERNEL_V0_MAX_PROBES_PER_FILE as usize;

/// Most probes.
const MAX: u32 = uapi::ZERNEL_V0_MAX_PROBES;

/// How many there are.
static COUNT: Atomic<u32> = Atomic::new(0);

/// The number of the last one; none is used again.
static LAST: Atomic<u64> = Atomic::new(0);

/// A place among [`MAX`] probes.
///
/// # Invariants
///
/// Counted.
struct Place(());

/// How many there are.
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
    /// Its number in its open file.
    number: u32,
    point: Point,
    _place: Place,
}

/// Those of an open file; they end when this is dropped.
pub(crate) struct Probes {
    all: KVec<Probe>,
    /// The number of the last one.
    last: u32,
}

impl Probes {
    /// None.
    pub(crate) const fn new() -> Self {
        Self {
            all: KVec::new(),
            last: 0,
        }
    }

    /// Probes the function at `offset` in the caller's file `fd`. Returns its number in this file. May
    /// wait for every process that maps that file.
    ///
    /// # Errors
    ///
    /// See `struct zernel_v0_probe`.
    pub(crate) fn add(&mut self, fd: u32, offset: u64) -> Result<u32, Failure> {
        if self.all.len() >= MAX_PER_FILE {
            return Err(Failure::OverQuota);
        }
        let number = self.last.checked_add(1).ok_or(Failure::TableFull)?;
        let place = Place::take().ok_or(Failure::TableFull)?;
        self.all.reserve(1, GFP_KERNEL_ACCOUNT)?;
        let id = LAST.fetch_add(1, Relaxed).wrapping_add(1);
        let probe = Probe {
            number,
            point: Point::new(fd, offset, id)?,
            _place: place,
        };
        // There is room.
        self.all.push(probe, GFP_KERNEL_ACCOUNT)?;
        self.last = number;
        Ok(number)
    }

    /// Ends a probe, and the waits that it has seen to begin.
    ///
    /// # Errors
    ///
    /// `ENOENT` there is none of that number.
    pub(crate) fn remove(&mut self, number: u32) -> Result<(), Failure> {
        let at = self.all.iter().position(|probe| probe.number == number);
        let gone = Failure::Kernel(ENOENT);
        let probe = self.all.remove(at.ok_or(gone)?).map_err(|_| gone)?;
        let id = probe.point.id();
        drop(probe);
        tracking::end_waits(|ended| ended == id);
        Ok(())
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
