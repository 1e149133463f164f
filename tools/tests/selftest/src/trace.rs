// SPDX-License-Identifier: MIT OR Apache-2.0
//! The content of tracepoints and debugfs.

mod requests;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::{Description, Fault, Operation};
use libzernel::{Phase, Target, Tracking, Tsg, Zernel};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{self, errno, level, slice_of, tid, told_slice_of, tune, wait_until, Lab};
use crate::group::Group;
use crate::harness::{case, suite, Outcome, Suite};
use crate::prefetch::Signaller;
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "trace",
    &[
        case("every_event_is_there", every_event_is_there),
        case("gpus", gpus),
        case("tsgs", tsgs),
        case("owners_ask_their_driver", owners_ask_their_driver),
        case("classes", classes),
        case("classes_expire", classes_expire),
        case("slices", slices),
        case("requests", requests::every_end),
        case("tsgs_kept_off", requests::preempted),
        case("levels_throttled", requests::throttled),
        case("phases_and_signals", phases_and_signals),
        case("state_agrees_with_the_lists", state_agrees_with_the_lists),
    ],
);

const TRACEFS: &str = "/sys/kernel/tracing";
const STATE: &str = "/sys/kernel/debug/zernel/state";

/// Every tracepoint.
const EVENTS: &str = "gpu_added gpu_removed \
    tsg_added tsg_removed tsg_changed tsg_user_control tsg_preempted tsg_kicked \
    class_set class_cleared class_expired class_changed \
    slice_applied slice_retried slice_failed level_throttled \
    request_begin request_trigger request_end phase_changed prefetch_signal";

/// A trace of its own with all events of zernel.
struct Tracer(PathBuf);

impl Tracer {
    fn new() -> Result<Self> {
        let path = Path::new(TRACEFS).join("instances/zernel-test");
        if path.exists() {
            // Of a case that did not come to its end.
            fs::remove_dir(&path)?;
        }
        fs::create_dir(&path)?;
        let tracer = Self(path);
        tracer.enable(true)?;
        Ok(tracer)
    }

    fn enable(&self, on: bool) -> Result<()> {
        let value = if on { "1" } else { "0" };
        fs::write(self.0.join("events/zernel/enable"), value).context("switch the events")
    }

    /// The events whose name begins so, in order: each its name and its content.
    fn all(&self, names: &str) -> Result<Vec<(String, String)>> {
        let text = fs::read_to_string(self.0.join("trace"))?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        // Behind the time comes the name, behind that the content.
        let events = lines.filter_map(|line| line.split_once(": ")?.1.split_once(": "));
        let events = events.map(|(name, told)| (name.trim().to_owned(), told.trim().to_owned()));
        Ok(events.filter(|(name, _)| name.starts_with(names)).collect())
    }

    /// The content of the events of this name, in order.
    fn told(&self, name: &str) -> Result<Vec<String>> {
        Ok(self.all(name)?.into_iter().map(|(_, told)| told).collect())
    }

    /// Waits until each of some events tells just that.
    fn wait(&self, expected: &[(&str, &[String])]) -> Outcome {
        for (name, expected) in expected {
            let mut told = Vec::new();
            wait_until(&format!("{name} tells {expected:?}"), || {
                told = self.told(name)?;
                Ok(told == *expected)
            })
            .with_context(|| format!("it tells {told:?}"))?;
        }
        Ok(())
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // The next one removes it if it stays.
        let _ = self.enable(false);
        let _ = fs::remove_dir(&self.0);
    }
}

/// A field of an event.
fn field<'a>(event: &'a str, name: &str) -> Result<&'a str> {
    let mut fields = event.split(' ').filter_map(|field| field.split_once('='));
    let found = fields.find(|(found, _)| *found == name);
    Ok(found.with_context(|| format!("no {name} in {event}"))?.1)
}

fn number(event: &str, name: &str) -> Result<u64> {
    Ok(field(event, name)?.parse()?)
}

/// The beginning of the events of a TSG of this process.
fn of_tsg(tsg: &Tsg) -> String {
    format!("gpu={} tsg={} pid={}", tsg.gpu, tsg.id, std::process::id())
}

fn every_event_is_there() -> Outcome {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(format!("{TRACEFS}/events/zernel"))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    let known: BTreeSet<_> = EVENTS.split_whitespace().map(str::to_owned).collect();
    check_eq!(names, known);
    Ok(())
}

fn gpus() -> Outcome {
    let ids = || -> Result<Vec<String>> {
        let gpus = Zernel::open()?;
        let gpus = gpus.gpus().map(|gpu| Ok(format!("gpu={}", gpu?.id)));
        gpus.collect()
    };
    let old = ids()?;
    let tracer = Tracer::new()?;
    common::unload_soon("zernel_sim")?;
    common::load_all()?;
    let new = ids()?;
    check_eq!((old.len(), new.len()), (2, 2));
    tracer.wait(&[("gpu_removed", &old), ("gpu_added", &new)])
}

/// A TSG comes, becomes another twice, and goes.
fn tsgs() -> Outcome {
    let lab = Lab::open()?;
    let tracer = Tracer::new()?;
    let (context, tsg) = lab.compute()?;
    let told = of_tsg(&tsg);
    let one = std::slice::from_ref(&told);
    tracer.wait(&[("tsg_added", one), ("tsg_removed", &[])])?;
    // Nothing new is nothing to tell.
    for (shared, more) in [(false, 0), (false, 1), (true, 1), (true, 1)] {
        context.describe(&Description {
            compute: true,
            shared,
            channels: tsg.channels + more,
        })?;
    }
    tracer.wait(&[("tsg_changed", &[told.clone(), told.clone()])])?;
    drop(context);
    tracer.wait(&[("tsg_added", one), ("tsg_removed", one)])
}

fn owners_ask_their_driver() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    let tracer = Tracer::new()?;
    let whose = of_tsg(&tsg);
    // Of a TSG without a class nothing is told.
    context.set_timeslice(3_000)?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(7))?;
    let mut told = Vec::new();
    for policy in ["deny", "reapply", "allow"] {
        tune("user_control", policy)?;
        for what in ["timeslice", "interleave", "schedule"] {
            let answer = match what {
                "timeslice" => errno(context.set_timeslice(4_000)),
                "interleave" => errno(context.set_interleave(1)),
                _ => errno(context.set_enabled(true)),
            };
            check_eq!(answer.is_some(), policy == "deny", "{policy} {what}");
            let answer = match (what, policy) {
                // Of a TSG that takes turns.
                ("schedule", "allow") => "reapply",
                _ => policy,
            };
            told.push(format!("{whose} what={what} answer={answer}"));
        }
        // In its turn a start is nothing to tell of.
        context.start()?;
    }
    tracer.wait(&[("tsg_user_control", &told)])
}

/// All that is told when classes are set, cleared and refused, and of the classes in force.
fn classes() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("traced")?;
    group.enter(0)?;
    let (_context, tsg) = lab.compute()?;
    let (id, pid) = (tsg.id, std::process::id());
    let tracer = Tracer::new()?;
    let told = |kind: &str, id: u64, level: i32, error: i32| {
        format!("target={kind} id={id} level={level} error={error}")
    };
    let (mut set, mut cleared, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    let mut in_force = |level: i32, source: &str| {
        changed.push(format!("tsg={id} level={level} source={source}"));
    };
    tune("default_class", 7)?;
    in_force(7, "default");
    let targets = [
        (group.target()?, "cgroup", group.id()?, 5),
        (Target::CurrentProcess, "process", pid.into(), 3),
        (Target::CurrentThread, "thread", tid().into(), 2),
        (Target::Tsg(id), "tsg", id.as_u64(), 1),
    ];
    for (target, kind, id, number) in &targets {
        lab.zernel.set_class(target, level(*number))?;
        set.push(told(kind, *id, (*number).into(), 0));
        in_force((*number).into(), kind);
    }
    // A class that another one hides changes nothing for the TSG.
    lab.zernel.set_class(&Target::CurrentProcess, level(6))?;
    set.push(told("process", pid.into(), 6, 0));
    for (target, kind, id, _) in targets.iter().rev() {
        lab.zernel.clear_class(target)?;
        cleared.push(told(kind, *id, -1, 0));
        check_eq!(errno(lab.zernel.clear_class(target)), Some(Errno::NODATA));
        cleared.push(told(kind, *id, -1, -61));
    }
    tune("default_class", "none")?;
    in_force(2, "thread");
    in_force(6, "process");
    in_force(5, "cgroup");
    in_force(7, "default");
    in_force(-1, "none");
    in_child(|| {
        sys::become_user(1000, 1000, &[])?;
        let zernel = Zernel::open()?;
        let answer = errno(zernel.set_class(&Target::Process(pid), level(7)));
        check_eq!(answer, Some(Errno::PERM));
        let answer = errno(zernel.clear_class(&Target::Process(pid)));
        check_eq!(answer, Some(Errno::PERM));
        let answer = errno(zernel.set_class(&Target::Tsg(id), level(7)));
        check_eq!(answer, Some(Errno::NOENT));
        Ok(())
    })?;
    set.push(told("process", pid.into(), 7, -1));
    set.push(told("tsg", id.as_u64(), 7, -2));
    cleared.push(told("process", pid.into(), -1, -1));
    tracer.wait(&[
        ("class_set", &set),
        ("class_cleared", &cleared),
        ("class_changed", &changed),
    ])?;
    crate::group::leave()
}

fn classes_expire() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("expires")?;
    let (context, tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(5))?;
    lab.zernel.set_class(&group.target()?, level(4))?;
    let tracer = Tracer::new()?;
    let told =
        |target: &str, id: u64, level: u8| format!("target={target} id={id} level={level} error=0");
    let mut expected = vec![told("tsg", tsg.id.as_u64(), 5)];
    drop(context);
    tracer.wait(&[("class_expired", &expected)])?;
    expected.push(told("cgroup", group.id()?, 4));
    group.remove()?;
    tracer.wait(&[("class_expired", &expected)])?;
    let child = Child::spawn(|| {
        Zernel::open()?.set_class(&Target::CurrentProcess, level(7))?;
        Ok(())
    })?;
    let id = u64::from(child.pid());
    child.join()?;
    wait_until("the process's class has ended", || {
        Ok(lab.stats()?.classes == 0)
    })?;
    // A reaped process has no number any more, so the trace may tell 0.
    let last = tracer.told("class_expired")?.pop().context("nothing")?;
    let known = [told("process", id, 7), told("process", 0, 7)];
    check_eq!(known.contains(&last), true, "{last}");
    Ok(())
}

/// Slices that are applied, told to come later, and failed.
fn slices() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    let target = Target::Tsg(tsg.id);
    wait_until("the worker has read the slice", || {
        Ok(lab.tsg(tsg.id)?.timeslice_us == 1024)
    })?;
    let tracer = Tracer::new()?;
    let told = |slices: &[u32], error: i32| -> Vec<String> {
        let begin = format!("gpu={} tsg={}", tsg.gpu, tsg.id);
        let slices = slices.iter();
        slices
            .map(|slice| format!("{begin} timeslice_us={slice} error={error}"))
            .collect()
    };
    let fault = |count, error| Fault {
        gpu: 0,
        operation: Operation::SetTimeslice,
        count,
        error: Some(error),
        delay: Duration::ZERO,
        tsg: None,
    };
    let mut applied = Vec::new();
    for number in [0, 3] {
        lab.zernel.set_class(&target, level(number))?;
        lab.wait_slice(&context, slice_of(number))?;
        applied.push(slice_of(number));
        tracer.wait(&[("slice_applied", &told(&applied, 0))])?;
    }
    lab.zernel.clear_class(&target)?;
    applied.push(1024);
    tracer.wait(&[
        ("slice_applied", &told(&applied, 0)),
        ("slice_retried", &[]),
        ("slice_failed", &[]),
    ])?;
    lab.sim.inject(&fault(2, Errno::AGAIN))?;
    lab.zernel.set_class(&target, level(7))?;
    lab.wait_slice(&context, slice_of(7))?;
    applied.push(slice_of(7));
    tracer.wait(&[
        ("slice_retried", &told(&[1024, 1024], -11)),
        ("slice_applied", &told(&applied, 0)),
    ])?;
    lab.sim.inject(&fault(1, Errno::IO))?;
    lab.zernel.set_class(&target, level(0))?;
    tracer.wait(&[("slice_failed", &told(&[slice_of(7)], -5))])?;
    let listed = lab.tsg(tsg.id)?;
    check_eq!((listed.failed, listed.errors), (true, 1));
    // The next change is another try.
    lab.zernel.set_class(&target, level(3))?;
    lab.wait_slice(&context, slice_of(3))?;
    applied.push(slice_of(3));
    tracer.wait(&[("slice_applied", &told(&applied, 0))])?;
    check_eq!(lab.tsg(tsg.id)?.failed, false);
    Ok(())
}

/// Of hints to a tracked thread, and of a signal as soon as a computation begins.
fn phases_and_signals() -> Outcome {
    in_child(|| {
        let (zernel, tracer) = (Zernel::open()?, Tracer::new()?);
        zernel.track(&Target::current_process(), Tracking::ML)?;
        crate::track::wait_recorded(&zernel, std::process::id(), 1)?;
        for phase in [Phase::Collective, Phase::OptimizerStep] {
            zernel.hint(&Target::CurrentThread, phase, Duration::from_secs(60))?;
        }
        let thread = format!("pid={} tid={} ", std::process::id(), tid());
        let mut told = tracer.told("phase_changed")?;
        told.retain(|event| event.starts_with(&thread));
        let changes = [
            "from=unknown to=collective",
            "from=collective to=optimizer_step",
        ];
        check_eq!(told.len(), changes.len(), "{told:?}");
        for (event, change) in told.iter().zip(changes) {
            let begins = event.starts_with(&format!("{thread}{change} lasted_ns="));
            ensure!(begins && event.ends_with(" hinted=1"), "{told:?}");
        }
        ensure!(number(&told[1], "lasted_ns")? > 0, "{told:?}");
        Signaller::own(&zernel)?.signal(1)?;
        let told = tracer.told("prefetch_signal")?;
        let [signal] = &told[..] else {
            anyhow::bail!("{told:?}");
        };
        check_eq!(number(signal, "pid")?, u64::from(std::process::id()));
        let (elapsed, lead) = (number(signal, "elapsed_ns")?, number(signal, "lead_ns")?);
        let predicted = number(signal, "predicted_ns")?;
        ensure!(predicted > 0 && lead == u64::from(u32::MAX), "{signal}");
        ensure!(elapsed + lead >= predicted, "{signal}");
        tune("prefetch_lead_ns", "auto")
    })
}

/// The words of a line, in pairs: `tsg 5 gpu 3 …`.
fn pairs(line: &str) -> Vec<(&str, &str)> {
    let words: Vec<_> = line.split_whitespace().collect();
    words
        .chunks_exact(2)
        .map(|pair| (pair[0], pair[1]))
        .collect()
}

fn state_agrees_with_the_lists() -> Outcome {
    let lab = Lab::open()?;
    let contexts: Vec<_> = (0..70).map(|_| lab.compute()).collect::<Result<_>>()?;
    let classed = contexts[66].1.id;
    lab.zernel.set_class(&Target::Tsg(classed), level(7))?;
    lab.wait_slice(&contexts[66].0, slice_of(7))?;
    wait_until("the workers are done", || {
        let mut tsgs = lab.zernel.tsgs();
        Ok(tsgs.all(|tsg| tsg.is_ok_and(|tsg| !tsg.pending)))
    })?;
    let mut expected = vec!["enabled 1 gpus 2 tsgs 70 assignments 1".to_owned()];
    for number in 0..8 {
        let slice = told_slice_of(number);
        expected.push(format!("level {number} timeslice_us {slice}"));
    }
    for gpu in lab.zernel.gpus() {
        expected.push(format!("gpu {}", gpu?.id));
    }
    for (tsg, (context, _)) in lab.zernel.tsgs().zip(&contexts) {
        let tsg = tsg?;
        let (level, source, managed) = match tsg.id == classed {
            true => (7, 5, 1),
            false => (-1, 0, 0),
        };
        expected.push(format!(
            "tsg {} gpu {} handle {} pid {} uid 0 compute 1 shared 0 level {level} source {source} \
             timeslice_us {} default_us 1024 managed {managed} queued 0 failed 0",
            tsg.id,
            tsg.gpu,
            context.tsg(),
            tsg.pid,
            tsg.timeslice_us
        ));
    }
    let mode = fs::metadata(STATE)?.permissions().mode();
    check_eq!(mode & 0o7777, 0o400, "for root alone");
    let text = fs::read_to_string(STATE)?;
    // The lines of each kind, in the order of the lists.
    for kind in ["enabled ", "level ", "gpu ", "tsg "] {
        let told: Vec<_> = text.lines().filter(|line| line.starts_with(kind)).collect();
        let known: Vec<_> = expected
            .iter()
            .filter(|line| line.starts_with(kind))
            .collect();
        check_eq!(told.len(), known.len(), "lines of {kind}");
        for (line, expected) in told.into_iter().zip(known) {
            let told = pairs(line);
            for pair in pairs(expected) {
                ensure!(told.contains(&pair), "no {pair:?} in {line}");
            }
        }
    }
    Ok(())
}
