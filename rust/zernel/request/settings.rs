// SPDX-License-Identifier: GPL-2.0
//! The tunables of requests where a request can read them without a lock.

use crate::policy::{
    predict::{
        Costs,
        Kind, //
    },
    tunables::requests::Requests,
    units::Us, //
};
use kernel::sync::atomic::{
    ordering::Relaxed,
    Atomic, //
};

static LEASE: Atomic<u32> = Atomic::new(0);
static PREDICTOR: Atomic<u32> = Atomic::new(0);
static EARLY: Atomic<u32> = Atomic::new(0);
static LATE: Atomic<u32> = Atomic::new(0);

/// What is tuned now. Each value is one that was tuned; two that are read together may be of
/// different times.
pub(super) struct Settings {
    /// Longest time from the trigger to ready.
    pub(super) lease: Us,
    /// The predictor of a request that names none.
    pub(super) predictor: Kind,
    /// What being early and late costs.
    pub(super) costs: Costs,
}

/// Makes tunables known. Called with the registry locked.
pub(crate) fn publish(requests: &Requests) {
    let costs = requests.costs();
    LEASE.store(requests.lease().0, Relaxed);
    PREDICTOR.store(requests.predictor().number(), Relaxed);
    EARLY.store(costs.early, Relaxed);
    LATE.store(costs.late, Relaxed);
}

/// What was published last.
pub(super) fn get() -> Settings {
    Settings {
        lease: Us(LEASE.load(Relaxed)),
        predictor: Kind::new(PREDICTOR.load(Relaxed)).unwrap_or_default(),
        costs: Costs {
            early: EARLY.load(Relaxed),
            late: LATE.load(Relaxed),
        },
    }
}
