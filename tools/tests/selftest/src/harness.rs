// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suites' surroundings: both modules loaded, or none.

use testkit::harness::Surroundings;
pub use testkit::harness::{case, list, run, Case, Outcome, Suite};

use crate::common;

/// No module is loaded; the cases load what they need.
pub const BARE: Surroundings = Surroundings {
    prepare: common::unload_all,
    settle: || Ok(()),
};

/// A suite whose cases find both modules loaded, all tunables at their defaults and nothing left
/// over of the case before.
pub const fn suite(name: &'static str, cases: &'static [Case]) -> Suite {
    let loaded = Surroundings {
        prepare: common::load_all,
        settle: common::settle,
    };
    Suite::new(name, cases, loaded)
}
