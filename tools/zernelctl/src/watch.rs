// SPDX-License-Identifier: MIT OR Apache-2.0
//! `watch`: events as they happen.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Result;
use libzernel::event::Kind;
use libzernel::{Event, Zernel};

use crate::output;

/// The events to watch for, and the end.
#[derive(Debug)]
pub struct Options {
    /// Stop after this many events.
    pub count: Option<u64>,
    /// Stop when nothing happens for so long.
    pub timeout: Option<Duration>,
    /// Only events of this process.
    pub pid: Option<u32>,
}

/// Prints events until there is a reason to stop.
pub fn watch(zernel: &Zernel, options: &Options, json: bool) -> Result<()> {
    let mut stream = zernel.events()?;
    let mut out = io::stdout().lock();
    let mut shown = 0;
    let mut dropped = 0;
    while options.count.is_none_or(|count| shown < count) {
        let Some(event) = stream.next_within(options.timeout)? else {
            if options.timeout.is_some() {
                break;
            }
            continue;
        };
        if event.dropped > dropped {
            eprintln!("zernelctl: {} events lost", event.dropped - dropped);
            dropped = event.dropped;
        }
        if options.pid.is_some_and(|pid| event.pid != pid) {
            continue;
        }
        shown += 1;
        if json {
            output::json_line(&mut out, &event)?;
        } else {
            writeln!(out, "{}", describe(&event))?;
        }
        // The reader of a pipe wants events when they happen.
        out.flush()?;
    }
    Ok(())
}

fn describe(event: &Event) -> String {
    let mut line = format!("{} #{:<5} {:<11}", event.time_ns, event.seq, event.kind);
    if event.kind.is_of_gpu() {
        line += &format!(" gpu {}", event.gpu);
    } else if event.kind != Kind::Signal {
        line += &format!(" gpu {} tsg {}", event.gpu, event.tsg);
    }
    if !event.kind.is_of_gpu() {
        line += &format!(" pid {}", event.pid);
    }
    match event.kind {
        Kind::TsgError => {
            let error = io::Error::from_raw_os_error(event.error.saturating_neg());
            line += &format!(" {error}");
        }
        Kind::TsgAdded | Kind::TsgClass | Kind::TsgApplied => {
            line += &match event.level {
                Some(level) => format!(" level {level} from {}", event.source),
                None => " not classed".to_owned(),
            };
            line += &format!(" slice {}", output::microseconds(event.timeslice_us));
        }
        _ => {}
    }
    if let Some(state) = event.state.filter(|_| event.kind != Kind::GpuRemoved) {
        line += &format!(" {state}");
    }
    if let Some(signal) = event.signal {
        let ns = Duration::from_nanos;
        line += &format!(
            " prefetch: {:?} of {:?}, loading takes {:?}",
            ns(signal.elapsed_ns),
            ns(signal.predicted_ns),
            ns(signal.lead_ns)
        );
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use libzernel::{event, sys::abi, Level};

    fn event(kind: u32) -> Event {
        let raw = abi::zernel_event_tsg {
            event: header::<abi::zernel_event_tsg>(kind),
            tsg: 9,
            gpu: 1,
            pid: 77,
            uid: 0,
            level: Level::BE.number().into(),
            source: abi::ZERNEL_SOURCE_PROCESS,
            timeslice_us: 200,
            error: -5,
        };
        event::parse(bytemuck::bytes_of(&raw)).unwrap().unwrap().0
    }

    fn header<T>(kind: u32) -> abi::zernel_event {
        abi::zernel_event {
            size: size_of::<T>() as u32,
            kind,
            seq: 4,
            dropped: 0,
            time_at: 12_000_000_345,
        }
    }

    #[test]
    fn lines_tell_what_matters_for_their_kind() {
        assert_eq!(
            describe(&event(abi::ZERNEL_EVENT_TSG_APPLIED)),
            "12.000000345 #4     tsg-applied gpu 1 tsg 9 pid 77 level be from process slice 200 us"
        );
        assert!(describe(&event(abi::ZERNEL_EVENT_TSG_REMOVED)).ends_with("pid 77"));
        assert!(describe(&event(abi::ZERNEL_EVENT_TSG_ERROR)).contains("os error 5"));
        let raw = abi::zernel_event_gpu {
            event: header::<abi::zernel_event_gpu>(abi::ZERNEL_EVENT_GPU_STATE),
            gpu: 1,
            state: abi::ZERNEL_GPU_SUSPENDED | abi::ZERNEL_GPU_RETRYING,
            reserved: 0,
        };
        let (event, _) = event::parse(bytemuck::bytes_of(&raw)).unwrap().unwrap();
        let line = "12.000000345 #4     gpu-state   gpu 1 suspended, retrying";
        assert_eq!(describe(&event), line);
        let raw = abi::zernel_event_signal {
            event: header::<abi::zernel_event_signal>(abi::ZERNEL_EVENT_SIGNAL),
            pid: 77,
            ..bytemuck::Zeroable::zeroed()
        };
        let (event, _) = event::parse(bytemuck::bytes_of(&raw)).unwrap().unwrap();
        assert!(describe(&event).contains("signal      pid 77 prefetch: "));
    }

    #[test]
    fn json_is_a_line() {
        let mut out = Vec::new();
        output::json_line(&mut out, &event(abi::ZERNEL_EVENT_TSG_CLASS)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["kind"], "tsg_class");
        assert_eq!(json["seq"], 4);
    }
}
