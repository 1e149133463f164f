// SPDX-License-Identifier: GPL-2.0
//! Calls to enable and disable that fail: everybody falls back to slices, and nobody stays disabled.

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::event::Kind;
use libzernel::sim::{Fault, Operation, Sim};
use libzernel::{EventStream, Level};
use rustix::io::Errno;

use super::{Crowd, MS};
use crate::check_eq;
use crate::common::{slice_of, tune, wait_until, Lab};
use crate::harness::Outcome;

/// Calls to enable or disable that fail until this is dropped.
struct Broken<'a> {
    sim: &'a Sim,
    base: u64,
}

impl<'a> Broken<'a> {
    const OPERATION: Operation = Operation::SetEnabled;

    fn new(sim: &'a Sim, tsg: Option<u64>, error: Errno) -> Result<Self> {
        let base = sim.injected(0, Self::OPERATION)?;
        Self::inject(sim, u32::MAX, tsg, Some(error))?;
        Ok(Self { sim, base })
    }

    fn inject(sim: &Sim, count: u32, tsg: Option<u64>, error: Option<Errno>) -> Result<()> {
        sim.inject(&Fault {
            gpu: 0,
            operation: Self::OPERATION,
            count,
            error,
            delay: Duration::ZERO,
            tsg,
        })?;
        Ok(())
    }

    fn wait_hits(&self, count: u64) -> Result<()> {
        wait_until("calls fail", || {
            Ok(self.sim.injected(0, Self::OPERATION)? - self.base >= count)
        })
    }
}

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        // Fails only when the device is gone, and its faults with it.
        let _ = Self::inject(self.sim, 0, None, None);
    }
}

/// The next event of this kind.
fn wait_event(events: &mut EventStream, kind: Kind) -> Result<libzernel::Event> {
    let mut found = None;
    wait_until("an event", || {
        while let Some(event) = events.next_within(Some(Duration::ZERO))? {
            if event.kind == kind {
                found = Some(event);
                return Ok(true);
            }
        }
        Ok(false)
    })?;
    found.ok_or_else(|| anyhow::anyhow!("no event"))
}

/// The enabled TSGs, each looked at after the other.
fn enabled_by_and_by(crowd: &Crowd<'_>) -> Result<Vec<usize>> {
    let stats = crowd.stats()?;
    let enabled = stats.iter().enumerate().filter(|(_, stats)| stats.enabled);
    Ok(enabled.map(|(at, _)| at).collect())
}

pub(super) fn hard_errors() -> Outcome {
    for errno in [Errno::IO, Errno::TIMEDOUT, Errno::INVAL, Errno::NOSYS] {
        let lab = Lab::open()?;
        let all = [0, 1, 2, 3];
        let crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
        let mut events = lab.zernel.events()?;
        // The first use starts the stream.
        while events.next_within(Some(Duration::ZERO))?.is_some() {}
        let before = lab.stats()?;
        let errors = (crowd.members.iter())
            .map(|(_, id)| Ok(lab.tsg(*id)?.errors))
            .collect::<Result<Vec<_>>>()?;
        let broken = Broken::new(&lab.sim, None, errno)?;
        // All but one, which is then the only one left that takes turns.
        wait_until("three of them failed", || {
            let mut failed = 0;
            for (at, (_, id)) in crowd.members.iter().enumerate() {
                failed += u32::from(lab.tsg(*id)?.errors > errors[at]);
            }
            Ok(failed >= 3)
        })?;
        let event = wait_event(&mut events, Kind::TsgError)?;
        check_eq!(event.error, -errno.raw_os_error(), "event");
        check_eq!(event.level, Some(Level::BE), "event");
        let members: Vec<_> = crowd.members.iter().map(|(_, id)| *id).collect();
        ensure!(members.contains(&event.tsg), "{event:?}");
        ensure!(
            crowd.stats()?.iter().any(|stats| stats.enabled),
            "nobody is enabled"
        );
        drop(broken);
        // Those that were disabled are enabled as soon as that is possible. (After a suspend, all
        // would try again to take turns.)
        let all_are = || Ok(enabled_by_and_by(&crowd)? == all);
        wait_until("all are enabled", all_are).with_context(|| format!("{errno:?}"))?;
        crowd.wait_all_run(&all, MS)?;
        ensure!(all_are()?, "not all stay enabled after {errno:?}");
        ensure!(lab.stats()?.errors > before.errors, "no error counted");
        check_eq!(lab.stats()?.tsgs_dead, before.tsgs_dead, "TSGs dropped");
        // Another class and back, and they take part again.
        for class in [Level::LC, Level::BE] {
            for at in all {
                lab.zernel.set_class(&crowd.target(at), class)?;
            }
            for at in all {
                lab.wait_slice(crowd.context(at), slice_of(class.number()))?;
            }
        }
        crowd.settle_turns()?;
        crowd.wait_all_run(&all, 5 * MS)?;
    }
    Ok(())
}

/// One stays enabled, and the others take turns beside it.
pub(super) fn one_that_fails() -> Outcome {
    let lab = Lab::open()?;
    let all = [0, 1, 2, 3];
    let crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
    let broken = Broken::new(&lab.sim, Some(crowd.context(2).tsg()), Errno::IO)?;
    broken.wait_hits(1)?;
    crowd.wait_all_run(&[0, 1, 3], 20 * MS)?;
    drop(broken);
    wait_until("it is enabled, and one of the others", || {
        let enabled = enabled_by_and_by(&crowd)?;
        Ok(enabled.contains(&2) && enabled.len() == 2)
    })?;
    for _ in 0..200 {
        let enabled = enabled_by_and_by(&crowd)?;
        ensure!(enabled.contains(&2), "enabled: {enabled:?}");
    }
    crowd.wait_all_run(&all, 10 * MS)?;
    // When the GPU comes back, which the worker finds out when it calls meanwhile, it tries again.
    wait_until("it takes turns again", || {
        let is_alone = crowd.enabled()?.len() == 1;
        if !is_alone {
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(is_alone)
    })?;
    crowd.settle_turns()?;
    crowd.wait_all_run(&all, 10 * MS)?;
    tune("rotation", "none")?;
    crowd.wait_enabled(4)
}

/// `EAGAIN` is no failure: turns go on when the calls do.
pub(super) fn not_now() -> Outcome {
    let lab = Lab::open()?;
    let all = [0, 1, 2, 3];
    let crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
    let before = lab.stats()?;
    for tsg in [None, Some(crowd.context(1).tsg())] {
        let broken = Broken::new(&lab.sim, tsg, Errno::AGAIN)?;
        broken.wait_hits(5)?;
        drop(broken);
        crowd.settle_turns()?;
        crowd.wait_all_run(&all, 10 * MS)?;
    }
    let after = lab.stats()?;
    ensure!(after.retries > before.retries, "no retry counted");
    check_eq!(after.errors - before.errors, 0, "errors");
    // Nobody is left behind when the turns end meanwhile.
    let broken = Broken::new(&lab.sim, None, Errno::AGAIN)?;
    broken.wait_hits(2)?;
    tune("rotation", "none")?;
    broken.wait_hits(5)?;
    drop(broken);
    crowd.wait_enabled(4)
}

/// `ENOENT`: dropped, and nobody waits for it.
pub(super) fn gone() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
    let before = lab.stats()?;
    let broken = Broken::new(&lab.sim, Some(crowd.context(1).tsg()), Errno::NOENT)?;
    wait_until("it is dropped", || {
        Ok(lab.stats()?.tsgs_dead > before.tsgs_dead)
    })?;
    drop(broken);
    crowd.wait_all_run(&[0, 2, 3], 20 * MS)?;
    let after = lab.stats()?;
    check_eq!(after.tsgs_dead - before.tsgs_dead, 1, "TSGs dropped");
    check_eq!(after.errors - before.errors, 0, "errors");
    Ok(())
}
