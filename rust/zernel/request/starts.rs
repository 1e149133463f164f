// SPDX-License-Identifier: GPL-2.0
//! Starts of TSGs on the engines of a GPU, from the moment at which a provider tells of them to
//! the histograms.
//!
//! Providers tell with interrupts off. Their reports wait in a ring, until a reader comes, until it
//! is about to be full, or until classes are about to change or TSGs to go. The start that follows the
//! trigger of a request is kept apart, so that the cost of a switch is learned without a look at the
//! time when it should be over: that is when the data is ready.

pub(crate) use crate::glue::provider::tsg::Start;
use crate::policy::{
    switch_cost::Phase,
    units::Ns, //
};
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

/// A trigger, and the start of its TSG.
#[derive(Clone, Copy, Default)]
pub(crate) struct Triggered {
    /// The provider's number of the TSG.
    handle: u64,
    /// When it was stored.
    trigger: Ns,
    /// When the TSG had the engine; 0: not yet.
    at: Ns,
    /// The state of the GPU when the request began; `None`: nothing is to be learned from it.
    phase: Option<Phase>,
}

impl Triggered {
    /// Of a request that began in this phase.
    pub(crate) fn new(handle: u64, trigger: Ns, phase: Option<Phase>) -> Self {
        Self {
            handle,
            trigger,
            at: Ns::ZERO,
            phase,
        }
    }

    /// The phase, and the time from the trigger to the start, where something is to be learned.
    pub(crate) fn took(&self) -> Option<(Phase, Ns)> {
        let phase = self.phase.filter(|_| self.is_known())?;
        Some((phase, self.at.saturating_sub(self.trigger)))
    }

    /// True if the provider told of the start.
    pub(crate) fn is_known(&self) -> bool {
        self.at != Ns::ZERO
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
    /// The last triggers, of a TSG each.
    triggers: KVec<Triggered>,
}

impl Waiting {
    /// Starts that there is room for.
    pub(crate) const ROOM: usize = 128;

    /// TSGs whose triggers there is room for: of two in one place the later one stays.
    const TRIGGERS: usize = 32;

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
            triggers: KVec::from_elem(Triggered::default(), Self::TRIGGERS, GFP_KERNEL)?,
        })
    }

    /// Waits for the start that follows a trigger. Returns the trigger before of its TSG, if that is
    /// still known.
    pub(crate) fn expect(&mut self, trigger: Triggered) -> Option<Triggered> {
        let place = self.place_of(trigger.handle)?;
        let before = core::mem::replace(place, trigger);
        (before.handle == trigger.handle).then_some(before)
    }

    fn place_of(&mut self, handle: u64) -> Option<&mut Triggered> {
        self.triggers.get_mut(handle as usize % Self::TRIGGERS)
    }

    /// Takes a start, or drops it without room. Returns whether it is time to count.
    pub(crate) fn push(&mut self, start: Start) -> bool {
        if let Some(place) = self.place_of(start.handle) {
            let is_first = place.handle == start.handle && !place.is_known();
            if is_first && start.at >= place.trigger {
                place.at = start.at;
            }
        }
        let free = (self.first + self.count) % Self::ROOM;
        let is_free = self.count < Self::ROOM;
        if let Some(place) = self.starts.get_mut(free).filter(|_| is_free) {
            *place = start;
            // INVARIANT: There was room.
            self.count += 1;
        }
        is_free && self.count == Self::ROOM / 2
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

    fn start_of(handle: u64, at: u64) -> Start {
        Start {
            handle,
            at: Ns(at),
            ..Start::default()
        }
    }

    #[test]
    fn the_first_start_after_a_trigger_tells_of_the_switch() -> Result {
        let mut waiting = Waiting::new()?;
        let trigger = |handle, at, phase| Triggered::new(handle, Ns(at), phase);
        let settled = Some(Phase::Settled);
        assert!(waiting.expect(trigger(7, 1_000, settled)).is_none());
        // One before it, one of another TSG, the one that follows, and a later one.
        for start in [(7, 900), (8, 1_010), (7, 1_100), (7, 1_500)] {
            waiting.push(start_of(start.0, start.1));
        }
        let before = waiting.expect(trigger(7, 2_000, settled));
        let took = before.and_then(|before| before.took());
        assert_eq!(took, Some((Phase::Settled, Ns(100))));
        // It has not run, or nothing is to be learned.
        let before = waiting.expect(trigger(7, 3_000, None));
        assert!(before.is_some_and(|before| !before.is_known() && before.took().is_none()));
        waiting.push(start_of(7, 3_050));
        let before = waiting.expect(trigger(7, 4_000, settled));
        assert!(before.is_some_and(|before| before.is_known() && before.took().is_none()));
        Ok(())
    }

    #[test]
    fn of_two_triggers_in_one_place_the_later_one_stays() -> Result {
        let mut waiting = Waiting::new()?;
        let other = 7 + Waiting::TRIGGERS as u64;
        let trigger = |handle| Triggered::new(handle, Ns(1), Some(Phase::Free));
        assert!(waiting.expect(trigger(7)).is_none());
        assert!(waiting.expect(trigger(other)).is_none());
        waiting.push(start_of(7, 5));
        assert!(waiting.expect(trigger(7)).is_none());
        waiting.push(start_of(7, 5));
        let before = waiting.expect(trigger(7));
        assert_eq!(
            before.and_then(|before| before.took()),
            Some((Phase::Free, Ns(4)))
        );
        Ok(())
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
}
