// SPDX-License-Identifier: GPL-2.0
//! Owners that change their TSGs at the very moment that a class comes or goes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Context as _, Result};
use libzernel::sim::{Context, Description, Operation};
use libzernel::{Level, Target};
use rustix::io::Errno;
use testkit::random::Random;

use super::{calm, counts, held, known, DEFAULT_US, POLICIES, WISH_US};
use crate::check_eq;
use crate::common::{errno, level, slice_of, tune, wait_until, Lab};
use crate::events::Broken;
use crate::harness::Outcome;

/// The time that the driver takes for an allowed change, so that everything else comes first.
const LONG: Duration = Duration::from_secs(2);

/// Has the owner set its wish; while the driver takes its time with it, does `meanwhile`.
fn overtake(lab: &Lab, context: &Context, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
    let slow = Broken::new(
        &lab.sim,
        Operation::UserControl,
        Some(context),
        1,
        None,
        LONG,
    )?;
    std::thread::scope(|scope| {
        let owner = scope.spawn(|| context.set_timeslice(WISH_US));
        slow.wait_hits(1)?;
        meanwhile()?;
        let set = owner.join().map_err(|_| anyhow!("the owner panicked"))?;
        set.context("allowed before the class came")
    })
}

/// The class is in force although the driver does afterwards what was allowed before.
pub(super) fn overtaken_by_a_class() -> Outcome {
    let lab = Lab::open()?;
    for policy in ["deny", "reapply"] {
        tune("user_control", policy)?;
        let (context, tsg) = known(&lab)?;
        let changes = context.stats()?.slice_changes;
        let before = counts(&lab)?;
        overtake(&lab, &context, || {
            lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
            lab.wait_slice(&context, slice_of(7))
        })?;
        lab.wait_slice(&context, slice_of(7))?;
        calm(&lab, &tsg)?;
        check_eq!(held(&context)?.0, slice_of(7), "{policy}");
        let changes = context.stats()?.slice_changes - changes;
        check_eq!(changes, 3, "class, wish, class: {policy}");
        check_eq!(counts(&lab)?, before, "nothing was denied: {policy}");
        lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
        lab.wait_slice(&context, DEFAULT_US)?;

        // A class that comes and goes meanwhile leaves the owner what it wished.
        calm(&lab, &tsg)?;
        overtake(&lab, &context, || {
            lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
            lab.wait_slice(&context, slice_of(7))?;
            lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
            lab.wait_slice(&context, DEFAULT_US)?;
            calm(&lab, &tsg)
        })?;
        calm(&lab, &tsg)?;
        check_eq!(held(&context)?.0, WISH_US, "{policy}");
    }
    Ok(())
}

/// An allowed setting stays, but not longer than the class: even if that asks for the setting that
/// the TSG had before, so that nothing seems to be there to give back.
pub(super) fn allowed_and_overtaken() -> Outcome {
    let lab = Lab::open()?;
    tune("user_control", "allow")?;
    tune("level7_timeslice_us", DEFAULT_US)?;
    tune("rotation_timeslice_us", DEFAULT_US)?;
    let (context, tsg) = known(&lab)?;
    overtake(&lab, &context, || {
        lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
        wait_until("the class is applied", || {
            let now = lab.tsg(tsg.id)?;
            Ok(now.level == Some(Level::BE) && !now.pending)
        })
    })?;
    calm(&lab, &tsg)?;
    check_eq!(held(&context)?.0, WISH_US);
    lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
    lab.wait_slice(&context, DEFAULT_US)
}

/// The state that the threads of [`everybody_at_once`] share.
struct Race {
    lab: Lab,
    contexts: Vec<(Context, libzernel::Tsg)>,
    over: AtomicBool,
    refused: AtomicU64,
    let_through: AtomicU64,
}

impl Race {
    /// An owner that tries to have its way.
    fn wish(&self, seed: u64) -> Result<()> {
        let mut random = Random::new(seed);
        while !self.over.load(Relaxed) {
            let at = random.below(self.contexts.len() as u64) as usize;
            let context = &self.contexts[at].0;
            let answer = match random.below(2) {
                0 => context.set_timeslice(50_000 + random.below(1_000) as u32),
                _ => context.set_interleave(random.below(3) as u32),
            };
            match errno(answer) {
                None => self.let_through.fetch_add(1, Relaxed),
                Some(Errno::PERM) => self.refused.fetch_add(1, Relaxed),
                // The GPU is suspended: allowed, but not done.
                Some(Errno::AGAIN) => self.let_through.fetch_add(1, Relaxed),
                Some(other) => bail!("an owner was answered {other}"),
            };
        }
        Ok(())
    }

    /// An administrator that changes everything.
    fn rule(&self, seed: u64) -> Result<()> {
        let mut random = Random::new(seed);
        while !self.over.load(Relaxed) {
            let at = random.below(self.contexts.len() as u64) as usize;
            let (context, tsg) = &self.contexts[at];
            match random.below(10) {
                0..=3 => {
                    let number = random.below(8) as u8;
                    let set = self
                        .lab
                        .zernel
                        .set_class(&Target::Tsg(tsg.id), level(number));
                    match errno(set) {
                        None | Some(Errno::OPNOTSUPP) => {}
                        Some(other) => bail!("set: {other}"),
                    }
                }
                4 | 5 => match errno(self.lab.zernel.clear_class(&Target::Tsg(tsg.id))) {
                    None | Some(Errno::NODATA) => {}
                    Some(other) => bail!("clear: {other}"),
                },
                6 => tune("user_control", POLICIES[random.below(3) as usize])?,
                7 => context.describe(&Description {
                    compute: random.below(2) == 0,
                    shared: random.below(4) == 0,
                    channels: random.below(9) as u32,
                })?,
                8 => self.lab.sim.forget(0)?,
                _ => {
                    self.lab.sim.suspend(0, true)?;
                    self.lab.sim.suspend(0, false)?;
                }
            }
        }
        Ok(())
    }

    fn run(&self, length: Duration) -> Result<()> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=5)
                .map(|seed| {
                    scope.spawn(move || {
                        let done = if seed <= 3 {
                            self.wish(seed)
                        } else {
                            self.rule(seed)
                        };
                        // One that fails ends the others too.
                        self.over.store(true, Relaxed);
                        done
                    })
                })
                .collect();
            let end = Instant::now() + length;
            while Instant::now() < end && !self.over.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
            self.over.store(true, Relaxed);
            for thread in threads {
                thread.join().map_err(|_| anyhow!("a thread panicked"))??;
            }
            Ok(())
        })
    }
}

pub(super) fn everybody_at_once() -> Outcome {
    let lab = Lab::open()?;
    let contexts = (0..6).map(|_| known(&lab)).collect::<Result<Vec<_>>>()?;
    let before = lab.stats()?;
    let race = Race {
        lab,
        contexts,
        over: AtomicBool::new(false),
        refused: AtomicU64::new(0),
        let_through: AtomicU64::new(0),
    };
    race.run(Duration::from_secs(10))?;
    let (refused, passed) = (race.refused.load(Relaxed), race.let_through.load(Relaxed));
    let after = race.lab.stats()?;
    println!("    # {refused} refused, {passed} let through");
    check_eq!(after.controls_denied - before.controls_denied, refused);
    if after.controls_reapplied - before.controls_reapplied > passed {
        bail!("{passed} let through, but {after:?}");
    }
    check_eq!(
        (after.errors, after.tsgs_dead),
        (before.errors, before.tsgs_dead)
    );

    // Whatever they did, the last word is zernel's, and then the owner's.
    tune("user_control", "deny")?;
    for (context, tsg) in &race.contexts {
        context.describe(&Description {
            compute: true,
            shared: false,
            channels: 1,
        })?;
        race.lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
        race.lab.wait_slice(context, slice_of(7))?;
        calm(&race.lab, tsg)?;
        check_eq!(held(context)?, (slice_of(7), 0));
        check_eq!(errno(context.set_timeslice(WISH_US)), Some(Errno::PERM));
        let own = race.lab.tsg(tsg.id)?.default_timeslice_us;
        race.lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
        race.lab.wait_slice(context, own)?;
        calm(&race.lab, tsg)?;
        context.set_timeslice(WISH_US)?;
        calm(&race.lab, tsg)?;
        check_eq!(held(context)?.0, WISH_US);
    }
    Ok(())
}
