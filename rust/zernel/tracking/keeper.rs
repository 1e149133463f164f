// SPDX-License-Identifier: GPL-2.0
//! Looks for threads that were missed, and ends phases that are over, for processes that asked.
//!
//! However often they ask, that takes a bounded share of a CPU; one for which there is no memory or
//! room is spared for a while.

use super::{
    lacks,
    look_once,
    process,
    rest,
    Payer, //
};
use crate::{
    glue::time::now_ns,
    policy::units::Ns, //
};

/// A round of scans is followed by a pause of so many times its length.
const PAUSE: u64 = 10;

/// A process is not scanned again for so long after a scan that was not enough.
const SPARED: Ns = Ns(1_000_000_000);

/// Scans processes that asked, but not before `due`. Returns when the next round is due, and whether
/// any process waits for that. Called by the record reaper.
pub(crate) fn scan_asked(due: Ns) -> (Ns, bool) {
    let began = Ns(now_ns());
    if began < due || process::ASKED.is_empty() {
        return (due, !process::ASKED.is_empty());
    }
    // The earliest end of a rest.
    let mut next: Option<Ns> = None;
    for process in process::ASKED.take() {
        // Without a table there are no phases.
        let _ = rest(&process);
        let mut spared = process.spared_until();
        if spared <= began {
            if !process.setting().whole {
                continue;
            }
            // A process without memory or room now was counted when it was made.
            match look_once(&process, Payer::Process) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(_) => lacks(&process),
            }
            spared = Ns(now_ns()).saturating_add(SPARED);
            process.spare_until(spared);
        }
        next = Some(next.map_or(spared, |next| next.min(spared)));
        process::Process::ask_scan_later(&process);
    }
    let end = Ns(now_ns());
    let pause = Ns(end.saturating_sub(began).0.saturating_mul(PAUSE));
    let due = end.saturating_add(pause);
    let waits = !process::ASKED.is_empty();
    (next.map_or(due, |next| next.max(due)), waits)
}
