// SPDX-License-Identifier: GPL-2.0
//! Tracepoints of tracked threads.

use std::time::Duration;

use anyhow::{ensure, Context as _};
use libzernel::{Phase, Target, Tracking, Zernel};

use super::Tracer;
use crate::child::in_child;
use crate::common::{tid, tune};
use crate::harness::Outcome;
use crate::prefetch::Signaller;

/// The number that a field of an event has.
fn field(event: &str, name: &str) -> anyhow::Result<u64> {
    let mut fields = event.split(' ').filter_map(|field| field.split_once('='));
    let value = fields
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value);
    let value = value.with_context(|| format!("{event} has no {name}"))?;
    value.parse().with_context(|| format!("{name} of {event}"))
}

pub(super) fn phases_and_signals() -> Outcome {
    in_child(|| {
        let (zernel, tracer) = (Zernel::open()?, Tracer::new()?);
        zernel.track(&Target::current_process(), Tracking::ML)?;
        crate::track::wait_recorded(&zernel, std::process::id(), 1)?;
        zernel.hint(
            &Target::CurrentThread,
            Phase::Collective,
            Duration::from_secs(60),
        )?;
        zernel.hint(
            &Target::CurrentThread,
            Phase::OptimizerStep,
            Duration::from_secs(60),
        )?;
        let (pid, tid) = (std::process::id(), tid());
        let told = tracer.told("phase_changed")?;
        let ours: Vec<_> = told
            .iter()
            .filter(|event| event.starts_with(&format!("pid={pid} tid={tid} ")))
            .collect();
        ensure!(ours.len() == 2, "{told:?}");
        ensure!(
            ours[0].contains(" from=unknown to=collective lasted_ns=")
                && ours[1].contains(" from=collective to=optimizer_step lasted_ns=")
                && ours.iter().all(|event| event.ends_with(" hinted=1")),
            "{ours:?}"
        );
        ensure!(field(ours[1], "lasted_ns")? > 0, "{ours:?}");
        // As soon as a computation begins.
        let signaller = Signaller::own(&zernel)?;
        signaller.signal(1)?;
        let told = tracer.told("prefetch_signal")?;
        let [signal] = &told[..] else {
            anyhow::bail!("{told:?}");
        };
        ensure!(field(signal, "pid")? == u64::from(pid), "{signal}");
        let (elapsed, predicted) = (field(signal, "elapsed_ns")?, field(signal, "predicted_ns")?);
        let lead = field(signal, "lead_ns")?;
        ensure!(predicted > 0 && lead == u64::from(u32::MAX), "{signal}");
        ensure!(elapsed + lead >= predicted, "{signal}");
        tune("prefetch_lead_ns", "auto")
    })
}
