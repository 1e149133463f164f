// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time beyond slices: best-effort TSGs take turns, the levels above them have budgets.
//!
//! Figures are times of the software GPU's model and ratios of them; what depends on how late the
//! worker is, is compared with how late it was seen to be.

mod budgets;
mod changes;
mod ends;
mod memory;
mod owners;
mod shares;
mod waits;

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::class::Attributes;
use libzernel::sim::{Context, Item, TsgStats};
use libzernel::{tsg, Level, Target, Weight};
use testkit::passing;

use crate::child::Child;
use crate::common::{slice_of, wait_until, wait_until_within, Lab, SOON};
use crate::harness::{case, suite, Outcome, Suite};
use crate::sim::turns::Suspended;

/// The suite.
pub const SUITE: Suite = suite(
    "turns",
    &[
        case("one_is_enabled", shares::one_is_enabled),
        case("one_alone_is_just_scheduled", shares::one_alone),
        case("shares_by_weight", shares::by_weight),
        case("shares_of_other_disciplines", shares::of_other_disciplines),
        case("weight_changes_at_once", shares::weight_changes_at_once),
        case("lc_waits_for_one_slice", waits::of_lc),
        case("nobody_starves", waits::of_best_effort),
        case("an_idle_one_passes_its_turn_on", waits::of_the_busy),
        case("another_class_and_back", changes::another_class_and_back),
        case("off_and_on", changes::off_and_on),
        case("everybody_gets_everything_back", changes::clearing),
        case("suspend_and_resume", changes::suspend_and_resume),
        case("who_enables_itself_waits_on", owners::who_enables_itself),
        case("who_stops_itself_goes_on", owners::who_stops_itself),
        case("who_stopped_before_its_turns", owners::who_stopped_before),
        case("a_start_is_never_refused", owners::a_start),
        case("starts_without_end", owners::starts_without_end),
        case("the_current_one_is_destroyed", ends::destroyed),
        case("the_current_one_is_killed", ends::killed),
        case("one_that_fails", ends::one_that_fails),
        case("provider_leaves_in_a_call", ends::provider_leaves_in_a_call),
        case("best_effort_is_not_starved", budgets::not_starved),
        case("calls_are_charged", budgets::slow_calls),
        case("who_leaves_is_charged", budgets::of_those_that_leave),
        case("no_bound", budgets::no_bound),
        case("less_urgent_is_held_back_first", budgets::less_urgent_first),
        case("no_memory_for_classes", memory::of_classes),
        case("no_memory_for_turns", memory::of_turns),
        case("held_down_stays_held_down", shares::held_down),
    ],
);

/// As long as an item can be.
const ENDLESS: Duration = Duration::from_secs(60);

const MS: u64 = 1_000_000;

/// A weight.
pub fn weight(number: u32) -> Result<Weight> {
    Weight::new(number).context("not a weight")
}

/// Best-effort with a weight.
fn best_effort(number: u32) -> Result<Attributes> {
    Ok(Attributes::from(Level::BE).weight(weight(number)?))
}

/// Gives it more work than any case waits for.
fn keep_busy(context: &Context) -> Result<()> {
    context.submit(0, &[Item::work(ENDLESS); 60])?;
    Ok(())
}

/// A process with a TSG of this level that is always busy; returns the TSG's handle, too.
fn tenant(level: Level) -> Result<(Child, u64)> {
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        let lab = Lab::open()?;
        lab.zernel.set_class(&Target::current_process(), level)?;
        let (context, _) = lab.compute()?;
        lab.wait_slice(&context, slice_of(level.number()))?;
        keep_busy(&context)?;
        passing::send_number(&theirs, context.tsg())?;
        loop {
            std::thread::sleep(ENDLESS);
        }
    })?;
    Ok((child, passing::receive_number(&ours)?))
}

/// TSGs of this process.
struct Crowd<'a> {
    lab: &'a Lab,
    members: Vec<(Context, tsg::Id)>,
}

impl<'a> Crowd<'a> {
    /// So many compute TSGs without a class.
    fn new(lab: &'a Lab, count: usize) -> Result<Self> {
        let members = (0..count)
            .map(|_| lab.compute().map(|(context, tsg)| (context, tsg.id)))
            .collect::<Result<_>>()?;
        Ok(Self { lab, members })
    }

    /// Best-effort TSGs that always have something to run, and take turns.
    fn taking_turns(lab: &'a Lab, weights: &[u32]) -> Result<Self> {
        let crowd = Self::new(lab, weights.len())?;
        for ((context, id), &number) in crowd.members.iter().zip(weights) {
            lab.zernel
                .set_class(&Target::Tsg(*id), best_effort(number)?)?;
            keep_busy(context)?;
        }
        crowd.settle_turns()?;
        Ok(crowd)
    }

    /// Waits until one is enabled, all have the slice of turns, and nothing is left to be set.
    fn settle_turns(&self) -> Outcome {
        for (context, _) in &self.members {
            self.lab.wait_slice(context, slice_of(7))?;
        }
        self.wait_enabled(1)?;
        self.lab.wait_set()
    }

    fn context(&self, at: usize) -> &Context {
        &self.members[at].0
    }

    fn target(&self, at: usize) -> Target {
        Target::Tsg(self.members[at].1)
    }

    fn stats(&self) -> Result<Vec<TsgStats>> {
        let each = self.members.iter().map(|(context, _)| Ok(context.stats()?));
        each.collect()
    }

    /// The enabled TSGs, all looked at in the same moment: nothing is enabled or disabled while the
    /// GPU is suspended.
    fn enabled(&self) -> Result<Vec<usize>> {
        let suspended = Suspended::new(&self.lab.sim, 0)?;
        let stats = self.stats()?;
        drop(suspended);
        Ok(Self::who(&stats))
    }

    /// Waits until so many are enabled.
    fn wait_enabled(&self, count: usize) -> Outcome {
        self.wait_who(&format!("{count} are enabled"), |enabled| {
            enabled.len() == count
        })
    }

    /// Waits until those are enabled that are wanted.
    ///
    /// After a suspension the worker sets everything anew. It gets more and more time for that, so
    /// that it comes to what is waited for on a slow machine, too.
    fn wait_who(&self, what: &str, wanted: impl Fn(&[usize]) -> bool) -> Outcome {
        let mut last = Vec::new();
        let mut rest = Duration::from_millis(20);
        wait_until(what, || {
            last = Self::who(&self.stats()?);
            if !wanted(&last) {
                return Ok(false);
            }
            last = self.enabled()?;
            if !wanted(&last) {
                std::thread::sleep(rest);
                rest = (rest * 2).min(Duration::from_secs(2));
            }
            Ok(wanted(&last))
        })
        .with_context(|| format!("enabled: {last:?}"))
    }

    fn who(stats: &[TsgStats]) -> Vec<usize> {
        let enabled = stats.iter().enumerate().filter(|(_, stats)| stats.enabled);
        enabled.map(|(at, _)| at).collect()
    }

    /// GPU time of each.
    fn busy(&self) -> Result<Vec<u64>> {
        Ok(self.stats()?.iter().map(|stats| stats.busy_ns).collect())
    }

    /// Waits until each of these has had so much more.
    fn wait_all_run(&self, which: &[usize], more: u64) -> Outcome {
        let before = self.busy()?;
        let mut now = Vec::new();
        wait_until("all of them run", || {
            now = self.busy()?;
            Ok(which.iter().all(|&at| now[at] - before[at] >= more))
        })
        .with_context(|| format!("{before:?} became {now:?}"))
    }

    fn wait_everybody_runs(&self, more: u64) -> Outcome {
        let everybody: Vec<_> = (0..self.members.len()).collect();
        self.wait_all_run(&everybody, more)
    }

    /// Waits until what each has had of the GPU, in a second or more, is within 2 % of what `due`
    /// says of it, which are parts of any size; in a short run within 10 % is enough after 100 s.
    ///
    /// One that had more because the worker came late pays it back, up to a few turns, so that this
    /// takes longer on a slow machine.
    fn wait_shares(&self, due: &[u32]) -> Outcome {
        let (least, most) = (1_000 * MS, 100_000 * MS);
        let sum = due.iter().map(|&due| u64::from(due)).sum::<u64>();
        let before = self.busy()?;
        let (mut had, mut all) = (Vec::new(), 0);
        let (mut reached, mut nearly) = (false, false);
        wait_until_within(2 * SOON, "the GPU is used", || {
            let now = self.busy()?;
            had = now
                .iter()
                .zip(&before)
                .map(|(now, then)| now - then)
                .collect();
            all = had.iter().sum();
            let is_within = |percent: u64| {
                let mut each = had.iter().zip(due);
                each.all(|(&had, &due)| {
                    let share = all * u64::from(due) / sum;
                    had.abs_diff(share) * 100 <= share * percent
                })
            };
            reached = all >= least && is_within(2);
            nearly = is_within(10);
            Ok(reached || all >= most)
        })?;
        let ms = all / MS;
        let enough = reached || nearly && testkit::is_short();
        ensure!(enough, "of {ms} ms, for shares {due:?}: {had:?}");
        let percent = if reached { 2 } else { 10 };
        println!("    # shares {due:?} are within {percent} % after {ms} ms");
        Ok(())
    }
}

/// Fails unless the value is there and as it should be.
fn at_most(what: &str, value: u64, most: u64) -> Outcome {
    ensure!(
        value <= most,
        "{what}: {value} ns, at most {most} ns expected"
    );
    println!("    # {what}: {value} ns of at most {most} ns");
    Ok(())
}
