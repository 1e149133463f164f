// SPDX-License-Identifier: MIT OR Apache-2.0
//! `phases` and `hint`: phases of machine-learning programs.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use libzernel::phase::{Prefetch, Times};
use libzernel::{Cgroup, Phase, Process, Target, Thread, Timestamp, Zernel};
use serde::Serialize;

use crate::{cgroup, output};

/// The objects that are shown one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Each thread.
    Thread,
    /// Each process.
    Process,
    /// The processes of each cgroup.
    Cgroup,
    /// Each cgroup that is tracked.
    TrackedCgroup,
}

/// The objects to show.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// One by one.
    pub by: By,
    /// Only those of this process.
    pub pid: Option<u32>,
}

/// Columns of the phases, in the order of a training loop.
const COLUMNS: [(&str, Phase); 5] = [
    ("LOADING", Phase::DataLoading),
    ("COMPUTE", Phase::GpuCompute),
    ("COLLECTIVE", Phase::Collective),
    ("OPTIMIZER", Phase::OptimizerStep),
    ("UNKNOWN", Phase::Unknown),
];

/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// The processes of a cgroup.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Group {
    /// Its path from the root of the hierarchy; none: of processes that have ended, or that are not
    /// visible here.
    cgroup: Option<String>,
    /// Machine-learning programs in it.
    processes: u32,
    /// Their tracked threads.
    threads: u32,
    /// Time in each phase.
    phase_ns: Times,
}

/// A tracked cgroup.
#[derive(Debug, Serialize)]
struct Tracked {
    /// Its path; none if it is not visible here.
    cgroup: Option<String>,
    #[serde(flatten)]
    phases: Cgroup,
}

/// The objects that were found.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Found {
    Threads(Vec<Thread>),
    Processes(Vec<Process>),
    Groups(Vec<Group>),
    Tracked(Vec<Tracked>),
}

impl Found {
    fn look(zernel: &Zernel, options: &Options) -> Result<Self> {
        let wanted = |pid| options.pid.is_none_or(|wanted| pid == wanted);
        if options.by == By::Thread {
            let mut threads = zernel.phases().collect::<libzernel::Result<Vec<_>>>()?;
            threads.retain(|thread| wanted(thread.pid));
            return Ok(Self::Threads(threads));
        }
        if options.by == By::TrackedCgroup {
            let found = zernel.cgroups().collect::<libzernel::Result<Vec<_>>>()?;
            return Ok(Self::Tracked(tracked(found, &cgroup::paths())));
        }
        let mut processes = zernel.processes().collect::<libzernel::Result<Vec<_>>>()?;
        // The others have no phases.
        processes.retain(|process| process.ml && wanted(process.pid));
        Ok(match options.by {
            By::Cgroup => Self::Groups(groups(&processes, cgroup::path_of)),
            _ => Self::Processes(processes),
        })
    }

    fn table(&self) -> String {
        match self {
            Self::Threads(threads) => thread_table(threads),
            Self::Processes(processes) => process_table(processes, Timestamp::now()),
            Self::Groups(groups) => group_table(groups),
            Self::Tracked(tracked) => tracked_table(tracked),
        }
    }
}

/// Shows them once.
pub fn show(zernel: &Zernel, options: &Options, json: bool) -> Result<()> {
    let found = Found::look(zernel, options)?;
    if json {
        return output::json(&found);
    }
    output::text(&found.table())
}

/// Shows them every so often, `count` times or until interrupted.
pub fn watch(
    zernel: &Zernel,
    options: &Options,
    every: Duration,
    count: Option<u64>,
    json: bool,
) -> Result<()> {
    let mut out = io::stdout().lock();
    let terminal = out.is_terminal();
    let mut shown = 0;
    while count.is_none_or(|count| shown < count) {
        if shown > 0 {
            thread::sleep(every);
        }
        let found = Found::look(zernel, options)?;
        if json {
            output::json_line(&mut out, &found)?;
        } else {
            match (terminal, shown) {
                (true, _) => write!(out, "{CLEAR}")?,
                (false, 0) => {}
                (false, _) => writeln!(out)?,
            }
            writeln!(out, "{}", found.table().trim_end())?;
        }
        // The reader of a pipe wants each when it is there.
        out.flush()?;
        shown += 1;
    }
    Ok(())
}

/// The output of `hint` as JSON.
#[derive(Serialize)]
struct Hint {
    tid: u32,
    phase: Phase,
    duration_ns: u64,
}

/// Gives a thread a hint.
pub fn hint(zernel: &Zernel, tid: u32, phase: Phase, duration: Duration, json: bool) -> Result<()> {
    zernel.hint(&Target::Thread(tid), phase, duration)?;
    if json {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        return output::json(&Hint {
            tid,
            phase,
            duration_ns,
        });
    }
    output::text(&if duration.is_zero() {
        format!("thread {tid}: no hint")
    } else {
        format!("thread {tid}: {phase} for {} ms", duration.as_millis())
    })
}

/// The processes by their cgroups, which `path` tells.
fn groups(processes: &[Process], path: impl Fn(u32) -> Option<String>) -> Vec<Group> {
    let mut groups: BTreeMap<Option<String>, Group> = BTreeMap::new();
    for process in processes {
        let cgroup = match process.pid {
            0 => None,
            pid => path(pid),
        };
        let group = groups.entry(cgroup.clone()).or_insert(Group {
            cgroup,
            processes: 0,
            threads: 0,
            phase_ns: Times::default(),
        });
        group.processes += 1;
        group.threads += process.threads;
        group.phase_ns = group.phase_ns + process.phase_ns;
    }
    groups.into_values().collect()
}

fn tracked(found: Vec<Cgroup>, paths: &BTreeMap<u64, String>) -> Vec<Tracked> {
    let with_path = |phases: Cgroup| Tracked {
        cgroup: paths.get(&phases.id).cloned(),
        phases,
    };
    found.into_iter().map(with_path).collect()
}

fn thread_table(threads: &[Thread]) -> String {
    let rows = threads.iter().map(|thread| {
        let hint = if thread.hinted { " (hint)" } else { "" };
        let mut row = vec![
            thread.pid.to_string(),
            thread.tid.to_string(),
            thread.comm.clone(),
            format!("{}{hint}", thread.phase),
            seconds(thread.present_ns),
            match thread.nice {
                0 => "-".to_owned(),
                nice => format!("{nice:+}"),
            },
        ];
        row.extend(cells(&thread.phase_ns));
        row.push(thread.transitions.to_string());
        row
    });
    let lead = ["PID", "TID", "COMMAND", "PHASE", "FOR", "NICE"];
    table(&lead, &["TRANSITIONS"], rows)
}

fn process_table(processes: &[Process], now: Timestamp) -> String {
    let rows = processes.iter().map(|process| {
        let mut row = vec![
            process.pid.to_string(),
            process.uid.to_string(),
            process.comm.clone(),
            process.threads.to_string(),
            process
                .gpu
                .map_or_else(|| "-".to_owned(), |gpu| gpu.to_string()),
            format!("{:.1} %", f64::from(process.gpu_permille()) / 10.0),
            match process.synced_ns {
                Some(at) => seconds(now.since(at).as_nanos() as u64),
                None => "-".to_owned(),
            },
        ];
        row.extend(cells(&process.phase_ns));
        row.extend(signals(&process.prefetch));
        row
    });
    table(
        &["PID", "UID", "COMMAND", "THREADS", "GPU", "BUSY", "SYNC"],
        &["SIGNALS", "EARLY", "LATE", "USELESS", "OVERLAP", "NEXT"],
        rows,
    )
}

fn group_table(groups: &[Group]) -> String {
    let rows = groups.iter().map(|group| {
        let mut row = vec![
            group.cgroup.clone().unwrap_or_else(|| "-".to_owned()),
            group.processes.to_string(),
            group.threads.to_string(),
        ];
        row.extend(cells(&group.phase_ns));
        row
    });
    table(&["CGROUP", "PROCESSES", "THREADS"], &[], rows)
}

fn tracked_table(tracked: &[Tracked]) -> String {
    if tracked.is_empty() {
        return "No tracked cgroup to show; track --cgroup begins one.".to_owned();
    }
    let rows = tracked.iter().map(|tracked| {
        let phases = &tracked.phases;
        let mut row = vec![
            tracked.cgroup.clone().unwrap_or_else(|| "-".to_owned()),
            phases.id.to_string(),
            phases.uid.to_string(),
            phases.processes.to_string(),
            phases.threads.to_string(),
        ];
        row.extend(cells(&phases.phase_ns));
        row
    });
    let lead = ["CGROUP", "ID", "UID", "PROCESSES", "THREADS"];
    table(&lead, &[], rows)
}

fn table(lead: &[&str], end: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return "No machine-learning program to show; track --ml says what is one.".to_owned();
    }
    let header = lead
        .iter()
        .copied()
        .chain(COLUMNS.map(|(name, _)| name))
        .chain(end.iter().copied());
    output::table(
        header,
        |name| !["COMMAND", "PHASE", "CGROUP"].contains(&name),
        rows,
    )
}

/// Time in each phase, and its share of all.
fn cells(times: &Times) -> impl Iterator<Item = String> {
    let (times, all) = (*times, times.sum());
    COLUMNS.into_iter().map(move |(_, phase)| {
        let ns = times.of(phase);
        match all {
            0 => "-".to_owned(),
            all => format!("{} {:>5.1} %", seconds(ns), ns as f64 * 100.0 / all as f64),
        }
    })
}

/// Signals to load the next batch: their outcome, overlap efficiency so far and for the next batch.
fn signals(prefetch: &Prefetch) -> [String; 6] {
    let share = |share: f64| format!("{:.1} %", share * 100.0);
    [
        prefetch.signals.to_string(),
        prefetch.early.to_string(),
        prefetch.late.to_string(),
        prefetch.useless.to_string(),
        share(prefetch.overlap()),
        prefetch
            .predicted_overlap()
            .map_or_else(|| "-".to_owned(), share),
    ]
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use libzernel::sys::abi;

    fn thread() -> abi::zernel_thread_info {
        let mut raw = abi::zernel_thread_info::zeroed();
        (raw.pid, raw.tid, raw.transitions) = (10, 11, 42);
        (raw.phase, raw.phase_ns) = (abi::ZERNEL_PHASE_GPU_COMPUTE, 12_000_000);
        (raw.unknown_ns, raw.data_loading_ns) = (250_000_000, 500_000_000);
        raw.gpu_compute_ns = 1_250_000_000;
        for (to, from) in raw.comm.iter_mut().zip(b"train") {
            *to = *from as _;
        }
        raw
    }

    fn process(pid: u32, threads: u32) -> Process {
        let mut raw = abi::zernel_process_info::zeroed();
        (raw.pid, raw.threads, raw.flags) = (pid, threads, abi::ZERNEL_TRACKED_ML);
        (raw.uid, raw.sample_ns, raw.sample_gpu_ns) = (1000, 1_000_000, 815_000);
        (raw.unknown_ns, raw.gpu_compute_ns) = (1_000_000_000, 3_000_000_000);
        Process::from(&raw)
    }

    fn words(line: &str) -> Vec<&str> {
        line.split("  ")
            .map(str::trim)
            .filter(|w| !w.is_empty())
            .collect()
    }

    #[test]
    fn threads_show_time_and_share_of_each_phase() {
        let mut raw = thread();
        let text = thread_table(&[Thread::from(&raw)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            words(lines[0]),
            [
                "PID",
                "TID",
                "COMMAND",
                "PHASE",
                "FOR",
                "NICE",
                "LOADING",
                "COMPUTE",
                "COLLECTIVE",
                "OPTIMIZER",
                "UNKNOWN",
                "TRANSITIONS",
            ]
        );
        for expected in [
            "train    gpu_compute  0.012 s     -",
            "0.500 s  25.0 %",
            "1.250 s  62.5 %",
            "0.000 s   0.0 %",
            "0.250 s  12.5 %",
        ] {
            assert!(lines[1].contains(expected), "{expected}: {text}");
        }
        assert!(lines[1].ends_with("42"), "{text}");
        raw.flags = abi::ZERNEL_TRACKED_HINTED;
        let text = thread_table(&[Thread::from(&raw)]);
        assert!(text.contains("gpu_compute (hint)"), "{text}");
        for (nice, shown) in [(5, "0.012 s    +5"), (-10, "0.012 s   -10")] {
            raw.nice = nice;
            let text = thread_table(&[Thread::from(&raw)]);
            assert!(text.contains(shown), "{text}");
        }
    }

    #[test]
    fn an_empty_record_has_no_shares() {
        let mut raw = thread();
        (raw.unknown_ns, raw.data_loading_ns, raw.gpu_compute_ns) = (0, 0, 0);
        let text = thread_table(&[Thread::from(&raw)]);
        assert!(!text.contains('%'), "{text}");
        assert!(thread_table(&[]).starts_with("No machine-learning program"));
    }

    #[test]
    fn processes_show_the_gpu() {
        let now = Timestamp::from_ns(1_002_500_000);
        let mut process = process(10, 3);
        let text = process_table(&[process.clone()], now);
        let line = text.lines().nth(1).unwrap();
        assert!(line.contains("-  81.5 %     -"), "{text}");
        assert!(line.contains("3.000 s  75.0 %"), "{text}");
        process.synced_ns = Some(Timestamp::from_ns(1_000_000_000));
        process.gpu = Some(libzernel::gpu::Id::new(7));
        let text = process_table(&[process], now);
        assert!(text.contains("7  81.5 %  0.003 s"), "{text}");
    }

    #[test]
    fn processes_show_what_came_of_signals() {
        let mut one = process(10, 3);
        let words = |process: &Process| {
            let text = process_table(std::slice::from_ref(process), Timestamp::from_ns(0));
            let line = text.lines().nth(1).unwrap().to_owned();
            let mut words: Vec<_> = line.split_whitespace().rev().map(str::to_owned).collect();
            words.truncate(8);
            words
        };
        // Nothing was loaded.
        assert_eq!(words(&one)[..7], ["-", "%", "100.0", "0", "0", "0", "0"]);
        (one.prefetch.signals, one.prefetch.early) = (9, 5);
        (one.prefetch.late, one.prefetch.useless) = (3, 1);
        (one.prefetch.compute_ns, one.prefetch.lead_ns) = (2_000, 345);
        (one.prefetch.loading_ns, one.prefetch.loadings) = (1_000, 2);
        one.prefetch.predicted_compute_ns = Some(200);
        one.prefetch.predicted_lead_ns = Some(50);
        assert_eq!(words(&one), ["%", "50.0", "%", "234.5", "1", "3", "5", "9"]);
        let json = serde_json::to_value(Found::Processes(vec![one])).unwrap();
        assert_eq!(json[0]["prefetch"]["signals"], 9);
        assert_eq!(json[0]["prefetch"]["lead_ns"], 345);
    }

    #[test]
    fn cgroups_sum_their_processes() {
        let processes = [process(1, 2), process(2, 5), process(3, 1), process(0, 1)];
        let path = |pid| match pid {
            1 | 3 => Some("/train".to_owned()),
            2 => Some("/".to_owned()),
            other => panic!("process {other} has no number here"),
        };
        let groups = groups(&processes, path);
        let told: Vec<_> = groups
            .iter()
            .map(|g| {
                let name = g.cgroup.as_deref();
                (name, g.processes, g.threads, g.phase_ns.gpu_compute)
            })
            .collect();
        assert_eq!(
            told,
            [
                (None, 1, 1, 3_000_000_000),
                (Some("/"), 1, 5, 3_000_000_000),
                (Some("/train"), 2, 3, 6_000_000_000),
            ]
        );
        let text = group_table(&groups);
        assert!(text.starts_with("CGROUP  PROCESSES  THREADS"), "{text}");
        assert!(text.lines().nth(3).unwrap().starts_with("/train"), "{text}");
    }

    #[test]
    fn tracked_cgroups_have_their_paths() {
        let mut raw = abi::zernel_cgroup_info::zeroed();
        (raw.id, raw.uid, raw.processes, raw.threads) = (77, 1000, 2, 5);
        (raw.unknown_ns, raw.gpu_compute_ns) = (1_000_000_000, 3_000_000_000);
        let mut other = raw;
        other.id = 78;
        let found = vec![Cgroup::from(&raw), Cgroup::from(&other)];
        let tracked = tracked(found, &BTreeMap::from([(77, "/train".to_owned())]));
        let text = tracked_table(&tracked);
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[0].starts_with("CGROUP  ID   UID  PROCESSES  THREADS"),
            "{text}"
        );
        assert!(lines[1].starts_with("/train  77  1000"), "{text}");
        assert!(lines[1].contains("3.000 s  75.0 %"), "{text}");
        assert!(lines[2].starts_with("-       78"), "{text}");
        assert!(tracked_table(&[]).starts_with("No tracked cgroup"));
        let json = serde_json::to_value(Found::Tracked(tracked)).unwrap();
        assert_eq!(json[0]["cgroup"], "/train");
        assert_eq!(json[0]["processes"], 2);
        assert_eq!(json[1]["cgroup"], serde_json::Value::Null);
    }

    #[test]
    fn json_is_a_list_of_what_is_shown() {
        let found = Found::Groups(groups(&[process(7, 2)], |_| Some("/a".to_owned())));
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json[0]["cgroup"], "/a");
        assert_eq!(json[0]["phase_ns"]["gpu_compute"], 3_000_000_000u64);
        let found = Found::Threads(vec![Thread::from(&thread())]);
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json[0]["phase"], "gpu_compute");
        assert_eq!(json[0]["transitions"], 42);
        assert_eq!(json[0]["nice"], 0);
    }
}
