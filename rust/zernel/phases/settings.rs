// SPDX-License-Identifier: GPL-2.0
//! What phases add to nice values, where that can be read with the threads locked.

use crate::policy::{
    nice::Delta,
    phase::Phase,
    tunables::phases::Phases, //
};
use kernel::sync::atomic::{
    ordering::Relaxed,
    Atomic, //
};

/// Those of the phases from the first after `Unknown` on, a byte each.
static DELTAS: Atomic<u32> = Atomic::new(0);

/// Makes the tunables known. Called with the registry locked.
pub(crate) fn publish(phases: &Phases) {
    let mut bytes = [0; 4];
    if phases.nice() {
        for (byte, phase) in bytes.iter_mut().zip(Phase::ALL.into_iter().skip(1)) {
            // From -20 to 19.
            *byte = phases.delta(phase).number() as i8 as u8;
        }
    }
    DELTAS.store(u32::from_ne_bytes(bytes), Relaxed);
}

/// What a phase adds.
pub(crate) fn delta(phase: Phase) -> Delta {
    let bytes = DELTAS.load(Relaxed).to_ne_bytes();
    let byte = phase.number().checked_sub(1).and_then(|at| bytes.get(at));
    let delta = byte.and_then(|&byte| Delta::new((byte as i8).into()));
    delta.unwrap_or(Delta::NONE)
}
