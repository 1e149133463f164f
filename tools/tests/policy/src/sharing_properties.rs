// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that share a GPU: against a list of all begins, and with a neighbour that wants to be a
//! nuisance.

use crate::policy::predict::{quantile::Quantile, sharing::Begins, Costs, Predictor};
use crate::policy::units::Ns;
use proptest::prelude::*;

/// Begins of a few TSGs, in the order of their times, which are up to two seconds apart.
fn begins() -> impl Strategy<Value = Vec<(u64, Ns)>> {
    let apart = prop_oneof![0u64..3, 0u64..1_000_000, 0u64..2_000_000_000];
    proptest::collection::vec((1u64..5, apart), 1..60).prop_map(|steps| {
        let mut now = 1;
        let times = steps.into_iter().map(|(tsg, apart)| {
            now += apart;
            (tsg, Ns(now))
        });
        times.collect()
    })
}

proptest! {
    /// A request shares its GPU if, and only if, another TSG began less than a second before.
    #[test]
    fn sharing_is_of_the_last_second(all in begins()) {
        let mut seen = Begins::default();
        for (n, &(tsg, now)) in all.iter().enumerate() {
            let others = all[..n].iter().filter(|(other, _)| *other != tsg);
            let newest = others.map(|(_, at)| at.0).max();
            let expected = newest.is_some_and(|at| now.0 - at < Begins::APART.0);
            prop_assert_eq!(seen.begin(tsg, now), expected);
        }
    }

    /// No state, as two CPUs may leave it between them, upsets it; and a TSG that goes on alone is
    /// alone a second later.
    #[test]
    fn any_state_ends(last in any::<u64>(), at in any::<u64>(), other in any::<u64>(),
                      tsg in 1..u64::MAX, now in any::<u64>()) {
        let mut begins = Begins { last, at: Ns(at), other: Ns(other) };
        begins.begin(tsg, Ns(now));
        let later = begins.at.max(begins.other).0.checked_add(Begins::APART.0);
        if let Some(later) = later {
            prop_assert!(!begins.begin(tsg, Ns(later)));
        }
    }

    /// Whatever the others begin, a prediction is that of one of the two costs, which root chose.
    #[test]
    fn a_neighbour_moves_predictions_between_two_times(
        all in begins(), times in proptest::collection::vec(0u64..2_000_000, 1..80),
        early in 0u32..=1_000_000, late in 0u32..=1_000_000, shared in 0u32..=1_000_000,
    ) {
        let mut quantile = Quantile::NEW;
        times.iter().for_each(|&time| quantile.observe(Ns(time)));
        let costs = Costs { early, late };
        let bounds = [costs, costs.with_early(shared)].map(|costs| quantile.predict(costs));
        let mut seen = Begins::default();
        for (tsg, now) in all {
            let is_shared = seen.begin(tsg, now);
            let costs = if is_shared { costs.with_early(shared) } else { costs };
            prop_assert!(bounds.contains(&quantile.predict(costs)));
        }
        if shared >= early {
            prop_assert!(bounds[1] >= bounds[0]);
        }
    }
}
