// SPDX-License-Identifier: GPL-2.0
//! Requests: pages of slots, begin, ready, done, cancel, statistics.

use super::{
    subscribe,
    Client, //
};
use crate::{
    error::Failure,
    glue::{
        abi::{
            self,
            Abi as _, //
        },
        identity::{
            self,
            Viewer, //
        },
        memory::with_memory,
        uapi, //
    },
    policy::{
        counters::Counters,
        level::Level,
        predict::Kind,
        switch_cost::Phase,
        units::{
            Ns,
            Ppm, //
        }, //
    },
    registry::{
        self,
        levels::LevelOf,
        tsg, //
    },
    request::{
        pages::Page,
        slot::{
            Begin,
            Name,
            Outcome,
            Slot, //
        },
        stats::Shared, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Where the part of `struct zernel_v0_begin` begins that zernel writes.
const ANSWER: usize = core::mem::offset_of!(uapi::zernel_v0_begin, request);

/// How often a begin is tried whose answer could not be written, or whose TSG was not known yet.
/// Nobody else binds the slot in between, unless the memory for the answer has gone once more.
const TRIES: usize = 8;

/// Begins a request.
pub(super) fn begin(_: &Client, _arg: usize, _size: usize) -> Result {
    Err(ENOTTY)
}

/// Makes a request ready, or ends it.
pub(super) fn update(_: &Client, _: &mut uapi::zernel_request_update) -> Result {
    Err(ENOTTY)
}

/// Registers a page of slots.
pub(super) fn v0_register(client: &Client, arg: usize, size: usize) -> Result {
    let mut page: uapi::zernel_v0_page = abi::read(arg, size)?;
    if page.page != 0 || page.flags != 0 {
        return Err(EINVAL);
    }
    abi::write(arg, size, &page)?;
    let new = Page::new(page.address)?;
    page.page = client.pages.lock().add(new)?;
    abi::write(arg, size, &page).inspect_err(|_| {
        // Nobody knows its number, but may have guessed it.
        let removed = client.pages.lock().remove(page.page);
        drop(removed);
        subscribe::end_words_of(client, page.page);
    })
}

/// Ends the requests of a page and forgets it.
pub(super) fn v0_unregister(client: &Client, arg: usize, size: usize) -> Result {
    let page: uapi::zernel_v0_page = abi::read(arg, size)?;
    if page.address != 0 || page.flags != 0 {
        return Err(EINVAL);
    }
    let removed = client.pages.lock().remove(page.page)?;
    // Dropped without the lock.
    drop(removed);
    subscribe::end_words_of(client, page.page);
    Ok(())
}

/// Begins a request.
pub(super) fn v0_begin(client: &Client, arg: usize, size: usize) -> Result {
    let mut begin: uapi::zernel_v0_begin = abi::read(arg, size)?;
    let known = uapi::ZERNEL_V0_BEGIN_MARGIN | uapi::ZERNEL_V0_BEGIN_NO_HOLDER;
    if begin.flags & !known != 0 || begin.reserved != 0 || begin.request != 0 {
        return Err(EINVAL);
    }
    let answer = abi::Answer::new::<uapi::zernel_v0_begin>(arg, size, ANSWER)?;
    let kind = match begin.predictor {
        uapi::ZERNEL_V0_PREDICT_DEFAULT => None,
        number => Some(Kind::new(number - 1).ok_or(EINVAL)?),
    };
    let ask = Begin {
        kind,
        margin: begin.flags & uapi::ZERNEL_V0_BEGIN_MARGIN != 0,
        holder: begin.flags & uapi::ZERNEL_V0_BEGIN_NO_HOLDER == 0,
        expected: Ns(begin.expected_ns),
        slo: Ns(begin.slo_ns),
    };
    let (tsg, name) = (tsg::Id(begin.tsg), (begin.key, identity::caller_uid()));
    let mut is_there = false;
    let mut pages = client.pages.lock();
    for _ in 0..TRIES {
        let slot = pages.slot(begin.page, begin.slot)?;
        let outcome = slot.begin(tsg, name, &ask, |begun| {
            begin.request = begun.request;
            begin.predicted_ns = begun.predicted.0;
            begin.trigger_ns = begun.trigger_at.0;
            answer.try_write(&begin)
        });
        match outcome? {
            Outcome::Begun => return Ok(()),
            Outcome::Unbound if is_there => bind(slot, tsg, name, ask.holder)?,
            // Binding ends the request before, so that the answer is made sure of first.
            Outcome::Unbound | Outcome::Untold => {
                drop(pages);
                answer.fault_in()?;
                is_there = true;
                pages = client.pages.lock();
            }
        }
    }
    // The memory is never there for long enough.
    Err(EFAULT)
}

/// Looks up what a slot's requests are about from now on.
fn bind(slot: &Arc<Slot>, id: tsg::Id, name: Name, holder: bool) -> Result {
    let (key, uid) = name;
    let (sees_all, may_all) = (identity::caller_sees_all(), identity::caller_is_capable());
    let stats = match registry::with(|r| r.is_first(id, uid, may_all))? {
        true => Some(Shared::new()?),
        false => None,
    };
    let (group, known, boosts) = with_memory(|| {
        registry::with(|r| -> Result<_, Failure> {
            let group = r.group(id, uid, sees_all, may_all, stats.clone());
            r.count_denied(&group);
            Ok((group?, r.key(uid, key)?, r.boosts()?))
        })?
    })?;
    slot.bind(&group, name, known, boosts, holder)
}

/// The slot that a call names, and the request in it.
fn named(client: &Client, arg: usize, size: usize) -> Result<(Arc<Slot>, u32)> {
    let named: uapi::zernel_v0_request = abi::read(arg, size)?;
    if named.flags != 0 {
        return Err(EINVAL);
    }
    let slot = client.pages.lock().slot(named.page, named.slot)?.clone();
    Ok((slot, named.request))
}

/// The data of a request is ready.
pub(super) fn v0_ready(client: &Client, arg: usize, size: usize) -> Result {
    let (slot, request) = named(client, arg, size)?;
    slot.ready(request)
}

/// A request is done.
pub(super) fn v0_done(client: &Client, arg: usize, size: usize) -> Result {
    let (slot, request) = named(client, arg, size)?;
    slot.done(request)
}

/// A request is given up.
pub(super) fn v0_cancel(client: &Client, arg: usize, size: usize) -> Result {
    let (slot, request) = named(client, arg, size)?;
    slot.cancel(request)
}

/// Tells what became of requests.
pub(super) fn v0_stats(arg: usize, size: usize) -> Result {
    let asked: uapi::zernel_v0_request_stats = abi::read(arg, size)?;
    let level = match (asked.tsg, asked.level) {
        (0, uapi::ZERNEL_V0_LEVEL_NONE) => None,
        (0, number) => Some(Level::new(number).ok_or(EINVAL)?),
        (_, 0) => None,
        _ => return Err(EINVAL),
    };
    // Everything else is told.
    let mut answer = uapi::zernel_v0_request_stats {
        tsg: asked.tsg,
        level: asked.level,
        nr_buckets: asked.nr_buckets,
        buckets: asked.buckets,
        ..Default::default()
    };
    if answer.bytes() != asked.bytes() {
        return Err(EINVAL);
    }
    let mut counters = KBox::<Counters>::zeroed(GFP_KERNEL)?;
    if asked.tsg != 0 {
        let viewer = Viewer::current();
        let group = registry::with(|r| r.known_group(tsg::Id(asked.tsg), &viewer))??;
        if let Some(group) = group {
            group.poll();
            group.stats.add_to(&mut counters);
            answer.switch_ns = group.gpu.switch_cost(Phase::Settled).0;
        }
    } else {
        if !identity::caller_sees_all() {
            registry::with(|r| r.count_denied::<()>(&Err(Failure::NotPermitted)))?;
            return Err(EPERM);
        }
        take_up_all()?;
        registry::with(|r| {
            let of = LevelOf { gpu: None, level };
            answer.throttles = r.level_counters(of).throttles;
            r.each_part(of, |part| part.add_to(&mut counters));
        })?;
    }
    fill(&mut answer, &counters);
    answer.nr_buckets = match asked.buckets {
        0 => 0,
        address => buckets(address, asked.nr_buckets, &counters)?,
    };
    abi::write(arg, size, &answer)
}

/// Has the totals follow what all processes have stored about their requests.
fn take_up_all() -> Result {
    let mut after = None;
    while let Some((id, group)) = registry::with(|r| r.next_group(after))? {
        group.poll();
        after = Some(id);
    }
    Ok(())
}

/// Writes the first `room` buckets of the histogram. Returns how many there were.
fn buckets(address: u64, room: u32, counters: &Counters) -> Result<u32> {
    let address = usize::try_from(address).map_err(|_| EFAULT)?;
    let counts = counters.latency.counts();
    let counts = counts.get(..room as usize).unwrap_or(counts);
    abi::write_words(address, counts)?;
    Ok(counts.len() as u32)
}

fn fill(answer: &mut uapi::zernel_v0_request_stats, counters: &Counters) {
    let latency = &counters.latency;
    let quantile = |share| latency.quantile(share).unwrap_or_default().0;
    answer.requests = counters.begun;
    answer.done = counters.done;
    answer.cancelled = counters.cancelled;
    answer.expired = counters.expired;
    answer.closed = counters.closed;
    answer.gone = counters.gone;
    answer.suspended = counters.suspended;
    answer.triggers = counters.triggers;
    answer.early = counters.early;
    answer.early_ns = counters.early_time.0;
    answer.late = counters.late;
    answer.late_ns = counters.late_time.0;
    answer.lost_ns = counters.lost_time.0;
    answer.slo_violations = counters.slo_violations;
    answer.latency_ns = latency.sum().0;
    answer.min_ns = latency.min().unwrap_or_default().0;
    answer.max_ns = latency.max().unwrap_or_default().0;
    answer.p50_ns = quantile(Ppm(500_000));
    answer.p99_ns = quantile(Ppm(990_000));
    answer.p999_ns = quantile(Ppm(999_000));
    answer.in_flight = counters.in_flight();
    answer.preempted = counters.preempted;
    answer.preempt_timeouts = counters.preempt_timeouts;
    answer.preempt_no_memory = counters.preempt_no_memory;
    answer.preempt_unresponsive = counters.preempt_unresponsive;
    answer.preempt_invalid = counters.preempt_invalid;
}
