// SPDX-License-Identifier: MIT OR Apache-2.0
//! The class of a TSG that several parts of a program want: the most urgent of their levels holds,
//! and the class that the TSG had before comes back with the end of the last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libzernel::class::{Attributes, Set};
use libzernel::{tsg, Level, Target, Zernel};
use rustix::io::Errno;

use crate::active::Active;
use crate::{sys, Error, Result, Runtime};

/// The attributes that wants are about.
const BOTH: [Set; 2] = [Set::LEVEL, Set::TIMESLICE];

/// A wanted class: a level and, in place of that of the level, a time slice in microseconds.
type Wanted = (Level, Option<u32>);

/// The wants of a TSG, each with its number.
struct Wants {
    /// The attributes that the TSG had before the first of them.
    before: Attributes,
    /// Those that it was given last.
    given: Attributes,
    all: BTreeMap<u64, Wanted>,
}

/// The TSGs of this process that have wants. In a child of `fork()` nobody looks at them.
static TSGS: Mutex<BTreeMap<u64, Wants>> = Mutex::new(BTreeMap::new());

fn tsgs() -> MutexGuard<'static, BTreeMap<u64, Wants>> {
    TSGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most urgent of some wants, and of two the older.
fn strongest(all: &BTreeMap<u64, Wanted>) -> Option<Attributes> {
    let (level, slice) = all.values().min_by_key(|(level, _)| level.number())?;
    let attributes = Attributes::from(*level);
    Some(slice.map_or(attributes, |us| attributes.timeslice_us(us)))
}

/// Level and time slice of some attributes alone.
fn reduced(all: Attributes) -> Attributes {
    let mut kept = Attributes::default();
    (kept.level, kept.timeslice_us) = (all.level, all.timeslice_us);
    kept
}

/// Gives a TSG a level and a time slice, and takes away the one that is not among `set`.
fn give(zernel: &Zernel, tsg: tsg::Id, set: Attributes) -> libzernel::Result<()> {
    let missing = BOTH.into_iter().filter(|&name| !set.names().contains(name));
    let clear = missing.fold(Set::NONE, |all, name| all | name);
    match zernel.change_class(&Target::Tsg(tsg), clear, set) {
        // Nothing was to be taken away.
        Err(error) if error.errno() == Some(Errno::NODATA) => Ok(()),
        result => result,
    }
}

/// Its own level and time slice.
fn own(zernel: &Zernel, tsg: tsg::Id) -> libzernel::Result<Attributes> {
    Ok(reduced(zernel.class(&Target::Tsg(tsg))?.own))
}

impl Wants {
    /// Gives the TSG what is wanted now, if that is something else than before.
    fn settle(&mut self, zernel: &Zernel, tsg: tsg::Id) -> libzernel::Result<()> {
        match strongest(&self.all) {
            Some(wanted) if wanted != self.given => {
                give(zernel, tsg, wanted)?;
                self.given = wanted;
                Ok(())
            }
            Some(_) => Ok(()),
            // A class that somebody else has given it meanwhile stays.
            None if own(zernel, tsg)? == self.given => give(zernel, tsg, self.before),
            None => Ok(()),
        }
    }
}

/// Sets the want of this number. An error changes nothing.
fn set(zernel: &Zernel, tsg: tsg::Id, number: u64, wanted: Wanted) -> libzernel::Result<()> {
    let mut tsgs = tsgs();
    let new = || -> libzernel::Result<Wants> {
        let before = own(zernel, tsg)?;
        Ok(Wants {
            before,
            given: before,
            all: BTreeMap::new(),
        })
    };
    let mut wants = match tsgs.remove(&tsg.as_u64()) {
        Some(wants) => wants,
        None => new()?,
    };
    let old = wants.all.insert(number, wanted);
    // It holds also where somebody else has given the TSG another class meanwhile.
    let result = own(zernel, tsg).and_then(|given| {
        wants.given = given;
        wants.settle(zernel, tsg)
    });
    if result.is_err() {
        match old {
            Some(old) => wants.all.insert(number, old),
            None => wants.all.remove(&number),
        };
    }
    if !wants.all.is_empty() {
        tsgs.insert(tsg.as_u64(), wants);
    }
    result
}

/// Ends the want of this number. It is over with an error, too.
fn end(zernel: &Zernel, tsg: tsg::Id, number: u64) -> libzernel::Result<()> {
    let mut tsgs = tsgs();
    let Some(mut wants) = tsgs.remove(&tsg.as_u64()) else {
        return Ok(());
    };
    wants.all.remove(&number);
    let result = wants.settle(zernel, tsg);
    if !wants.all.is_empty() {
        tsgs.insert(tsg.as_u64(), wants);
    }
    result
}

fn next_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// A part of a program wants a class for the TSG of a context, as long as this is there. It keeps
/// the runtime.
#[derive(Debug)]
#[must_use = "the want ends with it"]
pub struct Want {
    active: Option<Arc<Active>>,
    number: u64,
}

impl Want {
    /// Its number, which no other want of the process has.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Wants another class from now on.
    ///
    /// # Errors
    ///
    /// As [`Runtime::want_class`]; the want is as it was.
    pub fn change(&mut self, level: Level, timeslice_us: Option<u32>) -> Result<()> {
        match &self.active {
            Some(_) if sys::is_child() => Err(Error::Forked),
            Some(active) => {
                let wanted = (level, timeslice_us);
                Ok(set(active.zernel(), active.tsg(), self.number, wanted)?)
            }
            None => Ok(()),
        }
    }

    /// Ends it, as to drop it does.
    ///
    /// # Errors
    ///
    /// Those of the class that comes back, as `EPERM` for one that takes privilege; [`Error::Forked`].
    /// The want is over all the same.
    pub fn end(mut self) -> Result<()> {
        match self.active.take() {
            Some(_) if sys::is_child() => Err(Error::Forked),
            Some(active) => Ok(end(active.zernel(), active.tsg(), self.number)?),
            None => Ok(()),
        }
    }
}

impl Drop for Want {
    fn drop(&mut self) {
        if let Some(active) = self.active.take().filter(|_| !sys::is_child()) {
            // The TSG may be gone, or the privilege.
            let _ = end(active.zernel(), active.tsg(), self.number);
        }
    }
}

impl Runtime {
    /// Wants a level, and a time slice of 10 to 10,000,000 µs or that of the level, for the TSG of its
    /// context; nothing where it is inert. Of several wants in the process, of this and of other
    /// runtimes, the one of the most urgent level holds, and of two the older. When the last is over,
    /// the TSG has the level and the time slice again that it had before the first, unless somebody has
    /// given it another class meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Zernel`], such as `EPERM` for a level that takes privilege; [`Error::Forked`]. Nothing
    /// has changed then.
    pub fn want_class(&self, level: Level, timeslice_us: Option<u32>) -> Result<Want> {
        let mut want = Want {
            active: None,
            number: next_number(),
        };
        let Some(active) = self.active() else {
            return Ok(want);
        };
        if sys::is_child() {
            return Err(Error::Forked);
        }
        let wanted = (level, timeslice_us);
        set(active.zernel(), active.tsg(), want.number, wanted)?;
        want.active = Some(active.clone());
        Ok(want)
    }

    /// Takes level and time slice of the TSG of its context away; nothing where it has none, or where
    /// the runtime is inert.
    ///
    /// # Errors
    ///
    /// [`Error::Zernel`], [`Error::Forked`].
    pub fn clear_level(&self) -> Result<()> {
        match self.active() {
            Some(_) if sys::is_child() => Err(Error::Forked),
            Some(active) => Ok(give(active.zernel(), active.tsg(), Attributes::default())?),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(number: u8) -> Level {
        Level::new(number).unwrap()
    }

    #[test]
    fn the_most_urgent_holds_and_the_older_of_two() {
        let mut all = BTreeMap::new();
        assert_eq!(strongest(&all), None);
        all.insert(1, (level(6), None));
        all.insert(2, (level(2), Some(500)));
        all.insert(3, (level(2), Some(700)));
        let wanted = Attributes::from(level(2)).timeslice_us(500);
        assert_eq!(strongest(&all), Some(wanted));
        all.remove(&2);
        all.remove(&3);
        assert_eq!(strongest(&all), Some(level(6).into()));
    }

    #[test]
    fn an_inert_one_wants_nothing() {
        let off = crate::Options::default().mode(crate::Mode::Off);
        let runtime = Runtime::attach(&off).unwrap();
        let mut one = runtime.want_class(Level::LC, None).unwrap();
        let other = runtime.want_class(Level::BE, Some(10)).unwrap();
        assert_ne!(one.number(), other.number());
        assert_eq!(one.change(Level::BE, None), Ok(()));
        assert_eq!(one.end(), Ok(()));
        drop(other);
        assert_eq!(runtime.clear_level(), Ok(()));
        assert!(tsgs().is_empty());
    }
}
