// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of call sites. It has a fixed size and never forgets.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::verdict::{Outcome, Part, Site};

/// Sites that are told apart; all others are one.
const SIZE: usize = 256;
/// Places where a site may be.
const TRIES: usize = 16;

/// A place of the table.
#[derive(Debug)]
pub struct Place {
    /// The number of its site; 0: it is free.
    number: AtomicU64,
    /// Its key for zernel; 0 until that is known.
    key: AtomicU64,
    /// The data of its last request took longer than a trigger may wait.
    is_slow: AtomicBool,
    site: Mutex<Site>,
}

impl Place {
    const fn free() -> Self {
        Self {
            number: AtomicU64::new(0),
            key: AtomicU64::new(0),
            is_slow: AtomicBool::new(false),
            site: Mutex::new(Site::NEW),
        }
    }

    /// A round begins there; none: by the class alone.
    pub fn begins(&self) -> Option<Part> {
        self.site().begins()
    }

    /// A round of it is over, as of [`Site::add`].
    pub fn add(&self, part: Part, outcome: Outcome, cost: Duration, time: Option<Duration>) {
        // Its next begins know.
        let _ = self.site().add(part, outcome, cost, time);
    }

    /// True if the data of its last request took longer than a trigger may wait.
    pub fn is_slow(&self) -> bool {
        self.is_slow.load(Relaxed)
    }

    /// Says so.
    pub fn set_slow(&self, is_slow: bool) {
        self.is_slow.store(is_slow, Relaxed);
    }

    /// Its key, made once.
    pub fn key(&self, make: impl FnOnce() -> u64) -> u64 {
        match self.key.load(Acquire) {
            0 => {
                let key = make();
                self.key.store(key, Release);
                key
            }
            key => key,
        }
    }

    fn site(&self) -> std::sync::MutexGuard<'_, Site> {
        self.site.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The table.
#[derive(Debug)]
pub struct Sites {
    places: [Place; SIZE],
    rest: Place,
}

impl Sites {
    /// Without any.
    pub const fn new() -> Self {
        Self {
            places: [const { Place::free() }; SIZE],
            rest: Place::free(),
        }
    }

    /// The place of a site by its number, which is not 0.
    pub fn find(&self, number: u64) -> &Place {
        let start = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
        for at in (0..TRIES).map(|step| (start + step) % SIZE) {
            let place = &self.places[at];
            match place.number.load(Acquire) {
                0 => match place.number.compare_exchange(0, number, AcqRel, Acquire) {
                    Ok(_) => return place,
                    Err(other) if other == number => return place,
                    Err(_) => {}
                },
                other if other == number => return place,
                _ => {}
            }
        }
        &self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_has_one_place() {
        let sites = Box::new(Sites::new());
        let first = sites.find(7) as *const Place;
        assert!(!std::ptr::eq(first, sites.find(8)));
        assert!(std::ptr::eq(first, sites.find(7)));
    }

    #[test]
    fn more_than_there_is_room_for_are_one() {
        let sites = Box::new(Sites::new());
        let numbers = || (1..=4 * SIZE as u64).map(|number| number << 12);
        let apart = numbers().filter(|&number| !std::ptr::eq(sites.find(number), &sites.rest));
        let apart = apart.count();
        assert!((SIZE / 2..=SIZE).contains(&apart), "{apart}");
        let again = numbers().filter(|&number| !std::ptr::eq(sites.find(number), &sites.rest));
        assert_eq!(again.count(), apart);
    }

    #[test]
    fn a_key_is_made_once() {
        let sites = Box::new(Sites::new());
        assert_eq!(sites.find(7).key(|| 70), 70);
        assert_eq!(sites.find(7).key(|| unreachable!("it is known")), 70);
    }
}
