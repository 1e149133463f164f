// SPDX-License-Identifier: MIT OR Apache-2.0
//! The TSGs of a context, as the driver library asks for them, and as zernel finds them.

use anyhow::Result;
use libzernel::Zernel;
use nvrm::abi::{control, engine};
use zernel_runtime::{Mode, Runtime, TsgsBefore};

use crate::gpu::Gpu;
use crate::report::Findings;
use crate::sys::control::seen;

pub fn run(gpu: &Gpu) -> Result<Findings> {
    let mut findings = Findings::default();
    let known = seen();
    let before = TsgsBefore::now();
    let second = Gpu::new(&gpu.options)?;
    let made: Vec<_> = seen()
        .into_iter()
        .filter(|tsg| known.iter().all(|old| !old.is_same(tsg)))
        .collect();
    for tsg in &made {
        let mut number = 0u32;
        let number = match tsg.control(control::GET_INFO, &mut number) {
            Ok(()) => number.to_string(),
            Err(status) => format!("not told ({status:#x})"),
        };
        findings.value(
            &format!("TSG {:#x}", tsg.object),
            format!(
                "engine {}, {} channels, number {number}",
                tsg.engine, tsg.channels
            ),
        );
    }
    let compute = made.iter().filter(|tsg| tsg.engine == engine::GR0).count();
    if !gpu.is_software()? {
        findings.value("TSGs of compute of a new context", compute);
        findings.expect("a context has one TSG of compute", compute == 1);
    }
    match Zernel::open() {
        Ok(_) => {
            let options = zernel_runtime::Options::default()
                .library(&gpu.options.library)
                .before(before)
                .mode(Mode::Require);
            let _entered = second.enter()?;
            let runtime = Runtime::attach(&options);
            findings.value(
                "zernel's TSG of it",
                format!("{:?}", runtime.as_ref().map(Runtime::tsg)),
            );
            findings.expect("zernel finds the TSG of a context", runtime.is_ok());
        }
        Err(error) => findings.value("zernel", format!("not here: {error}")),
    }
    if gpu.is_software()? && findings.checks.is_empty() {
        return Ok(Findings::absent(
            "the software GPU lists no TSGs without zernel",
        ));
    }
    Ok(findings)
}
