// SPDX-License-Identifier: GPL-2.0
//! The begins on a GPU of TSGs above the default level, while it matters that they share it.
//!
//! No lock: of two begins at a time either may be taken as the last one.

use crate::{
    ids::TsgId,
    policy::{
        predict::sharing::Begins,
        units::Ns, //
    },
};
use kernel::sync::atomic::{
    ordering::Relaxed,
    Atomic, //
};

/// The state of [`Begins`].
pub(super) struct Sharing {
    last: Atomic<u64>,
    at: Atomic<u64>,
    other: Atomic<u64>,
}

impl Sharing {
    /// No begin.
    pub(super) fn new() -> Self {
        Self {
            last: Atomic::new(0),
            at: Atomic::new(0),
            other: Atomic::new(0),
        }
    }

    fn begins(&self) -> Begins {
        Begins {
            last: self.last.load(Relaxed),
            at: Ns(self.at.load(Relaxed)),
            other: Ns(self.other.load(Relaxed)),
        }
    }

    /// True if a request of this TSG would share the GPU.
    pub(super) fn would_share(&self, tsg: TsgId, now: Ns) -> bool {
        self.begins().begin(tsg.0, now)
    }

    /// A request of this TSG begins. True if it shares the GPU.
    pub(super) fn begin(&self, tsg: TsgId, now: Ns) -> bool {
        let mut begins = self.begins();
        let is_shared = begins.begin(tsg.0, now);
        self.last.store(begins.last, Relaxed);
        self.at.store(begins.at.0, Relaxed);
        self.other.store(begins.other.0, Relaxed);
        is_shared
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_request_sharing)]
mod tests {
    use crate::request::sharing::*;

    #[test]
    fn begins_are_kept_from_call_to_call() {
        const S: u64 = 1_000_000_000;
        let sharing = Sharing::new();
        let begin = |tsg, now| sharing.begin(TsgId(tsg), Ns(now));
        assert!(!begin(1, S) && !begin(1, S + 1));
        assert!(begin(2, S + 2) && begin(1, S + 3));
        assert!(begin(1, 2 * S + 1));
        assert!(!begin(1, 2 * S + 2));
    }

    #[test]
    fn one_that_is_refused_shares_nothing() {
        let sharing = Sharing::new();
        assert!(!sharing.begin(TsgId(1), Ns(1)));
        assert!(sharing.would_share(TsgId(2), Ns(2)));
        assert!(!sharing.begin(TsgId(1), Ns(3)));
        assert!(sharing.begin(TsgId(2), Ns(4)));
        assert!(sharing.would_share(TsgId(1), Ns(5)));
    }
}
