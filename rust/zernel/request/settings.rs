// SPDX-License-Identifier: GPL-2.0
//! The tunables of requests where a request can read them without a lock.

use crate::policy::{
    nice::Delta,
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

/// The lease, and the predictor's number.
static LEASE_AND_PREDICTOR: Atomic<u64> = Atomic::new(0);
/// The costs of being early and late.
static COSTS: Atomic<u64> = Atomic::new(0);
/// What LC requests add to the nice values of their threads.
static NICE: Atomic<i32> = Atomic::new(0);

fn pack(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

fn unpack(both: u64) -> (u32, u32) {
    ((both >> 32) as u32, both as u32)
}

/// What is tuned now. What is tuned at different times may be seen so.
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
    let predictor = requests.predictor().number();
    LEASE_AND_PREDICTOR.store(pack(requests.lease().0, predictor), Relaxed);
    COSTS.store(pack(costs.early, costs.late), Relaxed);
    NICE.store(requests.nice().number(), Relaxed);
}

/// What was published last.
pub(super) fn get() -> Settings {
    let (lease, predictor) = unpack(LEASE_AND_PREDICTOR.load(Relaxed));
    let (early, late) = unpack(COSTS.load(Relaxed));
    Settings {
        lease: Us(lease),
        predictor: Kind::new(predictor).unwrap_or_default(),
        costs: Costs { early, late },
    }
}

/// What LC requests add to the nice values of their threads.
pub(super) fn nice() -> Delta {
    Delta::new(NICE.load(Relaxed)).unwrap_or(Delta::NONE)
}

/// Whether they add anything.
#[inline]
pub(super) fn prefers() -> bool {
    NICE.load(Relaxed) != 0
}
