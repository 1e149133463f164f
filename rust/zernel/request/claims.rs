// SPDX-License-Identifier: GPL-2.0
//! The TSGs of a GPU that have requests with deadlines, as far as there is room for them.

use crate::{
    glue::irqlock::{
        new_irq_lock,
        IrqLock, //
    },
    ids::TsgId,
    policy::{
        deadline::quota::Quota,
        level::Level, //
    },
};
use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    },
};

/// TSGs of a GPU that count; others have the slices of their levels. A user has a part of them.
pub(crate) const ROOM: usize = 64;

/// A TSG, with its level, and the user whose request made it one of them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Claim {
    tsg: TsgId,
    level: Level,
    user: u32,
}

/// Those of a GPU.
#[pin_data]
pub(crate) struct Claims {
    #[pin]
    places: IrqLock<[Option<Claim>; ROOM]>,
    /// The worker comes back by itself.
    is_watched: Atomic<bool>,
}

impl Claims {
    /// None.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            places <- new_irq_lock!([None; ROOM], c"zernel_claims"),
            is_watched: Atomic::new(false),
        })
    }

    /// A TSG is one of them. Returns false if there is no room for it. In any context.
    pub(crate) fn add(&self, tsg: TsgId, level: Level, user: u32) -> bool {
        let mut places = self.places.lock();
        let mut quota = Quota::new(level, user);
        for claim in places.iter().flatten() {
            if claim.tsg == tsg {
                // Another slot of it was as fast.
                return true;
            }
            quota.count(claim.level, claim.user);
        }
        let free = places.iter_mut().find(|place| place.is_none());
        match (free, quota.may_take(ROOM, 0)) {
            (Some(free), Ok(())) => {
                *free = Some(Claim { tsg, level, user });
                true
            }
            _ => false,
        }
    }

    /// The level of a TSG is another one.
    pub(crate) fn set_level(&self, tsg: TsgId, level: Level) {
        for claim in self.places.lock().iter_mut().flatten() {
            if claim.tsg == tsg {
                claim.level = level;
            }
        }
    }

    /// A TSG has none for some time.
    pub(crate) fn remove(&self, tsg: TsgId) {
        for place in &mut *self.places.lock() {
            if place.is_some_and(|claim| claim.tsg == tsg) {
                *place = None;
            }
        }
    }

    /// All of them. Those that come or go meanwhile may be among them.
    pub(crate) fn all(&self) -> impl Iterator<Item = TsgId> + '_ {
        let at = move |place: usize| *self.places.lock().get(place)?;
        (0..ROOM).filter_map(at).map(|claim| claim.tsg)
    }

    /// True if the worker looks at them without being asked to.
    pub(super) fn are_watched(&self) -> bool {
        self.is_watched.load(Relaxed)
    }

    /// Says whether it does. Requests that begin with their slot locked after that are not missed.
    pub(crate) fn set_watched(&self, is: bool) {
        self.is_watched.store(is, Relaxed);
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_request_claims)]
mod tests {
    use crate::request::claims::*;

    const LOW: Level = Level::DEFAULT;

    /// So many of a user become ones.
    fn fill(claims: &Claims, level: Level, user: u32) -> usize {
        let of_user = u64::from(user) << 32 | u64::from(level.number()) << 16;
        let new = (of_user..).take(2 * ROOM);
        new.take_while(|tsg| claims.add(TsgId(*tsg), level, user))
            .count()
    }

    #[test]
    fn there_is_room_for_some_of_each_user() -> Result {
        let claims = KBox::pin_init(Claims::new(), GFP_KERNEL)?;
        for (user, some) in [(1, 16), (2, 8), (3, 4), (4, 2), (5, 1), (6, 1), (7, 0)] {
            assert_eq!(fill(&claims, LOW, user), some);
        }
        // The other half is for those with a class.
        assert_eq!(fill(&claims, Level::LC, 8), 16);
        assert_eq!(fill(&claims, Level::LC, 9), 8);
        claims.remove(TsgId(u64::from(8u32) << 32));
        assert!(claims.add(TsgId(7), Level::LC, 10));
        assert!(claims.all().any(|tsg| tsg == TsgId(7)));
        assert_eq!(claims.all().count(), ROOM / 2 + 24);
        Ok(())
    }

    #[test]
    fn a_tsg_has_one_place() -> Result {
        let claims = KBox::pin_init(Claims::new(), GFP_KERNEL)?;
        for _ in 0..2 {
            assert!(claims.add(TsgId(1), LOW, 1));
        }
        assert_eq!(claims.all().count(), 1);
        claims.remove(TsgId(1));
        assert_eq!(claims.all().count(), 0);
        Ok(())
    }

    #[test]
    fn a_lowered_one_counts_among_the_low() -> Result {
        let claims = KBox::pin_init(Claims::new(), GFP_KERNEL)?;
        assert_eq!(fill(&claims, Level::LC, 1), ROOM / 2);
        for tsg in claims.all() {
            claims.set_level(tsg, LOW);
        }
        assert_eq!(fill(&claims, LOW, 2), 0);
        assert_eq!(fill(&claims, Level::LC, 2), ROOM / 4);
        Ok(())
    }
}
