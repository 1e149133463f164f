// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests: the announcements of a process, the time at which the GPU is taken for it, and its
//! return in every case.
//!
//! The software GPU waits for words in slots that the program has mapped, as a GPU does.

/// Outcomes of requests: those that are named, and none of the others.
macro_rules! ends {
    ($($cause:ident: $count:expr),*) => {
        $crate::request::Ends { $($cause: $count,)* ..Default::default() }
    };
}

mod admission;
mod clocks;
mod ends;
mod faults;
mod features;
mod fields;
mod gate;
mod gates;
mod hammer;
mod inversion;
mod keys;
mod kick;
mod leases;
mod many;
mod modules;
mod nice;
mod order;
mod others;
mod power;
mod predictions;
mod program;
mod sharing;
mod slots;
mod starving;
mod steady;
mod takeover;
mod triggers;

use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::request::{Begin, Number, Of, RequestStats, Slot, Slots, Word};
use libzernel::sim::{Condition, Context, Fault, Item, Operation};
use libzernel::{tsg, Timestamp, Zernel};
use rustix::io::Errno;

use crate::check_eq;
use crate::common::{tune, wait_until_within, Lab, SOON};
use crate::harness::{case, suite, Outcome, Suite};

/// The suite.
pub const SUITE: Suite = suite(
    "request",
    &[
        case("histograms", fields::histograms),
        case("of_others", others::of_others),
        case("slots_by_number", slots::by_number),
        case("slots_of_a_file", slots::of_a_file),
        case("slots_refused", slots::refused),
        case("slots_of_a_user", slots::of_a_user),
        case("slots_are_charged", slots::are_charged),
        case("slots_and_fork", slots::fork),
        case("slots_shared", slots::shared_with_a_process),
        case("slots_keep_the_file", slots::keep_the_file),
        case("slots_on_the_gpu", slots::on_the_gpu),
        case("steady_state", || steady::serve(true)),
        case("steady_state_by_calls", || steady::serve(false)),
        case("early_late_and_slow", steady::early_late_and_slow),
        case("levels_are_counted_apart", steady::levels),
        case("trigger_comes_in_time", triggers::comes_in_time),
        case("timers_do_not_fire_twice", triggers::do_not_fire_twice),
        case("stepped_clock", clocks::stepped),
        case("time_namespace", clocks::in_a_time_namespace),
        case("zernelctl_shows_requests", program::shows_requests),
        case("lease_gives_the_gpu_back", leases::gives_the_gpu_back),
        case("lease_ends_at_ready", leases::ends_at_ready),
        case("lease_is_tunable", leases::is_tunable),
        case("ten_thousand_leases", many::ten_thousand_leases),
        case("every_end", ends::in_every_state),
        case("next_begin", ends::next_begin),
        case("system_sleep", power::ends_requests),
        case("predictors_learn", predictions::predictors_learn),
        case("tunable_predictor", predictions::tunable_predictor),
        case("tunable_trigger", predictions::tunable_trigger),
        case(
            "margins_begin_as_tuned",
            predictions::margins_begin_as_tuned,
        ),
        case("sharing_has_its_cost", sharing::has_its_cost),
        case("sharing_is_bounded", sharing::is_bounded),
        case("keys_of_users", keys::of_users),
        case("features_are_learnt", features::are_learnt),
        case("features_refuse_bad_fields", features::refuse_bad_fields),
        case("features_gain_nothing", features::gain_nothing),
        case("features_are_bounded", features::are_bounded),
        case("features_have_epochs", features::have_epochs),
        case("features_of_two_slots", features::of_two_slots),
        case(
            "features_are_learnt_at_the_end",
            features::are_learnt_at_the_end,
        ),
        case("no_holder_keeps_others_off", gate::keeps_others_off),
        case("no_holder_keeps_newcomers_off", gate::keeps_newcomers_off),
        case("no_holder_has_a_lease", gate::has_a_lease),
        case(
            "no_holder_comes_between_settings",
            gate::comes_between_settings,
        ),
        case("preemption_fails", gate::fails),
        case("busy_tsg_delays_itself_alone", others::beside_a_busy_tsg),
        case("no_memory_for_the_gate", gate::no_memory),
        case("unresponsive_gpu_is_left_alone", gate::unresponsive),
        case("unresponsive_gpu_gets_no_call", gate::gets_no_call),
        case("gate_opens", gates::opens),
        case("gate_opens_alone", gates::opens_alone),
        case("gate_fails", gates::fails),
        case("gate_has_stragglers", gates::has_stragglers),
        case("gate_is_overruled", gates::is_overruled),
        case("gate_is_refused", gates::is_refused),
        case("gate_takes_no_call", gates::takes_no_call),
        case("gate_elsewhere", gates::owned),
        case("gate_of_the_hostile", gates::hostile),
        case("gate_of_the_killed", gates::killed),
        case("nice_until_the_end", nice::until_the_end),
        case("nice_until_an_end_by_others", nice::until_an_end_by_others),
        case("nice_of_lc_alone", nice::of_lc_alone),
        case("nice_beside_a_phase", nice::beside_a_phase),
        case("nice_of_threads", nice::of_threads),
        case("nice_of_many_slots", nice::of_many_slots),
        case("nice_unload", nice::unload),
        case("order_is_kept", order::is_kept),
        case("order_is_that_of_the_gpu", order::is_that_of_the_gpu),
        case("order_goes_on_at_any_end", order::goes_on_at_any_end),
        case("order_goes_on_after_a_kill", order::goes_on_after_a_kill),
        case("order_has_a_lease", order::has_a_lease),
        case("order_has_bounds", order::has_bounds),
        case("order_is_kept_by_calls", order::takes_part_by_calls),
        case("order_switched_under_load", order::switched_under_load),
        case("order_of_the_hostile", order::hostile),
        case("order_takes_and_gives_back", takeover::takes_and_gives_back),
        case("order_sees_a_store", takeover::sees_a_store),
        case("order_tells_of_a_hold", takeover::tells_of_a_hold),
        case(
            "order_takes_from_later_ones",
            takeover::takes_from_later_ones_alone,
        ),
        case(
            "order_takes_by_deadlines_alone",
            takeover::comes_after_the_rest,
        ),
        case("order_victim_leaves", takeover::a_victim_leaves),
        case("order_taker_is_killed", takeover::one_is_killed),
        case("order_changes_meanwhile", takeover::the_order_changes),
        case("order_provider_fails", takeover::the_provider_fails),
        case("order_is_tried_again", takeover::is_tried_again),
        case("order_holds_are_bounded", takeover::is_bounded),
        case("order_cannot_take", takeover::cannot_take),
        case("order_lacks_an_operation", takeover::lacks_an_operation),
        case("order_gets_no_answer", takeover::gets_no_answer),
        case("admission_is_kept", admission::keeps_what_it_promises),
        case("admission_is_refused", admission::refuses_with_a_cause),
        case("admission_is_told", admission::tells_in_its_structure),
        case("admission_has_places", admission::has_places),
        case("admission_comes_back", admission::comes_back),
        case(
            "admission_of_short_lies",
            admission::sees_through_short_lies,
        ),
        case("admission_of_long_lies", admission::leaves_half_to_others),
        case(
            "admission_of_lies_given_up",
            admission::sees_through_lies_given_up,
        ),
        case("admission_of_preparations", admission::counts_preparations),
        case("admission_in_its_tsg", admission::counts_in_its_tsg),
        case("admission_of_the_moved", admission::moves_with_its_class),
        // Behind those that share the time of a level with few users.
        case("admission_of_two_lies", admission::has_liars_wait),
        // The last one, as its user is believed less from now on.
        case("admission_is_counted", admission::counts_what_it_missed),
        case("inversion_ends_with_a_class", inversion::ends_with_a_class),
        case("failures_of_open", faults::of_open),
        case("failures_of_mmap", faults::of_mmap),
        case("failures_of_begin", faults::of_begin),
        case("failures_of_the_other_calls", faults::of_the_other_calls),
        case("failures_of_what_is_told", faults::of_what_is_told),
        case("kick_at_the_trigger", kick::at_the_trigger),
        case("kick_when_ready", kick::when_ready),
        case("kick_of_a_risen_level", kick::of_a_risen_level),
        case("kick_fails", kick::fails),
        case("kick_fails_for_now", kick::fails_for_now),
        case("nobody_starves_beside_holders", || {
            starving::beside(true, "kick")
        }),
        case("nobody_starves_without_holders", || {
            starving::beside(false, "exclude")
        }),
        case("nobody_starves_beside_kicks", || {
            starving::beside(false, "kick")
        }),
        case("hostile_contents", hammer::hostile_contents),
        case("racing_calls", hammer::racing_calls),
        case("unload_of_the_provider", modules::provider_goes),
        case("unload_while_killed", modules::unload_while_killed),
    ],
);

/// Longer than any case.
const FAR: Duration = Duration::from_secs(36_000);

/// Shortest work of the software GPU: what a holder takes before it holds.
const SHORTEST: Duration = Duration::from_micros(1);

/// Readers and a trigger: a case of the suite `timed`.
pub fn readers_do_not_delay() -> Outcome {
    many::readers_do_not_delay()
}

/// A gate beside ready by a store: a case of the suite `timed`.
pub fn gate_takes_as_long() -> Outcome {
    gates::takes_as_long_as_ready()
}

/// Timers of all slots at one instant: a case of the suite `timed`.
pub fn timers_at_one_instant() -> Outcome {
    many::at_one_instant()
}

/// The longest hold that there is.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// A key without history.
fn new_key() -> u64 {
    Timestamp::now().as_ns()
}

/// Requests are not to expire unless the case is about that, however slow the machine.
fn longest_lease() -> Result<()> {
    tune("lease_us", 10_000_000)
}

/// An update of a request by a call.
type Update = fn(&Slot<'_>, Number) -> libzernel::Result<()>;

/// The three of them.
const UPDATES: [(&str, Update); 3] = [
    ("ready", |slot, request| slot.ready_call(request)),
    ("done", |slot, request| slot.done_call(request)),
    ("cancel", |slot, request| slot.cancel(request)),
];

/// Both devices and a client, whose requests do not expire.
fn lab() -> Result<(Lab, Client)> {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    Ok((lab, client))
}

/// A context that runs requests, and slots for them, of a file of their own.
struct Client {
    slots: Slots,
    context: Context,
    tsg: tsg::Id,
}

impl Client {
    fn new(lab: &Lab) -> Result<Self> {
        let (context, tsg) = lab.compute()?;
        let slots = Slots::map(&Zernel::open()?, 0..SLOTS)?;
        context.add_memory(slots.memory())?;
        Ok(Self {
            slots,
            context,
            tsg: tsg.id,
        })
    }

    fn slot(&self, number: u32) -> Slot<'_> {
        slot(&self.slots, number)
    }

    /// Queues the stream of a request, whose kernels take `work`. Returns the number of its last
    /// item; the holder, the one before it, and that one tell when they are completed.
    fn submit(&self, slot: &Slot<'_>, request: Number, work: Duration) -> Result<u64> {
        let number = request.get();
        let (trigger, release) = (slot.word(Word::Trigger), slot.word(Word::Release));
        let items = [
            Item::wait(trigger, Condition::AtLeast, number),
            Item::work(SHORTEST),
            Item::release(slot.word(Word::Held), number),
            Item::hold(release, Condition::AtLeast, number, LONGEST_HOLD).notify(),
            Item::work(work).notify(),
        ];
        Ok(self.context.submit(0, &items)?.last_seq)
    }

    /// Waits for the end of an item.
    fn wait(&self, seq: u64) -> Result<()> {
        wait(&self.context, seq)
    }
}

/// Has the next calls of an operation fail.
fn fail_next(lab: &Lab, operation: Operation, error: Errno, count: u32) -> Result<()> {
    lab.sim.inject(&Fault {
        gpu: 0,
        operation,
        count,
        error: Some(error),
        delay: Duration::ZERO,
        tsg: None,
    })?;
    Ok(())
}

/// Operations of a provider.
const OPERATIONS: [Operation; 8] = [
    Operation::SetTimeslice,
    Operation::GetTimeslice,
    Operation::Preempt,
    Operation::SetEnabled,
    Operation::SetInterleave,
    Operation::QueryLoad,
    Operation::Kick,
    Operation::QueryTsg,
];

/// Counts the calls of the provider for GPU 0, until it is dropped.
struct Calls<'a> {
    lab: &'a Lab,
    before: [u64; OPERATIONS.len()],
}

impl<'a> Calls<'a> {
    /// From now on, with no fault but these.
    fn count(lab: &'a Lab, faults: &[Fault]) -> Result<Self> {
        let before = Self::hit(lab)?;
        for operation in OPERATIONS {
            let named = faults.iter().find(|fault| fault.operation == operation);
            let count = Fault {
                count: u32::MAX,
                ..Self::none(operation)
            };
            lab.sim.inject(named.unwrap_or(&count))?;
        }
        Ok(Self { lab, before })
    }

    /// Calls since the module was loaded.
    fn hit(lab: &Lab) -> Result<[u64; OPERATIONS.len()]> {
        let mut hit = [0; OPERATIONS.len()];
        for (count, operation) in hit.iter_mut().zip(OPERATIONS) {
            *count = lab.sim.injected(0, operation)?;
        }
        Ok(hit)
    }

    /// The end of a fault.
    fn none(operation: Operation) -> Fault {
        Fault {
            gpu: 0,
            operation,
            count: 0,
            error: None,
            delay: Duration::ZERO,
            tsg: None,
        }
    }

    /// Those of some operations.
    fn of(&self, operations: &[Operation]) -> Result<u64> {
        let counts = Self::hit(self.lab)?.into_iter().zip(self.before);
        let named = counts.zip(OPERATIONS);
        let named = named.filter(|(_, operation)| operations.contains(operation));
        Ok(named.map(|((now, before), _)| now - before).sum())
    }

    /// All of them.
    fn all(&self) -> Result<u64> {
        self.of(&OPERATIONS)
    }
}

impl Drop for Calls<'_> {
    fn drop(&mut self) {
        for operation in OPERATIONS {
            // Fails only when the device is gone, and its GPUs with it.
            let _ = self.lab.sim.inject(&Self::none(operation));
        }
    }
}

/// All calls of an operation time out.
fn times_out(operation: Operation) -> Fault {
    Fault {
        count: u32::MAX,
        error: Some(Errno::TIMEDOUT),
        ..Calls::none(operation)
    }
}

/// Asks for all that is known of GPUs, levels, TSGs and phases, again and again for a while.
fn ask_for_all(zernel: &Zernel) -> Result<()> {
    for _ in 0..10 {
        zernel.gpus().try_for_each(|found| found.map(drop))?;
        zernel.levels().try_for_each(|found| found.map(drop))?;
        zernel.tsgs().try_for_each(|found| found.map(drop))?;
        zernel.phases().try_for_each(|found| found.map(drop))?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Waits for the end of an item of a context.
fn wait(context: &Context, seq: u64) -> Result<()> {
    context.wait(0, seq, Timestamp::now() + SOON)?;
    Ok(())
}

/// Slots that cases map.
const SLOTS: u32 = 64;

/// One of them.
fn slot(slots: &Slots, number: u32) -> Slot<'_> {
    slots.slot(number).expect("it was mapped")
}

/// A request of which nothing is known: it is triggered at once.
fn at_once(tsg: tsg::Id) -> Begin {
    Begin::new(tsg).key(new_key())
}

/// A request whose data is ready in so long.
fn in_so_long(tsg: tsg::Id, expected: Duration) -> Begin {
    at_once(tsg).exact().expected(expected)
}

/// A request whose trigger never comes by itself.
fn far(tsg: tsg::Id) -> Begin {
    in_so_long(tsg, FAR)
}

/// Trigger and release word.
fn words(slot: &Slot<'_>) -> (u32, u32) {
    (slot.load(Word::Trigger), slot.load(Word::Release))
}

/// True if both words have reached a request.
fn is_free(words: (u32, u32), request: Number) -> bool {
    request.is_reached_by(words.0) && request.is_reached_by(words.1)
}

/// The outcomes of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ends {
    done: u64,
    cancelled: u64,
    expired: u64,
    closed: u64,
    gone: u64,
    suspended: u64,
    in_flight: u64,
}

/// Statistics from some moment on.
struct Since<'a> {
    zernel: &'a Zernel,
    of: Of,
    before: RequestStats,
}

impl<'a> Since<'a> {
    /// From now on, of all requests; there are none now.
    fn now(zernel: &'a Zernel) -> Result<Self> {
        Self::of(zernel, Of::All)
    }

    /// From now on, of some requests; there are none now.
    fn of(zernel: &'a Zernel, of: Of) -> Result<Self> {
        let before = zernel.request_stats(of)?;
        check_eq!(before.in_flight, 0, "requests in flight");
        Ok(Self { zernel, of, before })
    }

    /// The outcomes; the times are since the module was loaded.
    fn stats(&self) -> Result<RequestStats> {
        let now = self.zernel.request_stats(self.of)?;
        check_eq!(now.begun, now.over() + now.in_flight, "the sum of {now:?}");
        macro_rules! less {
            ($($name:ident)*) => {
                RequestStats { $($name: now.$name - self.before.$name,)* ..now }
            };
        }
        Ok(less!(
            begun done cancelled expired closed gone suspended triggers early early_ns late late_ns
            lost_ns violations latency_ns accepted refused missed
        ))
    }

    fn ends(&self) -> Result<Ends> {
        let stats = self.stats()?;
        Ok(Ends {
            done: stats.done,
            cancelled: stats.cancelled,
            expired: stats.expired,
            closed: stats.closed,
            gone: stats.gone,
            suspended: stats.suspended,
            in_flight: stats.in_flight,
        })
    }

    /// Fails unless it has come to this.
    fn expect(&self, ends: Ends) -> Outcome {
        check_eq!(self.ends()?, ends, "what requests came to");
        Ok(())
    }

    /// Waits until it has.
    fn wait(&self, ends: Ends) -> Outcome {
        self.wait_for(SOON, ends)
    }

    /// Waits until it has, that long at most.
    fn wait_for(&self, patience: Duration, ends: Ends) -> Outcome {
        wait_until_within(patience, &format!("{ends:?}"), || Ok(self.ends()? == ends))
            .with_context(|| format!("requests came to {:?}", self.ends()))
    }
}
