// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of a budget server, compared with a search through every window.

use crate::policy::{
    budget::{Params, Server, State},
    units::Ns,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn params() -> impl Strategy<Value = Params> {
    (1u64..=200, 0u64..=1000).prop_map(|(period, share)| {
        let period = period * MS;
        let budget = (period * share / 1000).max(MS);
        Params::new(Ns(budget), Ns(period)).unwrap()
    })
}

/// A stretch of work, from its begin to its end.
type Stretch = (u64, u64);

fn inside(stretches: &[Stretch], from: u64, to: u64) -> u64 {
    stretches
        .iter()
        .map(|&(begin, end)| end.min(to).saturating_sub(begin.max(from)))
        .sum()
}

/// The most that ran in any window: the fullest begins where a stretch begins or ends where one
/// ends.
fn fullest(stretches: &[Stretch], window: u64) -> u64 {
    stretches
        .iter()
        .flat_map(|&(begin, end)| [begin, end.saturating_sub(window)])
        .map(|from| inside(stretches, from, from + window))
        .max()
        .unwrap_or(0)
}

fn go(server: &Server, now: &mut u64) -> u64 {
    loop {
        match server.state(Ns(*now)) {
            State::Free { left } => return left.0,
            State::Throttled { until } => {
                assert!(until.0 > *now);
                *now = until.0;
            }
        }
    }
}

proptest! {
    /// No window of one period holds more than the budget and the largest overrun.
    #[test]
    fn no_window_is_overfull(
        params in params(),
        start in 0u64..1 << 40,
        runs in proptest::collection::vec(
            (0u64..40 * MS, prop_oneof![Just(u64::MAX), 1..20 * MS], prop_oneof![Just(0), 0..MS]),
            1..150,
        ),
    ) {
        let mut server = Server::new(params);
        let mut now = start;
        let mut stretches = Vec::new();
        let mut largest = 0;
        for (gap, want, overrun) in runs {
            // Half of the time at once, so that stretches touch.
            now += if gap % 2 == 0 { 0 } else { gap };
            let left = go(&server, &mut now);
            let overrun = if params.budget() < params.period() { overrun } else { 0 };
            let ran = want.min(left + overrun);
            largest = largest.max(ran.saturating_sub(left));
            stretches.push((now, now + ran));
            now += ran;
            server.charge(Ns(now), Ns(ran));
        }
        let most = params.budget().0 + largest;
        prop_assert!(fullest(&stretches, params.period().0) <= most);
    }

    /// Where in the time between two charges a level ran does not matter but for that time.
    #[test]
    fn late_charges_cost_no_more_than_their_lateness(
        params in params(),
        charges in proptest::collection::vec((1u64..8 * MS, 0u64..=100, 0u64..=100), 1..200),
    ) {
        let mut server = Server::new(params);
        let mut now = 1;
        let mut stretches = Vec::new();
        let mut longest = 0;
        for (interval, share, place) in charges {
            go(&server, &mut now);
            let ran = interval * share / 100;
            let begin = now + (interval - ran) * place / 100;
            stretches.push((begin, begin + ran));
            longest = longest.max(interval);
            now += interval;
            server.charge(Ns(now), Ns(ran));
        }
        let most = params.budget().0.saturating_add(longest);
        prop_assert!(fullest(&stretches, params.period().0) <= most);
    }

    /// Beside best-effort that runs, a level has no more than its budget in each period, what that has had,
    /// and what it overran by. Best-effort never waits for longer than a period's budget, where charges come
    /// in the rest of the period.
    #[test]
    fn best_effort_has_as_much_as_the_level_has_beyond_its_budget(
        params in params(),
        steps in proptest::collection::vec(
            (prop_oneof![Just(u64::MAX), 1..20 * MS], prop_oneof![Just(0), 0..MS / 4], 0..4 * MS),
            1..200,
        ),
    ) {
        let mut server = Server::new(params);
        let (mut now, mut served, mut lc) = (1, 0, Vec::new());
        let mut be: Vec<Stretch> = Vec::new();
        let (mut largest, mut waits) = (0, 0);
        server.serve(Ns(now), Some(Ns(served)));
        for (want, overrun, rest) in steps {
            // It never stops, or leaves the GPU to best-effort for a while.
            let state = server.state(Ns(now));
            if let State::Free { left } = state {
                let overrun = if params.budget() < params.period() { overrun } else { 0 };
                let ran = want.min(left.0 + overrun);
                largest = largest.max(ran.saturating_sub(left.0));
                lc.push((now, now + ran));
                now += ran;
                waits += ran;
                server.charge(Ns(now), Ns(ran));
            }
            // A charge that is later than the rest of the period finds budget that is back already.
            let rest_of_period = params.period().0 - params.budget().0;
            if largest + params.period().0.div_ceil(60) <= rest_of_period {
                prop_assert!(waits <= params.budget().0 + 2 * largest, "{waits}");
            }
            let until = match server.state(Ns(now)) {
                State::Throttled { until } => until.0,
                State::Free { .. } => now + if want == u64::MAX { 0 } else { rest },
            };
            if until > now {
                be.push((now, until));
                served += until - now;
                (now, waits) = (until, 0);
                server.charge(Ns(now), Ns(0));
                server.serve(Ns(now), Some(Ns(served)));
            }
        }
        for periods in [1, 2, 5] {
            let window = periods * params.period().0;
            for &(_, end) in &lc {
                let from = end.saturating_sub(window);
                let had = inside(&lc, from, end);
                let saved = (params.budget().0 / 4).min(params.period().0 - params.budget().0);
                let credit = saved.min(inside(&be, 0, end)) + inside(&be, from, end);
                let most = periods * (params.budget().0 + largest) + credit;
                prop_assert!(had <= most, "{had} of {most} in {periods} periods");
            }
        }
    }

    /// A level that needs less than its budget in a slightly longer window is never throttled.
    #[test]
    fn the_modest_are_never_throttled(
        params in params(),
        runs in proptest::collection::vec((0u64..10 * MS, 1..20 * MS), 1..150),
    ) {
        let window = params.period().0 + params.period().0.div_ceil(60);
        let mut server = Server::new(params);
        let mut now = window;
        let mut stretches = Vec::new();
        for (gap, ran) in runs {
            now += gap;
            stretches.push((now, now + ran));
            if fullest(&stretches, window) >= params.budget().0 {
                stretches.pop();
                continue;
            }
            now += ran;
            let free = matches!(server.charge(Ns(now), Ns(ran)), State::Free { .. });
            prop_assert!(free);
        }
        prop_assert_eq!(server.throttles(), 0);
    }

    /// It counts how often it said no after yes, and says no to nobody who may have all.
    #[test]
    fn throttles_are_counted(
        params in params(),
        charges in proptest::collection::vec((0u64..20 * MS, 0u64..30 * MS), 1..200),
    ) {
        let mut server = Server::new(params);
        let (mut now, mut count, mut last) = (0, 0, false);
        for (gap, ran) in charges {
            now += gap;
            let state = server.charge(Ns(now), Ns(ran));
            prop_assert_eq!(state, server.state(Ns(now)));
            let throttled = matches!(state, State::Throttled { .. });
            count += u64::from(throttled && !last);
            last = throttled;
        }
        prop_assert_eq!(server.throttles(), count);
        prop_assert!(count == 0 || params.budget() < params.period());
    }

    /// Whatever it is told, it is free again one period after that at the latest.
    #[test]
    fn it_always_comes_back(
        steps in proptest::collection::vec((params(), any::<u64>(), any::<u64>(), 0u32..64), 1..200),
    ) {
        let mut server = Server::new(steps[0].0);
        let mut last = 0;
        for (params, now, ran, shift) in steps {
            if shift % 8 == 0 {
                server.set_params(params);
            }
            let now = now >> shift;
            last = last.max(now);
            server.charge(Ns(now), Ns(ran >> shift));
            let period = server.params().period().0;
            let full = State::Free { left: server.params().budget() };
            prop_assert_eq!(server.state(Ns(last.saturating_add(period))), full);
        }
    }
}
