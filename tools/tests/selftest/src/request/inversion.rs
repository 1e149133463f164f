// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priority inversion: a latency-critical stream waits for a word that a less urgent TSG stores. zernel does
//! not know of it; who gives that TSG the level for the time ends it.

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::{Activity, Condition, Context, ContextSpec, Item, Record, Trace};
use libzernel::{tsg, Level, Target, Timestamp};

use super::{longest_lease, wait};
use crate::common::{Lab, SOON};
use crate::harness::Outcome;

/// The work for which the latency-critical stream waits, and its own.
const PRODUCED: Duration = Duration::from_micros(2_000);
const CONSUMED: Duration = Duration::from_micros(100);

/// Rounds of each kind.
const ROUNDS: u32 = 20;

/// As long as an item can be.
const ENDLESS: Duration = Duration::from_secs(60);

/// A latency-critical TSG that waits for a best-effort one, beside two more of these that always have work.
struct Stage {
    lab: Lab,
    consumer: Context,
    producer: (Context, tsg::Id),
    _others: Vec<Context>,
    trace: Trace,
}

/// A round: from the producer's work to the end of the consumer's.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    /// All of it.
    took: Duration,
    /// The time for which neither of the two ran, nor a switch was under way.
    lost: Duration,
}

impl Stage {
    fn new() -> Result<Self> {
        longest_lease()?;
        let lab = Lab::open()?;
        let (consumer, consumer_tsg) = lab.compute()?;
        let (producer, tsg) = lab.context(&ContextSpec {
            share_words: Some(&consumer),
            ..ContextSpec::compute("producer")
        })?;
        let class = |id, level| lab.zernel.set_class(&Target::Tsg(id), level);
        class(consumer_tsg.id, Level::LC)?;
        class(tsg.id, Level::BE)?;
        let mut others = Vec::new();
        for _ in 0..2 {
            let (context, tsg) = lab.compute()?;
            class(tsg.id, Level::BE)?;
            context.submit(0, &[Item::work(ENDLESS); 60])?;
            others.push(context);
        }
        lab.wait_set()?;
        let trace = lab.sim.trace(0, 1 << 16)?;
        Ok(Self {
            lab,
            consumer,
            producer: (producer, tsg.id),
            _others: others,
            trace,
        })
    }

    fn round(&self, value: u32) -> Result<Round> {
        let waits = [
            Item::wait(0, Condition::AtLeast, value),
            Item::work(CONSUMED).notify(),
        ];
        let last = self.consumer.submit(0, &waits)?.last_seq;
        let work = [Item::work(PRODUCED), Item::release(0, value)];
        let began = self.producer.0.submit(0, &work)?.at;
        wait(&self.consumer, last)?;
        let (completions, _) = self.lab.sim.completions(16)?;
        let last = completions.last().context("nothing was told")?;
        let ended = last.end;
        let mut lost = Duration::ZERO;
        // The record of the consumer's work comes as its engine does something else.
        let mut records = Vec::new();
        crate::common::wait_until("the trace is there", || {
            let (more, dropped) = self.trace.read()?;
            ensure!(dropped == 0, "{dropped} records dropped");
            records.extend(more);
            Ok(records
                .iter()
                .any(|record| record.engine == 0 && record.end_ns >= ended))
        })?;
        for record in &records {
            lost += self.lost(record, began, ended);
        }
        Ok(Round {
            took: ended.since(began),
            lost,
        })
    }

    /// The part of a record between two times in which others ran.
    fn lost(&self, record: &Record, from: Timestamp, to: Timestamp) -> Duration {
        let own = [self.consumer.tsg(), self.producer.0.tsg()].contains(&record.tsg);
        if record.engine != 0 || record.activity != Activity::Run || own {
            return Duration::ZERO;
        }
        let (start, end) = (record.start_ns.max(from), record.end_ns.min(to));
        match end > start {
            true => end.since(start),
            false => Duration::ZERO,
        }
    }

    /// Some rounds with the producer at a level: their sums, and the longest.
    fn rounds(&self, level: Level, first: u32) -> Result<(Round, Round)> {
        let target = Target::Tsg(self.producer.1);
        let (mut sum, mut longest) = (Round::default(), Round::default());
        for value in first..first + ROUNDS {
            self.lab.zernel.set_class(&target, level)?;
            self.lab.wait_set()?;
            let round = self.round(value)?;
            sum.took += round.took;
            sum.lost += round.lost;
            longest.took = longest.took.max(round.took);
            longest.lost = longest.lost.max(round.lost);
            // The others go on meanwhile.
            std::thread::sleep(Duration::from_millis(7));
        }
        println!(
            "    # producer at level {level}: {:?} in the mean, {:?} at most, others ran for {:?} and {:?}",
            sum.took / ROUNDS,
            longest.took,
            sum.lost / ROUNDS,
            longest.lost,
        );
        Ok((sum, longest))
    }
}

/// As best-effort the producer waits for its turn, and the latency-critical stream with it. With the level
/// of the one that waits, others run for a fourth of that at most, and for less than 1 ms in the mean.
pub(super) fn ends_with_a_class() -> Outcome {
    let stage = Stage::new()?;
    let (below, _) = stage.rounds(Level::BE, 1)?;
    let (raised, _) = stage.rounds(Level::LC, 1 + ROUNDS)?;
    // The wait below depends on the turns and on the worker, the one above on the GPU alone.
    ensure!(
        raised.lost * 4 < below.lost,
        "others ran for {:?} below and {:?} above",
        below.lost,
        raised.lost
    );
    let most = Duration::from_micros(1_000) * ROUNDS;
    ensure!(raised.lost < most, "others ran for {:?}", raised.lost);
    ensure!(below.took < SOON, "{:?}", below.took);
    Ok(())
}
