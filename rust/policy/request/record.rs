// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The outcome of a request, for the statistics and for the next prediction.

use super::{
    trial::Trial,
    words::Number, //
};
use crate::policy::units::Ns;

/// The cause of the end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cause {
    /// Its work is done.
    Done,
    /// The process gave it up.
    Cancelled,
    /// The next one began before it was ready.
    Superseded,
    /// Its data did not come within the lease.
    Expired,
    /// The file that it belongs to was closed.
    Closed,
    /// The TSG was freed, or its GPU went away.
    TsgGone,
    /// The GPU was suspended.
    Suspended,
}

/// The outcome of a request. Times are on `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    /// Which one.
    pub(crate) number: Number,
    /// The cause of its end.
    pub(crate) cause: Cause,
    /// When preparation began.
    pub(crate) begin: Ns,
    /// When the GPU was taken, if it was.
    pub(crate) trigger: Option<Ns>,
    /// When the data was ready, if it was.
    pub(crate) ready: Option<Ns>,
    /// When it was done, for [`Cause::Done`]; if that is `implied`, when the next one began.
    pub(crate) done: Option<Ns>,
    /// The process did not say that it was done.
    pub(crate) implied: bool,
    /// When zernel learned that it is over.
    pub(crate) end: Ns,
    /// The preparation time that was predicted.
    pub(crate) predicted: Ns,
    /// The time for which the GPU had switched and waited for the data.
    pub(crate) early: Ns,
    /// The time for which the data waited for the GPU to switch.
    pub(crate) late: Ns,
    /// The time for which the GPU was taken and ran nobody's kernels: the switch, and `early`.
    pub(crate) lost: Ns,
    /// Longest latency that is no violation.
    pub(crate) slo: Option<Ns>,
    /// The cost of its switch, if that was tried and not looked at before.
    pub(crate) trial: Option<Trial>,
}

impl Record {
    /// The time of preparation, if the data was ready. Never less than 0 nor beyond the end.
    pub(crate) fn preparation(&self) -> Option<Ns> {
        self.ready.map(|ready| ready.saturating_sub(self.begin))
    }

    /// From begin to done; the longest it can have been if that is `implied`.
    pub(crate) fn latency(&self) -> Option<Ns> {
        self.done.map(|done| done.saturating_sub(self.begin))
    }

    /// True if it took longer than was asked for.
    pub(crate) fn violates_slo(&self) -> bool {
        match (self.latency(), self.slo) {
            (Some(latency), Some(slo)) => latency > slo,
            _ => false,
        }
    }
}

/// The end of a request that had a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ended {
    /// Which one.
    pub(crate) number: Number,
    /// When it was done, or over otherwise. The time that its process stored with that counts as far as zernel
    /// has not seen since that it was not done.
    pub(crate) at: Ns,
    /// From the end of its switch to then, if it was triggered, and the process said that it is done.
    pub(crate) burst: Option<Ns>,
    /// The same where the process did not: it may have had the GPU for longer.
    pub(crate) least: Option<Ns>,
    /// The same where its lease ended, so that the GPU was held for data that did not come, or where its TSG or
    /// GPU went away.
    pub(crate) late: Option<Ns>,
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_request_record))]
mod tests {
    use super::*;

    const RECORD: Record = Record {
        number: Number::ONE,
        cause: Cause::Done,
        begin: Ns(100),
        trigger: Some(Ns(150)),
        ready: Some(Ns(300)),
        done: Some(Ns(1_100)),
        implied: false,
        end: Ns(1_200),
        predicted: Ns(150),
        early: Ns::ZERO,
        late: Ns::ZERO,
        lost: Ns::ZERO,
        slo: None,
        trial: None,
    };

    #[test]
    fn durations_count_from_begin() {
        assert_eq!(RECORD.preparation(), Some(Ns(200)));
        assert_eq!(RECORD.latency(), Some(Ns(1_000)));
    }

    #[test]
    fn what_did_not_happen_has_no_duration() {
        let expired = Record {
            cause: Cause::Expired,
            ready: None,
            done: None,
            slo: Some(Ns(1)),
            ..RECORD
        };
        assert_eq!(expired.preparation(), None);
        assert_eq!(expired.latency(), None);
        assert!(!expired.violates_slo());
    }

    #[test]
    fn as_long_as_allowed_is_no_violation() {
        for (slo, violated) in [
            (None, false),
            (Some(Ns(999)), true),
            (Some(Ns(1_000)), false),
        ] {
            assert_eq!(Record { slo, ..RECORD }.violates_slo(), violated);
        }
    }
}
