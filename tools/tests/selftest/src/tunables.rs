// SPDX-License-Identifier: GPL-2.0
//! The files under `/sys/class/misc/zernel`: values, errors, modes and what they change at once.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::tunable::Tunables;
use libzernel::{EventStream, Source, Target};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::in_child;
use crate::common::{level, slice_of, tunable_path, tune, Lab};
use crate::harness::{case, suite, Outcome, Suite};
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "tunables",
    &[
        case("all_have_their_defaults", all_have_their_defaults),
        case("only_root_writes", only_root_writes),
        case("good_values", good_values),
        case("no_values", no_values),
        case("out_of_range", out_of_range),
        case("minimum_and_maximum", minimum_and_maximum),
        case("idle_and_active", idle_and_active),
        case("slices_change_at_once", slices_change_at_once),
        case("bounds_change_at_once", bounds_change_at_once),
        case("default_class_at_once", default_class_at_once),
        case("switching_off_and_on", switching_off_and_on),
        case("changes_while_off", changes_while_off),
        case("ring_size_of_new_streams", ring_size_of_new_streams),
    ],
);

/// A slice that zernel left alone.
const DRIVER_SLICE: u32 = 1024;

/// Every tunable and its value in a module that was just loaded, in an order in which they can be
/// put back.
pub const DEFAULTS: &[(&str, &str)] = &[
    ("enabled", "1"),
    ("default_class", "none"),
    ("level0_timeslice_us", "5000000"),
    ("level1_timeslice_us", "50000"),
    ("level2_timeslice_us", "20000"),
    ("level3_timeslice_us", "10000"),
    ("level4_timeslice_us", "5000"),
    ("level5_timeslice_us", "2000"),
    ("level6_timeslice_us", "1024"),
    ("level7_timeslice_us", "200"),
    ("max_timeslice_us", "5000000"),
    ("min_timeslice_us", "50"),
    ("lc_gid", "none"),
    ("lc_admission", "64"),
    ("event_ring_size", "1024"),
    ("user_control", "deny"),
    ("lease_us", "10000"),
    ("predictor", "quantile"),
    ("predictor_margin", "0"),
    ("early_cost", "1"),
    ("late_cost", "6"),
    ("preempt_timeout_us", "1000"),
    ("rotation", "fair"),
    ("rotation_quantum_us", "8000"),
    ("rotation_timeslice_us", "50"),
    ("level0_period_us", "100000"),
    ("level0_budget_us", "95000"),
    ("level1_period_us", "100000"),
    ("level1_budget_us", "95000"),
    ("level2_period_us", "100000"),
    ("level2_budget_us", "95000"),
    ("level3_period_us", "100000"),
    ("level3_budget_us", "95000"),
    ("level4_period_us", "100000"),
    ("level4_budget_us", "95000"),
    ("level5_period_us", "100000"),
    ("level5_budget_us", "95000"),
    ("level6_period_us", "100000"),
    ("level6_budget_us", "95000"),
    ("phase_tick_us", "1000"),
    ("io_wait_threshold", "30"),
    ("gpu_active_threshold", "80"),
    ("gpu_idle_threshold", "10"),
    ("optimizer_burst_max_ns", "5000000"),
    ("phase_stability_count", "3"),
    ("collective_detection", "0"),
    ("collective_libraries", "nccl-"),
    ("track_owners", "0"),
    ("prefetch_lead_ns", "auto"),
    ("prefetch_predictor", "quantile"),
    ("prefetch_history", "64"),
    ("prefetch_readahead_bytes", "268435456"),
    ("phase_nice", "0"),
    ("nice_data_loading", "-5"),
    ("nice_gpu_compute", "5"),
    ("nice_collective", "-5"),
    ("nice_optimizer_step", "-5"),
    ("request_nice", "0"),
];

/// Those below 0 are values of it.
fn is_signed(name: &str) -> bool {
    name.starts_with("nice_") || name == "request_nice"
}

fn read(name: &str) -> Result<String> {
    let text = fs::read_to_string(tunable_path(name))?;
    let value = text.strip_suffix('\n').context("no newline at the end")?;
    Ok(value.to_owned())
}

/// The errno of a write that fails.
fn answer(name: &str, value: &[u8]) -> Option<Errno> {
    let error = fs::write(tunable_path(name), value).err()?;
    Errno::from_io_error(&error)
}

fn all_have_their_defaults() -> Outcome {
    let listed: Vec<_> = Tunables::open()?
        .list()?
        .into_iter()
        .map(|tunable| (tunable.name, tunable.value, tunable.writable))
        .collect();
    let mut known: Vec<_> = DEFAULTS
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string(), true))
        .collect();
    known.sort();
    check_eq!(listed, known);
    Ok(())
}

fn only_root_writes() -> Outcome {
    for (name, value) in DEFAULTS {
        let meta = fs::metadata(tunable_path(name))?;
        check_eq!(meta.permissions().mode() & 0o7777, 0o644, "{name}");
        check_eq!((meta.uid(), meta.gid()), (0, 0), "{name}");
        in_child(|| {
            sys::become_user(1000, 1000, &[])?;
            check_eq!(read(name)?, *value, "{name}");
            check_eq!(
                answer(name, value.as_bytes()),
                Some(Errno::ACCESS),
                "{name}"
            );
            Ok(())
        })?;
    }
    Ok(())
}

fn good_values() -> Outcome {
    let slices = ["10", "10000000", "777"].map(|value| (value, value));
    let counts = [("0", "0"), ("1", "1"), ("100000", "100000")];
    for (name, default) in DEFAULTS {
        let values: &[(&str, &str)] = match *name {
            "enabled" | "collective_detection" | "track_owners" | "phase_nice" => {
                &[("0", "0"), ("1", "1"), ("1\n", "1"), (" 0 ", "0")]
            }
            "collective_libraries" => &[("nccl-", "nccl-"), (" a  b\tc\n", "a b c")],
            "default_class" => &[
                ("lc", "0"),
                ("be", "7"),
                ("0", "0"),
                ("7", "7"),
                ("3\n", "3"),
                ("none", "none"),
            ],
            "lc_gid" => &[
                ("0", "0"),
                ("1000", "1000"),
                ("4294967294", "4294967294"),
                ("none", "none"),
            ],
            "lc_admission" => &counts,
            "user_control" => &[
                ("allow", "allow"),
                ("reapply\n", "reapply"),
                (" deny ", "deny"),
            ],
            "lease_us" => &[("100", "100"), ("10000000", "10000000"), (" 777\n", "777")],
            "preempt_timeout_us" => &[("1", "1"), ("1000000", "1000000"), ("777\n", "777")],
            "predictor" => &[
                ("fixed", "fixed"),
                ("ema\n", "ema"),
                ("holt", "holt"),
                (" quantile ", "quantile"),
            ],
            "predictor_margin" => &[("1", "1"), (" 0\n", "0")],
            "prefetch_lead_ns" => &[
                ("0", "0"),
                ("4294967295", "4294967295"),
                ("777\n", "777"),
                (" auto ", "auto"),
            ],
            "prefetch_predictor" => &[("ema\n", "ema"), (" quantile ", "quantile")],
            "prefetch_history" => &[("1", "1"), ("128", "128"), ("7\n", "7")],
            "prefetch_readahead_bytes" => &[("0", "0"), ("4294967295", "4294967295"), ("7\n", "7")],
            "request_nice" => &[("-20", "-20"), ("0", "0"), (" -7\n", "-7")],
            name if name.starts_with("nice_") => {
                &[("-20", "-20"), ("19", "19"), ("0", "0"), (" -7\n", "-7")]
            }
            "early_cost" | "late_cost" => &[("0", "0"), ("1000000", "1000000"), ("7\n", "7")],
            "event_ring_size" => &[("16", "16"), ("65536", "65536"), ("1000", "1000")],
            "rotation" => &[
                ("none", "none"),
                ("credit", "credit"),
                (" rr\n", "rr"),
                ("fair", "fair"),
            ],
            "phase_tick_us" => &[("100", "100"), ("1000000", "1000000"), ("777\n", "777")],
            "io_wait_threshold" => &[("0", "0"), ("100", "100"), (" 77\n", "77")],
            "gpu_idle_threshold" => &[("0", "0"), ("79", "79"), ("7\n", "7")],
            "gpu_active_threshold" => &[("11", "11"), ("100", "100"), ("77\n", "77")],
            "optimizer_burst_max_ns" => &[
                ("1000", "1000"),
                ("1000000000", "1000000000"),
                ("777777\n", "777777"),
            ],
            "phase_stability_count" => &[("1", "1"), ("1000", "1000"), ("7\n", "7")],
            "rotation_quantum_us" => &[("500", "500"), ("1000000", "1000000"), ("777\n", "777")],
            name if name.ends_with("_budget_us") => {
                &[("1000", "1000"), ("100000", "100000"), ("7777\n", "7777")]
            }
            name if name.ends_with("_period_us") => &[
                ("95000", "95000"),
                ("10000000", "10000000"),
                ("777777\n", "777777"),
            ],
            "min_timeslice_us" => &[("10", "10"), ("5000000", "5000000"), ("11\n", "11")],
            "max_timeslice_us" => &[("100", "100"), ("10000000", "10000000")],
            _ => &slices,
        };
        for (written, shown) in values {
            check_eq!(answer(name, written.as_bytes()), None, "{name} {written:?}");
            check_eq!(read(name)?, *shown, "{name} {written:?}");
        }
        tune(name, default)?;
    }
    Ok(())
}

fn refused(name: &str, value: &[u8], errno: Errno) -> Outcome {
    let before = read(name)?;
    let text = String::from_utf8_lossy(value).into_owned();
    check_eq!(answer(name, value), Some(errno), "{name} {text:?}");
    check_eq!(read(name)?, before, "{name} after {text:?}");
    Ok(())
}

fn no_values() -> Outcome {
    let long = "x".repeat(4000);
    // Any word can be the name of a library.
    for (name, _) in DEFAULTS
        .iter()
        .filter(|(name, _)| *name != "collective_libraries")
    {
        for value in [
            " ", "\n", "x", "-", "-1", "1.5", "0x10", "1 2", "1,2", "yes", "NONE", "1\0", "\0",
            "LC", &long,
        ] {
            if value != "-1" || !is_signed(name) {
                refused(name, value.as_bytes(), Errno::INVAL)?;
            }
        }
        refused(name, b"\xff\xfe", Errno::INVAL)?;
        if !matches!(*name, "default_class" | "lc_gid" | "rotation") {
            refused(name, b"none", Errno::INVAL)?;
        }
    }
    for value in ["2", "10", "true"] {
        refused("enabled", value.as_bytes(), Errno::INVAL)?;
        refused("collective_detection", value.as_bytes(), Errno::INVAL)?;
        refused("phase_nice", value.as_bytes(), Errno::INVAL)?;
    }
    for value in [" ", "a/b", "\u{e9}", &"n".repeat(64)] {
        refused("collective_libraries", value.as_bytes(), Errno::INVAL)?;
    }
    for value in ["0", "1", "Fair", "fa", "fairr", "fair rr", "default", "off"] {
        refused("rotation", value.as_bytes(), Errno::INVAL)?;
    }
    for value in ["0", "1", "Deny", "den", "denyy", "deny allow", "re-apply"] {
        refused("user_control", value.as_bytes(), Errno::INVAL)?;
    }
    for value in [
        "0",
        "4",
        "Ema",
        "em",
        "emaa",
        "default",
        "ema holt",
        "quantile,",
    ] {
        refused("predictor", value.as_bytes(), Errno::INVAL)?;
        refused("prefetch_predictor", value.as_bytes(), Errno::INVAL)?;
    }
    // Kinds of the other alone.
    for value in ["fixed", "holt"] {
        refused("prefetch_predictor", value.as_bytes(), Errno::INVAL)?;
    }
    for value in ["Auto", "aut", "autoo", "auto 1", "1 auto", "default"] {
        refused("prefetch_lead_ns", value.as_bytes(), Errno::INVAL)?;
    }
    Ok(())
}

fn out_of_range() -> Outcome {
    let huge = "4294967296";
    let huger = "99999999999999999999999999";
    for (name, _) in DEFAULTS {
        let values: &[&str] = match *name {
            "enabled"
            | "user_control"
            | "predictor"
            | "predictor_margin"
            | "rotation"
            | "collective_detection"
            | "track_owners"
            | "prefetch_predictor"
            | "phase_nice"
            | "collective_libraries" => {
                continue;
            }
            "request_nice" => &["-21", "1", "-2147483649", huge, huger],
            name if name.starts_with("nice_") => &["-21", "20", "-2147483649", huge, huger],
            "prefetch_lead_ns" | "prefetch_readahead_bytes" => &[huge, huger],
            "prefetch_history" => &["0", "129", "4294967295", huge, huger],
            "phase_tick_us" => &["0", "99", "1000001", "4294967295", huge, huger],
            "io_wait_threshold" => &["101", "1000", "4294967295", huge, huger],
            "gpu_idle_threshold" => &["80", "100", "101", "4294967295", huge, huger],
            "gpu_active_threshold" => &["0", "10", "101", "4294967295", huge, huger],
            "optimizer_burst_max_ns" => &["0", "999", "1000000001", "4294967295", huge, huger],
            "phase_stability_count" => &["0", "1001", "4294967295", huge, huger],
            "preempt_timeout_us" => &["0", "1000001", "4294967295", huge, huger],
            "rotation_quantum_us" => &["0", "499", "1000001", "4294967295", huge, huger],
            name if name.ends_with("_budget_us") => {
                &["0", "999", "100001", "4294967295", huge, huger]
            }
            name if name.ends_with("_period_us") => {
                &["0", "999", "94999", "10000001", "4294967295", huge, huger]
            }
            "lease_us" => &["0", "1", "99", "10000001", "4294967295", huge, huger],
            "early_cost" | "late_cost" => &["1000001", "4294967295", huge, huger],
            "default_class" => &["8", "255", huge, huger],
            "lc_gid" => &["4294967295", huge, huger],
            "lc_admission" => &["100001", "4294967295", huge],
            "event_ring_size" => &["0", "15", "65537", huge],
            _ => &["0", "9", "10000001", "4294967295", huge, huger],
        };
        for value in values {
            refused(name, value.as_bytes(), Errno::RANGE)?;
        }
    }
    Ok(())
}

fn minimum_and_maximum() -> Outcome {
    tune("max_timeslice_us", 1000)?;
    refused("min_timeslice_us", b"1001", Errno::RANGE)?;
    tune("min_timeslice_us", 1000)?;
    refused("max_timeslice_us", b"999", Errno::RANGE)?;
    tune("max_timeslice_us", 10_000_000)?;
    tune("min_timeslice_us", 10_000_000)?;
    refused("max_timeslice_us", b"9999999", Errno::RANGE)?;
    Ok(())
}

/// A GPU is idle below what it is active above.
fn idle_and_active() -> Outcome {
    tune("gpu_idle_threshold", 50)?;
    refused("gpu_active_threshold", b"50", Errno::RANGE)?;
    refused("gpu_active_threshold", b"0", Errno::RANGE)?;
    tune("gpu_active_threshold", 51)?;
    refused("gpu_idle_threshold", b"51", Errno::RANGE)?;
    refused("gpu_idle_threshold", b"100", Errno::RANGE)?;
    tune("gpu_idle_threshold", 0)?;
    refused("gpu_active_threshold", b"0", Errno::RANGE)?;
    tune("gpu_active_threshold", 1)?;
    refused("gpu_idle_threshold", b"1", Errno::RANGE)
}

fn slices_change_at_once() -> Outcome {
    let lab = Lab::open()?;
    let (one, one_tsg) = lab.compute()?;
    let (two, two_tsg) = lab.compute()?;
    let (plain, _) = lab.compute()?;
    tune("rotation", "none")?;
    lab.zernel.set_class(&Target::Tsg(one_tsg.id), level(7))?;
    lab.zernel.set_class(&Target::Tsg(two_tsg.id), level(2))?;
    lab.wait_slice(&two, slice_of(2))?;
    for slice in [300, 301, 4000, 200] {
        tune("level7_timeslice_us", slice)?;
        lab.wait_slice(&one, slice)?;
        let class = lab.zernel.class(&Target::Tsg(one_tsg.id))?;
        check_eq!(class.timeslice_us.value, slice);
    }
    for number in 0..8 {
        lab.zernel
            .set_class(&Target::Tsg(one_tsg.id), level(number))?;
        tune(
            &format!("level{number}_timeslice_us"),
            5000 + u32::from(number),
        )?;
        lab.wait_slice(&one, 5000 + u32::from(number))?;
    }
    lab.wait_slice(&two, 5002)?;
    check_eq!(plain.stats()?.slice_changes, 0);
    Ok(())
}

fn bounds_change_at_once() -> Outcome {
    let lab = Lab::open()?;
    let (low, low_tsg) = lab.compute()?;
    let (high, high_tsg) = lab.compute()?;
    let (plain, _) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(low_tsg.id), level(7))?;
    lab.zernel.set_class(&Target::Tsg(high_tsg.id), level(0))?;
    tune("min_timeslice_us", 3000)?;
    tune("max_timeslice_us", 4000)?;
    lab.wait_slice(&low, 3000)?;
    lab.wait_slice(&high, 4000)?;
    let told = |id| -> Result<u32> { Ok(lab.zernel.class(&Target::Tsg(id))?.timeslice_us.value) };
    check_eq!((told(low_tsg.id)?, told(high_tsg.id)?), (3000, 4000));
    tune("min_timeslice_us", 10)?;
    tune("max_timeslice_us", 10_000_000)?;
    lab.wait_slice(&low, slice_of(7))?;
    lab.wait_slice(&high, slice_of(0))?;
    check_eq!(plain.stats()?.slice_changes, 0, "a TSG without a class");
    Ok(())
}

fn default_class_at_once() -> Outcome {
    let lab = Lab::open()?;
    let (plain, plain_tsg) = lab.compute()?;
    let (classed, classed_tsg) = lab.compute()?;
    lab.zernel
        .set_class(&Target::Tsg(classed_tsg.id), level(2))?;
    lab.wait_slice(&classed, slice_of(2))?;
    for number in [7, 0, 5] {
        tune("default_class", number)?;
        lab.wait_slice(&plain, slice_of(number))?;
        let listed = lab.tsg(plain_tsg.id)?;
        check_eq!(
            (listed.level, listed.source),
            (Some(level(number)), Source::Default)
        );
        let class = lab.zernel.class(&Target::CurrentProcess)?;
        check_eq!(
            (class.own.level, class.level.value),
            (None, Some(level(number)))
        );
        check_eq!(class.level.source, Source::Default);
    }
    let (later, _) = lab.compute()?;
    lab.wait_slice(&later, slice_of(5))?;
    tune("default_class", "none")?;
    lab.wait_slice(&plain, DRIVER_SLICE)?;
    lab.wait_slice(&later, DRIVER_SLICE)?;
    check_eq!(classed.stats()?.slice_changes, 1);
    check_eq!(lab.stats()?.classes, 1);
    Ok(())
}

fn switching_off_and_on() -> Outcome {
    let lab = Lab::open()?;
    let (one, one_tsg) = lab.compute()?;
    let (two, _) = lab.compute()?;
    lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
    lab.zernel.set_class(&Target::Tsg(one_tsg.id), level(1))?;
    for _ in 0..3 {
        lab.wait_slice(&one, slice_of(1))?;
        lab.wait_slice(&two, slice_of(7))?;
        tune("enabled", 0)?;
        lab.wait_slice(&one, DRIVER_SLICE)?;
        lab.wait_slice(&two, DRIVER_SLICE)?;
        crate::common::wait_until("the interleave level is back", || {
            Ok(one.stats()?.interleave == 0)
        })?;
        check_eq!(lab.zernel.info()?.enabled, false);
        // The class is still there; it just asks for nothing.
        let class = lab.zernel.class(&Target::Tsg(one_tsg.id))?;
        check_eq!(
            (class.level.value, class.timeslice_us.value),
            (Some(level(1)), 0)
        );
        tune("enabled", 1)?;
        check_eq!(lab.zernel.info()?.enabled, true);
    }
    lab.wait_slice(&one, slice_of(1))?;
    lab.wait_slice(&two, slice_of(7))
}

fn changes_while_off() -> Outcome {
    let lab = Lab::open()?;
    tune("enabled", 0)?;
    let (one, _) = lab.compute()?;
    lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
    tune("rotation_timeslice_us", 500)?;
    tune("level7_timeslice_us", 400)?;
    let (two, two_tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(two_tsg.id), level(2))?;
    lab.zernel.clear_class(&Target::Tsg(two_tsg.id))?;
    lab.zernel.set_class(&Target::Tsg(two_tsg.id), level(3))?;
    crate::common::wait_until("the workers are done", || {
        Ok(lab
            .zernel
            .gpus()
            .all(|gpu| gpu.is_ok_and(|gpu| gpu.pending == 0)))
    })?;
    check_eq!(
        [one.stats()?.slice_changes, two.stats()?.slice_changes],
        [0; 2]
    );
    tune("enabled", 1)?;
    lab.wait_slice(&one, 400)?;
    lab.wait_slice(&two, slice_of(3))
}

/// Makes `count` events that a stream of root sees.
fn make_events(lab: &Lab, count: usize) -> Outcome {
    let (_context, tsg) = lab.compute()?;
    tune("enabled", 0)?;
    for index in 0..count {
        let number = if index % 2 == 0 { 7 } else { 3 };
        lab.zernel.set_class(&Target::Tsg(tsg.id), level(number))?;
    }
    tune("enabled", 1)
}

/// Reads all there is: how many events, and how many were dropped before the first.
fn drain(stream: &mut EventStream) -> Result<(u64, u64)> {
    let (mut count, mut first) = (0, 0);
    while let Some(event) = stream.next_within(Some(Duration::ZERO))? {
        if count == 0 {
            first = event.seq - 1;
            check_eq!(event.dropped, first, "what the first event tells");
        }
        count += 1;
        check_eq!(event.seq, first + count, "no gap after the first");
    }
    Ok((count, first))
}

fn ring_size_of_new_streams() -> Outcome {
    let lab = Lab::open()?;
    tune("event_ring_size", 64)?;
    let mut older = EventStream::open()?;
    tune("event_ring_size", 16)?;
    let mut small = EventStream::open()?;
    tune("event_ring_size", 1000)?;
    let mut large = EventStream::open()?;
    make_events(&lab, 200)?;
    crate::common::wait_until("the TSG is gone", || Ok(lab.stats()?.tsgs == 0))?;
    let (all, dropped) = drain(&mut large)?;
    check_eq!(dropped, 0);
    // Each class, the TSG's arrival and its end.
    check_eq!(all >= 202, true, "{all} events");
    check_eq!(drain(&mut small)?, (16, all - 16));
    check_eq!(drain(&mut older)?, (64, all - 64));
    Ok(())
}
