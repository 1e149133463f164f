// SPDX-License-Identifier: GPL-2.0
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
        // Whoever reads a pipe wants events when they happen.
        out.flush()?;
    }
    Ok(())
}

fn describe(event: &Event) -> String {
    let mut line = format!("{} #{:<5} {:<14}", event.time_ns, event.seq, event.kind);
    // The others happen to a TSG.
    if event.kind != Kind::Prefetch {
        line += &format!(" gpu {} tsg {}", event.gpu, event.tsg);
    }
    line += &format!(" pid {}", event.pid);
    match event.kind {
        Kind::TsgRemoved | Kind::Prefetch => {}
        Kind::ProviderError => {
            line += &format!(
                " {}",
                io::Error::from_raw_os_error(event.error.saturating_neg())
            )
        }
        _ => {
            line += &match event.level {
                Some(level) => format!(" level {level} from {}", event.source),
                None => " not classed".to_owned(),
            };
            line += &format!(" slice {}", output::microseconds(event.timeslice_us));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use libzernel::{event, sys::abi, Level};

    fn event(kind: u32) -> Event {
        let mut raw: abi::zernel_v0_event = bytemuck::Zeroable::zeroed();
        raw.size = size_of::<abi::zernel_v0_event>() as u32;
        raw.type_ = kind;
        raw.seq = 4;
        raw.time_ns = 12_000_000_345;
        raw.tsg = 9;
        raw.gpu = 1;
        raw.pid = 77;
        raw.level = Level::BE.number().into();
        raw.source = abi::ZERNEL_V0_TARGET_PROCESS;
        raw.timeslice_us = 200;
        raw.error = -5;
        event::parse(bytemuck::bytes_of(&raw)).unwrap().unwrap().0
    }

    #[test]
    fn lines_tell_what_matters_for_their_kind() {
        assert_eq!(
            describe(&event(abi::ZERNEL_V0_EVENT_SLICE_APPLIED)),
            "12.000000345 #4     slice-applied  gpu 1 tsg 9 pid 77 level be from process \
             slice 200 us"
        );
        assert!(describe(&event(abi::ZERNEL_V0_EVENT_TSG_REMOVED)).ends_with("pid 77"));
        assert!(describe(&event(abi::ZERNEL_V0_EVENT_PROVIDER_ERROR)).contains("os error 5"));
        assert_eq!(
            describe(&event(abi::ZERNEL_V0_EVENT_PREFETCH)),
            "12.000000345 #4     prefetch       pid 77"
        );
    }

    #[test]
    fn json_is_a_line() {
        let mut out = Vec::new();
        output::json_line(&mut out, &event(abi::ZERNEL_V0_EVENT_CLASS_CHANGED)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["kind"], "class_changed");
        assert_eq!(json["seq"], 4);
    }
}
