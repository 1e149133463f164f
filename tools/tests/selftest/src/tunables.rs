// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files under `/sys/class/misc/zernel`: values, errors, modes and what they change at once.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use anyhow::{Context as _, Result};
use libzernel::tunable::Tunables;
use libzernel::{Source, Target};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::in_child;
use crate::common::{level, slice_of, tunable_path, tune, wait_until, Lab};
use crate::harness::{case, suite, Outcome, Suite};
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "tunables",
    &[
        case("all_have_their_defaults", all_have_their_defaults),
        case("only_root_writes", only_root_writes),
        case("values", all_values),
        case("bounds_of_others", bounds_of_others),
        case("slices_change_at_once", slices_change_at_once),
        case("default_class_at_once", default_class_at_once),
        case("switching_off_and_on", switching_off_and_on),
    ],
);

/// A slice that zernel left alone.
const DRIVER_SLICE: u32 = 1024;

/// Name, default, numbers and words of a tunable.
type Row = (
    &'static str,
    &'static str,
    (i64, i64),
    &'static [&'static str],
);

/// Every tunable, its value in a module that was just loaded, and its other values: the numbers from
/// one to another, as far as other tunables at their defaults allow, and words. They are in an order in
/// which they can be put back.
const ROWS: &[Row] = &[
    ("enabled", "1", NONE, &["0", "1"]),
    ("default_class", "none", (0, 7), &["none"]),
    ("level0_timeslice_us", "5000000", (10, 10_000_000), &[]),
    ("level1_timeslice_us", "50000", (10, 10_000_000), &[]),
    ("level2_timeslice_us", "20000", (10, 10_000_000), &[]),
    ("level3_timeslice_us", "10000", (10, 10_000_000), &[]),
    ("level4_timeslice_us", "5000", (10, 10_000_000), &[]),
    ("level5_timeslice_us", "2000", (10, 10_000_000), &[]),
    ("level6_timeslice_us", "1024", (10, 10_000_000), &[]),
    ("level7_timeslice_us", "200", (10, 10_000_000), &[]),
    ("copy_timeslice_us", "10", (0, 1_000), &[]),
    (
        "slice_policy",
        "table",
        NONE,
        &["exponential", "pid", "slack", "table"],
    ),
    ("level0_preemptible", "1", NONE, &["0", "1"]),
    ("level1_preemptible", "1", NONE, &["0", "1"]),
    ("level2_preemptible", "1", NONE, &["0", "1"]),
    ("level3_preemptible", "1", NONE, &["0", "1"]),
    ("level4_preemptible", "1", NONE, &["0", "1"]),
    ("level5_preemptible", "1", NONE, &["0", "1"]),
    ("slice_period_us", "100000", (10_000, 10_000_000), &[]),
    ("slice_kp_permille", "500", (0, 10_000), &[]),
    ("slice_ki_permille", "100", (0, 10_000), &[]),
    ("slice_kd_permille", "50", (0, 10_000), &[]),
    ("slack_late_us", "10000000", (10, 10_000_000), &[]),
    ("slack_soon_us", "10000", (10, 10_000_000), &[]),
    ("slack_early_us", "1000", (10, 10_000_000), &[]),
    ("slack_late_permille", "0", (0, 10_000), &[]),
    ("slack_soon_permille", "100", (0, 10_000), &[]),
    ("slack_credit_us", "20000", (0, 10_000_000), &[]),
    ("slack_quantum_us", "1000", (500, 1_000_000), &[]),
    ("level0_target_us", "0", (10, 10_000_000), &["0"]),
    ("level0_target_permille", "990", (1, 1_000), &[]),
    ("level1_target_us", "0", (10, 10_000_000), &["0"]),
    ("level1_target_permille", "990", (1, 1_000), &[]),
    ("level2_target_us", "0", (10, 10_000_000), &["0"]),
    ("level2_target_permille", "990", (1, 1_000), &[]),
    ("level3_target_us", "0", (10, 10_000_000), &["0"]),
    ("level3_target_permille", "990", (1, 1_000), &[]),
    ("level4_target_us", "0", (10, 10_000_000), &["0"]),
    ("level4_target_permille", "990", (1, 1_000), &[]),
    ("level5_target_us", "0", (10, 10_000_000), &["0"]),
    ("level5_target_permille", "990", (1, 1_000), &[]),
    ("max_timeslice_us", "5000000", (50, 10_000_000), &[]),
    ("min_timeslice_us", "50", (10, 5_000_000), &[]),
    ("lc_gid", "none", (0, ANY - 1), &["none"]),
    ("lc_admission", "64", (0, 100_000), &[]),
    ("event_ring_size", "1024", (16, 65_536), &[]),
    ("user_control", "deny", NONE, &["allow", "reapply", "deny"]),
    ("lease_us", "10000", (100, 10_000_000), &[]),
    ("predictor", "quantile", NONE, PREDICTORS),
    ("features_memory", "128", (16, 1_024), &[]),
    ("features_measured", "0", NONE, &["0", "1"]),
    ("predictor_margin", "0", NONE, &["0", "1"]),
    ("early_cost", "1", (0, 1_000_000), &[]),
    ("late_cost", "6", (0, 1_000_000), &[]),
    ("shared_early_cost", "none", (0, 1_000_000), &["none"]),
    ("no_holder", "kick", NONE, &["kick", "exclude"]),
    ("preempt_timeout_us", "1000", (1, 1_000_000), &[]),
    ("preempt_enabled", "1", NONE, &["0", "1"]),
    ("preempt_scheduled", "1", NONE, &["0", "1"]),
    ("min_prep_us", "0", (0, 1_000_000), &[]),
    ("order", "fifo", NONE, &["fifo", "edf", "edf-preemptive"]),
    ("safety_margin_us", "20", (1, 500), &[]),
    ("rotation", "fair", NONE, &["none", "rr", "credit", "fair"]),
    ("rotation_quantum_us", "8000", (500, 1_000_000), &[]),
    ("rotation_timeslice_us", "50", (10, 10_000_000), &[]),
    ("activity_poll_us", "250", (50, 100_000), &[]),
    ("level0_period_us", "100000", (95_000, 10_000_000), &[]),
    ("level0_budget_us", "95000", (1_000, 100_000), &[]),
    ("level1_period_us", "100000", (95_000, 10_000_000), &[]),
    ("level1_budget_us", "95000", (1_000, 100_000), &[]),
    ("level2_period_us", "100000", (95_000, 10_000_000), &[]),
    ("level2_budget_us", "95000", (1_000, 100_000), &[]),
    ("level3_period_us", "100000", (95_000, 10_000_000), &[]),
    ("level3_budget_us", "95000", (1_000, 100_000), &[]),
    ("level4_period_us", "100000", (95_000, 10_000_000), &[]),
    ("level4_budget_us", "95000", (1_000, 100_000), &[]),
    ("level5_period_us", "100000", (95_000, 10_000_000), &[]),
    ("level5_budget_us", "95000", (1_000, 100_000), &[]),
    ("level6_period_us", "100000", (95_000, 10_000_000), &[]),
    ("level6_budget_us", "95000", (1_000, 100_000), &[]),
    ("phase_tick_us", "1000", (100, 1_000_000), &[]),
    ("io_wait_threshold", "30", (0, 100), &[]),
    ("gpu_active_threshold", "80", (11, 100), &[]),
    ("gpu_idle_threshold", "10", (0, 79), &[]),
    (
        "optimizer_burst_max_ns",
        "5000000",
        (1_000, 1_000_000_000),
        &[],
    ),
    ("phase_stability_count", "3", (1, 1_000), &[]),
    ("collective_detection", "0", NONE, &["0", "1"]),
    ("collective_libraries", "nccl-", NONE, &[]),
    ("track_owners", "0", NONE, &["0", "1"]),
    ("prefetch_lead_ns", "auto", (0, ANY), &["auto"]),
    ("prefetch_predictor", "quantile", NONE, &["ema", "quantile"]),
    ("prefetch_history", "64", (1, 128), &[]),
    ("prefetch_readahead_bytes", "268435456", (0, ANY), &[]),
    ("phase_nice", "0", NONE, &["0", "1"]),
    ("nice_data_loading", "-5", (-20, 19), &[]),
    ("nice_gpu_compute", "5", (-20, 19), &[]),
    ("nice_collective", "-5", (-20, 19), &[]),
    ("nice_optimizer_step", "-5", (-20, 19), &[]),
    ("request_nice", "0", (-20, 0), &[]),
];

const PREDICTORS: &[&str] = &["fixed", "ema", "holt", "quantile", "features"];
const NONE: (i64, i64) = (1, 0);
const ANY: i64 = u32::MAX as i64;

/// Every tunable and its value in a module that was just loaded.
pub const DEFAULTS: &[(&str, &str)] = &{
    let mut defaults = [("", ""); ROWS.len()];
    let mut row = 0;
    while row < ROWS.len() {
        defaults[row] = (ROWS[row].0, ROWS[row].1);
        row += 1;
    }
    defaults
};

fn read(name: &str) -> Result<String> {
    let text = fs::read_to_string(tunable_path(name))?;
    let value = text.strip_suffix('\n').context("no newline at the end")?;
    Ok(value.to_owned())
}

/// The errno of a write that fails.
fn answer(name: &str, value: impl AsRef<[u8]>) -> Option<Errno> {
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
    for (name, _) in DEFAULTS {
        let meta = fs::metadata(tunable_path(name))?;
        let mode = meta.permissions().mode() & 0o7777;
        check_eq!((mode, meta.uid(), meta.gid()), (0o644, 0, 0), "{name}");
    }
    in_child(|| {
        sys::become_user(1000, 1000, &[])?;
        for (name, value) in DEFAULTS {
            check_eq!(read(name)?, *value, "{name}");
            check_eq!(answer(name, value), Some(Errno::ACCESS), "{name}");
        }
        Ok(())
    })
}

fn taken(name: &str, value: &str, shown: &str) -> Outcome {
    check_eq!(answer(name, value), None, "{name} {value:?}");
    check_eq!(read(name)?, shown, "{name} {value:?}");
    Ok(())
}

fn refused(name: &str, value: impl AsRef<[u8]>, errno: Errno) -> Outcome {
    let before = read(name)?;
    let text = String::from_utf8_lossy(value.as_ref()).into_owned();
    check_eq!(answer(name, value), Some(errno), "{name} {text:?}");
    check_eq!(read(name)?, before, "{name} after {text:?}");
    Ok(())
}

fn all_values() -> Outcome {
    const HUGE: i64 = 1 << 32;
    let long = "x".repeat(4000);
    // Any word can be the name of a library.
    let all = ROWS.iter().filter(|row| row.0 != "collective_libraries");
    for &(name, default, (least, most), words) in all {
        for value in [
            " ", "\n", "x", "-", "1.5", "0x10", "1 2", "1,2", "yes", "NONE", "1\0", "\0", "LC",
            "true", "default", &long,
        ] {
            refused(name, value, Errno::INVAL)?;
        }
        refused(name, b"\xff\xfe", Errno::INVAL)?;
        let refused_word = |word: &str| match words.contains(&word) || word.is_empty() {
            true => Ok(()),
            false => refused(name, word, Errno::INVAL),
        };
        for word in words {
            taken(name, word, word)?;
            taken(name, &format!(" {word}\n"), word)?;
            refused_word(&word[..word.len() - 1])?;
            refused_word(&word.to_uppercase())?;
            refused_word(&format!("{word}x"))?;
            refused_word(&format!("{word} {word}"))?;
        }
        if least > most {
            for word in ["-1", "0", "1", "2", "4", "10", "4294967296", "off", "none"] {
                refused_word(word)?;
            }
            tune(name, default)?;
            continue;
        }
        for value in [least, most, least + 1] {
            taken(name, &value.to_string(), &value.to_string())?;
            taken(name, &format!(" {value}\n"), &value.to_string())?;
        }
        for value in [-1, least - 1, most + 1, HUGE - 1, HUGE, -HUGE] {
            let errno = match value {
                value if value < 0 && least >= 0 => Errno::INVAL,
                _ => Errno::RANGE,
            };
            if !(least..=most).contains(&value) {
                refused(name, value.to_string(), errno)?;
            }
        }
        refused(name, "99999999999999999999999999", Errno::RANGE)?;
        tune(name, default)?;
    }
    for other in ["fixed", "holt"] {
        refused("prefetch_predictor", other, Errno::INVAL)?;
    }
    taken("default_class", "lc", "0")?;
    taken("default_class", "be", "7")?;
    taken("collective_libraries", " a  b\tc\n", "a b c")?;
    for value in [" ", "a/b", "\u{e9}", &"n".repeat(64)] {
        refused("collective_libraries", value, Errno::INVAL)?;
    }
    Ok(())
}

/// A minimum does not pass its maximum.
fn bounds_of_others() -> Outcome {
    for (name, value, other, beyond) in [
        ("max_timeslice_us", 1_000, "min_timeslice_us", 1_001),
        ("min_timeslice_us", 1_000, "max_timeslice_us", 999),
        ("gpu_idle_threshold", 50, "gpu_active_threshold", 50),
        ("gpu_active_threshold", 51, "gpu_idle_threshold", 51),
        ("gpu_idle_threshold", 0, "gpu_active_threshold", 0),
        ("gpu_active_threshold", 1, "gpu_idle_threshold", 1),
    ] {
        tune(name, value)?;
        refused(other, beyond.to_string(), Errno::RANGE)?;
    }
    let tuned = read("max_timeslice_us")?;
    // A policy raises the maximum to what it needs, as long as it is in force.
    tune("slice_policy", "exponential")?;
    check_eq!(read("max_timeslice_us")?, "10000000");
    refused("max_timeslice_us", "9999999", Errno::RANGE)?;
    // Put back, what was tuned before is not lost.
    taken("max_timeslice_us", "10000000", "10000000")?;
    tune("slice_policy", "table")?;
    check_eq!(read("max_timeslice_us")?, tuned);
    taken("max_timeslice_us", "9999999", "9999999")
}

fn slices_change_at_once() -> Outcome {
    let lab = Lab::open()?;
    let (one, one_tsg) = lab.compute()?;
    let (two, two_tsg) = lab.compute()?;
    let (plain, _) = lab.compute()?;
    let (target, other) = (Target::Tsg(one_tsg.id), Target::Tsg(two_tsg.id));
    tune("rotation", "none")?;
    lab.zernel.set_class(&other, level(0))?;
    for number in 0..8 {
        lab.zernel.set_class(&target, level(number))?;
        for slice in [5000 + u32::from(number), 300] {
            tune(&format!("level{number}_timeslice_us"), slice)?;
            lab.wait_slice(&one, slice)?;
            let class = lab.zernel.class(&target)?;
            check_eq!(class.timeslice_us.value, slice);
        }
    }
    lab.wait_slice(&two, 300)?;
    tune("level0_timeslice_us", 5_000_000)?;
    tune("min_timeslice_us", 3000)?;
    tune("max_timeslice_us", 4000)?;
    for (context, target, slice) in [(&one, &target, 3000), (&two, &other, 4000)] {
        lab.wait_slice(context, slice)?;
        check_eq!(lab.zernel.class(target)?.timeslice_us.value, slice);
    }
    tune("min_timeslice_us", 10)?;
    tune("max_timeslice_us", 10_000_000)?;
    lab.wait_slice(&one, 300)?;
    lab.wait_slice(&two, 5_000_000)?;
    check_eq!(plain.stats()?.slice_changes, 0, "a TSG without a class");
    Ok(())
}

fn default_class_at_once() -> Outcome {
    let lab = Lab::open()?;
    let (plain, tsg) = lab.compute()?;
    for number in [7, 0, 5] {
        tune("default_class", number)?;
        lab.wait_slice(&plain, slice_of(number))?;
        let expected = (Some(level(number)), Source::Default);
        let listed = lab.tsg(tsg.id)?;
        check_eq!((listed.level, listed.source), expected);
        let class = lab.zernel.class(&Target::CurrentProcess)?;
        check_eq!((class.level.value, class.level.source), expected);
        check_eq!(class.own.level, None);
    }
    let (later, _) = lab.compute()?;
    lab.wait_slice(&later, slice_of(5))?;
    tune("default_class", "none")?;
    lab.wait_slice(&plain, DRIVER_SLICE)?;
    lab.wait_slice(&later, DRIVER_SLICE)?;
    check_eq!(lab.stats()?.classes, 0);
    Ok(())
}

/// Switched off, all is as the driver had it. What changes meanwhile counts afterwards.
fn switching_off_and_on() -> Outcome {
    let lab = Lab::open()?;
    let (one, one_tsg) = lab.compute()?;
    let (two, _) = lab.compute()?;
    let target = Target::Tsg(one_tsg.id);
    lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
    lab.zernel.set_class(&target, level(1))?;
    lab.wait_slice(&one, slice_of(1))?;
    lab.wait_slice(&two, slice_of(7))?;
    tune("enabled", 0)?;
    lab.wait_slice(&one, DRIVER_SLICE)?;
    lab.wait_slice(&two, DRIVER_SLICE)?;
    let is_back = || Ok(one.stats()?.interleave == 0);
    wait_until("the interleave level is back", is_back)?;
    check_eq!(lab.zernel.info()?.enabled, false);
    // The class is still there; it just asks for nothing.
    let class = lab.zernel.class(&target)?;
    let asked = (class.level.value, class.timeslice_us.value);
    check_eq!(asked, (Some(level(1)), 0));
    let (three, _) = lab.compute()?;
    let before = one.stats()?.slice_changes;
    tune("rotation_timeslice_us", 500)?;
    tune("level7_timeslice_us", 400)?;
    lab.zernel.clear_class(&target)?;
    lab.zernel.set_class(&target, level(3))?;
    lab.wait_set()?;
    let changes = (one.stats()?.slice_changes, three.stats()?.slice_changes);
    check_eq!(changes, (before, 0));
    tune("enabled", 1)?;
    check_eq!(lab.zernel.info()?.enabled, true);
    lab.wait_slice(&one, slice_of(3))?;
    lab.wait_slice(&two, 400)?;
    lab.wait_slice(&three, 400)
}
