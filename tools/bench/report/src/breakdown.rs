// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way of a request in time stamps: the time in each component, and the causes of the slowest.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use crate::figures::Table;
use crate::quantile;

/// A moment of a request. Those up to [`Mark::End`] follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The request begins.
    Start,
    /// The call of *begin* is back.
    Begun,
    /// The preparation is to be over.
    Due,
    /// The client runs again.
    Woken,
    /// The copy engine has the copy in.
    CopyQueued,
    /// The copy begins.
    CopyBegan,
    /// It is over.
    Copied,
    /// The client runs again.
    CopySeen,
    /// The client has stored that the data is ready.
    Ready,
    /// The first kernel begins.
    KernelsBegan,
    /// The last one is over.
    Computed,
    /// The client runs again.
    ResultSeen,
    /// The copy engine has the copy out.
    OutQueued,
    /// That copy begins.
    OutBegan,
    /// It is over.
    OutCopied,
    /// The client runs again: the request is over.
    End,
    /// The trigger is due, as *begin* told.
    TriggerDue,
    /// The data is to be ready, as *begin* predicted.
    Expected,
    /// The GPU has seen the trigger.
    Triggered,
    /// The GPU runs the holder.
    Taken,
    /// The holder is over.
    Released,
}

/// Number of marks.
const MARKS: usize = Mark::Released as usize + 1;

/// The times of a request, on one clock in nanoseconds; 0: there was no such moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps {
    /// Of each [`Mark`].
    at: [u64; MARKS],
    /// Times of its copy in, its kernels and its copy out when nothing else runs.
    alone: [u64; 3],
}

impl Stamps {
    /// Of a request whose copy in, kernels and copy out take so long when nothing else runs.
    pub fn new(copy_in: u64, kernels: u64, copy_out: u64) -> Self {
        Self {
            at: [0; MARKS],
            alone: [copy_in, kernels, copy_out],
        }
    }

    /// Sets the time of a moment.
    pub fn set(&mut self, mark: Mark, ns: u64) {
        self.at[mark as usize] = ns;
    }

    /// The time of a moment.
    pub fn at(&self, mark: Mark) -> u64 {
        self.at[mark as usize]
    }

    /// From one moment to another, negative if that was before; 0 without one of them.
    fn between(&self, from: Mark, to: Mark) -> i64 {
        match (self.at(from), self.at(to)) {
            (0, _) | (_, 0) => 0,
            (from, to) => to as i64 - from as i64,
        }
    }

    /// The time in a component beyond that when nothing else runs.
    fn beyond(&self, component: &Component) -> i64 {
        let alone = component.alone.map_or(0, |which| self.alone[which]);
        self.between(component.from, component.to) - alone as i64
    }

    /// All of its time beyond that when nothing else runs.
    pub fn added(&self) -> i64 {
        COMPONENTS.iter().map(|one| self.beyond(one)).sum()
    }

    /// The time by which the GPU was the client's after the data was ready, or before if negative, and
    /// the parts of which it is the sum. `None` without a trigger.
    pub fn lateness(&self) -> Option<Lateness> {
        let known = [
            Mark::TriggerDue,
            Mark::Expected,
            Mark::Triggered,
            Mark::Taken,
        ];
        if known.iter().any(|&mark| self.at(mark) == 0) {
            return None;
        }
        let cost = self.between(Mark::TriggerDue, Mark::Expected);
        Some(Lateness {
            trigger: self.between(Mark::TriggerDue, Mark::Triggered),
            switch: self.between(Mark::Triggered, Mark::Taken) - cost,
            prediction: self.between(Mark::Ready, Mark::Expected),
        })
    }
}

/// Parts of a lateness, in nanoseconds; negative ones made the GPU early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lateness {
    /// The trigger was seen after it was due.
    pub trigger: i64,
    /// The switch took longer than learned.
    pub switch: i64,
    /// The data was ready before it was predicted.
    pub prediction: i64,
}

impl Lateness {
    /// All of it.
    pub fn all(&self) -> i64 {
        self.trigger + self.switch + self.prediction
    }

    /// The cause of the most of it.
    fn cause(&self) -> Cause {
        let parts = [
            (self.trigger, Cause::Trigger),
            (self.switch, Cause::Switch),
            (self.prediction, Cause::Prediction),
        ];
        let most = parts.into_iter().max_by_key(|&(part, _)| part);
        most.map_or(Cause::Gpu, |(_, cause)| cause)
    }
}

/// A cause of a slow request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The client's own time: interrupts, or others on its CPU.
    Interrupted,
    /// The timer at the end of the preparation.
    Timer,
    /// The client ran late after something that the GPU had done.
    Wake,
    /// Its copy waited for another one on its engine.
    Copy,
    /// The GPU was late for another reason, or without a trigger.
    Gpu,
    /// The trigger.
    Trigger,
    /// The switch.
    Switch,
    /// The prediction.
    Prediction,
    /// Its kernels lost the GPU, or their copy its engine, while they ran.
    Preempted,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Interrupted => "client interrupted",
            Self::Timer => "timer late",
            Self::Wake => "wake-up late",
            Self::Copy => "copy waits",
            Self::Gpu => "GPU late",
            Self::Trigger => "trigger late",
            Self::Switch => "switch longer than learned",
            Self::Prediction => "ready before predicted",
            Self::Preempted => "preempted",
        })
    }
}

/// A part of a request's time.
#[derive(Debug)]
struct Component {
    name: &'static str,
    from: Mark,
    to: Mark,
    /// The time that it takes alone, by its place in [`Stamps`].
    alone: Option<usize>,
    cause: Cause,
}

const fn component(name: &'static str, from: Mark, to: Mark, cause: Cause) -> Component {
    Component {
        name,
        from,
        to,
        alone: None,
        cause,
    }
}

const fn work(name: &'static str, from: Mark, to: Mark, alone: usize) -> Component {
    Component {
        alone: Some(alone),
        ..component(name, from, to, Cause::Preempted)
    }
}

/// All components, in order. The preparation itself is none: it takes its time in any case.
static COMPONENTS: [Component; 14] = [
    component("begin", Mark::Start, Mark::Begun, Cause::Interrupted),
    component("timer", Mark::Due, Mark::Woken, Cause::Timer),
    component(
        "copy in: call",
        Mark::Woken,
        Mark::CopyQueued,
        Cause::Interrupted,
    ),
    component(
        "copy in: wait",
        Mark::CopyQueued,
        Mark::CopyBegan,
        Cause::Copy,
    ),
    work("copy in", Mark::CopyBegan, Mark::Copied, 0),
    component(
        "copy in: wake-up",
        Mark::Copied,
        Mark::CopySeen,
        Cause::Wake,
    ),
    component("ready", Mark::CopySeen, Mark::Ready, Cause::Interrupted),
    component("GPU", Mark::Ready, Mark::KernelsBegan, Cause::Gpu),
    work("kernels", Mark::KernelsBegan, Mark::Computed, 1),
    component(
        "kernels: wake-up",
        Mark::Computed,
        Mark::ResultSeen,
        Cause::Wake,
    ),
    component(
        "copy out: call",
        Mark::ResultSeen,
        Mark::OutQueued,
        Cause::Interrupted,
    ),
    component(
        "copy out: wait",
        Mark::OutQueued,
        Mark::OutBegan,
        Cause::Copy,
    ),
    work("copy out", Mark::OutBegan, Mark::OutCopied, 2),
    component("copy out: wake-up", Mark::OutCopied, Mark::End, Cause::Wake),
];

/// A slow request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slow {
    /// Its place among the requests.
    pub place: usize,
    /// Its time beyond that when nothing else runs, in nanoseconds.
    pub added: i64,
    /// The cause of the most of it, as against the median.
    pub cause: Cause,
    /// The component that shows it.
    pub component: &'static str,
    /// The time in that component beyond the median, in nanoseconds.
    pub by: i64,
}

/// The components of the requests of a run.
#[derive(Debug)]
pub struct Breakdown<'a> {
    requests: &'a [Stamps],
    /// Sorted times beyond those when nothing else runs, of each component.
    sorted: Vec<Vec<i64>>,
}

/// Requests that are told one by one.
const SLOWEST: usize = 10;

impl<'a> Breakdown<'a> {
    /// Of these requests.
    pub fn new(requests: &'a [Stamps]) -> Self {
        let of = |one: &Component| sorted(requests.iter().map(|request| request.beyond(one)));
        Self {
            requests,
            sorted: COMPONENTS.iter().map(of).collect(),
        }
    }

    /// The slowest requests, the slowest first.
    pub fn slowest(&self) -> Vec<Slow> {
        let mut all: Vec<(i64, usize)> = self
            .requests
            .iter()
            .enumerate()
            .map(|(place, request)| (request.added(), place))
            .collect();
        all.sort_by_key(|&(added, place)| (-added, place));
        all.truncate(SLOWEST);
        all.into_iter()
            .filter_map(|(added, place)| self.explain(place, added))
            .collect()
    }

    fn explain(&self, place: usize, added: i64) -> Option<Slow> {
        let request = self.requests.get(place)?;
        let each = COMPONENTS.iter().zip(&self.sorted).map(|(one, sorted)| {
            let median = quantile(sorted, 0.5).unwrap_or(0);
            (request.beyond(one) - median, one)
        });
        let (by, one) = each.max_by_key(|&(by, _)| by)?;
        let cause = match one.cause {
            Cause::Gpu => request.lateness().map_or(Cause::Gpu, |late| late.cause()),
            cause => cause,
        };
        Some(Slow {
            place,
            added,
            cause,
            component: one.name,
            by,
        })
    }

    /// The tables, in microseconds.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let head = ["beyond alone, µs", "p50", "p99", "p99.9", "max"];
        let mut table = Table::new(head, 1..head.len());
        for (one, sorted) in COMPONENTS.iter().zip(&self.sorted) {
            table.add(row(one.name, sorted));
        }
        table.add(row("all", &sorted(self.requests.iter().map(Stamps::added))));
        // A text grows without errors.
        let _ = write!(text, "{table}");
        let late: Vec<Lateness> = self.requests.iter().filter_map(Stamps::lateness).collect();
        if !late.is_empty() {
            let head = ["the GPU is late by, µs", "p50", "p99", "p99.9", "max"];
            let mut table = Table::new(head, 1..head.len());
            let mut add = |name: &str, of: &dyn Fn(&Lateness) -> i64| {
                table.add(row(name, &sorted(late.iter().map(of))));
            };
            add("trigger: seen after it was due", &|one| one.trigger);
            add("switch: longer than learned", &|one| one.switch);
            add("data: ready before predicted", &|one| one.prediction);
            add("all", &Lateness::all);
            let known = self.requests.iter().filter(|one| one.lateness().is_some());
            let switches = sorted(known.map(|one| one.between(Mark::Triggered, Mark::Taken)));
            table.add(row("the switch itself", &switches));
            let _ = write!(text, "{table}");
        }
        let head = [
            "slowest: number",
            "beyond alone, µs",
            "component",
            "µs",
            "cause",
        ];
        let mut table = Table::new(head, 1..2);
        for slow in self.slowest() {
            table.add([
                slow.place.to_string(),
                us(slow.added),
                slow.component.to_owned(),
                us(slow.by),
                slow.cause.to_string(),
            ]);
        }
        let _ = write!(text, "{table}");
        text
    }
}

fn sorted(times: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut sorted: Vec<i64> = times.collect();
    sorted.sort_unstable();
    sorted
}

fn us(ns: i64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

fn row(name: &str, sorted: &[i64]) -> [String; 5] {
    let at = |share| us(quantile(sorted, share).unwrap_or(0));
    [name.to_owned(), at(0.5), at(0.99), at(0.999), at(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 ns in each component beyond what it takes alone, and a preparation of 200 µs.
    fn usual() -> Stamps {
        let alone = [80_000, 2_200_000, 10_000];
        let mut stamps = Stamps::new(alone[0], alone[1], alone[2]);
        let mut now = 1_000_000;
        stamps.set(Mark::Start, now);
        let mut last = Mark::Start;
        for one in &COMPONENTS {
            if one.from != last {
                now += 200_000;
                stamps.set(one.from, now);
            }
            now += 100 + one.alone.map_or(0, |which| alone[which]);
            stamps.set(one.to, now);
            last = one.to;
        }
        stamps
    }

    /// The same with everything from `mark` on later by so much.
    fn later(stamps: Stamps, mark: Mark, ns: u64) -> Stamps {
        let mut stamps = stamps;
        for at in &mut stamps.at[mark as usize..=Mark::End as usize] {
            *at += ns;
        }
        stamps
    }

    #[test]
    fn components_are_all_of_the_time_but_the_preparation() {
        let stamps = usual();
        assert_eq!(stamps.added(), 1_400);
        let latency = stamps.between(Mark::Start, Mark::End);
        assert_eq!(latency, 1_400 + 200_000 + 80_000 + 2_200_000 + 10_000);
        let mut last = Mark::Start;
        for one in &COMPONENTS {
            assert!(one.from == last || (last, one.from) == (Mark::Begun, Mark::Due));
            last = one.to;
        }
        assert_eq!(last, Mark::End);
        for component in &COMPONENTS {
            let slower = later(stamps, component.to, 5_000);
            assert_eq!(slower.added(), 6_400, "{}", component.name);
        }
    }

    #[test]
    fn the_slowest_are_told_with_their_cause() {
        let mut requests = vec![usual(); 40];
        let slow = [
            (3, Mark::CopyBegan, 60_000, Cause::Copy, "copy in: wait"),
            (5, Mark::Woken, 50_000, Cause::Timer, "timer"),
            (7, Mark::Computed, 40_000, Cause::Preempted, "kernels"),
            (9, Mark::Begun, 30_000, Cause::Interrupted, "begin"),
            (
                11,
                Mark::ResultSeen,
                20_000,
                Cause::Wake,
                "kernels: wake-up",
            ),
            (13, Mark::KernelsBegan, 10_000, Cause::Gpu, "GPU"),
        ];
        for &(place, mark, by, ..) in &slow {
            requests[place] = later(requests[place], mark, by);
        }
        let told = Breakdown::new(&requests).slowest();
        assert_eq!(told.len(), SLOWEST);
        for (told, (place, _, by, cause, component)) in told.iter().zip(slow) {
            assert_eq!(
                (told.place, told.cause, told.component),
                (place, cause, component)
            );
            assert_eq!((told.by, told.added), (by as i64, by as i64 + 1_400));
        }
    }

    #[test]
    fn a_gpu_is_late_for_one_of_three_causes() {
        let ready = usual().at(Mark::Ready);
        // The data was expected when it was ready, the trigger a switch of 100 µs before that.
        let with = |trigger: u64, switch: u64, expected: u64| {
            let mut stamps = usual();
            let due = ready + expected - 100_000;
            stamps.set(Mark::Expected, ready + expected);
            stamps.set(Mark::TriggerDue, due);
            stamps.set(Mark::Triggered, due + trigger);
            stamps.set(Mark::Taken, due + trigger + 100_000 + switch);
            let late = trigger + switch + expected;
            later(stamps, Mark::KernelsBegan, late)
        };
        for (trigger, switch, expected, cause) in [
            (30_000, 1_000, 2_000, Cause::Trigger),
            (1_000, 30_000, 2_000, Cause::Switch),
            (1_000, 2_000, 30_000, Cause::Prediction),
        ] {
            let request = with(trigger, switch, expected);
            let late = request.lateness().unwrap();
            assert_eq!(late.all(), 33_000);
            let mut requests = vec![usual(); 20];
            requests[4] = request;
            let slowest = Breakdown::new(&requests).slowest();
            assert_eq!((slowest[0].place, slowest[0].cause), (4, cause));
        }
        assert_eq!(usual().lateness(), None);
    }

    #[test]
    fn the_tables_have_a_row_for_each_component() {
        let requests = [usual(), later(usual(), Mark::CopyBegan, 60_000)];
        let text = Breakdown::new(&requests).render();
        for one in &COMPONENTS {
            assert!(text.contains(one.name), "{}: {text}", one.name);
        }
        assert!(
            text.contains("copy waits") && !text.contains("is late by"),
            "{text}"
        );
        let row = text
            .lines()
            .find(|line| line.contains("copy in: wait"))
            .unwrap();
        assert!(row.contains("0.1") && row.contains("60.1"), "{row}");
        assert!(Breakdown::new(&[]).slowest().is_empty());
    }

    #[test]
    fn stamps_round_trip() {
        let json = serde_json::to_string(&usual()).unwrap();
        assert_eq!(serde_json::from_str::<Stamps>(&json).unwrap(), usual());
    }
}
