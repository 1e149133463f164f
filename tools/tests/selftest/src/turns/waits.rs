// SPDX-License-Identifier: MIT OR Apache-2.0
//! The waits of LC for the TSGs that take turns, of these, and of the GPU.

use std::time::Duration;

use anyhow::ensure;
use libzernel::sim::{Activity, Context, Item, Record};
use libzernel::{tsg, Level, Target, Timestamp};

use super::{at_most, keep_busy, Crowd, MS};
use crate::common::{default_of, slice_of, wait_until, Lab};
use crate::harness::Outcome;

/// LC finds the GPU within one short slice and the switches around it, however many wait.
pub(super) fn of_lc() -> Outcome {
    const REQUESTS: usize = 150;
    let lab = Lab::open()?;
    let info = lab.sim.gpu_info(0)?;
    let crowd = Crowd::taking_turns(&lab, &[1024; 8])?;
    let (context, tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), Level::LC)?;
    lab.wait_slice(&context, slice_of(0))?;
    // The interleave level is set after the slice.
    lab.wait_set()?;
    for _ in 0..REQUESTS {
        let submitted = context.submit(0, &[Item::work(Duration::from_micros(100))])?;
        context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    let stats = context.stats()?;
    ensure!(stats.completed == REQUESTS as u64, "{stats:?}");
    // In a hand-over a switch to the successor may have begun.
    let slice = u64::from(slice_of(7)) * 1_000;
    let most = slice + 2 * info.save_ns + info.restore_ns;
    at_most("the longest wait of LC", stats.max_wait_ns, most)?;
    crowd.wait_everybody_runs(10 * MS)
}

/// Times in which one TSG ran and no other.
fn stretches(records: &[Record]) -> Vec<(u64, Timestamp, Timestamp)> {
    let mut stretches: Vec<(u64, Timestamp, Timestamp)> = Vec::new();
    for record in records {
        if record.engine != 0 || record.activity != Activity::Run {
            continue;
        }
        match stretches.last_mut() {
            Some((tsg, _, end)) if *tsg == record.tsg => *end = record.end_ns,
            _ => stretches.push((record.tsg, record.start_ns, record.end_ns)),
        }
    }
    stretches
}

/// The longest from the end of one of these to the beginning of the next.
fn longest_gap<'a>(of: impl Iterator<Item = &'a (u64, Timestamp, Timestamp)>) -> u64 {
    let (mut longest, mut last) = (0, None);
    for &(_, start, end) in of {
        let since = last.map_or(0, |last: Timestamp| start.as_ns() - last.as_ns());
        longest = longest.max(since);
        last = Some(end);
    }
    longest
}

/// Nobody waits longer than the documented bound, which goes by how long turns and hand-overs were.
pub(super) fn of_best_effort() -> Outcome {
    const COUNT: usize = 6;
    const TURNS: u64 = 12;
    let lab = Lab::open()?;
    let quantum = u64::from(default_of("rotation_quantum_us")) * 1_000;
    let crowd = Crowd::taking_turns(&lab, &[1024; COUNT])?;
    let trace = lab.sim.trace(0, 1 << 18)?;
    // Shorter ones are slices of a hand-over.
    let is_turn = |of: &&(u64, Timestamp, Timestamp)| of.2.since(of.1) >= Duration::from_millis(1);
    let mut records = Vec::new();
    let stretches = loop {
        crowd.wait_everybody_runs(TURNS * quantum)?;
        let (more, dropped) = trace.read()?;
        ensure!(dropped == 0, "{dropped} records dropped");
        records.extend(more);
        let stretches = stretches(&records);
        let turns = |(context, _): &(Context, tsg::Id)| {
            let own = stretches.iter().filter(|of| of.0 == context.tsg());
            own.filter(is_turn).count() as u64
        };
        if crowd.members.iter().map(turns).min() >= Some(TURNS / 2) {
            break stretches;
        }
    };
    let lengths = stretches.iter().map(|of| of.2.as_ns() - of.1.as_ns());
    let turn = lengths.max().unwrap_or(0);
    let hand_over = longest_gap(stretches.iter().filter(is_turn));
    let longest = (quantum + quantum / 16).max(turn) + hand_over;
    println!("    # longest turn {turn} ns, longest hand-over {hand_over} ns");
    let most = 5 * (COUNT as u64 - 1) * longest;
    for (context, _) in &crowd.members {
        let own = stretches.iter().filter(|of| of.0 == context.tsg());
        at_most("from one turn to the next", longest_gap(own), most)?;
    }
    Ok(())
}

/// A TSG with nothing to run does not keep the GPU from one that has.
pub(super) fn of_the_busy() -> Outcome {
    const ROUNDS: u64 = 20;
    let lab = Lab::open()?;
    let crowd = Crowd::new(&lab, 2)?;
    for at in 0..2 {
        lab.zernel.set_class(&crowd.target(at), Level::BE)?;
        lab.wait_slice(crowd.context(at), slice_of(7))?;
    }
    keep_busy(crowd.context(0))?;
    let burst = |length: u64| -> Outcome {
        let item = Item::work(Duration::from_nanos(length));
        let context = crowd.context(1);
        let submitted = context.submit(0, &[item])?;
        context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
        Ok(())
    };
    burst(2 * MS)?;
    let before = (lab.sim.engine_stats(0, 0)?, crowd.busy()?);
    for _ in 0..ROUNDS {
        burst(2 * MS)?;
        // Three quarters of the time nobody but the busy one has anything to run.
        let busy = crowd.context(0).stats()?.busy_ns;
        wait_until("the busy one goes on", || {
            Ok(crowd.context(0).stats()?.busy_ns >= busy + 30 * MS)
        })?;
    }
    let after = (lab.sim.engine_stats(0, 0)?, crowd.busy()?);
    let idle = after.0.idle_ns - before.0.idle_ns;
    let busy = after.1[0] - before.1[0];
    ensure!(busy >= ROUNDS * 30 * MS, "{busy} ns");
    ensure!(after.1[1] - before.1[1] >= ROUNDS * 2 * MS, "{after:?}");
    // Enabling takes a quarter of a millisecond, and some more on a busy machine. Without turns that
    // pass on, the other one would not run at all.
    let most = match testkit::is_short() {
        true => busy / 2,
        false => ROUNDS * 10 * MS / 4,
    };
    at_most("idle while somebody had work", idle, most)
}
