// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hostile tenant beside two honest ones that always have something to run. Neither slices of its own,
//! nor deadlines, nor features give it GPU time that is theirs.
//!
//! Times are those of the software GPU, and only shares of them count: who had more because the worker came
//! late pays that back. So a case takes longer on a slow machine, and has the same outcome.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::class::Attributes;
use libzernel::request::{Begin, Features, Slots};
use libzernel::sim::{Context, Item};
use libzernel::{tsg, Level, Target, Weight, Zernel};
use testkit::passing;
use testkit::random::Random;

use crate::child::Child;
use crate::common::{slice_of, tune, wait_until_within, Lab, DRIVER_SLICE, SOON};
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB};
use crate::sys;

/// The user of the hostile one.
const EVE: u32 = 1002;

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// As long as an item can be.
const ENDLESS: Duration = Duration::from_secs(60);

/// Between two attempts of the hostile one: those that watch it have a CPU, too.
const PAUSE: Duration = Duration::from_micros(200);

/// A process of a user with a TSG that always has something to run.
struct Tenant {
    _child: Child,
    handle: u64,
    tsg: tsg::Id,
}

impl Tenant {
    fn new(user: u32, run: impl Fn(&Lab, &Context, tsg::Id) -> Outcome) -> Result<Self> {
        let (ours, theirs) = passing::pair()?;
        let child = Child::spawn(|| {
            sys::become_user(user, user, &[])?;
            let lab = Lab::open()?;
            let (context, tsg) = lab.compute()?;
            context.submit(0, &[Item::work(ENDLESS); 60])?;
            passing::send_number(&theirs, context.tsg())?;
            passing::send_number(&theirs, tsg.id.as_u64())?;
            loop {
                run(&lab, &context, tsg.id)?;
                std::thread::sleep(PAUSE);
            }
        })?;
        let handle = passing::receive_number(&ours)?;
        Ok(Self {
            _child: child,
            handle,
            tsg: tsg::Id::new(passing::receive_number(&ours)?),
        })
    }

    fn honest(user: u32) -> Result<Self> {
        Self::new(user, |_, _, _| {
            std::thread::sleep(ENDLESS);
            Ok(())
        })
    }
}

/// GPU time of each.
fn busy(lab: &Lab, tenants: &[&Tenant]) -> Result<Vec<u64>> {
    let each = tenants.iter();
    each.map(|tenant| Ok(lab.sim.tsg_stats(tenant.handle)?.busy_ns))
        .collect()
}

/// GPU time of a tenant that it has by right, of so much time in all, if others have had so much.
type Right = fn(time: u64, others: &[u64]) -> u64;

/// As best-effort: as much as the others have in the mean, and a tenth of that.
fn equal(_: u64, others: &[u64]) -> u64 {
    let all: u64 = others.iter().sum();
    all / others.len().max(1) as u64 * 11 / 10
}

/// Of a level with a budget: 0.4 s of 4 s.
const BUDGET_US: u64 = 400_000;
const PERIOD_US: u64 = 4_000_000;

/// At level 0: the budget, and as throttled a slice for each of the one whose turn it is. The budget can be
/// exceeded in each period by as much as the worker comes late: a twentieth of the period is for that.
fn budget(time: u64, others: &[u64]) -> u64 {
    let all: u64 = others.iter().sum();
    time * BUDGET_US / PERIOD_US + time / 20 + all * 11 / 10
}

/// Waits until the first, which is hostile, has had no more than its right, in so much time or more, in
/// which the others ran, too.
fn has_its_right(
    lab: &Lab,
    what: &str,
    tenants: &[&Tenant],
    (least, right): (u64, Right),
) -> Outcome {
    let clock = || Ok::<_, anyhow::Error>(lab.sim.engine_stats(0, 0)?.now_ns.as_ns());
    let (began, before) = (clock()?, busy(lab, tenants)?);
    let (mut time, mut had, mut most) = (0, Vec::new(), 0);
    wait_until_within(2 * SOON, what, || {
        let now = busy(lab, tenants)?;
        time = clock()? - began;
        had = now.iter().zip(&before).map(|(n, b)| n - b).collect();
        let others = &had[1..];
        most = right(time, others);
        let ran = others.iter().all(|&had| had > 0);
        Ok(ran && time >= least && had[0] <= most)
    })
    .with_context(|| format!("{what}: {had:?} ns of {time}, the first at most {most}"))?;
    println!("    # {what}: {had:?} ns of {time}, the first at most {most}");
    Ok(())
}

/// Two honest ones and a hostile one, which takes turns with them or shares the GPU in slices, all of the
/// class of everybody.
fn beside_best_effort(what: &str, run: impl Fn(&Lab, &Context, tsg::Id) -> Outcome) -> Outcome {
    let lab = Lab::open()?;
    tune("default_class", 7)?;
    for rotation in ["fair", "none"] {
        tune("rotation", rotation)?;
        let honest = [Tenant::honest(ALICE)?, Tenant::honest(BOB)?];
        let hostile = Tenant::new(EVE, &run)?;
        let all = [&hostile, &honest[0], &honest[1]];
        has_its_right(&lab, &format!("{what}, {rotation}"), &all, (SECOND, equal))?;
    }
    tune("rotation", "fair")
}

/// A hostile one that a manager has given level 0, with a budget.
fn as_latency_critical(what: &str, run: impl Fn(&Lab, &Context, tsg::Id) -> Outcome) -> Outcome {
    let lab = Lab::open()?;
    tune("default_class", 7)?;
    tune("level0_period_us", PERIOD_US)?;
    tune("level0_budget_us", BUDGET_US)?;
    let honest = [Tenant::honest(ALICE)?, Tenant::honest(BOB)?];
    let hostile = Tenant::new(EVE, &run)?;
    let target = Target::Tsg(hostile.tsg);
    lab.zernel.set_class(&target, Level::LC)?;
    let all = [&hostile, &honest[0], &honest[1]];
    has_its_right(
        &lab,
        &format!("{what}, level 0"),
        &all,
        (PERIOD_US * 1_000, budget),
    )
}

/// Another number each time.
fn seed() -> u64 {
    static SEED: AtomicU64 = AtomicU64::new(1);
    SEED.fetch_add(1, Relaxed)
}

/// Slices, levels and weights, by every way that an owner has.
fn ask_for_slices(random: &mut Random, lab: &Lab, context: &Context, tsg: tsg::Id) {
    const SLICES: [u32; 6] = [10, 50, 200, 1_024, 100_000, 10_000_000];
    let slice = SLICES[random.below(6) as usize];
    let target = match random.below(3) {
        0 => Target::current_thread(),
        1 => Target::current_process(),
        _ => Target::Tsg(tsg),
    };
    let mut class = match random.below(3) {
        0 => Attributes::default(),
        // Level 6 is everybody's where no class is given.
        1 => Attributes::from(Level::new(6).unwrap_or(Level::BE)),
        _ => Attributes::from(Level::BE),
    };
    class.timeslice_us = Some(slice);
    if random.one_in(2) {
        class.weight = Weight::new(10_000);
    }
    // Refused or not.
    let _ = match random.below(8) {
        0 => lab.zernel.clear_class(&target).is_ok(),
        1 => context.set_timeslice(slice).is_ok(),
        2 => context.set_interleave(2).is_ok(),
        _ => lab.zernel.set_class(&target, class).is_ok(),
    };
}

/// An owner's slices take from itself alone.
pub(super) fn slices() -> Outcome {
    let run = |lab: &Lab, context: &Context, tsg| {
        let mut random = Random::new(seed());
        ask_for_slices(&mut random, lab, context, tsg);
        Ok(())
    };
    beside_best_effort("slices", run)?;
    // Once it is over, each has its slice.
    let lab = Lab::open()?;
    let (one, _) = lab.compute()?;
    lab.wait_slice(&one, slice_of(7))?;
    tune("default_class", "none")?;
    lab.wait_slice(&one, DRIVER_SLICE)
}

/// Requests without an end, each with another lie.
fn lie(lab: &Lab, tsg: tsg::Id, tell: impl Fn(&mut Random, Begin) -> Begin) -> Outcome {
    let mut random = Random::new(seed());
    let slots = Slots::map(&Zernel::open()?, 0..64)?;
    for _ in 0..2_000 {
        let slot = slots
            .slot(random.below(64) as u32)
            .context("it was mapped")?;
        let begin = Begin::new(tsg).key(random.below(4));
        let begin = match random.one_in(2) {
            true => begin.without_holder(),
            false => begin,
        };
        // Refused or not, and most are left to their lease.
        if let Ok(begun) = slot.begin(&tell(&mut random, begin)) {
            let _ = match random.below(6) {
                0 => slot.ready_call(begun.number).is_ok(),
                1 => slot.cancel(begun.number).is_ok(),
                2 => slot.done_call(begun.number).is_ok(),
                _ => true,
            };
        }
        std::thread::sleep(PAUSE);
    }
    // Another file, and other slots.
    ensure!(lab.zernel.info().is_ok(), "the device is gone");
    Ok(())
}

/// Deadlines that no other can have earlier, in the order of deadlines.
pub(super) fn deadlines() -> Outcome {
    let run = |lab: &Lab, _: &Context, tsg| {
        lie(lab, tsg, |random, begin| {
            let slo = Duration::from_nanos(1 + random.below(3) * 1_000_000);
            begin.slo(slo)
        })
    };
    tune("order", "edf")?;
    for no_holder in ["kick", "exclude"] {
        tune("no_holder", no_holder)?;
        as_latency_critical(no_holder, run)?;
        beside_best_effort(no_holder, run)?;
    }
    Ok(())
}

/// Features of every size, with expectations that are as far off.
pub(super) fn features() -> Outcome {
    let run = |lab: &Lab, _: &Context, tsg| {
        lie(lab, tsg, |random, begin| {
            let numbers: Vec<i64> = (0..random.below(9)).map(|_| random.edge() as i64).collect();
            let expected = Duration::from_nanos(random.edge() >> 30);
            match Features::new(&numbers) {
                Some(features) => begin.features(features).expected(expected),
                None => begin.expected(expected),
            }
        })
    };
    tune("predictor", "features")?;
    beside_best_effort("features", run)?;
    as_latency_critical("features", run)
}
