// SPDX-License-Identifier: GPL-2.0
//! One GPU: the model under a lock, driven by a timer.
//!
//! Lock order: `state`, then the locks of contexts, inboxes and the listener. Nothing is allocated or freed under `state`, and no time slice that ends
//! with nobody waiting needs the timer.

use super::{
    context::Context,
    cpu_share::CpuShare,
    report::{
        Reporter,
        Trace, //
    },
    settings::Settings,
    store::{
        Chunk,
        Chunks,
        Pools,
        Table, //
    }, //
};
use crate::{
    glue::{
        errno,
        time::now_ns, //
        timer::{
            new_driven,
            Driven,
            Expired,
            Locked,
            Timed, //
        },
    },
    host::Listener,
    model::{
        gpu::{
            Config,
            Gpu,
            NewTsg, //
        },
        measures::Ns,
        preset::Preset,
        stats::ChannelStats,
        tsg::Handle,
        work::Order, //
    }, //
};
use kernel::{
    error::code::ERESTARTSYS,
    prelude::*,
    sync::{
        Arc,
        CondVarTimeoutResult, //
    },
    time::msecs_to_jiffies, //
};

/// The model with its storage.
pub(crate) type Model = Gpu<Arc<Context>, Pools>;

/// Events between two looks at the clock.
const BATCH: u32 = 16;
/// Longest that a call or an interrupt lets model time go on, in ns; interrupts are off meanwhile.
const LONGEST: u64 = 100_000;
/// Interval at which words are looked at whose change is told by a doorbell, in ns: it is zernel
/// that ends the request of a program that rings none.
const SELDOM: u64 = 1_000_000;
/// Nothing will happen.
const NEVER: u64 = u64::MAX;
/// Queued items of a channel.
pub(crate) const CHANNEL_ITEMS: u32 = 1024;

/// The time of the next look after `now`: on a grid, so that frequent new waiters do not push it back.
fn on_grid(now: u64, interval: u64) -> u64 {
    let passed = now.checked_rem(interval).unwrap_or(0);
    now.saturating_sub(passed).saturating_add(interval)
}

/// The state that the lock of a GPU protects.
pub(crate) struct State {
    model: Model,
    trace: Option<Trace>,
    listener: Listener,
    /// When the words are to be looked at next, if a channel waits for one. Stays in the past until
    /// the timer has looked.
    poll_at: Option<u64>,
    /// The same of words whose change is told by a doorbell.
    rung_at: Option<u64>,
    /// The timer does not expire before this, so that users keep the CPU.
    not_before: u64,
    cpu_share: CpuShare,
}

/// A GPU.
#[pin_data]
pub(crate) struct Device {
    /// Number.
    pub(crate) number: u32,
    /// Its properties.
    pub(crate) preset: &'static Preset,
    /// Interval at which words are looked at, in ns.
    word_poll: u64,
}

/// A GPU with its timer.
pub(crate) type Card = Driven<Device>;

impl Device {
    /// A GPU that does nothing.
    pub(crate) fn new(number: u32, settings: &Settings) -> Result<Arc<Card>> {
        let config = Config {
            number,
            compute_switch: settings.preset.switch_cost(),
            copy_switch: Preset::COPY_SWITCH_COST,
            channel_items: CHANNEL_ITEMS,
        };
        let engines = Table::new(settings.copy_engines.saturating_add(1))?;
        let tsgs = Table::new(settings.max_tsgs)?;
        let (channels, items) = (Chunks::new()?, Chunks::new()?);
        let now = Ns(now_ns());
        let (preset, word_poll) = (settings.preset, settings.word_poll.0);
        let state = State {
            model: Gpu::new(config, engines, tsgs, channels, items, now),
            trace: None,
            listener: Listener::new(settings.max_tsgs)?,
            poll_at: None,
            rung_at: None,
            not_before: 0,
            cpu_share: CpuShare::new(settings.gpus),
        };
        let device = try_pin_init!(Self {
            number,
            preset,
            word_poll,
        });
        Arc::pin_init(new_driven!(state, c"zernel_sim_gpu", device), GFP_KERNEL)
    }
}

impl State {
    /// The parts that a call of the model needs.
    fn parts(&mut self) -> (&mut Model, Reporter<'_>) {
        (
            &mut self.model,
            Reporter {
                trace: self.trace.as_mut(),
                listener: &self.listener,
            },
        )
    }

    /// Lets model time go on up to `now`, or for [`LONGEST`]. Returns how far it came.
    fn catch_up(&mut self, now: u64) -> Ns {
        let (model, mut sink) = self.parts();
        while !model.advance(Ns(now), BATCH, &mut sink) {
            if now_ns().saturating_sub(now) > LONGEST {
                return model.clock();
            }
        }
        Ns(now)
    }
}

impl Card {
    /// Calls `f` with the listener.
    pub(crate) fn listen<R>(&self, f: impl FnOnce(&mut Listener) -> R) -> R {
        f(&mut self.lock().listener)
    }

    /// Calls `f` with the model and its time, and arms the timer for the next event.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Model, Ns, &mut Reporter<'_>) -> R) -> R {
        let mut state = self.lock();
        let now = now_ns();
        let at = state.catch_up(now);
        let (model, mut sink) = state.parts();
        let result = f(model, at, &mut sink);
        self.arm_next(&mut state, now);
        result
    }

    /// Calls `f` with the model as of now.
    pub(crate) fn at_present<R>(&self, f: impl FnOnce(&mut Model) -> R) -> R {
        self.with(|model, _, _| f(model))
    }

    /// Calls `f` with the place of the trace.
    pub(crate) fn with_trace<R>(&self, f: impl FnOnce(&mut Option<Trace>) -> R) -> R {
        f(&mut self.lock().trace)
    }

    /// The time of the next look at words after `now`.
    fn next_poll(&self, now: u64) -> u64 {
        on_grid(now, self.word_poll)
    }

    /// The same of words whose change is told by a doorbell.
    fn next_rung(&self, now: u64) -> u64 {
        on_grid(now, self.word_poll.max(SELDOM))
    }

    /// Arms the timer for the next event of the model, or look at words. Only the timer looks at
    /// words, so a look that is due stays due over any number of calls.
    fn arm_next(&self, state: &mut Locked<'_, Device>, now: u64) {
        let State {
            model, listener, ..
        } = &mut **state;
        listener.moved(model);
        let mut next = state.model.next_event().map_or(NEVER, |event| event.0);
        if state.model.watching() {
            let poll_at = *state.poll_at.get_or_insert_with(|| self.next_poll(now));
            next = next.min(poll_at);
        } else {
            state.poll_at = None;
        }
        if state.model.watching_rung() {
            let rung_at = *state.rung_at.get_or_insert_with(|| self.next_rung(now));
            next = next.min(rung_at);
        } else {
            state.rung_at = None;
        }
        if next == NEVER {
            // One that is armed for something that will not be expires for nothing, once.
            return;
        }
        let next = next.max(state.not_before);
        state.arm(next);
    }

    /// Appends items to a channel. Returns the number of the last one, and when the engine saw
    /// them.
    pub(crate) fn submit(&self, tsg: Handle, channel: u32, orders: &[Order]) -> Result<(u64, u64)> {
        let count = orders.len() as u32;
        let mut spare = None;
        loop {
            let chunk = spare.take();
            let (grown, done) = self.with(|model, now, sink| {
                let left = chunk.and_then(|chunk| model.item_pool().add(chunk).err());
                if model.item_room() < count && left.is_none() {
                    return (left, None);
                }
                (left, Some(model.submit(now, tsg, channel, orders, sink)))
            });
            // A chunk that did not fit is freed here, where that may be done.
            drop(grown);
            if let Some(result) = done {
                let (last, at) = result?;
                return Ok((last, at.0));
            }
            spare = Some(Chunk::new()?);
        }
    }

    /// Makes a TSG. Returns its handle and its engine; `engine` none means the least used one.
    pub(crate) fn create(
        &self,
        serial: u64,
        context: &Arc<Context>,
        copy: bool,
        engine: Option<u32>,
        nr_channels: u32,
        sharer: Option<Handle>,
    ) -> Result<(Handle, u32)> {
        let mut spare = None;
        loop {
            let chunk = spare.take();
            let context = context.clone();
            let (grown, unused, done) = self.with(|model, now, sink| {
                let left = chunk.and_then(|chunk| model.channel_pool().add(chunk).err());
                if model.channel_room() < nr_channels && left.is_none() {
                    return (left, Some(context), None);
                }
                let number = match engine.map_or_else(|| model.least_used(copy), Ok) {
                    Ok(number) => number,
                    Err(error) => return (left, Some(context), Some(Err(error))),
                };
                let new = NewTsg {
                    serial,
                    context,
                    engine: number,
                    nr_channels,
                    sharer,
                };
                match model.create(now, new, sink) {
                    Ok(handle) => (left, None, Some(Ok((handle, number)))),
                    Err((error, context)) => (left, Some(context), Some(Err(error))),
                }
            });
            drop((grown, unused));
            if let Some(result) = done {
                return Ok(result?);
            }
            spare = Some(Chunk::new()?);
        }
    }

    /// Ends a TSG: its items are dropped, and their waiters woken.
    pub(crate) fn destroy(&self, tsg: Handle) {
        let destroyed = self.with(|model, now, sink| model.destroy(now, tsg, sink));
        if let Ok((Some(context), dropped)) = destroyed {
            context.user.items.release(dropped);
            context.waiters.notify_all();
        }
    }

    /// Waits until item `seq` of a channel has completed.
    ///
    /// # Errors
    ///
    /// `EINVAL` not submitted, `ETIME`, `ERESTARTSYS`, `ENOENT` the TSG is gone.
    pub(crate) fn wait(
        &self,
        tsg: Handle,
        context: &Context,
        channel: u32,
        seq: u64,
        deadline: u64,
    ) -> Result<ChannelStats> {
        let mut state = self.lock();
        loop {
            let now = now_ns();
            state.catch_up(now);
            let stats = state.model.channel_stats(tsg, channel)?;
            self.arm_next(&mut state, now);
            if seq > stats.submitted {
                return Err(EINVAL);
            }
            if seq <= stats.completed {
                return Ok(stats);
            }
            if now >= deadline {
                return Err(errno::timed_out());
            }
            context.will_wait(channel, seq);
            let jiffies = match deadline {
                u64::MAX => kernel::time::Jiffies::MAX,
                _ => {
                    // Longer waits go round again.
                    let ms = deadline
                        .saturating_sub(now)
                        .div_ceil(1_000_000)
                        .min(3_600_000);
                    msecs_to_jiffies(ms as u32).max(1)
                }
            };
            let woken = context
                .waiters
                .wait_interruptible_timeout(state.guard(), jiffies);
            if let CondVarTimeoutResult::Signal { .. } = woken {
                return Err(ERESTARTSYS);
            }
        }
    }
}

impl Timed for Device {
    type State = State;

    fn expired(this: Expired<'_, Self>) {
        // Waiting for the lock counts too.
        let began = now_ns();
        let mut state = this.lock();
        let card = state.driven();
        let start = now_ns();
        let at = state.catch_up(start);
        if state.poll_at.is_some_and(|poll_at| start >= poll_at) {
            let (model, mut sink) = state.parts();
            if model.poll(at, BATCH, &mut sink) {
                state.poll_at = Some(card.next_poll(start));
            }
        }
        if state.rung_at.is_some_and(|rung_at| start >= rung_at) {
            let (model, mut sink) = state.parts();
            if model.poll_rung(at, BATCH, &mut sink) {
                state.rung_at = Some(card.next_rung(start));
            }
        }
        if let Some(next) = state.cpu_share.charge(began, now_ns()) {
            // Model time falls behind and catches up later.
            state.not_before = next;
        }
        card.arm_next(&mut state, start);
    }
}
