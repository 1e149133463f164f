// SPDX-License-Identifier: GPL-2.0
//! The files under `/sys/class/misc/zernel`: values, errors, modes and what they change at once.

use crate::harness::{suite, Suite};

/// The suite.
pub const SUITE: Suite = suite("tunables", &[]);

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
    ("min_timeslice_us", "100"),
    ("lc_gid", "none"),
    ("lc_admission", "64"),
    ("event_ring_size", "1024"),
];
