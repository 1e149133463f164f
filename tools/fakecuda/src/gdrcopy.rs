// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stand-in for GDRCopy, as far as the runtime uses it: memory of devices that the CPU has mapped.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use rustix::io::Errno;

use crate::driver::{self, lock};
use crate::sys::memory::Pages;

/// Pages of a GPU: memory is pinned in whole ones.
pub(crate) const PAGE: u64 = 1 << 16;

/// The result of a function: 0 or an errno.
pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// Memory that is pinned.
#[derive(Debug)]
struct Pin {
    /// Its handle of GDRCopy.
    opened: u64,
    base: u64,
    length: u64,
    mapped: Option<Pages>,
}

/// All that is open. Handles are numbers, none of which comes twice.
#[derive(Debug)]
pub(crate) struct State {
    opened: Vec<u64>,
    pins: BTreeMap<u64, Pin>,
    last: u64,
}

/// That of the process.
pub(crate) fn state() -> MutexGuard<'static, State> {
    static STATE: Mutex<State> = Mutex::new(State::new());
    lock(&STATE)
}

impl State {
    const fn new() -> Self {
        Self {
            opened: Vec::new(),
            pins: BTreeMap::new(),
            last: 0,
        }
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn open(&mut self) -> u64 {
        let handle = self.next();
        self.opened.push(handle);
        handle
    }

    /// Fails for a handle that is not open.
    pub(crate) fn check(&self, handle: u64) -> Result<()> {
        match self.opened.contains(&handle) {
            true => Ok(()),
            false => Err(Errno::INVAL),
        }
    }

    /// Ends what it has, too.
    pub(crate) fn close(&mut self, handle: u64) -> Result<()> {
        self.check(handle)?;
        self.opened.retain(|&opened| opened != handle);
        self.pins.retain(|_, pin| pin.opened != handle);
        Ok(())
    }

    /// Pins whole pages of the GPU within one allocation.
    pub(crate) fn pin(&mut self, handle: u64, base: u64, length: u64) -> Result<u64> {
        self.check(handle)?;
        let is_whole = length > 0 && base % PAGE == 0 && length % PAGE == 0;
        let is_there = || driver::space().map_again(base, length).is_ok();
        if !is_whole || !is_there() {
            return Err(Errno::INVAL);
        }
        let number = self.next();
        let pin = Pin {
            opened: handle,
            base,
            length,
            mapped: None,
        };
        self.pins.insert(number, pin);
        Ok(number)
    }

    fn pinned(&mut self, handle: u64, number: u64) -> Result<&mut Pin> {
        let pin = self.pins.get_mut(&number);
        pin.filter(|pin| pin.opened == handle).ok_or(Errno::INVAL)
    }

    /// First address and length of what is pinned; true if it is mapped.
    pub(crate) fn info(&mut self, handle: u64, number: u64) -> Result<(u64, u64, bool)> {
        let pin = self.pinned(handle, number)?;
        Ok((pin.base, pin.length, pin.mapped.is_some()))
    }

    /// Maps it from its first byte on; the address.
    pub(crate) fn map(&mut self, handle: u64, number: u64, length: u64) -> Result<u64> {
        let pin = self.pinned(handle, number)?;
        if pin.mapped.is_some() {
            return Err(Errno::AGAIN);
        }
        if length == 0 || length > pin.length {
            return Err(Errno::INVAL);
        }
        let pages = driver::space().map_again(pin.base, length);
        let pages = pages.map_err(|_| Errno::INVAL)?;
        let base = pages.base();
        pin.mapped = Some(pages);
        Ok(base)
    }

    pub(crate) fn unmap(&mut self, handle: u64, number: u64, base: u64) -> Result<()> {
        let pin = self.pinned(handle, number)?;
        let is_it = pin
            .mapped
            .as_ref()
            .is_some_and(|pages| pages.base() == base);
        match is_it {
            true => pin.mapped = None,
            false => return Err(Errno::INVAL),
        }
        Ok(())
    }

    pub(crate) fn unpin(&mut self, handle: u64, number: u64) -> Result<()> {
        self.pinned(handle, number)?;
        self.pins.remove(&number);
        Ok(())
    }

    /// Handles and pins that are left.
    #[cfg(test)]
    pub(crate) fn left(&self) -> (usize, usize) {
        (self.opened.len(), self.pins.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{Kind, Owner};
    use crate::sys::memory::{read_one, store_word};

    const OWNER: Owner = Owner {
        context: 1 << 40,
        device: 0,
    };

    #[test]
    fn pages_are_pinned_and_mapped() {
        let mut state = State::new();
        let range = driver::space().allocate(OWNER, 3 * PAGE, 1 << 30).unwrap();
        let base = range.base.next_multiple_of(PAGE);
        let handle = state.open();
        let number = state.pin(handle, base, PAGE).unwrap();
        assert_eq!(state.info(handle, number), Ok((base, PAGE, false)));
        let mapped = state.map(handle, number, PAGE).unwrap();
        assert_eq!(state.map(handle, number, PAGE), Err(Errno::AGAIN));
        assert_eq!(state.info(handle, number), Ok((base, PAGE, true)));
        store_word(mapped + 8, 7, false).unwrap();
        assert_eq!(driver::space().load(range.spot(base + 8), false), Ok(7));
        // It stays when the memory is freed, until it is unmapped.
        driver::space().remove(range.base, Kind::Device).unwrap();
        assert_eq!(read_one::<u32>(mapped + 8), Ok(7));
        assert_eq!(
            state.unmap(handle, number, mapped + PAGE),
            Err(Errno::INVAL)
        );
        state.unmap(handle, number, mapped).unwrap();
        assert_eq!(state.unmap(handle, number, mapped), Err(Errno::INVAL));
        assert!(read_one::<u32>(mapped).is_err());
        state.unpin(handle, number).unwrap();
        assert_eq!(state.unpin(handle, number), Err(Errno::INVAL));
        state.close(handle).unwrap();
        assert_eq!(state.close(handle), Err(Errno::INVAL));
        assert_eq!(state.left(), (0, 0));
    }

    #[test]
    fn others_are_refused() {
        let mut state = State::new();
        let range = driver::space().allocate(OWNER, 2 * PAGE, 1 << 30).unwrap();
        let base = range.base.next_multiple_of(PAGE);
        let (one, two) = (state.open(), state.open());
        for (handle, base, length) in [
            (99, base, PAGE),
            (one, base + 4_096, PAGE),
            (one, base, 4_096),
            (one, base, 0),
            // However the allocation is aligned, it ends before.
            (one, base, 3 * PAGE),
            (one, base + (1 << 40), PAGE),
        ] {
            assert_eq!(state.pin(handle, base, length), Err(Errno::INVAL));
        }
        let number = state.pin(one, base, PAGE).unwrap();
        assert_eq!(state.map(two, number, PAGE), Err(Errno::INVAL));
        assert_eq!(state.map(one, number, PAGE + 1), Err(Errno::INVAL));
        assert_eq!(state.map(one, number, 0), Err(Errno::INVAL));
        // The end of a handle ends what it has.
        let mapped = state.map(one, number, PAGE).unwrap();
        state.close(one).unwrap();
        assert!(read_one::<u32>(mapped).is_err());
        assert_eq!(state.left(), (1, 0));
        driver::space().remove(range.base, Kind::Device).unwrap();
        assert_eq!(state.pin(two, base, PAGE), Err(Errno::INVAL));
    }
}
