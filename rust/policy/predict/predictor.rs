// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The task of a predictor: its observations, and the costs of its errors.

use crate::policy::units::{Ns, Ppm};

/// The longest preparation that is told from longer ones: 17 s.
pub(crate) const LONGEST: Ns = Ns((1 << 34) - 1);

/// The cost of an error of a nanosecond; only the ratio matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Costs {
    /// The GPU idles: it was free before the data was ready.
    pub(crate) early: u32,
    /// The request waits: its data was ready before the GPU was free.
    pub(crate) late: u32,
}

impl Costs {
    /// P(X <= t) at the cheapest t. Costs of nothing at all count as equal costs.
    pub(crate) fn fractile(self) -> Ppm {
        let early = u64::from(self.early);
        let both = early.saturating_add(u64::from(self.late));
        let share = early
            .saturating_mul(u64::from(Ppm::ONE.0))
            .checked_div(both)
            .map_or(Some(500_000), |share| u32::try_from(share).ok());
        share.map_or(Ppm::ONE, Ppm)
    }
}

impl Costs {
    /// Being late costs so many times as much as being early where the usual estimate of a switch
    /// is right: from the default costs up to where it is as dear as it is seldom, since one of fifty
    /// switches takes longer (`Cost::IN_TIME`).
    const COVERED: (u32, u32) = (6, 49);

    /// By how much earlier than its prediction the GPU is taken, for a switch that is estimated to
    /// take `switch`; `None`: nothing is worth an idle GPU, and it is not taken in advance.
    ///
    /// The GPU is free when the switch is over, which takes a random time, too. Its fractile is not
    /// learned for each pair of costs: the estimate is taken as it is within [`Self::COVERED`], and
    /// in proportion beyond.
    #[inline]
    pub(super) fn allowance(self, switch: Ns) -> Option<Ns> {
        let least = self.early.saturating_mul(Self::COVERED.0);
        let most = self.early.saturating_mul(Self::COVERED.1);
        match self.late {
            0 if self.early > 0 => None,
            late if late < least => Some(scaled(switch, late, least)),
            late if late > most => Some(scaled(switch, late, most)),
            _ => Some(switch),
        }
    }
}

/// `time * over / under`, as long as there is.
#[cold]
fn scaled(time: Ns, over: u32, under: u32) -> Ns {
    let scaled = time.0.saturating_mul(over.into());
    Ns(scaled.checked_div(under.into()).unwrap_or(u64::MAX))
}

impl Default for Costs {
    /// One to six: t is the 14th percentile.
    ///
    /// A preparation spread evenly over 50 to 500 µs then gives t = 114 µs: nobody waits longer
    /// than 64 µs, and the GPU idles for 0.86 * 193 µs = 166 µs in the mean, which is 1.7 % of it
    /// at 100 requests per second.
    fn default() -> Self {
        Self { early: 1, late: 6 }
    }
}

/// A way to foretell how long the next preparation takes.
pub(crate) trait Predictor {
    /// Learns from a preparation that has ended.
    fn observe(&mut self, took: Ns);

    /// The time from begin at which the GPU shall be free; `None` if nothing is known.
    ///
    /// Point predictors tell the expected preparation time, at any costs.
    fn predict(&self, costs: Costs) -> Option<Ns>;
}
