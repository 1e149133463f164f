// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other calls of the victim's user: a second process of alice's, with the same real-time
//! priority, that makes each call now and then.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use libzernel::class::Attributes;
use libzernel::request::{Begin, Slots};
use libzernel::sim::{ContextSpec, Item, Sim};
use libzernel::{Level, Target, Timestamp, Tracking, Weight, Zernel};
use serde::{Deserialize, Serialize};
use testkit::child::Child;
use testkit::sys;
use zernel_report::stats::{Latencies, Summary};

use crate::ground;

/// Time from one round of calls to the next.
const PAUSE: Duration = Duration::from_millis(5);

/// Work of the request without a holder, on the GPU.
const WORK: Duration = Duration::from_micros(10);

/// The times of the calls, and their failures.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Calls {
    /// By name.
    pub times: BTreeMap<String, Summary>,
    /// Number of failed calls, by name and errno.
    pub failed: BTreeMap<String, u64>,
}

impl Calls {
    /// Number of failures that `alone` has not.
    pub fn failed_beyond(&self, alone: Option<&Self>) -> u64 {
        self.new_failures(alone).map(|(_, count)| count).sum()
    }

    /// The same by name and errno.
    pub fn new_failures<'a>(
        &'a self,
        alone: Option<&'a Self>,
    ) -> impl Iterator<Item = (&'a str, u64)> {
        let known = move |what: &str| alone.is_some_and(|alone| alone.failed.contains_key(what));
        let all = self.failed.iter();
        all.filter(move |(what, _)| !known(what))
            .map(|(what, count)| (what.as_str(), *count))
    }
}

/// Makes the calls for so many seconds.
pub fn make(seconds: f64) -> Result<Calls> {
    let path = PathBuf::from(ground::FOLDER).join("calls.json");
    let length = Duration::from_secs_f64(seconds);
    let child = Child::session(|| {
        sys::set_policy(0, libc::SCHED_FIFO)?;
        ground::become_victim()?;
        let calls = call(length)?;
        fs::write(&path, serde_json::to_vec(&calls)?)?;
        Ok(())
    })?;
    child.join_within(length + testkit::SOON)?;
    let text = fs::read(&path).context("read the times of the calls")?;
    Ok(serde_json::from_slice(&text)?)
}

type Call<'a> = (&'static str, Box<dyn FnMut() -> libzernel::Result<()> + 'a>);

fn call(length: Duration) -> Result<Calls> {
    let zernel = Zernel::open()?;
    let sim = Sim::open()?;
    let me = Target::current_process();
    // The only TSG so far.
    let urgent = sim.create_context(&ContextSpec::compute("urgent"))?;
    let first = zernel.tsgs_of(&me).next().context("no TSG is listed")??;
    zernel.set_class(&Target::Tsg(first.id), Level::LC)?;
    let _context = sim.create_context(&ContextSpec::compute("calls"))?;
    let mut others = zernel.tsgs_of(&me).filter_map(libzernel::Result::ok);
    let own = others
        .find(|tsg| tsg.id != first.id)
        .context("a TSG is not listed")?;
    let slots = Slots::map(&zernel, 0..2)?;
    let slot = slots.slot(0).context("no slot")?;
    let bare = slots.slot(1).context("no slot")?;
    let work = [Item::work(WORK)];
    let mut weight = 0;
    let calls: [Call<'_>; 10] = [
        ("class get", Box::new(|| zernel.class(&me).map(drop))),
        (
            "class set",
            Box::new(|| {
                weight = weight % 100 + 1;
                let weight = Weight::new(weight).unwrap_or_default();
                zernel.set_class(&me, Attributes::from(Level::BE).weight(weight))
            }),
        ),
        ("tsg get", {
            let target = Target::Tsg(own.id);
            let zernel = &zernel;
            Box::new(move || zernel.class(&target).map(drop))
        }),
        (
            "tsg list",
            Box::new(|| zernel.tsgs_of(&me).try_for_each(|tsg| tsg.map(drop))),
        ),
        (
            "gpu list",
            Box::new(|| zernel.gpus().try_for_each(|gpu| gpu.map(drop))),
        ),
        ("info", Box::new(|| zernel.stats().map(drop))),
        (
            "track",
            Box::new(|| zernel.track(&me, Tracking::PLAIN).map(drop)),
        ),
        ("untrack", Box::new(|| zernel.untrack(&me).map(drop))),
        (
            "request",
            Box::new(|| {
                let begun = slot.begin(&Begin::new(own.id).expected(Duration::from_millis(1)))?;
                slot.ready(begun.number);
                slot.done_call(begun.number)
            }),
        ),
        (
            "no holder",
            Box::new(|| {
                let begun = bare.begin(&Begin::new(first.id).without_holder())?;
                bare.ready_call(begun.number)?;
                let sent = urgent.submit(0, &work)?;
                urgent.wait(0, sent.last_seq, Timestamp::now() + testkit::SOON)?;
                bare.done_call(begun.number)
            }),
        ),
    ];
    let mut failed = BTreeMap::new();
    let mut times: Vec<_> = calls
        .into_iter()
        .map(|(name, call)| (name, call, Vec::new()))
        .collect();
    let end = Instant::now() + length;
    while Instant::now() < end {
        for (name, call, times) in &mut times {
            let begin = Instant::now();
            let result = call();
            times.push(begin.elapsed());
            if let Err(error) = result {
                let errno = error.errno().map_or(0, |errno| errno.raw_os_error());
                *failed.entry(format!("{name}: {errno}")).or_default() += 1;
            }
        }
        sleep(PAUSE);
    }
    let summary = |times: Vec<Duration>| Latencies::new(times.into_iter()).summary();
    Ok(Calls {
        times: times
            .into_iter()
            .map(|(name, _, times)| (name.to_owned(), summary(times)))
            .collect(),
        failed,
    })
}
