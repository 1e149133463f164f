// SPDX-License-Identifier: GPL-2.0
//! The TSGs of a GPU that are to be served at once, by a run list that begins anew.

use crate::{
    glue::irqlock::{
        new_irq_lock,
        IrqLock, //
    },
    ids::TsgId,
    policy::{
        level::Level,
        ring::Ring, //
    },
};
use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    },
};

/// A TSG that is to be served, and the level that asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Urgent {
    /// The TSG.
    pub(crate) tsg: TsgId,
    /// Without a budget left, it is not served.
    pub(crate) level: Level,
}

/// TSGs that are served in a row. Of more that wait, the oldest wait for their turn.
pub(crate) const ROOM: usize = 32;

/// Failures in a row after which the provider counts as one that cannot do it. One is the fault of a
/// TSG.
const FAILURES: u32 = 16;

/// Those that wait; a place that is not in use is empty.
struct Waiting {
    ring: Ring,
    places: [Option<Urgent>; ROOM],
}

/// Those of a GPU.
#[pin_data]
pub(super) struct Kicks {
    /// The provider can have a run list begin anew, as far as known.
    works: Atomic<bool>,
    /// Failures since the last success.
    failures: Atomic<u32>,
    #[pin]
    waiting: IrqLock<Waiting>,
}

impl Kicks {
    /// None. `works`: the provider has the operation.
    pub(super) fn new(works: bool) -> impl PinInit<Self> {
        pin_init!(Self {
            works: Atomic::new(works),
            failures: Atomic::new(0),
            waiting <- new_irq_lock!(
                Waiting {
                    ring: Ring::new(ROOM),
                    places: [None; ROOM],
                },
                c"zernel_kicks"
            ),
        })
    }

    /// True if the provider can do it.
    pub(super) fn works(&self) -> bool {
        self.works.load(Relaxed)
    }

    /// It turned out that it can, or cannot.
    pub(super) fn set_works(&self, works: bool) {
        self.failures.store(0, Relaxed);
        self.works.store(works, Relaxed);
    }

    /// The provider has done it, or failed to.
    pub(super) fn done(&self, is_good: bool) {
        if is_good {
            self.failures.store(0, Relaxed);
        } else if self.failures.fetch_add(1, Relaxed) + 1 >= FAILURES {
            self.set_works(false);
        }
    }

    /// A TSG is to be served at once. In any context.
    pub(super) fn add(&self, urgent: Urgent) {
        let mut waiting = self.waiting.lock();
        if waiting.places.contains(&Some(urgent)) {
            return;
        }
        let slot = waiting.ring.push().slot;
        if let Some(place) = waiting.places.get_mut(slot) {
            *place = Some(urgent);
        }
    }

    /// True if some wait.
    pub(super) fn are_waiting(&self) -> bool {
        !self.waiting.lock().ring.is_empty()
    }

    /// The one that waits longest. Once the provider cannot do it, nobody waits any more.
    pub(super) fn take(&self) -> Option<Urgent> {
        let mut waiting = self.waiting.lock();
        loop {
            let slot = waiting.ring.pop()?;
            let urgent = waiting.places.get_mut(slot)?.take();
            if self.works() {
                return urgent;
            }
        }
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_request_kicks)]
mod tests {
    use crate::request::kicks::*;

    fn urgent(tsg: u64) -> Urgent {
        Urgent {
            tsg: TsgId(tsg),
            level: Level::LC,
        }
    }

    #[test]
    fn one_waits_once() -> Result {
        let kicks = KBox::pin_init(Kicks::new(true), GFP_KERNEL)?;
        for tsg in [1, 2, 1] {
            kicks.add(urgent(tsg));
        }
        assert_eq!(kicks.take(), Some(urgent(1)));
        // It is the last one now.
        kicks.add(urgent(1));
        assert_eq!(kicks.take(), Some(urgent(2)));
        assert_eq!(kicks.take(), Some(urgent(1)));
        assert_eq!(kicks.take(), None);
        Ok(())
    }

    #[test]
    fn there_is_room_for_some() -> Result {
        let kicks = KBox::pin_init(Kicks::new(true), GFP_KERNEL)?;
        for tsg in 0..=ROOM as u64 {
            kicks.add(urgent(tsg));
        }
        for tsg in 1..=ROOM as u64 {
            assert_eq!(kicks.take(), Some(urgent(tsg)));
        }
        assert_eq!(kicks.take(), None);
        Ok(())
    }

    #[test]
    fn nobody_waits_for_what_does_not_work() -> Result {
        let kicks = KBox::pin_init(Kicks::new(true), GFP_KERNEL)?;
        (0..3).for_each(|tsg| kicks.add(urgent(tsg)));
        assert_eq!(kicks.take(), Some(urgent(0)));
        kicks.set_works(false);
        assert_eq!(kicks.take(), None);
        // Nor later, when it works again.
        kicks.set_works(true);
        assert_eq!(kicks.take(), None);
        kicks.add(urgent(1));
        assert_eq!(kicks.take(), Some(urgent(1)));
        Ok(())
    }

    #[test]
    fn it_works_as_the_provider_says() -> Result {
        let kicks = KBox::pin_init(Kicks::new(false), GFP_KERNEL)?;
        assert!(!kicks.works());
        kicks.set_works(true);
        assert!(kicks.works());
        // A success in between shows that it works.
        for _ in 0..2 {
            (1..FAILURES).for_each(|_| kicks.done(false));
            assert!(kicks.works());
            kicks.done(true);
        }
        (0..FAILURES).for_each(|_| kicks.done(false));
        assert!(!kicks.works());
        // Trusted anew, it may fail as often again.
        kicks.set_works(true);
        kicks.done(false);
        assert!(kicks.works());
        Ok(())
    }
}
