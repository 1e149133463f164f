// SPDX-License-Identifier: GPL-2.0
//! Starts of TSGs on the engines of a GPU, from the moment at which a provider tells of them to
//! the histograms.
//!
//! Providers tell with interrupts off. Their reports wait in a ring, until a reader comes, until it
//! is about to be full, or until classes are about to change or TSGs to go.

pub(crate) use crate::glue::provider::tsg::Start;
use crate::policy::units::Ns;
use kernel::prelude::*;

impl Start {
    /// The longest time for a GPU to see a trigger. A trigger that is longer ago than that was
    /// another's.
    const SEEN: Ns = Ns(200_000);

    /// Counts from the trigger, if `triggered` is when the last one was stored and it was this
    /// TSG's by all appearance.
    pub(crate) fn since_trigger(mut self, triggered: Ns) -> Self {
        self.woken = self.woken.map(|woken| {
            let is_near = triggered <= woken && woken.saturating_sub(triggered) <= Self::SEEN;
            if is_near {
                triggered
            } else {
                woken
            }
        });
        self
    }

    /// The time for which it waited for the engine, if it had nothing to run before.
    pub(crate) fn waited(&self) -> Option<Ns> {
        self.woken.map(|woken| self.at.saturating_sub(woken))
    }
}

/// Starts that wait for being counted.
///
/// # Invariants
///
/// `starts` has [`Self::ROOM`] places. `count` of them are in use, from `first` on, round and round.
pub(crate) struct Waiting {
    starts: KVec<Start>,
    first: usize,
    count: usize,
}

impl Waiting {
    /// Starts that there is room for.
    pub(crate) const ROOM: usize = 128;

    /// Reports that are searched for a start.
    const RECENT: usize = 32;

    /// Nothing waits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // INVARIANT: None is in use.
        Ok(Self {
            starts: KVec::from_elem(Start::default(), Self::ROOM, GFP_KERNEL)?,
            first: 0,
            count: 0,
        })
    }

    /// Takes a start, or drops it without room. Returns whether it is time to count.
    pub(crate) fn push(&mut self, start: Start) -> bool {
        let free = (self.first + self.count) % Self::ROOM;
        let is_free = self.count < Self::ROOM;
        if let Some(place) = self.starts.get_mut(free).filter(|_| is_free) {
            *place = start;
            // INVARIANT: There was room.
            self.count += 1;
        }
        is_free && self.count == Self::ROOM / 2
    }

    /// When a TSG got its engine, the first time since then, if that is among the last reports: those
    /// that were taken out, too. Reports of a TSG are in order; those of several engines come in pieces.
    pub(crate) fn first_since(&self, handle: u64, since: Ns) -> Option<Ns> {
        let (mut found, mut is_first) = (None, false);
        for back in 1..=Self::RECENT {
            // The last report lies before the first free place.
            let place = (self.first + self.count + Self::ROOM - back) % Self::ROOM;
            let start = self.starts.get(place)?;
            match (start.handle == handle, start.at < since) {
                (true, false) => (found, is_first) = (Some(start.at), false),
                // Its earlier ones are older still.
                (true, true) => return found,
                // Reports go back to before `since`, as far as known.
                (false, true) => is_first = true,
                (false, false) => {}
            }
        }
        // There may be an earlier one.
        found.filter(|_| is_first)
    }

    /// Takes out the first one.
    pub(crate) fn pop(&mut self) -> Option<Start> {
        // INVARIANT: One less.
        self.count = self.count.checked_sub(1)?;
        let first = self.starts.get(self.first).copied();
        self.first = (self.first + 1) % Self::ROOM;
        first
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_request_starts)]
mod tests {
    use crate::request::starts::*;

    fn start(woken: u64) -> Start {
        Start {
            at: Ns(1_000_000),
            woken: Some(Ns(woken)),
            ..Start::default()
        }
    }

    #[test]
    fn a_wait_begins_with_the_trigger() {
        let waited = |woken, triggered| start(woken).since_trigger(Ns(triggered)).waited();
        assert_eq!(waited(900_000, 895_000), Some(Ns(105_000)));
        // Too long ago, or still to come: of another request.
        assert_eq!(waited(900_000, 600_000), Some(Ns(100_000)));
        assert_eq!(waited(900_000, 900_001), Some(Ns(100_000)));
        let goes_on = Start {
            woken: None,
            ..start(0)
        };
        assert_eq!(goes_on.since_trigger(Ns(1)).waited(), None);
    }

    #[test]
    fn what_there_is_no_room_for_is_not_counted() -> Result {
        let mut waiting = Waiting::new()?;
        let mut calls = 0;
        for number in 0..2 * Waiting::ROOM {
            calls += usize::from(waiting.push(start(number as u64)));
        }
        assert_eq!(calls, 1);
        for number in 0..Waiting::ROOM as u64 {
            let first = waiting.pop().and_then(|start| start.woken);
            assert_eq!(first, Some(Ns(number)));
            // There is room for another one again.
            waiting.push(start(Waiting::ROOM as u64 + number));
        }
        let mut left = 0;
        while waiting.pop().is_some() {
            left += 1;
        }
        assert_eq!(left, Waiting::ROOM);
        Ok(())
    }

    #[test]
    fn the_first_start_since_a_trigger_is_found_again() -> Result {
        let mut waiting = Waiting::new()?;
        let push = |waiting: &mut Waiting, handle, at| {
            waiting.push(Start {
                handle,
                at: Ns(at),
                ..Start::default()
            });
            waiting.pop();
        };
        // A report that is all zeroes stands for none.
        assert_eq!(waiting.first_since(0, Ns(1)), None);
        for (handle, at) in [(7, 100), (8, 200), (7, 300), (8, 400), (7, 500)] {
            push(&mut waiting, handle, at);
        }
        for (handle, since, first) in [
            (7, 100, Some(100)),
            (7, 101, Some(300)),
            (7, 301, Some(500)),
            (7, 501, None),
            (8, 101, Some(200)),
            (8, 401, None),
            (9, 100, None),
        ] {
            let found = waiting.first_since(handle, Ns(since));
            assert_eq!(found, first.map(Ns));
        }
        // One that lies too far back may not be the first.
        for at in 0..Waiting::RECENT as u64 {
            push(&mut waiting, 8, 600 + at);
        }
        assert_eq!(waiting.first_since(8, Ns(600)), None);
        assert_eq!(waiting.first_since(8, Ns(601)), Some(Ns(601)));
        Ok(())
    }

    #[test]
    fn reports_of_several_engines_come_in_pieces() -> Result {
        let since = |reports: &[(u64, u64)], handle| -> Result<Option<Ns>> {
            let mut waiting = Waiting::new()?;
            for &(handle, at) in reports {
                waiting.push(Start {
                    handle,
                    at: Ns(at),
                    ..Start::default()
                });
                waiting.pop();
            }
            Ok(waiting.first_since(handle, Ns(100)))
        };
        let mut reports = [(9, 90); 40];
        for (last, first) in [
            // A later report may be older, and of before.
            (&[(7, 105), (8, 95)][..], 105),
            (&[(7, 105), (8, 95), (7, 200)], 105),
            (&[(7, 80), (8, 150), (7, 105), (8, 160), (7, 200)], 105),
        ] {
            for (to, from) in reports.iter_mut().rev().zip(last.iter().rev()) {
                *to = *from;
            }
            assert_eq!(since(last, 7)?, Some(Ns(first)));
            assert_eq!(since(&reports, 7)?, Some(Ns(first)));
        }
        // Older ones that came later tell nothing of those that are not there any more.
        let mut reports = [(8, 95); Waiting::RECENT + 1];
        for (report, at) in reports.iter_mut().zip([101, 105]) {
            *report = (7, at);
        }
        assert_eq!(since(&reports, 7)?, None);
        Ok(())
    }
}
