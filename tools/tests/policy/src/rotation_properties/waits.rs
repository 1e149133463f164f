// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares, waits and idle time on a simulated GPU.

use super::bench::{overrun, Bench, Load, Machine, CALL, STEP};
use super::{quantum, weight, MS, US};
use crate::policy::{
    rotation::{Discipline, Quantum},
    units::Ns,
};
use proptest::prelude::*;

const SECOND: u64 = 1_000 * MS;

fn fair() -> Machine {
    Machine {
        discipline: Discipline::Fair,
        quantum: Quantum::DEFAULT,
        poll: None,
        lc: None,
        predict: false,
    }
}

/// The farthest that the share of one is from its weight's, in millionths of the whole.
fn deviation(bench: &Bench) -> u64 {
    let weights: u64 = bench.tsgs.iter().map(|t| u64::from(t.weight)).sum();
    let total = bench.total();
    let share = |part: u64, whole: u64| part * 1_000_000 / whole;
    bench
        .tsgs
        .iter()
        .map(|t| share(t.served(), total).abs_diff(share(u64::from(t.weight), weights)))
        .max()
        .unwrap()
}

fn busy(machine: Machine, weights: &[u32], seed: u64) -> Bench {
    let tsgs: Vec<_> = weights.iter().map(|&w| (w, Load::Busy)).collect();
    let mut bench = Bench::new(machine, &tsgs, seed);
    bench.settle();
    bench.run(SECOND);
    bench
}

fn bound(machine: &Machine, bench: &Bench, id: usize) -> u64 {
    let others = bench.tsgs.iter().enumerate().filter(|(n, _)| *n != id);
    machine
        .discipline
        .longest_wait(
            machine.quantum.length(),
            Ns(overrun(machine)),
            weight(bench.tsgs[id].weight),
            others.map(|(_, t)| weight(t.weight)),
        )
        .0
}

fn check_waits(machine: &Machine, bench: &Bench) {
    for (id, tsg) in bench.tsgs.iter().enumerate() {
        let bound = bound(machine, bench, id);
        assert!(
            tsg.longest_wait <= bound,
            "{id} of weight {} waited {} us, bound {} us",
            tsg.weight,
            tsg.longest_wait / US,
            bound / US
        );
    }
}

/// The GPU waits for a call under way and the one that follows, and for being looked at.
fn longest_idle(machine: &Machine) -> u64 {
    4 * CALL + machine.poll.unwrap_or(0) + 4 * STEP
}

fn load() -> impl Strategy<Value = Load> {
    let span = |most: u64| (1..=most).prop_map(|n| n * STEP);
    prop_oneof![
        2 => Just(Load::Busy),
        3 => (span(1_000), span(2_000)).prop_map(|(burst, sleep)| Load::Bursts { burst, sleep }),
        2 => (span(700), span(50)).prop_map(|(burst, sleep)| Load::Thinks { burst, sleep }),
        2 => (span(200), span(60), span(80_000)).prop_map(|(burst, sleep, busy_at)| {
            Load::Turncoat { burst, sleep, busy_at }
        }),
    ]
}

fn any_weight() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1024), 1u32..=10_000, 1u32..=20, Just(1), Just(10_000)]
}

fn machine() -> impl Strategy<Value = Machine> {
    (
        prop::sample::select(Discipline::ALL.to_vec()),
        prop::sample::select(vec![500 * US, MS, 5 * MS, 20 * MS]),
        prop::option::of(Just(200 * US)),
        prop::option::of(Just((2_200 * US, 10 * MS))),
        any::<bool>(),
    )
        .prop_map(|(discipline, length, poll, lc, predict)| Machine {
            discipline,
            quantum: quantum(length),
            poll,
            lc,
            predict,
        })
}

#[test]
fn three_to_one() {
    for discipline in [Discipline::Fair, Discipline::Credit] {
        let machine = Machine {
            discipline,
            ..fair()
        };
        for weights in [&[3072, 1024][..], &[3072, 3072, 1024, 1024], &[3, 1]] {
            let bench = busy(machine, weights, 1);
            assert!(deviation(&bench) < 10_000, "{discipline:?} {weights:?}");
            check_waits(&machine, &bench);
        }
    }
}

#[test]
fn equal_weights_from_two_to_sixteen() {
    for discipline in Discipline::ALL {
        let machine = Machine {
            discipline,
            ..fair()
        };
        for count in 2..=16 {
            let bench = busy(machine, &vec![1024; count], count as u64);
            assert!(deviation(&bench) < 10_000, "{discipline:?} {count}");
            // Two calls for each turn, and the GPU is never without one to run.
            assert!(bench.calls <= 2 * SECOND / Quantum::DEFAULT.length().0);
            assert_eq!(bench.total_idle, 0);
        }
    }
}

/// A TSG whose bursts end within a quantum does not get one in turn, whatever its weight; and the
/// GPU is not given away for a think time, nor at a time when that costs a switch.
#[test]
fn closed_loops_share_by_weight() {
    // For less time than a call usually takes, and for more, but for less than a hand-over costs.
    for sleep in [90 * US, 200 * US] {
        closed_loops_of(sleep);
    }
}

fn closed_loops_of(sleep: u64) {
    let thinks = Load::Thinks {
        burst: 6_800 * US,
        sleep,
    };
    for lc in [None, Some((2_200 * US, 10 * MS))] {
        for weights in [&[3072, 1024][..], &[1024, 1024], &[3072, 3072, 1024, 1024]] {
            let machine = Machine {
                lc,
                predict: true,
                ..fair()
            };
            let tsgs: Vec<_> = weights.iter().map(|&w| (w, thinks)).collect();
            let mut bench = Bench::new(machine, &tsgs, 11);
            bench.settle();
            let time = 4 * SECOND;
            bench.run(time);
            assert!(deviation(&bench) < 2_000, "{lc:?} {weights:?}");
            check_waits(&machine, &bench);
            let most = time * sleep / (7_200 * US);
            assert!(bench.total_idle <= most, "{}", bench.total_idle);
            // LC is there long enough for a hand-over every 10 ms.
            let of_turns = if lc.is_some() { 10 * MS } else { 6 * MS };
            assert!(bench.calls <= 2 * time / of_turns, "{}", bench.calls);
        }
    }
}

/// The time of LC is nobody's loss in particular.
#[test]
fn shares_hold_beside_lc() {
    let machine = Machine {
        lc: Some((2_200 * US, 10 * MS)),
        ..fair()
    };
    let bench = busy(machine, &[3072, 1024, 1024], 7);
    assert!(deviation(&bench) < 15_000);
}

/// A TSG that sleeps a little after each burst, to be placed in front again, gets no more than its
/// share.
#[test]
fn thinking_pays_nothing() {
    for discipline in [Discipline::Fair, Discipline::Credit] {
        for (burst, sleep) in [
            (4_900, 10),
            (2_000, 20),
            (500, 10),
            (5_100, 2_600),
            (100, 10),
        ] {
            for predict in [false, true] {
                let machine = Machine {
                    discipline,
                    predict,
                    ..fair()
                };
                let thinks = Load::Thinks {
                    burst: burst * US,
                    sleep: sleep * US,
                };
                let tsgs = [
                    (1024, thinks),
                    (1024, thinks),
                    (1024, thinks),
                    (1024, Load::Busy),
                ];
                let mut bench = Bench::new(machine, &tsgs, 3);
                bench.settle();
                bench.run(2 * SECOND);
                let honest = bench.tsgs[3].served();
                assert!(
                    honest >= 2 * SECOND * 23 / 100,
                    "{discipline:?} {burst} {sleep} {predict}: {honest}"
                );
                check_waits(&machine, &bench);
            }
        }
    }
}

/// Nobody gets one turn after another on credit because the others think, or because their bursts
/// are longer than they used to be.
#[test]
fn debts_are_bounded() {
    let turncoat = |burst, sleep, busy_at| Load::Turncoat {
        burst: burst * US,
        sleep: sleep * US,
        busy_at: busy_at * US,
    };
    let thinks = [
        (1024, Load::Busy),
        (1024, turncoat(250, 10, 55_170)),
        (10_000, turncoat(130, 410, 253_240)),
    ];
    let longer = [
        (4, turncoat(10, 210, 369_850)),
        (1, turncoat(10, 10, 4_470)),
    ];
    // The second is next each time that the first one's burst is about to end, and the third sleeps.
    let pauses = Load::Thinks {
        burst: 500 * US,
        sleep: 110 * US,
    };
    let chosen = [
        (1024, pauses),
        (1024, turncoat(810, 20, 220_980)),
        (10_000, turncoat(940, 260, 83_080)),
    ];
    let cases = [
        (500 * US, &thinks[..]),
        (20 * MS, &longer),
        (5 * MS, &chosen),
    ];
    for (length, tsgs) in cases {
        for seed in [
            1_842_156_571_115_105_130,
            1_467_708_162_057_765_256,
            725_416_353_095_541_056,
            1,
            2,
            3,
        ] {
            let machine = Machine {
                discipline: Discipline::Credit,
                quantum: quantum(length),
                predict: true,
                ..fair()
            };
            let mut bench = Bench::new(machine, tsgs, seed);
            bench.settle();
            bench.run(SECOND);
            check_waits(&machine, &bench);
        }
    }
}

/// A TSG that thought for long gets no more than its bound at once when it is back.
#[test]
fn think_time_is_not_saved_up() {
    let busy_at = 5 * SECOND;
    for discipline in Discipline::ALL {
        for (burst, sleep) in [(10, 400), (10, 490), (1_000, 300), (2_000, 400), (10, 600)] {
            let machine = Machine {
                discipline,
                predict: true,
                ..fair()
            };
            let turncoat = Load::Turncoat {
                burst: burst * US,
                sleep: sleep * US,
                busy_at,
            };
            // Asleep all the time before, and not behind for what others missed.
            let newcomer = Load::Turncoat {
                burst: STEP,
                sleep: busy_at,
                busy_at,
            };
            let tsgs = [(1024, Load::Busy), (1024, turncoat), (1024, newcomer)];
            for count in [2, 3] {
                let mut bench = Bench::new(machine, &tsgs[..count], 5);
                bench.settle();
                bench.run(busy_at + SECOND);
                check_waits(&machine, &bench);
            }
        }
    }
}

/// The time for which a TSG has the GPU to itself is as documented, with think times and LC, and
/// without.
#[test]
fn turns_last_as_long_as_documented() {
    for (burst, sleep) in [(1_000, 90), (6_800, 90), (9_500, 3_000), (3_000, 200)] {
        for lc in [None, Some((2_200 * US, 13 * MS))] {
            let machine = Machine {
                discipline: Discipline::RoundRobin,
                predict: true,
                lc,
                ..fair()
            };
            let thinks = Load::Thinks {
                burst: burst * US,
                sleep: sleep * US,
            };
            let mut bench = Bench::new(machine, &[(1024, thinks); 3], 9);
            bench.settle();
            bench.run(2 * SECOND);
            check_waits(&machine, &bench);
        }
    }
}

/// With the mean of bursts known, most of the time that hand-overs by idleness cost is saved.
#[test]
fn enabling_ahead_saves_idle_time() {
    let tsgs = [(
        1024,
        Load::Thinks {
            burst: 2 * MS,
            sleep: 3 * MS,
        },
    ); 4];
    let [without, with] = [false, true].map(|predict| {
        let mut bench = Bench::new(Machine { predict, ..fair() }, &tsgs, 5);
        bench.settle();
        bench.run(SECOND);
        bench.total_idle
    });
    assert!(without > SECOND / 25, "{without}");
    assert!(with < without / 3, "{with} {without}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Within 2 % of the GPU over a second, whatever the weights.
    #[test]
    fn shares_follow_any_weights(
        weights in prop::collection::vec(any_weight(), 2..=16),
        poll in prop::option::of(Just(500 * US)),
        seed: u64,
    ) {
        let bench = busy(Machine { poll, ..fair() }, &weights, seed);
        prop_assert!(deviation(&bench) < 20_000, "{}", deviation(&bench));
        prop_assert_eq!(bench.total_idle, 0);
    }

    /// Nobody waits longer than documented, and the GPU is idle no longer than calls take.
    #[test]
    fn waits_and_idle_time_are_bounded(
        machine in machine(),
        tsgs in prop::collection::vec((any_weight(), load()), 2..=8),
        seed: u64,
    ) {
        // Think times that no look meets are part of a turn, whose length counts GPU time alone.
        let poll = machine.poll.unwrap_or(0);
        let is_seen = |load: &Load| match *load {
            Load::Thinks { sleep, .. } | Load::Turncoat { sleep, .. } => sleep >= 2 * poll,
            Load::Busy | Load::Bursts { .. } => true,
        };
        prop_assume!(tsgs.iter().all(|(_, load)| is_seen(load)));
        let mut bench = Bench::new(machine, &tsgs, seed);
        bench.settle();
        bench.run(SECOND);
        check_waits(&machine, &bench);
        prop_assert!(bench.longest_idle <= longest_idle(&machine), "{} us", bench.longest_idle / US);
    }
}
