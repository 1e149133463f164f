// SPDX-License-Identifier: GPL-2.0
//! Operations on existing TSGs: submit, time slice, interleave level, enable, preempt, suspend.

use super::{
    arena::Index,
    engine::EngineIx,
    error::Error,
    event::Sink,
    gpu::{
        Gpu,
        Store,
        OPERATION_BUDGET, //
    },
    measures::{
        Ns,
        Us, //
    },
    tsg::{
        Context,
        Handle,
        Interleave,
        Place, //
    },
    work::Order, //
};

impl<C: Context, S: Store<C>> Gpu<C, S> {
    /// Appends items to a channel: all of them or none. Returns the number of the last one and
    /// the model time.
    pub(crate) fn submit(
        &mut self,
        now: Ns,
        handle: Handle,
        channel: u32,
        orders: &[Order],
        sink: &mut impl Sink<C>,
    ) -> Result<(u64, Ns), Error> {
        self.advance(now, OPERATION_BUDGET, sink);
        let ix = self.find(handle)?;
        let at = self.find_channel(ix, channel)?;
        let count = u32::try_from(orders.len()).map_err(|_| Error::Invalid)?;
        if count == 0 || !orders.iter().all(|order| order.work.is_valid()) {
            return Err(Error::Invalid);
        }
        let channel = self.channels.get_mut(at);
        let room = self.config.channel_items.saturating_sub(channel.queued());
        if count > room {
            return Err(Error::NoRoom);
        }
        if count > self.items.room() {
            return Err(Error::Full);
        }
        let idle = channel.first().is_none();
        for order in orders {
            channel.push(&mut self.items, *order, self.clock);
        }
        let last = channel.submitted();
        let tsg = self.tsgs.get_mut(ix);
        tsg.queued = tsg.queued.saturating_add(count);
        if idle {
            self.pending.push(&mut self.channels, at);
        }
        let seen = self.clock;
        self.advance(seen, OPERATION_BUDGET, sink);
        Ok((last, seen))
    }

    /// Gives a TSG another time slice, from its next slice on. A shorter one also cuts the slice
    /// under way, which ends at once if it has lasted that long.
    pub(crate) fn set_timeslice(
        &mut self,
        now: Ns,
        handle: Handle,
        timeslice: Us,
        sink: &mut impl Sink<C>,
    ) -> Result<(), Error> {
        self.advance(now, OPERATION_BUDGET, sink);
        let ix = self.find(handle)?;
        if timeslice == Us(0) {
            return Err(Error::Invalid);
        }
        let clock = self.clock;
        let tsg = self.tsgs.get_mut(ix);
        let old = core::mem::replace(&mut tsg.timeslice, timeslice);
        tsg.slice_changes = tsg.slice_changes.saturating_add(1);
        tsg.slice_changed = clock;
        if tsg.place == Place::On {
            let engine = self.engines.get_mut(EngineIx::new(tsg.engine));
            engine.change_slice(old, timeslice, clock);
            engine.dirty = true;
        }
        self.advance(clock, OPERATION_BUDGET, sink);
        Ok(())
    }

    /// Changes how often a TSG has its turn.
    pub(crate) fn set_interleave(
        &mut self,
        now: Ns,
        handle: Handle,
        interleave: Interleave,
        sink: &mut impl Sink<C>,
    ) -> Result<(), Error> {
        self.advance(now, OPERATION_BUDGET, sink);
        let ix = self.find(handle)?;
        let (place, engine) = {
            let tsg = self.tsgs.get(ix);
            (tsg.place, EngineIx::new(tsg.engine))
        };
        let runlist = &mut self.engines.get_mut(engine).runlist;
        runlist.set_level(&mut self.tsgs, ix, interleave, place);
        Ok(())
    }

    /// Lets a TSG run, or not. A disabled one gives the engine away at the next possible point; it
    /// keeps its work.
    pub(crate) fn set_enabled(
        &mut self,
        now: Ns,
        handle: Handle,
        enabled: bool,
        sink: &mut impl Sink<C>,
    ) -> Result<(), Error> {
        self.advance(now, OPERATION_BUDGET, sink);
        let ix = self.find(handle)?;
        self.tsgs.get_mut(ix).enabled = enabled;
        self.place(ix);
        let clock = self.clock;
        self.advance(clock, OPERATION_BUDGET, sink);
        Ok(())
    }

    /// Takes the engine away from a TSG at the next point where it can be, if another one could
    /// run. Nothing happens if it has not the engine.
    pub(crate) fn preempt(
        &mut self,
        now: Ns,
        handle: Handle,
        sink: &mut impl Sink<C>,
    ) -> Result<(), Error> {
        self.advance(now, OPERATION_BUDGET, sink);
        let ix = self.find(handle)?;
        let tsg = self.tsgs.get(ix);
        if tsg.place == Place::On {
            let at = EngineIx::new(tsg.engine);
            if !self.engines.get(at).runlist.is_empty() {
                self.begin_drain(at, sink);
            }
        }
        let clock = self.clock;
        self.advance(clock, OPERATION_BUDGET, sink);
        Ok(())
    }

    /// Stops all engines, which lose their contexts, or lets them go on.
    pub(crate) fn set_suspended(&mut self, now: Ns, suspended: bool, sink: &mut impl Sink<C>) {
        self.advance(now, OPERATION_BUDGET, sink);
        if suspended == self.suspended {
            return;
        }
        self.suspended = suspended;
        for number in 0..self.nr_engines() {
            let at = EngineIx::new(number);
            if suspended {
                self.halt(at, sink);
            }
            self.engines.get_mut(at).dirty = true;
        }
        let clock = self.clock;
        self.advance(clock, OPERATION_BUDGET, sink);
    }
}
