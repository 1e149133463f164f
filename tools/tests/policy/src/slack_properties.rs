// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of slices that follow the slack of TSGs: for any values, and on a GPU that gives each TSG
//! its slice in turn.

use crate::policy::{
    slices::slack::{Claimant, Open, Seen, Terms},
    units::{Ns, Permille, Us},
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// Looks of a run.
const LOOKS: usize = 4_000;

/// Two divisions in each look lose less than a nanosecond each.
const ROUNDED: u64 = 4 * LOOKS as u64;

fn slice() -> impl Strategy<Value = Us> {
    (10u32..=10_000_000).prop_map(Us)
}

fn terms() -> impl Strategy<Value = Terms> {
    let slices = (slice(), slice(), slice());
    let shares = (0u32..=10_000, 0u32..=10_000);
    (slices, shares, 0u32..=10_000_000, 500u32..=1_000_000).prop_map(
        |((late, soon, early), (late_below, soon_below), credit, quantum)| Terms {
            late,
            soon,
            early,
            late_below: Permille(late_below),
            soon_below: Permille(soon_below),
            credit: Us(credit),
            quantum: Us(quantum),
        },
    )
}

/// Any number, the extreme ones often.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        any::<u64>(),
        0..1u64 << 34
    ]
}

fn look() -> impl Strategy<Value = (Seen, Vec<u64>)> {
    let numbers = (number(), number(), number());
    let slices = (slice(), slice());
    let deadlines = proptest::collection::vec(number(), 0..20);
    (numbers, slices, any::<bool>(), any::<bool>(), deadlines).prop_map(
        |((now, ran, ended), (table, slice), is_runnable, may_lengthen, deadlines)| {
            let seen = Seen {
                now: Ns(now),
                ran: Ns(ran),
                ended,
                is_runnable,
                table,
                slice,
                may_lengthen,
            };
            (seen, deadlines)
        },
    )
}

/// The word of a tenant in a quantum: deadlines from now in µs, and whether it has work.
#[derive(Debug, Clone)]
struct Told {
    deadlines_us: Vec<u64>,
    works: bool,
    ended: u64,
}

fn told() -> impl Strategy<Value = Told> {
    let us = prop_oneof![Just(0u64), 1u64..20_000, Just(10_000_000)];
    (proptest::collection::vec(us, 0..4), 0u32..4, 0u64..3).prop_map(
        |(deadlines_us, works, ended)| Told {
            deadlines_us,
            works: works > 0,
            ended,
        },
    )
}

/// A TSG of a GPU that gives each one with work its slice in turn.
struct One {
    claimant: Claimant,
    slice: Us,
    ran: u64,
    ended: u64,
    works: bool,
}

/// The time that each TSG had of `quanta` quanta: the first tells what `words` say in turn, the others
/// always have work, and a deadline a period: the length of that, and the time that is left of it then, if
/// `others` says some.
fn share(
    terms: &Terms,
    table: Us,
    words: &[Told],
    others: Option<(u64, u64)>,
    quanta: usize,
) -> Vec<u64> {
    let quantum = Ns::from(terms.quantum).0;
    let mut all: Vec<One> = (0..3)
        .map(|_| One {
            claimant: Claimant::NEW,
            slice: table,
            ran: 0,
            ended: 0,
            works: true,
        })
        .collect();
    let (mut running, mut left) = (0, Ns::from(table).0);
    for (at, word) in words.iter().cycle().take(quanta).enumerate() {
        let now = at as u64 * quantum;
        for (who, one) in all.iter_mut().enumerate() {
            let mut open = Open::NONE;
            if who == 0 {
                one.works = word.works;
                one.ended += word.ended;
                for us in &word.deadlines_us {
                    open.add(Ns(now + us * 1_000), Ns(now));
                }
            } else if let Some((period, rest)) = others {
                // A request for each 5 ms.
                one.ended = one.ran / (5 * MS);
                open.add(Ns((now / period + 1) * period - rest), Ns(now));
            }
            let seen = Seen {
                now: Ns(now),
                ran: Ns(one.ran),
                ended: one.ended,
                is_runnable: one.works,
                table,
                slice: one.slice,
                may_lengthen: true,
            };
            one.slice = one.claimant.step(terms, &seen, &open).unwrap_or(table);
            // That of one grant, and a quantum.
            assert!(one.claimant.debt() <= Ns(Ns::from(terms.credit).0 + quantum));
        }
        let mut rest = quantum;
        while rest > 0 {
            if left == 0 || !all[running].works {
                let next = (1..=3).map(|step| (running + step) % 3);
                running = next.into_iter().find(|&who| all[who].works).unwrap();
                left = Ns::from(all[running].slice).0;
            }
            let part = rest.min(left);
            all[running].ran += part;
            (rest, left) = (rest - part, left - part);
        }
    }
    all.iter().map(|one| one.ran).collect()
}

proptest! {
    /// No values lead beyond the bounds: of a level that is anybody's the table's slice is the longest,
    /// else that and the credit, which is no more than its tunable.
    #[test]
    fn slices_and_credits_are_bounded(
        terms in terms(),
        looks in proptest::collection::vec(look(), 1..40),
    ) {
        let mut one = Claimant::NEW;
        for (seen, deadlines) in looks {
            let mut open = Open::NONE;
            for deadline in deadlines {
                open.add(Ns(deadline), seen.now);
            }
            let slice = one.step(&terms, &seen, &open);
            let credit = one.credit();
            prop_assert!(credit <= Ns::from(terms.credit));
            let Some(slice) = slice else { continue };
            prop_assert!(slice != seen.table && open.first().is_some());
            prop_assert!([terms.late, terms.soon, terms.early].contains(&slice) || slice > seen.table);
            let most = match seen.may_lengthen {
                true => u64::from(seen.table.0) + u64::from(terms.credit.0),
                false => u64::from(seen.table.0),
            };
            prop_assert!(u64::from(slice.0) <= most, "{slice:?} of {most}");
            if slice > seen.table {
                prop_assert!(credit > Ns::ZERO && one.debt() == Ns::ZERO);
            }
            if slice < seen.table {
                prop_assert!(credit < Ns::from(terms.credit));
            }
        }
    }

    /// Whichever deadlines a tenant tells, it has no more than its third of the time, and a part of what it
    /// may have at a time.
    ///
    /// It runs for `n` times the table's slice and its debt, of which `share` looks at the bound, and what it
    /// ran for since the last look. Each of the others has its slice `n - 1` times between. So
    /// `3 * ran - total <= 2 * (n * table + debt + quantum) - 2 * (n - 1) * table`.
    #[test]
    fn a_liar_gains_no_more_than_the_credit(
        words in proptest::collection::vec(told(), 1..60),
        table_ms in 1u32..12,
        credit_ms in 0u32..50,
    ) {
        let terms = Terms { credit: Us(credit_ms * 1_000), ..Terms::USUAL };
        let table = Us(table_ms * 1_000);
        let ran = share(&terms, table, &words, None, LOOKS);
        let total: u64 = ran.iter().sum();
        let most = Ns::from(terms.credit).0 + 2 * Ns::from(terms.quantum).0 + Ns::from(table).0;
        prop_assert!(3 * ran[0] <= total + 2 * most + ROUNDED, "{ran:?}");
    }

    /// Nor does it from those who have time, and tell it.
    ///
    /// In a round one gives it `a - b`, where they run for `a` and `b`. That is what it spends, less what it
    /// earns, and what the other one earns, of `min(table - b, c + a)`: where the sum of all slices is below
    /// the table's, each earns what the others ran for. Over all rounds that is its debt and the other's
    /// credit, and a slice of the table for each time that the other ones' slices changed: as they learn
    /// how long requests take, and when their credit is full.
    #[test]
    fn nobody_gives_more_than_the_credit(
        words in proptest::collection::vec(told(), 1..60),
        table_ms in 1u32..12,
        credit_ms in 0u32..50,
    ) {
        let terms = Terms { credit: Us(credit_ms * 1_000), ..Terms::USUAL };
        let table = Us(table_ms * 1_000);
        // One deadline, which nobody meets.
        let ran = share(&terms, table, &words, Some((1 << 40, 0)), LOOKS);
        let total: u64 = ran.iter().sum();
        let [credit, quantum, table] = [terms.credit, terms.quantum, table].map(|us| Ns::from(us).0);
        let most = 2 * credit + 2 * quantum + 5 * table;
        prop_assert!(3 * ran[0] <= total + 2 * most + ROUNDED, "{ran:?}");
    }
}

/// A TSG that is late takes back what it gave.
#[test]
fn what_was_given_is_had_back() {
    let terms = Terms::USUAL;
    let words = [Told {
        deadlines_us: vec![],
        works: true,
        ended: 0,
    }];
    // A request misses its deadline in each second.
    let ran = share(
        &terms,
        Us(10_000),
        &words,
        Some((1_000 * MS, 100 * MS)),
        10_000,
    );
    let total: u64 = ran.iter().sum();
    assert!(ran[1] + 40 * MS > total / 3, "{ran:?}");
}
