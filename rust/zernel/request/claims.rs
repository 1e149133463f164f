// SPDX-License-Identifier: GPL-2.0
//! The TSGs of a GPU that have requests with deadlines, as far as there is room for them.

use crate::{
    glue::irqlock::{
        new_irq_lock,
        IrqLock, //
    },
    ids::TsgId,
};
use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    },
};

/// TSGs of a GPU that count; others have the slices of their levels.
pub(crate) const ROOM: usize = 64;

/// Those of a user.
const OF_USER: usize = 32;

/// A TSG, and the user whose request made it one of them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Claim {
    tsg: TsgId,
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

    /// One more, which is none yet. Returns false if there is no room. In any context.
    pub(crate) fn add(&self, tsg: TsgId, user: u32) -> bool {
        let mut places = self.places.lock();
        let of_user = places.iter().flatten().filter(|claim| claim.user == user);
        if of_user.count() >= OF_USER {
            return false;
        }
        let free = places.iter_mut().find(|place| place.is_none());
        free.is_some_and(|free| {
            *free = Some(Claim { tsg, user });
            true
        })
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

    #[test]
    fn there_is_room_for_some_of_each_user() -> Result {
        let claims = KBox::pin_init(Claims::new(), GFP_KERNEL)?;
        for tsg in 0..OF_USER as u64 {
            assert!(claims.add(TsgId(tsg), 1));
        }
        assert!(!claims.add(TsgId(100), 1));
        for tsg in 0..OF_USER as u64 {
            assert!(claims.add(TsgId(200 + tsg), 2));
        }
        assert!(!claims.add(TsgId(300), 3));
        claims.remove(TsgId(7));
        assert!(claims.add(TsgId(300), 3));
        assert!(claims.all().any(|tsg| tsg == TsgId(300)));
        assert!(claims.all().all(|tsg| tsg != TsgId(7)));
        assert_eq!(claims.all().count(), ROOM);
        Ok(())
    }
}
