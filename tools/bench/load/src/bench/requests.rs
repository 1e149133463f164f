// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs of requests: their calls, their stores, and the timer that triggers them.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::request::{Begin, Begun, Features, Number, Slot, Slots, Word};
use libzernel::{tsg, Timestamp, Zernel};
use rustix::time::{
    timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags,
    Timespec,
};
use zernel_report::stats::median_and_max;

use super::{Figure, Meter};
use crate::run::Tuned;
use crate::worker::sleep_until;

/// A preparation of the measured requests.
const PREPARATION: Duration = Duration::from_micros(300);

/// Duration of their kernels.
const KERNELS: Duration = Duration::from_millis(2);

/// The lease meanwhile.
const LEASE: Duration = Duration::from_millis(2);

/// Time before and after a timer is due in which its interrupt is looked for.
const BEFORE: Duration = Duration::from_micros(5);
const AFTER: Duration = Duration::from_micros(60);

/// Ready stores with a count of their system calls.
const STORES: u32 = 1_000;

/// Cost of a trigger beyond any timer.
pub(super) const TRIGGER_MORE: &str = "trigger: more than the timerfd";

/// Cost of a begin that learns from a request with features, and predicts another one.
pub(super) const BEGIN_FEATURES: &str = "REQUEST_BEGIN (features, after a lesson)";

/// The same beside another slot that teaches the key.
pub(super) const BEGIN_TWO_SLOTS: &str = "REQUEST_BEGIN (features, two slots of a key)";

/// Cost that features add to a timer with an outcome to learn from.
pub(super) const TIMER_FEATURES: &str = "end of a lease: features, more than without";

/// Costs of the calls and stores of requests.
pub(super) fn calls(meter: &Meter, zernel: &Zernel, id: tsg::Id) -> Result<Vec<Figure>> {
    let slots = Slots::map(zernel, 0..64)?;
    let slot = slots.slot(0).context("no slot 0")?;
    let other = slots.slot(1).context("no slot 1")?;
    let same = Begin::new(id).key(1);
    let mut key = 0;
    // As in a server: the request before is done, and its data was ready when it was predicted.
    let cycle = |slot: &Slot<'_>, begin: &Begin| -> libzernel::Result<()> {
        let begun = slot.begin(begin)?;
        pause(PREPARATION);
        slot.ready(begun.number);
        pause(KERNELS);
        slot.done(begun.number);
        Ok(())
    };
    let begun = || slot.begin(&same).map(|begun| begun.number);
    let ready = || -> libzernel::Result<Number> {
        let number = begun()?;
        slot.ready(number);
        Ok(number)
    };
    let (third, sized) = (slots.slot(2).context("no slot 2")?, sized(id, 30));
    let fourth = slots.slot(3).context("no slot 3")?;
    let learn_on = |slot: &Slot<'_>| -> libzernel::Result<()> {
        let begun = slot.begin(&sized)?;
        pause(PREPARATION);
        slot.ready(begun.number);
        // By a call, so that the outcome is known before the next begin, which learns from it.
        slot.done_call(begun.number)
    };
    let learn = || learn_on(&third);
    let learn_both = || {
        learn_on(&third)?;
        learn_on(&fourth)
    };
    Ok(vec![
        meter.after(
            "REQUEST_BEGIN",
            || cycle(&slot, &same),
            |()| slot.begin(&same),
        )?,
        meter.after(
            "REQUEST_BEGIN (another key)",
            || {
                key ^= 1;
                cycle(&other, &Begin::new(id).key(10 + key))?;
                Ok(Begin::new(id).key(11 - key))
            },
            |begin| other.begin(&begin),
        )?,
        {
            let _features = Tuned::set("predictor", "features")?;
            meter.after(BEGIN_FEATURES, learn, |()| third.begin(&sized))?
        },
        {
            let _features = Tuned::set("predictor", "features")?;
            meter.after(BEGIN_TWO_SLOTS, learn_both, |()| third.begin(&sized))?
        },
        meter.after("REQUEST_UPDATE, ready", begun, |number| {
            slot.ready_call(number)
        })?,
        meter.after("REQUEST_UPDATE, done", ready, |number| {
            slot.done_call(number)
        })?,
        meter.after("REQUEST_UPDATE, cancel", begun, |number| {
            slot.cancel(number)
        })?,
        meter.after("ready by store", begun, |number| {
            slot.ready(number);
            Ok(())
        })?,
        meter.after("done by store", ready, |number| {
            slot.done(number);
            Ok(())
        })?,
    ])
}

/// A request with as many features as there can be.
fn sized(id: tsg::Id, key: u64) -> Begin {
    let features = Features::new(&[1, 20, 300, 4_000, 50_000, 6, 70, 800]);
    Begin::new(id)
        .key(key)
        .features(features.unwrap_or_default())
}

fn pause(time: Duration) {
    // It has slept before; what fails now fails again where it is told.
    let _ = sleep_until(Timestamp::now() + time);
}

/// Costs of interrupts: the time that they take from a program that reads the clock all the time.
pub(super) fn interrupts(meter: &Meter, zernel: &Zernel, id: tsg::Id) -> Result<Vec<Figure>> {
    let slots = Slots::map(zernel, 0..64)?;
    let slot = slots.slot(0).context("no slot 0")?;
    let _lease = Tuned::set("lease_us", &LEASE.as_micros().to_string())?;
    let begin = Begin::new(id)
        .key(20)
        .expected(Duration::from_millis(1))
        .exact();
    let step = step();
    let mut plain = Vec::new();
    let mut trigger = Vec::new();
    let mut lease = Vec::new();
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty())?;
    for _ in 0..meter.repeat {
        let at = Timestamp::now() + Duration::from_millis(1);
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let spec = Itimerspec {
            it_interval: zero,
            it_value: at.timespec(),
        };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &spec)?;
        plain.extend(interruption(at, step));

        let Begun {
            number, trigger_at, ..
        } = slot.begin(&begin)?;
        trigger.extend(interruption(trigger_at, step));
        ensure!(
            number.is_reached_by(slot.load(Word::Trigger)),
            "the trigger did not come"
        );
        lease.extend(interruption(trigger_at + LEASE, step));
        ensure!(
            number.is_reached_by(slot.load(Word::Release)),
            "the lease did not end"
        );
    }
    let mut ends = Vec::new();
    for (predictor, key) in [("quantile", 21), ("features", 22)] {
        let _predictor = Tuned::set("predictor", predictor)?;
        let slot = slots.slot(1).context("no slot 1")?;
        ends.push(ends_of_leases(meter, &slot, &sized(id, key), step)?);
    }
    let middle = |samples: &mut Vec<u64>| median_and_max(samples);
    let (timerfd, trigger, lease) = (middle(&mut plain), middle(&mut trigger), middle(&mut lease));
    let ends: Vec<_> = ends.iter_mut().map(middle).collect();
    let [without, features] = ends.as_slice() else {
        bail!("an end of a lease was not measured");
    };
    let figure = |name, (median_ns, max_ns)| Figure {
        name,
        median_ns,
        max_ns,
    };
    let more = |(median, max): (u64, u64)| {
        let less = |from: u64| from.saturating_sub(timerfd.0);
        (less(median), less(max))
    };
    Ok(vec![
        figure("interrupt of a timerfd nobody waits for", timerfd),
        figure("interrupt of a trigger", trigger),
        figure("interrupt of the end of a lease", lease),
        figure(TRIGGER_MORE, more(trigger)),
        figure("end of a lease: more than the timerfd", more(lease)),
        figure("end of a lease, with an outcome to learn from", *without),
        figure(
            TIMER_FEATURES,
            (
                features.0.saturating_sub(without.0),
                features.1.saturating_sub(without.1),
            ),
        ),
    ])
}

/// The interrupts at the end of leases of requests, each behind one that is done, whose outcome the
/// timer works out.
fn ends_of_leases(meter: &Meter, slot: &Slot<'_>, begin: &Begin, step: u64) -> Result<Vec<u64>> {
    let mut ends = Vec::new();
    // The first ones have no prediction, and a trigger at once.
    for count in 0..meter.repeat + 4 {
        let begun = slot.begin(begin)?;
        pause(PREPARATION);
        slot.ready(begun.number);
        pause(KERNELS);
        slot.done(begun.number);
        let Begun {
            number, trigger_at, ..
        } = slot.begin(begin)?;
        let end = interruption(trigger_at + LEASE, step);
        ensure!(
            number.is_reached_by(slot.load(Word::Release)),
            "the lease did not end"
        );
        ends.extend(end.filter(|_| count >= 4));
    }
    Ok(ends)
}

/// Time from one reading of the clock to the next.
fn step() -> u64 {
    let mut steps: Vec<u64> = (0..100)
        .map(|_| {
            let before = Timestamp::now();
            Timestamp::now().since(before).as_nanos() as u64
        })
        .collect();
    median_and_max(&mut steps).0
}

/// Time of the interrupt around `at`, if there was one.
fn interruption(at: Timestamp, step: u64) -> Option<u64> {
    let from = Timestamp::from_ns(at.as_ns().saturating_sub(BEFORE.as_nanos() as u64));
    // The tick of the scheduler is no part of it: a sleep ends with all that was due.
    if sleep_until(Timestamp::from_ns(from.as_ns().saturating_sub(20_000))).is_err() {
        return None;
    }
    let until = at + AFTER;
    let mut last = Timestamp::now();
    let mut longest = 0;
    while last < until {
        let now = Timestamp::now();
        if last >= from {
            longest = longest.max(now.since(last).as_nanos() as u64);
        }
        last = now;
    }
    (longest > 2 * step).then(|| longest - step)
}

/// Where the kernel's tracing is.
const TRACING: &str = "/sys/kernel/tracing";

/// System calls that [`STORES`] readies by store and as many dones take, as the kernel's own tracing
/// counts them; none if it cannot.
pub(super) fn system_calls_of_ready(zernel: &Zernel) -> Result<Option<u64>> {
    let events = Path::new(TRACING).join("events/raw_syscalls/sys_enter");
    if !events.exists() {
        return Ok(None);
    }
    let slots = Slots::map(zernel, 0..64)?;
    let slot = slots.slot(0).context("no slot 0")?;
    let mut number = Number::new(1).context("it is not 0")?;
    let mut count = |stores: u32| {
        counted(|| {
            for _ in 0..stores {
                number = number.next();
                slot.ready(number);
                slot.done(number);
            }
        })
    };
    let nothing = count(0)?;
    let stores = count(STORES)?;
    Ok(Some(stores.saturating_sub(nothing)))
}

/// System calls of this process while `call` runs, with the one that ends the counting.
fn counted(mut call: impl FnMut()) -> Result<u64> {
    let instance = Instance::new()?;
    let file = |name: &str| instance.0.join(name);
    fs::write(file("set_event_pid"), std::process::id().to_string())?;
    let mut enable = File::options()
        .write(true)
        .open(file("events/raw_syscalls/sys_enter/enable"))?;
    enable.write_all(b"1")?;
    call();
    enable.write_all(b"0")?;
    let mut entries = 0;
    for cpu in fs::read_dir(file("per_cpu"))? {
        let stats = fs::read_to_string(cpu?.path().join("stats"))?;
        let line = stats.lines().find_map(|line| line.strip_prefix("entries:"));
        let number = line.context("no number of entries")?.trim();
        entries += number.parse::<u64>().context("the number of entries")?;
    }
    Ok(entries)
}

/// A trace of its own, which ends when this is dropped.
struct Instance(PathBuf);

impl Instance {
    fn new() -> Result<Self> {
        let path = Path::new(TRACING).join("instances/zernel-load");
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nothing depends on it.
        let _ = fs::remove_dir(&self.0);
    }
}
