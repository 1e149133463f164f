// SPDX-License-Identifier: MIT OR Apache-2.0
//! `track`, `untrack` and `threads`.

use anyhow::Result;
use libzernel::thread::{Cause as Sleep, Does};
use libzernel::{Cause, Target, Thread, Tracking, Zernel};
use serde::Serialize;

use crate::output;

/// The output of `track` and `untrack` as JSON.
#[derive(Serialize)]
struct Tracked {
    /// Threads of the target that are tracked now.
    threads: u32,
}

/// Tracks `target`.
pub fn begin(zernel: &Zernel, target: &Target, tracking: Tracking, json: bool) -> Result<()> {
    tell(target, zernel.track(target, tracking)?, json)
}

/// Tracks `target` no more.
pub fn end(zernel: &Zernel, target: &Target, json: bool) -> Result<()> {
    tell(target, zernel.untrack(target)?, json)
}

fn tell(target: &Target, threads: u32, json: bool) -> Result<()> {
    if json {
        return output::json(&Tracked { threads });
    }
    let whose = match target {
        Target::Cgroup(_) => "in the cgroup",
        Target::Thread(_) | Target::ThreadPidfd(_) | Target::CurrentThread => {
            let is = if threads == 0 { "is not" } else { "is" };
            return output::text(&format!("the thread {is} tracked"));
        }
        _ => "of the process",
    };
    output::text(&match threads {
        0 => format!("no thread {whose} is tracked"),
        1 => format!("1 thread {whose} is tracked"),
        n => format!("{n} threads {whose} are tracked"),
    })
}

/// Lists tracked threads.
pub fn list(zernel: &Zernel, pid: Option<u32>, json: bool) -> Result<()> {
    let threads: Vec<_> = match pid {
        Some(pid) => match zernel.threads_of(&Target::Process(pid)).collect() {
            // Nothing of it is tracked.
            Err(error) if libzernel::Error::cause(&error) == Cause::NoSuchTarget => Vec::new(),
            found => found?,
        },
        None => zernel.threads().collect::<libzernel::Result<_>>()?,
    };
    if json {
        return output::json(&threads);
    }
    output::text(&table(&threads))
}

fn table(threads: &[Thread]) -> String {
    if threads.is_empty() {
        return "No tracked thread to show.".to_owned();
    }
    let rows = threads.iter().map(|thread| {
        let all = thread.recorded_ns();
        let share = |ns, does| {
            let now = if thread.does == does {
                thread.does_ns
            } else {
                0
            };
            percent(ns + now, all)
        };
        let slept = |cause| share(thread.sleeps.of(cause).ns, Does::Sleep(cause));
        vec![
            thread.pid.to_string(),
            thread.tid.to_string(),
            thread.uid.to_string(),
            thread.comm.clone(),
            thread.does.to_string(),
            format!("{:.3}", all as f64 / 1e9),
            share(thread.bursts.ns, Does::Run),
            share(thread.queued.ns, Does::Queue),
            slept(Sleep::Io),
            slept(Sleep::Futex),
            slept(Sleep::Poll),
            slept(Sleep::ReadWrite),
            slept(Sleep::Ioctl),
            slept(Sleep::Other),
            thread.bursts.count.to_string(),
            percent(thread.gpu_waits.ns, all),
            thread.gpu_waits.count.to_string(),
        ]
    });
    output::table(
        [
            "PID", "TID", "UID", "COMMAND", "DOES", "SECONDS", "RUN", "QUEUE", "IO", "FUTEX",
            "POLL", "R/W", "IOCTL", "SLEEP", "BURSTS", "GPU", "WAITS",
        ],
        |name| !["COMMAND", "DOES"].contains(&name),
        rows,
    )
}

fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        whole => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libzernel::sys::abi;

    fn thread() -> abi::zernel_thread_info {
        let mut raw: abi::zernel_thread_info = bytemuck::Zeroable::zeroed();
        (raw.pid, raw.tid, raw.uid, raw.bursts) = (10, 11, 1000, 3);
        for (to, from) in raw.comm.iter_mut().zip(b"loader") {
            *to = *from as _;
        }
        raw
    }

    #[test]
    fn shares_count_what_goes_on() {
        let mut raw = thread();
        raw.does = abi::ZERNEL_DOES_SLEEP_IO;
        (raw.does_ns, raw.burst_ns) = (250_000_000, 500_000_000);
        raw.sleep_io_ns = 250_000_000;
        (raw.gpu_waits, raw.gpu_wait_ns) = (2, 50_000_000);
        let text = table(&[Thread::from(&raw)]);
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[0].starts_with("PID  TID   UID  COMMAND  DOES"),
            "{text}"
        );
        assert!(lines[1].ends_with("3  5.0 %      2"), "{text}");
        assert!(
            lines[1].contains("loader   io      1.000  50.0 %  0.0 %  50.0 %"),
            "{text}"
        );
    }

    #[test]
    fn who_is_not_recorded_yet_has_no_shares() {
        let mut raw = thread();
        raw.does = abi::ZERNEL_DOES_ARRIVE;
        let text = table(&[Thread::from(&raw)]);
        assert!(text.contains("arrive    0.000"), "{text}");
        assert!(!text.contains('%'), "{text}");
        assert_eq!(table(&[]), "No tracked thread to show.");
    }
}
