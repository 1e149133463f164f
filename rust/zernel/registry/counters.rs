// SPDX-License-Identifier: GPL-2.0
//! The counters of the registry.

/// Counters since the module was loaded; see `struct zernel_system_info`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) tsgs_added: u64,
    pub(crate) tsgs_removed: u64,
    pub(crate) tsgs_missed: u64,
    pub(crate) classes_set: u64,
    pub(crate) classes_cleared: u64,
    pub(crate) classes_expired: u64,
    pub(crate) denied: u64,
    pub(crate) coalesced: u64,
    pub(crate) applied: u64,
    pub(crate) retries: u64,
    pub(crate) errors: u64,
    pub(crate) dead: u64,
    pub(crate) controls_denied: u64,
    pub(crate) controls_reapplied: u64,
    pub(crate) turns: u64,
}
