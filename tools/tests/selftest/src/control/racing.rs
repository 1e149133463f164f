// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owners that change their TSGs at the very moment that a class comes or goes.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Result};
use libzernel::sim::{Context, Description};
use libzernel::{Target, Tsg};
use rustix::io::Errno;
use testkit::random::Random;

use super::{calm, classify, held, try_both, PLAIN, WISH};
use crate::check_eq;
use crate::common::{errno, level, slice_of, tune, Lab};
use crate::events::known;
use crate::harness::Outcome;

/// A lab, its TSGs, and the end of the race.
struct Race {
    lab: Lab,
    tsgs: Vec<(Context, Tsg)>,
    end: Instant,
}

impl Race {
    /// Calls `act` with one TSG after the other until the end.
    fn run(
        &self,
        seed: u64,
        mut act: impl FnMut(&mut Random, &Context, &Tsg) -> Outcome,
    ) -> Outcome {
        let mut random = Random::new(seed);
        while Instant::now() < self.end {
            let at = random.below(self.tsgs.len() as u64) as usize;
            act(&mut random, &self.tsgs[at].0, &self.tsgs[at].1)?;
        }
        Ok(())
    }

    /// An owner that tries to have its way: how often it was refused, and let through.
    fn wish(&self, seed: u64) -> Result<(u64, u64)> {
        let (mut refused, mut passed) = (0, 0);
        self.run(seed, |random, context, _| {
            let answer = match random.below(4) {
                0 => context.set_timeslice(50_000 + random.below(1_000) as u32),
                1 => context.set_interleave(random.below(3) as u32),
                2 => context.set_enabled(random.below(2) == 0),
                _ => context.start(),
            };
            match errno(answer) {
                Some(Errno::PERM) => refused += 1,
                // Of a suspended GPU: allowed, but not done.
                None | Some(Errno::AGAIN) => passed += 1,
                Some(other) => bail!("an owner was answered {other}"),
            }
            Ok(())
        })?;
        Ok((refused, passed))
    }

    /// An administrator that changes everything.
    fn rule(&self, seed: u64) -> Outcome {
        let Self { lab, .. } = self;
        self.run(seed, |random, context, tsg| {
            let target = Target::Tsg(tsg.id);
            match random.below(10) {
                0..=3 => {
                    let set = errno(lab.zernel.set_class(&target, level(random.below(8) as u8)));
                    ensure!(matches!(set, None | Some(Errno::OPNOTSUPP)), "{set:?}");
                }
                4 | 5 => {
                    let clear = errno(lab.zernel.clear_class(&target));
                    ensure!(matches!(clear, None | Some(Errno::NODATA)), "{clear:?}");
                }
                6 => {
                    let policy = ["deny", "reapply", "allow"][random.below(3) as usize];
                    tune("user_control", policy)?;
                }
                7 => context.describe(&Description {
                    compute: random.below(2) == 0,
                    shared: random.below(4) == 0,
                    channels: random.below(9) as u32,
                })?,
                8 => lab.sim.forget(0)?,
                _ => {
                    lab.sim.suspend(0, true)?;
                    lab.sim.suspend(0, false)?;
                }
            }
            Ok(())
        })
    }
}

pub(super) fn everybody_at_once() -> Outcome {
    let lab = Lab::open()?;
    let tsgs = (0..6).map(|_| known(&lab)).collect::<Result<_>>()?;
    let before = lab.stats()?;
    let end = Instant::now() + Duration::from_secs(8);
    let race = &Race { lab, tsgs, end };
    let (mut refused, mut passed) = (0, 0);
    std::thread::scope(|scope| -> Outcome {
        let owners = [1, 2, 3].map(|seed| scope.spawn(move || race.wish(seed)));
        let rulers = [4, 5].map(|seed| scope.spawn(move || race.rule(seed)));
        for owner in owners {
            let counted = owner.join().expect("an owner")?;
            refused += counted.0;
            passed += counted.1;
        }
        for ruler in rulers {
            ruler.join().expect("an administrator")?;
        }
        Ok(())
    })?;
    println!("    # {refused} refused, {passed} let through");
    let lab = &race.lab;
    let after = lab.stats()?;
    check_eq!(after.controls_denied - before.controls_denied, refused);
    let reapplied = after.controls_reapplied - before.controls_reapplied;
    ensure!(reapplied <= passed, "{reapplied} of {passed} put right");
    check_eq!(after.errors, before.errors);
    check_eq!(after.tsgs_dead, before.tsgs_dead);

    // Whatever they did, the last word is zernel's, and then the owner's.
    tune("user_control", "deny")?;
    for (context, tsg) in &race.tsgs {
        context.describe(&PLAIN)?;
        classify(lab, context, tsg, 7)?;
        check_eq!(held(context)?, (slice_of(7), 0));
        check_eq!(try_both(context)?, Some(Errno::PERM));
        let own = lab.tsg(tsg.id)?.default_timeslice_us;
        lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
        lab.wait_slice(context, own)?;
        calm(lab, tsg)?;
        check_eq!(try_both(context)?, None);
        calm(lab, tsg)?;
        check_eq!(held(context)?, WISH);
    }
    Ok(())
}
