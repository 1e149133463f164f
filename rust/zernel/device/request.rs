// SPDX-License-Identifier: GPL-2.0
//! Requests: begin, ready, done, cancel.

use super::client::Client;
use crate::{
    error::Failure,
    glue::{
        abi,
        errno,
        identity,
        memory::with_memory,
        uapi, //
    },
    policy::{
        predict::features::{
            machine::Machine,
            Features,
            GIVEN, //
        },
        units::Ns, //
    },
    registry::{
        self,
        tsg, //
    },
    request::{
        machine,
        slot::{
            Begin,
            Begun,
            Name,
            Outcome,
            Slot, //
        },
        stats::Shared, //
    },
    slots,
    tuned, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Where the output of `struct zernel_request_begin` begins.
const ANSWER: usize = core::mem::offset_of!(uapi::zernel_request_begin, request);

/// Where a request that is refused gets its earliest deadline.
const EARLIEST: usize = core::mem::offset_of!(uapi::zernel_request_options, earliest_ns);

/// Tries of a begin with an answer that could not be written, or with a new TSG. No other thread
/// binds the slot in between, unless the memory for the answer has gone once more.
const TRIES: usize = 8;

/// Begins a request.
pub(super) fn begin(client: &Client, arg: usize, size: usize) -> Result {
    let mut begin: uapi::zernel_request_begin = abi::read_input(arg, size)?;
    let known =
        uapi::ZERNEL_REQUEST_NO_HOLDER | uapi::ZERNEL_REQUEST_EXACT | uapi::ZERNEL_REQUEST_GATE;
    if begin.flags & !known != 0 {
        return Err(EINVAL);
    }
    let gate = begin.flags & uapi::ZERNEL_REQUEST_GATE != 0;
    if gate {
        // Nothing would look at the gate from the trigger to the end of the lease.
        if begin.flags & uapi::ZERNEL_REQUEST_NO_HOLDER != 0 {
            return Err(EINVAL);
        }
        if !slots::HAVE_GATES {
            return Err(errno::unsupported());
        }
    }
    let exact = begin.flags & uapi::ZERNEL_REQUEST_EXACT != 0;
    let space;
    let (features, admit) = match begin.options {
        0 => (None, None),
        address => {
            space = options(address, exact)?;
            (space.features.as_ref(), space.admit)
        }
    };
    let answer = abi::Answer::new::<uapi::zernel_request_begin>(arg, size, ANSWER)?;
    let mut ask = Begin {
        exact,
        holder: begin.flags & uapi::ZERNEL_REQUEST_NO_HOLDER == 0,
        gate,
        expected: Ns(begin.expected_ns),
        slo: Ns(begin.slo_ns),
        features,
    };
    let (tsg, name) = (tsg::Id(begin.tsg), (begin.key, identity::caller_uid()));
    let (mut is_there, mut is_bound, mut has_room) = (false, false, false);
    // The memory is never there for long enough.
    let mut again = EFAULT;
    let mut slots = client.slots.lock();
    for _ in 0..TRIES {
        let slot = slots.slot(begin.slot)?;
        // Before the request that the slot has is touched: binding ends it, and an error would hide that.
        if gate && !is_bound && slot.has_failed() {
            return Err(Failure::GateFailed.errno());
        }
        let tell = |begun: Begun| {
            begin.request = begun.request;
            begin.predicted_ns = begun.predicted.0;
            begin.trigger_at = begun.trigger_at.0;
            answer.try_write(&begin)
        };
        // Another user's TSG takes privilege at each call, not only at the first.
        let outcome = match slot.is_foreign() && !identity::caller_is_capable() {
            true => Ok(Outcome::Unbound),
            // One call for both, so that all that it does is in line.
            false => {
                let mut seat = None;
                let refused = match admit {
                    None => None,
                    Some(burst) => match slot.admit(tsg, name, &ask, burst)? {
                        Ok(admitted) => {
                            seat = Some(admitted);
                            None
                        }
                        Err(outcome) => Some(outcome),
                    },
                };
                match refused {
                    None => slot.begin(tsg, name, &ask, seat.as_mut(), tell),
                    Some(outcome) => Ok(outcome),
                }
            }
        };
        match outcome? {
            Outcome::Begun => return Ok(()),
            Outcome::Unbound if is_there => {
                bind(slot, tsg, name, ask.holder)?;
                is_bound = true;
            }
            // A statistic that can be done without refuses no request: its key's quantile predicts it.
            // So it is where other threads of the user take the room at once.
            Outcome::NoRoom => match has_room {
                false if slot.make_room(name.1) => has_room = true,
                _ => ask.features = None,
            },
            // Binding ends the request before, so that the answer is made sure of first.
            Outcome::Unbound | Outcome::Untold => {
                drop(slots);
                answer.fault_in()?;
                is_there = true;
                slots = client.slots.lock();
            }
            // The class, or the run list, of its TSG has changed in between.
            Outcome::Moved => again = EAGAIN,
            Outcome::Late(earliest) => {
                drop(slots);
                return Err(late(begin.options, earliest));
            }
        }
    }
    Err(again)
}

/// Tells the shortest `slo_ns` that would have done. Returns the error of the call.
#[cold]
#[inline(never)]
fn late(options: u64, earliest: Ns) -> Error {
    let told = usize::try_from(options)
        .ok()
        .and_then(|address| address.checked_add(EARLIEST))
        .ok_or(EFAULT)
        .and_then(|address| abi::write_words(address, &[earliest.0]));
    match told {
        Ok(()) => Failure::Late.into(),
        Err(error) => error,
    }
}

/// The options of a request.
struct Options {
    /// Its features, if they count.
    features: Option<Features>,
    /// Its deadline is to be promised, for this burst; 0: not known.
    admit: Option<Ns>,
}

/// Reads the options of a request at this address of its process.
///
/// # Errors
///
/// As the header says of `struct zernel_request_options`.
fn options(address: u64, exact: bool) -> Result<Options> {
    let address = usize::try_from(address).map_err(|_| EFAULT)?;
    let size = abi::read_size(address)?;
    let options: uapi::zernel_request_options = abi::read_input(address, size)?;
    let (given, rest) = options
        .feature
        .split_at_checked(options.features as usize)
        .ok_or(EINVAL)?;
    let is_beyond = rest.iter().any(|&feature| feature != 0);
    let admits = options.flags & uapi::ZERNEL_BEGIN_ADMIT != 0;
    let is_unknown = options.flags & !uapi::ZERNEL_BEGIN_ADMIT != 0;
    if is_unknown || options.reserved != 0 || is_beyond || !admits && options.burst_ns != 0 {
        return Err(EINVAL);
    }
    let mut known = Options {
        features: None,
        admit: admits.then_some(Ns(options.burst_ns)),
    };
    let tuning = tuned::features();
    if exact || tuning.memory.is_none() {
        return Ok(known);
    }
    let mut features = Features {
        machine: match tuning.measured {
            true => machine::state(),
            false => Machine::default(),
        },
        epoch: tuning.epoch,
        ..Features::NONE
    };
    for (to, from) in features.given.iter_mut().zip(given) {
        *to = *from;
    }
    known.features = Some(features);
    Ok(known)
}

const _: () = assert!(GIVEN == uapi::ZERNEL_FEATURES_MAX as usize);

/// Looks up the TSG and key of a slot's next requests.
fn bind(slot: &Arc<Slot>, id: tsg::Id, name: Name, holder: bool) -> Result {
    let (key, uid) = name;
    let (sees_all, may_all) = (identity::caller_sees_all(), identity::caller_is_capable());
    let stats = match registry::with(|r| r.is_first(id, uid, may_all))? {
        true => Some(Shared::new()?),
        false => None,
    };
    let (group, owns, boosts) = with_memory(|| {
        registry::with(|r| -> Result<_, Failure> {
            let group = r.group(id, uid, sees_all, may_all, stats.clone())?;
            Ok((group, r.owns(id, uid), r.boosts()?))
        })?
    })?;
    let known = registry::requests::key(uid, key)?;
    slot.bind(&group, name, owns, known, boosts, holder)
}

/// Makes a request ready, or ends it.
pub(super) fn update(client: &Client, named: &mut uapi::zernel_request_update) -> Result {
    if named.flags != 0 {
        return Err(EINVAL);
    }
    let act = match named.action {
        uapi::ZERNEL_REQUEST_READY => Slot::ready,
        uapi::ZERNEL_REQUEST_DONE => Slot::done,
        uapi::ZERNEL_REQUEST_CANCEL => Slot::cancel,
        _ => return Err(EINVAL),
    };
    let slot = client.slots.lock().used(named.slot)?;
    act(&*slot.ok_or(Failure::Stale)?, named.request)
}
