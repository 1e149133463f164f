// SPDX-License-Identifier: GPL-2.0
//! The content of tracepoints and debugfs.

mod requests;
mod threads;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::sim::{Description, Fault, Operation};
use libzernel::{Target, Zernel};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::in_child;
use crate::common::{self, errno, level, slice_of, tid, told_slice_of, wait_until, Lab};
use crate::group::Group;
use crate::harness::{case, suite, Outcome, Suite};
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "trace",
    &[
        case("every_event_is_there", every_event_is_there),
        case("gpus_come_and_go", gpus_come_and_go),
        case("tsgs_come_and_go", tsgs_come_and_go),
        case("tsgs_become_others", tsgs_become_others),
        case("owners_ask_their_driver", owners_ask_their_driver),
        case("requests_granted_and_refused", granted_and_refused),
        case("classes_in_force", classes_in_force),
        case("classes_expire", classes_expire),
        case("slices_applied", slices_applied),
        case("slices_retried_and_failed", slices_retried_and_failed),
        case("requests_that_are_done", requests::done),
        case("requests_that_end_otherwise", requests::every_cause),
        case("tsgs_kept_off", requests::preempted),
        case("levels_throttled", requests::throttled),
        case("phases_and_signals", threads::phases_and_signals),
        case("state_is_for_root", state_is_for_root),
        case("state_agrees_with_the_lists", state_agrees_with_the_lists),
    ],
);

const TRACEFS: &str = "/sys/kernel/tracing";
const STATE: &str = "/sys/kernel/debug/zernel/state";

/// Every tracepoint.
const EVENTS: [&str; 20] = [
    "gpu_added",
    "gpu_removed",
    "tsg_added",
    "tsg_removed",
    "tsg_changed",
    "tsg_user_control",
    "class_set",
    "class_cleared",
    "class_expired",
    "class_changed",
    "slice_applied",
    "slice_retried",
    "slice_failed",
    "level_throttled",
    "request_begin",
    "request_trigger",
    "request_end",
    "tsg_preempted",
    "phase_changed",
    "prefetch_signal",
];

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

    /// The content of the events of this name, in order.
    fn told(&self, name: &str) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.0.join("trace"))?;
        let mark = format!(" {name}: ");
        let told = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| Some(line.split_once(&mark)?.1.trim().to_owned()));
        Ok(told.collect())
    }

    /// Waits until the events of this name tell just that.
    fn wait(&self, name: &str, expected: &[String]) -> Outcome {
        let mut told = Vec::new();
        wait_until(&format!("{name} tells {expected:?}"), || {
            told = self.told(name)?;
            Ok(told == expected)
        })
        .with_context(|| format!("it tells {told:?}"))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // The next one removes it if it stays.
        let _ = self.enable(false);
        let _ = fs::remove_dir(&self.0);
    }
}

fn every_event_is_there() -> Outcome {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(format!("{TRACEFS}/events/zernel"))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    check_eq!(names, EVENTS.map(str::to_owned).into());
    Ok(())
}

fn gpus_come_and_go() -> Outcome {
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
    tracer.wait("gpu_removed", &old)?;
    tracer.wait("gpu_added", &new)
}

fn tsgs_come_and_go() -> Outcome {
    let lab = Lab::open()?;
    let tracer = Tracer::new()?;
    let (context, tsg) = lab.compute()?;
    let told = format!("gpu={} tsg={} pid={}", tsg.gpu, tsg.id, std::process::id());
    tracer.wait("tsg_added", std::slice::from_ref(&told))?;
    tracer.wait("tsg_removed", &[])?;
    drop(context);
    tracer.wait("tsg_removed", &[told])
}

fn tsgs_become_others() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    let tracer = Tracer::new()?;
    let told = format!("gpu={} tsg={} pid={}", tsg.gpu, tsg.id, std::process::id());
    let mut description = Description {
        compute: true,
        shared: false,
        channels: tsg.channels,
    };
    // Nothing new is nothing to tell.
    context.describe(&description)?;
    description.channels += 1;
    context.describe(&description)?;
    description.shared = true;
    context.describe(&description)?;
    context.describe(&description)?;
    tracer.wait("tsg_changed", &[told.clone(), told])
}

fn owners_ask_their_driver() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    let tracer = Tracer::new()?;
    let whose = format!("gpu={} tsg={} pid={}", tsg.gpu, tsg.id, std::process::id());
    // Of a TSG without a class nothing is told.
    context.set_timeslice(3_000)?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(7))?;
    let mut told = Vec::new();
    for policy in ["deny", "reapply", "allow"] {
        common::tune("user_control", policy)?;
        for what in ["timeslice", "interleave"] {
            let answer = match what {
                "timeslice" => errno(context.set_timeslice(4_000)),
                _ => errno(context.set_interleave(1)),
            };
            check_eq!(answer.is_some(), policy == "deny", "{policy} {what}");
            told.push(format!("{whose} what={what} answer={policy}"));
        }
    }
    tracer.wait("tsg_user_control", &told)
}

fn granted_and_refused() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("traced")?;
    let (_context, tsg) = lab.compute()?;
    let pid = std::process::id();
    let tracer = Tracer::new()?;
    let (mut set, mut cleared) = (Vec::new(), Vec::new());
    for (target, kind, id) in [
        (Target::Tsg(tsg.id), "tsg", tsg.id.as_u64()),
        (Target::CurrentThread, "thread", tid().into()),
        (Target::CurrentProcess, "process", pid.into()),
        (group.target()?, "cgroup", group.id()?),
    ] {
        for number in [7, 0] {
            lab.zernel.set_class(&target, level(number))?;
            set.push(format!("target={kind} id={id} level={number} error=0"));
        }
        lab.zernel.clear_class(&target)?;
        cleared.push(format!("target={kind} id={id} level=-1 error=0"));
        check_eq!(errno(lab.zernel.clear_class(&target)), Some(Errno::NODATA));
        cleared.push(format!("target={kind} id={id} level=-1 error=-61"));
    }
    in_child(|| {
        sys::become_user(1000, 1000, &[])?;
        let zernel = Zernel::open()?;
        let answer = errno(zernel.set_class(&Target::Process(pid), level(7)));
        check_eq!(answer, Some(Errno::PERM));
        let answer = errno(zernel.clear_class(&Target::Process(pid)));
        check_eq!(answer, Some(Errno::PERM));
        let answer = errno(zernel.set_class(&Target::Tsg(tsg.id), level(7)));
        check_eq!(answer, Some(Errno::NOENT));
        Ok(())
    })?;
    set.push(format!("target=process id={pid} level=7 error=-1"));
    set.push(format!("target=tsg id={} level=7 error=-2", tsg.id));
    cleared.push(format!("target=process id={pid} level=-1 error=-1"));
    tracer.wait("class_set", &set)?;
    tracer.wait("class_cleared", &cleared)
}

fn classes_in_force() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("in-force")?;
    group.enter(0)?;
    let (_context, tsg) = lab.compute()?;
    let tracer = Tracer::new()?;
    common::tune("default_class", 7)?;
    lab.zernel.set_class(&group.target()?, level(5))?;
    lab.zernel.set_class(&Target::CurrentProcess, level(3))?;
    lab.zernel.set_class(&Target::CurrentThread, level(2))?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(1))?;
    // This changes nothing for the TSG and is not told.
    lab.zernel.set_class(&Target::CurrentProcess, level(6))?;
    lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
    lab.zernel.clear_class(&Target::CurrentThread)?;
    lab.zernel.clear_class(&Target::CurrentProcess)?;
    lab.zernel.clear_class(&group.target()?)?;
    common::tune("default_class", "none")?;
    let expected = [
        (7, "default"),
        (5, "cgroup"),
        (3, "process"),
        (2, "thread"),
        (1, "tsg"),
        (2, "thread"),
        (6, "process"),
        (5, "cgroup"),
        (7, "default"),
        (-1, "none"),
    ];
    let expected = expected.map(|(level, source)| {
        let id = tsg.id;
        format!("tsg={id} level={level} source={source}")
    });
    tracer.wait("class_changed", &expected)?;
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
        |kind: &str, id: u64, level: u8| format!("target={kind} id={id} level={level} error=0");
    let mut expected = vec![told("tsg", tsg.id.as_u64(), 5)];
    drop(context);
    tracer.wait("class_expired", &expected)?;
    expected.push(told("cgroup", group.id()?, 4));
    group.remove()?;
    tracer.wait("class_expired", &expected)?;
    let child = crate::child::Child::spawn(|| {
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

fn slices_applied() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    let tracer = Tracer::new()?;
    let mut expected = Vec::new();
    for number in [7, 0, 3] {
        lab.zernel.set_class(&Target::Tsg(tsg.id), level(number))?;
        lab.wait_slice(&context, slice_of(number))?;
        expected.push(slice_of(number));
        tracer.wait("slice_applied", &slices(&tsg, &expected, 0))?;
    }
    lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
    expected.push(1024);
    tracer.wait("slice_applied", &slices(&tsg, &expected, 0))?;
    check_eq!(tracer.told("slice_retried")?, Vec::<String>::new());
    check_eq!(tracer.told("slice_failed")?, Vec::<String>::new());
    Ok(())
}

/// The content of events of slices.
fn slices(tsg: &libzernel::Tsg, slices: &[u32], error: i32) -> Vec<String> {
    let (gpu, id) = (tsg.gpu, tsg.id);
    slices
        .iter()
        .map(|slice| format!("gpu={gpu} tsg={id} timeslice_us={slice} error={error}"))
        .collect()
}

fn slices_retried_and_failed() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    wait_until("the worker has read the slice", || {
        Ok(lab.tsg(tsg.id)?.timeslice_us == 1024)
    })?;
    let tracer = Tracer::new()?;
    let fault = |count, error| Fault {
        gpu: 0,
        operation: Operation::SetTimeslice,
        count,
        error: Some(error),
        delay: Duration::ZERO,
        tsg: None,
    };
    lab.sim.inject(&fault(2, Errno::AGAIN))?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(7))?;
    lab.wait_slice(&context, slice_of(7))?;
    tracer.wait("slice_retried", &slices(&tsg, &[1024, 1024], -11))?;
    tracer.wait("slice_applied", &slices(&tsg, &[slice_of(7)], 0))?;
    lab.sim.inject(&fault(1, Errno::IO))?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(0))?;
    tracer.wait("slice_failed", &slices(&tsg, &[slice_of(7)], -5))?;
    let listed = lab.tsg(tsg.id)?;
    check_eq!((listed.failed, listed.errors), (true, 1));
    // The next change is another try.
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(3))?;
    lab.wait_slice(&context, slice_of(3))?;
    tracer.wait(
        "slice_applied",
        &slices(&tsg, &[slice_of(7), slice_of(3)], 0),
    )?;
    check_eq!(lab.tsg(tsg.id)?.failed, false);
    Ok(())
}

fn state_is_for_root() -> Outcome {
    let mode = fs::metadata(STATE)?.permissions().mode();
    check_eq!(mode & 0o7777, 0o400);
    in_child(|| {
        sys::become_user(1000, 1000, &[])?;
        let error = fs::read(STATE).err().map(|error| error.kind());
        check_eq!(error, Some(std::io::ErrorKind::PermissionDenied));
        Ok(())
    })
}

/// The words of a line, by the name before each: `tsg 5 gpu 3 …`.
fn words(line: &str) -> BTreeMap<&str, &str> {
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
        Ok(lab
            .zernel
            .tsgs()
            .all(|tsg| tsg.is_ok_and(|tsg| !tsg.pending)))
    })?;
    let text = fs::read_to_string(STATE)?;
    let begin = |word: &'static str| {
        let begins = move |line: &&str| line.split(' ').next() == Some(word);
        text.lines().filter(begins).map(words)
    };
    let head: Vec<_> = begin("enabled").collect();
    check_eq!(head.len(), 1);
    let counts = ["enabled", "gpus", "tsgs", "assignments"].map(|word| head[0].get(word).copied());
    check_eq!(counts, ["1", "2", "70", "1"].map(Some));
    for (number, line) in begin("level").enumerate() {
        let slice = told_slice_of(u8::try_from(number)?).to_string();
        check_eq!(
            line.get("timeslice_us"),
            Some(&slice.as_str()),
            "level {number}"
        );
    }
    check_eq!(begin("level").count(), 8);
    check_eq!(begin("gpu").count(), 2);
    let mut tsgs = begin("tsg");
    for tsg in lab.zernel.tsgs() {
        let tsg = tsg?;
        let line = tsgs.next().context("fewer TSGs than listed")?;
        let is_classed = tsg.id == classed;
        let expected = [
            ("tsg", tsg.id.to_string()),
            ("gpu", tsg.gpu.to_string()),
            ("pid", tsg.pid.to_string()),
            ("uid", "0".to_owned()),
            ("compute", "1".to_owned()),
            ("shared", "0".to_owned()),
            ("level", if is_classed { "7" } else { "-1" }.to_owned()),
            ("source", if is_classed { "5" } else { "0" }.to_owned()),
            ("timeslice_us", tsg.timeslice_us.to_string()),
            ("default_us", "1024".to_owned()),
            ("managed", u8::from(is_classed).to_string()),
            ("queued", "0".to_owned()),
            ("failed", "0".to_owned()),
        ];
        for (word, value) in &expected {
            check_eq!(line.get(word), Some(&value.as_str()), "{word} of {line:?}");
        }
    }
    check_eq!(tsgs.next(), None, "more TSGs than listed");
    Ok(())
}
