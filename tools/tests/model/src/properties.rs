// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of any sequence of operations.

use std::{collections::HashMap, ops::Range};

use proptest::{prelude::*, sample::select};

use crate::{
    model::{
        event::{Activity, Completion, Record, Sink, Status},
        fixture::{create, gpu, TestGpu, Words},
        measures::{Ns, Permille, Us},
        tsg::{Handle, Interleave},
        work::{Condition, Expect, Granularity, Order, Work},
    },
    reference::Reference,
};

const BUDGET: u32 = u32::MAX;
const TSGS: usize = 4;

/// Keeps every report.
#[derive(Default)]
struct Log {
    done: Vec<Completion>,
    records: Vec<Record>,
}

impl<C> Sink<C> for Log {
    fn completed(&mut self, _context: &C, completion: &Completion) {
        self.done.push(*completion);
    }
    fn recorded(&mut self, _context: Option<&C>, record: &Record) {
        self.records.push(*record);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Submit(usize, u32, Vec<Work>),
    Slice(usize, u32),
    Level(usize, u32),
    Enable(usize, bool),
    Preempt(usize),
    Restart(usize, bool),
    Word(u16, u32),
}

/// A tag that tells TSG and channel.
fn tag(tsg: usize, channel: u32) -> u64 {
    tsg as u64 * 2 + u64::from(channel)
}

fn work(values: Range<u32>) -> impl Strategy<Value = Work> {
    // Sums of these demands divide the unit of work: the reference needs no rounding.
    let demand = || select(vec![1_000u32, 250]).prop_map(Permille);
    let expect = move |values: Range<u32>| {
        (0u16..2, values).prop_map(|(word, value)| Expect {
            word,
            value,
            condition: Condition::AtLeast,
            rung: false,
        })
    };
    let run = (100u64..6_000, demand(), prop::option::of(50u64..900)).prop_map(
        |(alone, demand, block)| Work::Run {
            alone: Ns(alone),
            demand,
            granularity: match block {
                Some(block) => Granularity::Block(Ns(block.min(alone))),
                None => Granularity::Instruction,
            },
        },
    );
    let hold =
        (expect(values.clone()), 100u64..3_000, demand()).prop_map(|(expect, bound, demand)| {
            Work::Hold {
                expect,
                bound: Ns(bound),
                demand,
            }
        });
    prop_oneof![
        6 => run,
        1 => expect(values.clone()).prop_map(Work::Wait),
        1 => (0u16..2, values).prop_map(|(word, value)| Work::Release { word, value }),
        1 => hold,
        1 => Just(Work::Fence),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let tsg = || 0..TSGS;
    prop_oneof![
        5 => (tsg(), 0u32..2, prop::collection::vec(work(0..4), 1..4))
            .prop_map(|(tsg, channel, works)| Op::Submit(tsg, channel, works)),
        1 => (tsg(), 1u32..5).prop_map(|(tsg, us)| Op::Slice(tsg, us)),
        1 => (tsg(), 0u32..3).prop_map(|(tsg, level)| Op::Level(tsg, level)),
        1 => (tsg(), any::<bool>()).prop_map(|(tsg, on)| Op::Enable(tsg, on)),
        1 => tsg().prop_map(Op::Preempt),
        1 => (tsg(), any::<bool>()).prop_map(|(tsg, force)| Op::Restart(tsg, force)),
        1 => (0u16..2, 0u32..4).prop_map(|(word, value)| Op::Word(word, value)),
    ]
}

fn ops(count: Range<usize>) -> impl Strategy<Value = Vec<(u64, Op)>> {
    prop::collection::vec((0u64..4_000, op()), count)
}

/// The same with a word per TSG: which of two TSGs comes first that a release lets run in the same
/// nanosecond is not defined, so the reference cannot be asked.
fn with_own_words(mut ops: Vec<(u64, Op)>) -> Vec<(u64, Op)> {
    for (_, op) in &mut ops {
        let Op::Submit(tsg, _, works) = op else {
            continue;
        };
        for work in works {
            match work {
                Work::Wait(expect) | Work::Hold { expect, .. } => expect.word = *tsg as u16,
                Work::Release { word, .. } => *word = *tsg as u16,
                Work::Run { .. } | Work::Fence => {}
            }
        }
    }
    ops
}

/// The TSGs of a scenario, which share their words.
fn tsgs<'a>(gpu: &mut TestGpu<'a>, words: &'a Words, log: &mut Log) -> Vec<Handle> {
    let mut all: Vec<Handle> = Vec::new();
    for serial in 1..=TSGS as u64 {
        all.push(create(gpu, serial, words, (0, 2), all.first().copied(), log).unwrap());
    }
    all
}

fn apply(gpu: &mut TestGpu<'_>, words: &Words, all: &[Handle], at: Ns, op: &Op, log: &mut Log) {
    let result = match op {
        Op::Submit(tsg, channel, works) => {
            let tag = tag(*tsg, *channel);
            let order = |work: &Work| Order {
                work: *work,
                notify: true,
                tag,
            };
            let orders: Vec<Order> = works.iter().map(order).collect();
            gpu.submit(at, all[*tsg], *channel, &orders, log)
                .map(|_| ())
        }
        Op::Slice(tsg, us) => gpu.set_timeslice(at, all[*tsg], Us(*us), log),
        Op::Level(tsg, level) => {
            gpu.set_interleave(at, all[*tsg], Interleave::new(*level).unwrap(), log)
        }
        Op::Enable(tsg, on) => gpu.set_enabled(at, all[*tsg], *on, log),
        Op::Preempt(tsg) => gpu.preempt(at, all[*tsg], log),
        Op::Restart(tsg, force) => gpu.restart(at, all[*tsg], *force, log),
        Op::Word(word, value) => {
            // The word changes when the model has come to this time.
            assert!(gpu.advance(at, BUDGET, log));
            words.set(*word, *value);
            gpu.doorbell(at, all[0], log)
        }
    };
    assert_eq!(result, Ok(()));
}

/// Sums are exact, at any time.
fn check_accounts(gpu: &TestGpu<'_>, all: &[Handle]) {
    for engine in 0..gpu.nr_engines() {
        let stats = gpu.engine_stats(engine).unwrap();
        let sum = stats
            .times
            .busy
            .plus(stats.times.switch)
            .plus(stats.times.idle);
        assert_eq!(sum, stats.now.since(stats.created));
    }
    let mut busy = Ns::ZERO;
    for tsg in all {
        if let Ok(stats) = gpu.tsg_stats(*tsg) {
            let times = stats.times;
            let sum = times
                .busy
                .plus(times.switch)
                .plus(times.wait)
                .plus(times.inactive);
            assert_eq!(sum, stats.now.since(stats.created));
            busy = busy.plus(times.busy);
        }
    }
    assert!(busy <= gpu.engine_stats(0).unwrap().times.busy);
}

/// Goes to `to` event by event: an engine is never idle while something could run.
fn advance_conserving(gpu: &mut TestGpu<'_>, to: Ns, log: &mut Log) {
    while let Some(event) = gpu.next_event().filter(|event| *event <= to) {
        let (before, clock) = (gpu.engine_stats(0).unwrap(), gpu.clock());
        let just_before = Ns(event.0.saturating_sub(1)).max(clock);
        if clock < just_before {
            assert!(gpu.advance(just_before, BUDGET, log));
            let after = gpu.engine_stats(0).unwrap();
            if before.nr_runnable > 0 && !gpu.suspended() {
                assert_eq!(before.times.idle, after.times.idle);
            }
        }
        assert!(gpu.advance(event, BUDGET, log));
    }
    assert!(gpu.advance(to, BUDGET, log));
}

/// Properties of any log: one TSG at a time, items in order, none faster than alone.
fn check_log(log: &Log, ops: &[(u64, Op)]) {
    let mut ends: HashMap<u32, Ns> = HashMap::new();
    for record in &log.records {
        assert!(record.start < record.end);
        assert_eq!(
            record.tsg == Handle::NONE,
            record.activity == Activity::Idle
        );
        let end = ends.entry(record.engine).or_insert(Ns::ZERO);
        assert_eq!(record.start, *end);
        *end = record.end;
    }
    let mut works: HashMap<u64, Vec<Work>> = HashMap::new();
    for (_, op) in ops {
        if let Op::Submit(tsg, channel, more) = op {
            works.entry(tag(*tsg, *channel)).or_default().extend(more);
        }
    }
    let mut last: HashMap<u64, (u64, Ns)> = HashMap::new();
    for done in &log.done {
        let (seq, end) = last.entry(done.tag).or_insert((0, Ns::ZERO));
        assert_eq!(done.seq, *seq + 1);
        assert!(done.end >= *end && done.start >= done.queued && done.end >= done.start);
        // The first ran when the one before it had completed.
        assert!(done.start >= *end);
        (*seq, *end) = (done.seq, done.end);
        match works[&done.tag][done.seq as usize - 1] {
            Work::Run { alone, .. } => assert!(done.end.since(done.start) >= alone),
            Work::Hold { bound, .. } => {
                assert_eq!(done.status == Status::Expired, done.status != Status::Done);
                if done.status == Status::Expired {
                    assert!(done.end.since(done.start) >= bound);
                }
            }
            _ => assert_eq!(done.start, done.end),
        }
    }
}

/// Enables all, meets all conditions, and lets everything finish.
fn finish(gpu: &mut TestGpu<'_>, words: &Words, all: &[Handle], at: Ns, log: &mut Log) {
    for tsg in all {
        assert_eq!(gpu.set_enabled(at, *tsg, true, log), Ok(()));
    }
    // Releases store less than this, so waits are met again after them.
    for round in 1..200 {
        let now = at.plus(Ns(round * 100_000));
        assert!(gpu.advance(now, BUDGET, log));
        words.set(0, 9);
        words.set(1, 9);
        assert_eq!(gpu.doorbell(now, all[0], log), Ok(()));
        if gpu.next_event().is_none() && !gpu.watching() {
            return;
        }
    }
    panic!("something never ends");
}

/// The words of a TSG's channels.
fn channel_words(gpu: &TestGpu<'_>, tsg: Handle) -> [u32; 2] {
    let mut words = [0; 2];
    let found = gpu.channel_words(tsg, |number, word| words[number as usize] = word);
    assert_eq!(found, Ok(()));
    words
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn accounts_order_and_conservation(ops in ops(1..40), cost in 0u64..2_000) {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(cost)).unwrap();
        let all = tsgs(&mut gpu, &words, &mut log);
        let mut at = Ns::ZERO;
        for (wait, op) in &ops {
            at = at.plus(Ns(*wait));
            advance_conserving(&mut gpu, at, &mut log);
            check_accounts(&gpu, &all);
            apply(&mut gpu, &words, &all, at, op, &mut log);
            check_accounts(&gpu, &all);
        }
        finish(&mut gpu, &words, &all, at, &mut log);
        check_accounts(&gpu, &all);
        check_log(&log, &ops);
        let submitted: usize = ops.iter().map(|(_, op)| match op {
            Op::Submit(_, _, works) => works.len(),
            _ => 0,
        }).sum();
        prop_assert_eq!(log.done.len(), submitted);
        prop_assert_eq!(gpu.item_room(), 128);
    }

    /// One who asks for changed words alone knows those of all channels.
    #[test]
    fn no_change_of_a_channel_is_missed(
        ops in ops(1..40),
        odd in prop::collection::vec(0u32..12, 40),
        cost in 0u64..2_000,
    ) {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(cost)).unwrap();
        let all = tsgs(&mut gpu, &words, &mut log);
        let mut known = [[0; 2]; TSGS];
        let mut look = |gpu: &mut TestGpu<'_>| {
            while let Some(tsg) = gpu.take_changed() {
                let at = all.iter().position(|one| *one == tsg).unwrap();
                known[at] = channel_words(gpu, tsg);
            }
            for (tsg, known) in all.iter().zip(&known) {
                assert_eq!(*known, channel_words(gpu, *tsg));
            }
        };
        let mut at = Ns::ZERO;
        for ((wait, op), odd) in ops.iter().zip(odd) {
            at = at.plus(Ns(*wait));
            while let Some(event) = gpu.next_event().filter(|event| *event <= at) {
                assert!(gpu.advance(event, BUDGET, &mut log));
                look(&mut gpu);
            }
            apply(&mut gpu, &words, &all, at, op, &mut log);
            look(&mut gpu);
            match odd {
                0..4 => {
                    let tsg = all[odd as usize];
                    assert_eq!(gpu.lose_doorbell(at, tsg, odd % 2, &mut log), Ok(()));
                }
                4..6 => gpu.set_suspended(at, odd == 4, &mut log),
                _ => {}
            }
            look(&mut gpu);
        }
    }

    #[test]
    fn big_steps_and_small_steps_give_the_same(
        ops in ops(1..30),
        cost in 0u64..2_000,
        step in 1u64..3_000,
        budget in 1u32..6,
    ) {
        let mut logs = Vec::new();
        for small in [false, true] {
            let (words, mut log) = (Words::default(), Log::default());
            let mut gpu = gpu(Ns(cost)).unwrap();
            let all = tsgs(&mut gpu, &words, &mut log);
            let mut at = Ns::ZERO;
            for (wait, op) in &ops {
                let from = at;
                at = at.plus(Ns(*wait));
                let mut now = from;
                while small && now < at {
                    now = now.plus(Ns(step)).min(at);
                    // Looking changes nothing either.
                    let _ = (gpu.tsg_stats(all[0]), gpu.engine_stats(0), gpu.next_event());
                    while !gpu.advance(now, budget, &mut log) {}
                }
                apply(&mut gpu, &words, &all, at, op, &mut log);
            }
            finish(&mut gpu, &words, &all, at, &mut log);
            let stats: Vec<_> = all.iter().map(|tsg| gpu.tsg_stats(*tsg).unwrap()).collect();
            logs.push((log.done, log.records, stats, gpu.engine_stats(0).unwrap()));
        }
        prop_assert_eq!(&logs[0], &logs[1]);
    }

    #[test]
    fn lc_waits_for_one_be_slice_and_a_switch(
        slices in prop::collection::vec(1u32..50, 1..4),
        requests in prop::collection::vec((0u64..300_000, 1u64..20_000), 1..20),
        cost in 0u64..5_000,
    ) {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(cost)).unwrap();
        let all = tsgs(&mut gpu, &words, &mut log);
        gpu.set_interleave(Ns(0), all[0], Interleave::High, &mut log).unwrap();
        let instruction = Granularity::Instruction;
        let order = |alone, tag| Order {
            work: Work::Run { alone: Ns(alone), demand: Permille(1_000), granularity: instruction },
            notify: true,
            tag,
        };
        for (tsg, us) in all[1..].iter().zip(&slices) {
            gpu.set_timeslice(Ns(0), *tsg, Us(*us), &mut log).unwrap();
            gpu.submit(Ns(0), *tsg, 0, &[order(1_000_000_000, 1)], &mut log).unwrap();
        }
        let mut at = Ns::ZERO;
        for (wait, alone) in &requests {
            at = at.plus(Ns(*wait));
            gpu.submit(at, all[0], 0, &[order(*alone, 0)], &mut log).unwrap();
        }
        prop_assert!(gpu.advance(at.plus(Ns(10_000_000)), BUDGET, &mut log));
        let slice = Us(*slices.iter().max().unwrap()).ns();
        let bound = slice.plus(Ns(3 * cost));
        prop_assert!(gpu.tsg_stats(all[0]).unwrap().times.max_wait <= bound);
        prop_assert_eq!(log.done.len(), requests.len());
    }

    #[test]
    fn destroying_and_suspending_leave_nothing_behind(
        ops in ops(1..30),
        ends in prop::collection::vec((0..TSGS, 0usize..30, any::<bool>()), 1..5),
        cost in 0u64..2_000,
    ) {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(cost)).unwrap();
        let mut all = tsgs(&mut gpu, &words, &mut log);
        let (mut at, mut serial, mut dropped, mut submitted) = (Ns::ZERO, 100, 0, 0usize);
        for (number, (wait, op)) in ops.iter().enumerate() {
            at = at.plus(Ns(*wait));
            for (tsg, when, suspend) in &ends {
                if *when != number {
                    continue;
                }
                if *suspend {
                    gpu.set_suspended(at, true, &mut log);
                    prop_assert_eq!(gpu.next_event(), None);
                    let idle = gpu.engine_stats(0).unwrap().times.idle;
                    at = at.plus(Ns(1_000));
                    prop_assert!(gpu.advance(at, BUDGET, &mut log));
                    prop_assert_eq!(gpu.engine_stats(0).unwrap().times.idle, idle.plus(Ns(1_000)));
                    gpu.set_suspended(at, false, &mut log);
                } else {
                    let old = all[*tsg];
                    dropped += gpu.destroy(at, old, &mut log).unwrap().1;
                    prop_assert!(gpu.tsg_stats(old).is_err());
                    let sharer = all.iter().copied().find(|other| *other != old);
                    serial += 1;
                    all[*tsg] =
                        create(&mut gpu, serial, &words, (0, 2), sharer, &mut log).unwrap();
                    prop_assert!(gpu.tsg_stats(old).is_err());
                }
                check_accounts(&gpu, &all);
            }
            apply(&mut gpu, &words, &all, at, op, &mut log);
            if let Op::Submit(_, _, works) = op {
                submitted += works.len();
            }
            check_accounts(&gpu, &all);
        }
        finish(&mut gpu, &words, &all, at, &mut log);
        prop_assert_eq!(log.done.len() + dropped as usize, submitted);
        let mut end = Ns::ZERO;
        for record in log.records.iter().filter(|record| record.engine == 0) {
            prop_assert_eq!(record.start, end);
            end = record.end;
        }
        for tsg in &all {
            gpu.destroy(at, *tsg, &mut log).unwrap();
        }
        prop_assert_eq!(gpu.item_room(), 128);
        prop_assert_eq!(gpu.channel_room(), 24);
        prop_assert_eq!(gpu.nr_tsgs(), 0);
        prop_assert!(!gpu.watching());
        prop_assert_eq!(gpu.engine_stats(0).unwrap().nr_runnable, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_reference(ops in ops(1..16).prop_map(with_own_words), cost in 1u64..700) {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(cost)).unwrap();
        let all = tsgs(&mut gpu, &words, &mut log);
        let mut reference = Reference::new(TSGS, cost);
        let mut at = Ns::ZERO;
        for (wait, op) in &ops {
            at = at.plus(Ns(*wait));
            apply(&mut gpu, &words, &all, at, op, &mut log);
            reference.advance(at.0);
            match op {
                Op::Submit(tsg, channel, works) => {
                    reference.submit(*tsg, *channel as usize, works)
                }
                Op::Slice(tsg, us) => reference.set_slice(*tsg, *us),
                Op::Level(tsg, level) => reference.set_level(*tsg, *level as usize),
                Op::Enable(tsg, on) => reference.set_enabled(*tsg, *on),
                Op::Preempt(tsg) => reference.preempt(*tsg),
                Op::Restart(tsg, force) => reference.restart(*tsg, *force),
                Op::Word(word, value) => reference.set_word(*word, *value),
            }
        }
        at = at.plus(Ns(30_000));
        prop_assert!(gpu.advance(at, BUDGET, &mut log));
        reference.advance(at.0);
        let of = |done: &Completion| {
            (done.end.0, done.tag as usize / 2, done.tag as usize % 2, done.seq)
        };
        let mut done: Vec<_> = log.done.iter().map(of).collect();
        done.sort_unstable();
        reference.done.sort_unstable();
        prop_assert_eq!(done, reference.done);
        for (tsg, handle) in all.iter().enumerate() {
            let times = gpu.tsg_stats(*handle).unwrap().times;
            let expected = reference.tsgs[tsg].times;
            prop_assert_eq!(times.busy.0, expected.busy);
            prop_assert_eq!(times.switch.0, expected.switch);
            prop_assert_eq!(times.wait.0, expected.wait);
            prop_assert_eq!(times.inactive.0, expected.inactive);
        }
        prop_assert_eq!(gpu.engine_stats(0).unwrap().times.idle.0, reference.idle);
    }
}
