// SPDX-License-Identifier: MIT OR Apache-2.0
//! `gpu list` and `tsg list`.

use std::time::Duration;

use anyhow::Result;
use libzernel::{Gpu, Level, Tsg, Zernel};

use crate::output;

/// Which TSGs to list.
#[derive(Debug, Default)]
pub struct Filter {
    /// Those of this process.
    pub pid: Option<u32>,
    /// Those of this level.
    pub level: Option<Level>,
    /// Those that do not compute, too.
    pub all: bool,
}

impl Filter {
    fn takes(&self, tsg: &Tsg) -> bool {
        (self.all || tsg.compute)
            && self.pid.is_none_or(|pid| tsg.pid == pid)
            && self.level.is_none_or(|level| tsg.level == Some(level))
    }
}

/// Lists GPUs.
pub fn gpus(zernel: &Zernel, json: bool) -> Result<()> {
    if json {
        return output::json(&look(zernel)?);
    }
    let (before, gpus) = look_twice(zernel)?;
    output::text(&gpu_table(&before, &gpus))
}

fn look(zernel: &Zernel) -> libzernel::Result<Vec<Gpu>> {
    zernel.gpus().collect()
}

/// Reads GPUs twice, so that the time for which they were busy in between can be told: zernel asks
/// their providers no more often than every 100 ms, and not while somebody waits.
pub fn look_twice(zernel: &Zernel) -> Result<(Vec<Gpu>, Vec<Gpu>)> {
    const PAUSE: Duration = Duration::from_millis(110);
    const ANSWER: Duration = Duration::from_millis(5);
    look(zernel)?;
    std::thread::sleep(ANSWER);
    let before = look(zernel)?;
    if before.iter().all(|gpu| !gpu.can.load) {
        return Ok((Vec::new(), before));
    }
    std::thread::sleep(PAUSE);
    look(zernel)?;
    std::thread::sleep(ANSWER);
    Ok((before, look(zernel)?))
}

/// Lists TSGs.
pub fn tsgs(zernel: &Zernel, filter: &Filter, json: bool) -> Result<()> {
    let tsgs: Vec<_> = zernel
        .tsgs()
        .filter(|tsg| tsg.as_ref().map_or(true, |tsg| filter.takes(tsg)))
        .collect::<libzernel::Result<_>>()?;
    if json {
        return output::json(&tsgs);
    }
    output::text(&tsg_table(&tsgs))
}

/// GPUs as a table, or a sentence if there is none. `before`: the same, a moment earlier.
pub fn gpu_table(before: &[Gpu], gpus: &[Gpu]) -> String {
    if gpus.is_empty() {
        return "No GPU: no provider has reported one.".to_owned();
    }
    let rows = gpus.iter().map(|gpu| {
        let can = gpu.can;
        let can: Vec<_> = [
            (can.timeslice, "slice"),
            (can.interleave, "interleave"),
            (can.preempt, "preempt"),
            (can.enable, "enable"),
            (can.kick, "kick"),
            (can.load, "load"),
            (can.tsg_load, "tsg-load"),
            (can.control, "control"),
            (can.waits, "waits"),
            (can.context, "context"),
        ]
        .into_iter()
        .filter_map(|(can, name)| can.then_some(name))
        .collect();
        vec![
            gpu.id.to_string(),
            gpu.name.clone(),
            gpu.bus.clone(),
            gpu.provider.clone(),
            if gpu.driver.is_empty() {
                "-".to_owned()
            } else {
                gpu.driver.clone()
            },
            match (gpu.unresponsive, gpu.suspended, gpu.retrying) {
                (true, _, _) => "unresponsive",
                (_, true, _) => "suspended",
                (_, _, true) => "retrying",
                _ => "ready",
            }
            .to_owned(),
            gpu.tsgs.to_string(),
            gpu.pending.to_string(),
            match gpu.busy_permille(before.iter().find(|known| known.id == gpu.id)) {
                Some(share) => format!("{}.{} %", share / 10, share % 10),
                None => "-".to_owned(),
            },
            gpu.errors.to_string(),
            if gpu.turns { "turns" } else { "slices" }.to_owned(),
            can.join(","),
        ]
    });
    output::table(
        [
            "ID", "NAME", "BUS", "PROVIDER", "DRIVER", "STATE", "TSGS", "PENDING", "BUSY",
            "ERRORS", "BE", "CAN",
        ],
        |name| ["ID", "TSGS", "PENDING", "BUSY", "ERRORS"].contains(&name),
        rows,
    )
}

/// TSGs as a table, or a sentence if there is none.
fn tsg_table(tsgs: &[Tsg]) -> String {
    if tsgs.is_empty() {
        return "No TSG to show.".to_owned();
    }
    let rows = tsgs.iter().map(|tsg| {
        let state = match (tsg.failed, tsg.pending, tsg.shared) {
            (true, _, _) => "failed",
            (_, true, _) => "pending",
            (_, _, true) => "shared",
            _ => "applied",
        };
        vec![
            tsg.id.to_string(),
            tsg.gpu.to_string(),
            tsg.pid.to_string(),
            tsg.uid.to_string(),
            tsg.comm.clone(),
            if tsg.compute { "compute" } else { "other" }.to_owned(),
            output::level(tsg.level),
            tsg.source.to_string(),
            output::microseconds(tsg.timeslice_us),
            output::microseconds(tsg.default_timeslice_us),
            match tsg.level {
                Some(_) => state.to_owned(),
                None if tsg.pending || tsg.failed || tsg.shared => state.to_owned(),
                None => "-".to_owned(),
            },
        ]
    });
    output::table(
        [
            "ID", "GPU", "PID", "UID", "COMMAND", "ENGINE", "LEVEL", "FROM", "SLICE", "DEFAULT",
            "STATE",
        ],
        |name| ["ID", "GPU", "PID", "UID", "SLICE", "DEFAULT"].contains(&name),
        rows,
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use libzernel::sys::abi;

    pub(crate) fn tsg(id: u64, level: Option<Level>) -> Tsg {
        let mut raw: abi::zernel_tsg_info = bytemuck::Zeroable::zeroed();
        raw.id = id;
        raw.gpu = 1;
        raw.pid = 100 + id as u32;
        raw.flags = abi::ZERNEL_TSG_COMPUTE;
        raw.level = level.map_or(abi::ZERNEL_LEVEL_NONE, |level| level.number().into());
        raw.source = if level.is_some() { 2 } else { 0 };
        raw.weight = abi::ZERNEL_WEIGHT_DEFAULT;
        raw.timeslice_us = 200;
        raw.default_timeslice_us = 1024;
        for (to, from) in raw.comm.iter_mut().zip(b"train") {
            *to = *from as _;
        }
        Tsg::try_from(&raw).unwrap()
    }

    #[test]
    fn tsgs_line_up_under_their_header() {
        let text = tsg_table(&[tsg(9, Some(Level::BE)), tsg(10, None)]);
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[0].starts_with("ID  GPU  PID  UID  COMMAND  ENGINE"),
            "{text}"
        );
        assert!(
            lines[1].contains("be     process  200 us  1024 us  applied"),
            "{text}"
        );
        assert!(lines[2].contains("-      none"), "{text}");
        assert!(lines[2].ends_with('-'), "{text}");
    }

    #[test]
    fn a_shared_tsg_says_so() {
        let shared = Tsg {
            shared: true,
            ..tsg(9, None)
        };
        let text = tsg_table(std::slice::from_ref(&shared));
        assert!(text.trim_end().ends_with("shared"), "{text}");
        let restored = Tsg {
            pending: true,
            ..shared
        };
        let text = tsg_table(&[restored]);
        assert!(text.trim_end().ends_with("pending"), "{text}");
    }

    #[test]
    fn gpus_say_whether_best_effort_takes_turns() {
        let mut raw: abi::zernel_gpu_info = bytemuck::Zeroable::zeroed();
        raw.caps = abi::ZERNEL_GPU_CAP_TIMESLICE.into();
        let plain = Gpu::from(&raw);
        raw.caps |= u64::from(abi::ZERNEL_GPU_CAP_ENABLE);
        raw.state = abi::ZERNEL_GPU_TURNS;
        let turns = Gpu::from(&raw);
        let json = serde_json::to_value(&turns).unwrap();
        assert_eq!(json["turns"], true);
        let text = gpu_table(&[], &[plain, turns]);
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        assert!(lines[1].ends_with("slices  slice"), "{text}");
        assert!(lines[2].ends_with("turns   slice,enable"), "{text}");
    }

    #[test]
    fn filters_take_what_they_say() {
        let filter = Filter {
            pid: Some(109),
            level: Some(Level::BE),
            all: false,
        };
        assert!(filter.takes(&tsg(9, Some(Level::BE))));
        assert!(!filter.takes(&tsg(9, Some(Level::LC))));
        assert!(!filter.takes(&tsg(10, Some(Level::BE))));
        let copy = Tsg {
            compute: false,
            ..tsg(9, None)
        };
        assert!(!Filter::default().takes(&copy));
    }

    #[test]
    fn json_has_the_documented_names() {
        let json = serde_json::to_value([tsg(9, Some(Level::BE))]).unwrap();
        assert_eq!(json[0]["level"], 7);
        assert_eq!(json[0]["source"], "process");
        assert_eq!(json[0]["comm"], "train");
        assert_eq!(json[0]["timeslice_us"], 200);
    }

    #[test]
    fn nothing_is_said_in_words() {
        assert!(gpu_table(&[], &[]).contains("no provider"));
        assert_eq!(tsg_table(&[]), "No TSG to show.");
    }
}
