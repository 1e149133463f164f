// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values and defaults of tunables, as the documentation has them.

/// Name, values, default. `levelN_...`: the same for each level that has it.
const ALL: &[(&str, &str, &str)] = &[
    ("enabled", "0 or 1: classes are applied", "1"),
    ("default_class", "none, lc, be or 0 to 7", "none"),
    ("level0_timeslice_us", "10 to 10000000", "5000000"),
    ("level1_timeslice_us", "10 to 10000000", "50000"),
    ("level2_timeslice_us", "10 to 10000000", "20000"),
    ("level3_timeslice_us", "10 to 10000000", "10000"),
    ("level4_timeslice_us", "10 to 10000000", "5000"),
    ("level5_timeslice_us", "10 to 10000000", "2000"),
    ("level6_timeslice_us", "10 to 10000000", "1024"),
    ("level7_timeslice_us", "10 to 10000000", "200"),
    ("min_timeslice_us", "10 to the maximum", "50"),
    ("max_timeslice_us", "the minimum to 10000000", "5000000"),
    ("slice_policy", "table, exponential, pid or slack", "table"),
    (
        "copy_timeslice_us",
        "0 to 1000: slice of copies of levels 6 and 7; 0: copies have no class",
        "10",
    ),
    ("slice_period_us", "10000 to 10000000", "100000"),
    ("slice_kp_permille", "0 to 10000", "500"),
    ("slice_ki_permille", "0 to 10000", "100"),
    ("slice_kd_permille", "0 to 10000", "50"),
    ("slack_late_us", "10 to 10000000", "10000000"),
    ("slack_soon_us", "10 to 10000000", "10000"),
    ("slack_early_us", "10 to 10000000", "1000"),
    ("slack_late_permille", "0 to 10000", "0"),
    ("slack_soon_permille", "0 to 10000", "100"),
    ("slack_credit_us", "0 to 10000000", "20000"),
    ("slack_quantum_us", "500 to 1000000", "1000"),
    ("levelN_target_us", "0: none, or 10 to 10000000", "0"),
    ("levelN_target_permille", "1 to 1000", "990"),
    (
        "levelN_preemptible",
        "0 or 1: more urgent work takes the GPU from the level before the end of a burst",
        "1",
    ),
    ("lc_gid", "none or a group id", "none"),
    ("lc_admission", "0 to 100000", "64"),
    ("event_ring_size", "16 to 65536", "1024"),
    ("user_control", "deny, reapply or allow", "deny"),
    ("lease_us", "100 to 10000000", "10000"),
    ("no_holder", "kick or exclude", "kick"),
    (
        "predictor",
        "fixed, ema, holt, quantile or features",
        "quantile",
    ),
    ("features_memory", "16 to 1024", "128"),
    ("features_measured", "0 or 1: with the machine's load", "0"),
    ("predictor_margin", "0 or 1: predictions have a margin", "0"),
    ("early_cost", "0 to 1000000", "1"),
    ("late_cost", "0 to 1000000", "6"),
    ("shared_early_cost", "none or 0 to 1000000", "none"),
    ("preempt_timeout_us", "1 to 1000000", "1000"),
    (
        "preempt_enabled",
        "0 or 1: requests take the GPU in advance",
        "1",
    ),
    (
        "preempt_scheduled",
        "0 or 1: when their prediction says",
        "1",
    ),
    ("min_prep_us", "0 to 1000000", "0"),
    ("order", "fifo, edf or edf-preemptive", "fifo"),
    ("safety_margin_us", "1 to 500", "20"),
    ("rotation", "fair, credit, rr or none", "fair"),
    ("rotation_quantum_us", "500 to 1000000", "8000"),
    ("rotation_timeslice_us", "10 to 10000000", "50"),
    ("activity_poll_us", "50 to 100000", "250"),
    ("levelN_budget_us", "1000 to the level's period", "95000"),
    (
        "levelN_period_us",
        "1000 to 10000000, not below the level's budget",
        "100000",
    ),
    ("phase_tick_us", "100 to 1000000", "1000"),
    ("io_wait_threshold", "0 to 100", "30"),
    (
        "gpu_idle_threshold",
        "0 to below gpu_active_threshold",
        "10",
    ),
    (
        "gpu_active_threshold",
        "above gpu_idle_threshold to 100",
        "80",
    ),
    ("optimizer_burst_max_ns", "1000 to 1000000000", "5000000"),
    ("phase_stability_count", "1 to 1000", "3"),
    ("collective_detection", "0 or 1: collectives are told", "0"),
    (
        "collective_libraries",
        "names with blanks between, 63 bytes",
        "nccl-",
    ),
    ("track_owners", "0 or 1: owners of TSGs are tracked", "0"),
    ("prefetch_lead_ns", "auto or 0 to 4294967295", "auto"),
    ("prefetch_predictor", "ema or quantile", "quantile"),
    ("prefetch_history", "1 to 128", "64"),
    ("prefetch_readahead_bytes", "0 to 4294967295", "268435456"),
    ("phase_nice", "0 or 1: phases have nice values", "0"),
    ("nice_data_loading", "-20 to 19", "-5"),
    ("nice_gpu_compute", "-20 to 19", "5"),
    ("nice_collective", "-20 to 19", "-5"),
    ("nice_optimizer_step", "-20 to 19", "-5"),
    ("request_nice", "-20 to 0", "0"),
];

fn find(name: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
    let row = |name: &str| ALL.iter().find(|row| row.0 == name);
    let any_level = || {
        let rest = name
            .strip_prefix("level")?
            .strip_prefix(|c: char| c.is_ascii_digit())?;
        row(&format!("levelN{rest}"))
    };
    row(name).or_else(any_level)
}

/// The values that a tunable takes; `None`: it is not known here.
pub(super) fn values(name: &str) -> Option<&'static str> {
    find(name).map(|row| row.1)
}

/// The value that it has until it is tuned, likewise.
pub(super) fn default(name: &str) -> Option<&'static str> {
    find(name).map(|row| row.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../Documentation/tunables.rst");

    /// Rows of the page's first table: names, values, default.
    fn rows() -> Vec<(Vec<String>, String, String)> {
        let table = PAGE.lines().skip_while(|line| !line.starts_with("===="));
        let table = table.skip_while(|line| !line.starts_with("file ")).skip(2);
        let mut rows: Vec<(String, String, String)> = Vec::new();
        for line in table.take_while(|line| !line.starts_with("====")) {
            let (name, rest) = line.split_at(line.len().min(30));
            let rest = rest.trim_end();
            match (rest.split_once("  "), rows.last_mut()) {
                (Some((values, default)), _) => {
                    let [name, values, default] =
                        [name, values, default].map(|cell| cell.trim().to_owned());
                    rows.push((name, values, default));
                }
                (None, Some(row)) => {
                    row.0 = format!("{} {}", row.0, name.trim());
                    row.1 = format!("{} {}", row.1, rest.trim()).trim().to_owned();
                }
                (None, None) => panic!("{line}"),
            }
        }
        let plain = |text: String| {
            let text = text
                .replace("``", "")
                .replace(": :doc:`deadlines`", "")
                .replace(", see below", "");
            let digits: Vec<char> = text.chars().collect();
            let is_in_number = |at: usize| {
                digits[at] == ','
                    && at > 0
                    && digits[at - 1].is_ascii_digit()
                    && digits.get(at + 1).is_some_and(char::is_ascii_digit)
            };
            (0..digits.len())
                .filter(|&at| !is_in_number(at))
                .map(|at| digits[at])
                .collect()
        };
        let names = |text: String| {
            let quoted = text.split("``").skip(1).step_by(2);
            quoted.map(str::to_owned).collect()
        };
        let rows = rows.into_iter();
        rows.map(|(name, values, default)| (names(name), plain(values), plain(default)))
            .collect()
    }

    #[test]
    fn all_are_as_the_page_has_them() {
        let rows = rows();
        assert!(rows.len() > 60);
        assert_eq!(rows.len(), ALL.len());
        for (names, of, until_tuned) in rows {
            for name in names {
                assert_eq!(values(&name), Some(of.as_str()), "{name}");
                let until_tuned = until_tuned.replace("256 MiB", "268435456");
                assert_eq!(default(&name), Some(until_tuned.as_str()), "{name}");
            }
        }
    }

    #[test]
    fn others_are_not_known() {
        for name in ["", "level", "level0", "levels_target_us", "waiting"] {
            assert_eq!((values(name), default(name)), (None, None), "{name}");
        }
    }
}
