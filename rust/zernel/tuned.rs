// SPDX-License-Identifier: GPL-2.0
//! Tunables where they can be read without the lock of the registry: by a request, and with the
//! threads locked.

use crate::policy::{
    deadline::Order,
    level,
    nice::Delta,
    phase::Phase,
    predict::{
        features::tuning::Tuning,
        trigger::{
            Rule,
            Trigger, //
        },
        Costs,
        Kind, //
    },
    tunables::{
        phases::Phases,
        requests::{
            NoHolder,
            Requests, //
        },
        Tunables, //
    },
    units::Us, //
};
use kernel::sync::atomic::{
    ordering::Relaxed,
    Atomic, //
};

/// The lease; the predictor's number, the trigger's from [`TRIGGER`] on, the shortest preparation that
/// is waited for, in µs, from [`MIN_PREP`] on, [`EDF`], [`PREEMPTIVE`] and [`MARGIN`].
static LEASE_AND_PREDICTOR: Atomic<u64> = Atomic::new(0);
/// The costs of being early and late.
static COSTS: Atomic<u64> = Atomic::new(0);
/// The addition of LC requests to the nice values of their threads.
static NICE: Atomic<i32> = Atomic::new(0);
/// The additions of phases to the nice values of their threads, a byte each, from the first phase
/// after `Unknown` on.
static DELTAS: Atomic<u32> = Atomic::new(0);

/// The group whose members may raise classes; [`NO_GROUP`]: none.
static LC_GID: Atomic<u64> = Atomic::new(NO_GROUP);

/// Less urgent TSGs are kept off the GPU for each request without a holder.
static EXCLUDES: Atomic<bool> = Atomic::new(false);

/// The margin of a key that nothing is known of, in µs.
static SAFETY_MARGIN: Atomic<u32> = Atomic::new(0);

/// Levels that keep the engine to the end of a burst, a bit each, [`FOLLOWS`], [`SLACK`] and [`COPIES`].
static SLICES: Atomic<u32> = Atomic::new(0);

/// Slices follow latencies.
const FOLLOWS: u32 = 1 << 8;

/// Slices follow slacks.
const SLACK: u32 = 1 << 9;

/// TSGs that copy have the class of their process.
const COPIES: u32 = 1 << 10;

/// The [`Tuning`] of features.
static FEATURES: Atomic<u64> = Atomic::new(0);

/// The cost of being early while programs share a GPU; [`AS_USUAL`]: that of [`COSTS`].
static SHARED_EARLY: Atomic<u32> = Atomic::new(AS_USUAL);

const AS_USUAL: u32 = u32::MAX;

const NO_GROUP: u64 = u64::MAX;

/// The classic margin is taken off.
const MARGIN: u32 = 1 << 31;

/// Triggers have the order of deadlines.
const EDF: u32 = 1 << 30;

/// The GPU is taken from requests with later ones.
const PREEMPTIVE: u32 = 1 << 29;

/// The first bit of the number of a trigger; those before it are the predictor's number.
const TRIGGER: u32 = 2;
/// The first bit of the shortest preparation.
const MIN_PREP: u32 = 4;
/// All bits of these, [`EDF`] and [`PREEMPTIVE`]; none is set by default.
const RULE: u32 = !MARGIN & !((1 << TRIGGER) - 1);

// Each has room for its largest value.
const _: () = assert!(Trigger::Predicted.number() == 0);
// Features have no number here, and those that do come before it.
const _: () = assert!(Kind::Features.number() == 1 << TRIGGER);
const _: () = assert!(Kind::Features.number() + 1 == Kind::ALL.len() as u32);
const _: () = assert!(Requests::COST_MAX < AS_USUAL);
const _: () = assert!(Trigger::AtReady.number() < 1 << (MIN_PREP - TRIGGER));
const _: () = assert!(Requests::MIN_PREP_MAX.0 < 1 << (29 - MIN_PREP));

fn pack(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

fn unpack(both: u64) -> (u32, u32) {
    ((both >> 32) as u32, both as u32)
}

/// The tunables of a request. Those that are set at different times may be seen so.
pub(crate) struct Requested {
    /// Longest time from the trigger to ready.
    pub(crate) lease: Us,
    /// The predictor of requests without features.
    pub(crate) predictor: Kind,
    /// The classic margin is taken off its estimate.
    pub(crate) margin: bool,
    /// The costs of being early and late.
    pub(crate) costs: Costs,
    /// The trigger that follows from a prediction; `None`: as [`Rule::default`] has it.
    pub(crate) rule: Option<Rule>,
}

/// Makes tunables known. Called with the registry locked.
pub(crate) fn publish(tunables: &Tunables) {
    LC_GID.store(tunables.lc_gid().map_or(NO_GROUP, u64::from), Relaxed);
    let follows = match tunables.feedback() {
        Some(_) => FOLLOWS,
        None => 0,
    };
    let slack = match tunables.slack() {
        Some(_) => SLACK,
        None => 0,
    };
    let copies = match tunables.meaning().has_copies() {
        true => COPIES,
        false => 0,
    };
    let kept = match tunables.enabled() {
        true => tunables.slices().kept(),
        false => level::Set::NONE,
    };
    SLICES.store(u32::from(kept.bits()) | follows | slack | copies, Relaxed);
    publish_requests(tunables.requests());
    publish_phases(tunables.phases());
}

fn publish_requests(requests: &Requests) {
    let costs = requests.costs();
    let margin = if requests.margin() { MARGIN } else { 0 };
    let rule = requests.rule().trigger.number() << TRIGGER | requests.min_prep().0 << MIN_PREP;
    let order = match requests.order() {
        Order::Fifo => 0,
        Order::Edf => EDF,
        Order::EdfPreemptive => EDF | PREEMPTIVE,
    };
    // Requests without features are as if they did not count.
    let (predictor, memory) = match requests.predictor() {
        Kind::Features => (Kind::Quantile, Some(requests.memory())),
        other => (other, None),
    };
    let tuning = features().then(memory, requests.measured());
    FEATURES.store(tuning.packed(), Relaxed);
    SHARED_EARLY.store(requests.shared_early().unwrap_or(AS_USUAL), Relaxed);
    let predictor = predictor.number() | rule | order | margin;
    LEASE_AND_PREDICTOR.store(pack(requests.lease().0, predictor), Relaxed);
    COSTS.store(pack(costs.early, costs.late), Relaxed);
    NICE.store(requests.nice().number(), Relaxed);
    EXCLUDES.store(requests.no_holder() == NoHolder::Exclude, Relaxed);
    SAFETY_MARGIN.store(requests.safety_margin().0, Relaxed);
}

fn publish_phases(phases: &Phases) {
    let mut bytes = [0; 4];
    if phases.nice() {
        for (byte, phase) in bytes.iter_mut().zip(Phase::ALL.into_iter().skip(1)) {
            // From -20 to 19.
            *byte = phases.delta(phase).number() as i8 as u8;
        }
    }
    DELTAS.store(u32::from_ne_bytes(bytes), Relaxed);
}

/// The group whose members may raise classes.
pub(crate) fn lc_gid() -> Option<u32> {
    u32::try_from(LC_GID.load(Relaxed)).ok()
}

/// Levels that keep the engine to the end of a burst.
pub(crate) fn kept_levels() -> level::Set {
    level::Set::of_bits(SLICES.load(Relaxed) as u8)
}

/// True if slices follow latencies.
pub(crate) fn slices_follow() -> bool {
    SLICES.load(Relaxed) & FOLLOWS != 0
}

/// True if slices follow slacks.
pub(crate) fn slack_is_followed() -> bool {
    SLICES.load(Relaxed) & SLACK != 0
}

/// True if TSGs that copy have the class of their process.
pub(crate) fn copies_are_classed() -> bool {
    SLICES.load(Relaxed) & COPIES != 0
}

/// The tunables of requests that were published last.
pub(crate) fn requested() -> Requested {
    let (lease, predictor) = unpack(LEASE_AND_PREDICTOR.load(Relaxed));
    let (early, late) = unpack(COSTS.load(Relaxed));
    Requested {
        lease: Us(lease),
        predictor: Kind::new(predictor & ((1 << TRIGGER) - 1)).unwrap_or_default(),
        margin: predictor & MARGIN != 0,
        costs: Costs { early, late },
        rule: (predictor & RULE != 0).then(|| rule(predictor)),
    }
}

#[cold]
fn rule(predictor: u32) -> Rule {
    Rule {
        trigger: Trigger::new(predictor >> TRIGGER & 3).unwrap_or_default(),
        min_prep: Us((predictor & !MARGIN & !EDF & !PREEMPTIVE) >> MIN_PREP).into(),
        order: match (predictor & EDF, predictor & PREEMPTIVE) {
            (0, _) => Order::Fifo,
            (_, 0) => Order::Edf,
            _ => Order::EdfPreemptive,
        },
    }
}

/// True if a request takes the GPU from another one with a later deadline.
pub(crate) fn order_preempts() -> bool {
    LEASE_AND_PREDICTOR.load(Relaxed) & u64::from(PREEMPTIVE) != 0
}

/// The tuning of features.
pub(crate) fn features() -> Tuning {
    Tuning::unpacked(FEATURES.load(Relaxed))
}

/// The cost of being early while programs share a GPU, if that is another one.
#[inline]
pub(crate) fn shared_early() -> Option<u32> {
    match SHARED_EARLY.load(Relaxed) {
        AS_USUAL => None,
        cost => Some(cost),
    }
}

/// The margin of a key that nothing is known of.
pub(crate) fn safety_margin() -> Us {
    Us(SAFETY_MARGIN.load(Relaxed))
}

/// The treatment of less urgent TSGs for requests without a holder.
pub(crate) fn no_holder() -> NoHolder {
    match EXCLUDES.load(Relaxed) {
        true => NoHolder::Exclude,
        false => NoHolder::Kick,
    }
}

/// The addition of LC requests to the nice values of their threads.
pub(crate) fn nice_of_requests() -> Delta {
    Delta::new(NICE.load(Relaxed)).unwrap_or(Delta::NONE)
}

/// True if LC requests add anything to them.
#[inline]
pub(crate) fn requests_prefer() -> bool {
    NICE.load(Relaxed) != 0
}

/// The addition of a phase to the nice values of its threads.
pub(crate) fn nice_of_phase(phase: Phase) -> Delta {
    let bytes = DELTAS.load(Relaxed).to_ne_bytes();
    let byte = phase.number().checked_sub(1).and_then(|at| bytes.get(at));
    let delta = byte.and_then(|&byte| Delta::new((byte as i8).into()));
    delta.unwrap_or(Delta::NONE)
}
