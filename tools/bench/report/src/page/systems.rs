// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of other systems, beside zernel's where there is one to compare.

use zernel_workload::Deployment;

use crate::outcome::Mode;
use crate::suite::{ideal_percent, Done, Section};
use crate::table::Row;

/// A figure of another system: its name, the measure, the published figure, zernel's.
pub type Beside = [String; 4];

/// All of them for which there are results.
pub fn all(all: &[Done]) -> Vec<Beside> {
    let part = |name: &str| {
        all.iter().find(|done| {
            done.workload == name
                && done.section == Section::Workloads
                && done.deployment == Deployment::PerClient
        })
    };
    let of = |name: &str, mode: Mode| -> Option<&Row> {
        part(name)?.rows.iter().find(|row| row.mode == mode)
    };
    let compared = [
        xsched_priority(&of),
        xsched_shares(all),
        xsched_suspend(&of),
        beside_tally(&of),
        reef(&of),
    ];
    compared.into_iter().flatten().collect()
}

fn beside(system: &str, what: &str, published: &str, zernel: String) -> Beside {
    [
        system.to_owned(),
        what.to_owned(),
        published.to_owned(),
        zernel,
    ]
}

fn above(value: f64, than: f64) -> String {
    format!("{:+.1} %", 100.0 * (value / than - 1.0))
}

fn xsched_priority<'a>(of: &dyn Fn(&str, Mode) -> Option<&'a Row>) -> Option<Beside> {
    let (alone, default, zernel) = (
        of("C", Mode::Alone)?,
        of("C", Mode::Default)?,
        of("C", Mode::Zernel)?,
    );
    let text = |row: &Row| {
        format!(
            "{} / {}",
            above(row.lc.p50_ns as f64, alone.lc.p50_ns as f64),
            above(row.lc.p99_ns as f64, alone.lc.p99_ns as f64)
        )
    };
    Some(beside(
        "XSched (OSDI'25), GV100",
        "LC P50 / P99 above those alone, fixed priority: native, with the system",
        "native +101 % / +116 %; XSched +6.3 % / +13.2 %",
        format!("C: default {}; zernel {}", text(default), text(zernel)),
    ))
}

fn xsched_shares(all: &[Done]) -> Option<Beside> {
    let done = all.iter().find(|done| {
        let two = done.parameter == Some(2.0);
        done.section == Section::Weights && two
    })?;
    let (_, shares) = done.shares.iter().find(|(mode, _)| *mode == Mode::Zernel)?;
    let row = done.rows.iter().find(|row| row.mode == Mode::Zernel)?;
    Some(beside(
        "XSched (OSDI'25)",
        "shares at 3:1, and both together of what there is",
        "2.96 : 1 (109.8 and 37.1 req/s), 94 % of the throughput alone",
        format!(
            "{:.2} : 1, {:.1} % of what LC leaves",
            shares.first()?.had_percent / shares.get(1)?.had_percent,
            100.0 * row.be_gpu_percent / ideal_percent()
        ),
    ))
}

fn xsched_suspend<'a>(of: &dyn Fn(&str, Mode) -> Option<&'a Row>) -> Option<Beside> {
    let classes = of("B1", Mode::Classes)?.lc_added_at_us?[1];
    let zernel = of("B1", Mode::Zernel)?.lc_added_at_us?[1];
    Some(beside(
        "XSched (OSDI'25), GV100",
        "P99 time to suspend a stream of kernels of 100 to 1300 µs",
        "by launches 1053 to 13761 µs; by binaries 148 to 1659 µs; by the trap handler 34 to 41 µs",
        format!(
            "B1: what an LC request waits for the GPU at p99, {classes:.0} µs by the BE slice alone, \
             {zernel:.0} µs with requests. Other hardware, and a wait rather than the stop itself"
        ),
    ))
}

fn beside_tally<'a>(of: &dyn Fn(&str, Mode) -> Option<&'a Row>) -> Option<Beside> {
    let (alone, default, zernel) = (
        of("C", Mode::Alone)?,
        of("C", Mode::Default)?,
        of("C", Mode::Zernel)?,
    );
    Some(beside(
        "Tally (ASPLOS'25)",
        "LC P99 above that alone; BE throughput kept",
        "+7.2 %; 80 %",
        format!(
            "C: {}; {:.0} % of what default slices serve, {:.0} % of the GPU time that LC leaves",
            above(zernel.lc.p99_ns as f64, alone.lc.p99_ns as f64),
            100.0 * zernel.be_rate / default.be_rate,
            100.0 * zernel.be_gpu_percent / ideal_percent()
        ),
    ))
}

fn reef<'a>(of: &dyn Fn(&str, Mode) -> Option<&'a Row>) -> Option<Beside> {
    let (alone, zernel) = (of("C", Mode::Alone)?, of("C", Mode::Zernel)?);
    Some(beside(
        "REEF (OSDI'22)",
        "mean LC overhead; idempotent kernels only",
        "at most 2 %",
        format!(
            "C: {}, any kernels",
            above(zernel.lc.mean_ns, alone.lc.mean_ns)
        ),
    ))
}
