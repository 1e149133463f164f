// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The possession of engines: slices, switches and the place of each TSG.

use super::{
    account::TsgState,
    arena::Index,
    channel::Head,
    engine::{
        EngineIx,
        Phase, //
    },
    event::{
        Record,
        Sink,
        Start, //
    },
    gpu::{
        Gpu,
        Store, //
    },
    measures::{
        Ns,
        Us, //
    }, //
    tsg::{
        Context,
        Handle,
        Place,
        TsgIx, //
    },
    work::{
        Granularity,
        Work, //
    }, //
};

/// Number of the compute engine; nobody takes turns on the others, which copy.
const COMPUTE: u32 = 0;

impl<C: Context, S: Store<C>> Gpu<C, S> {
    /// Puts a TSG where it belongs after its eligibility may have changed.
    pub(super) fn place(&mut self, ix: TsgIx) {
        let tsg = self.tsgs.get_mut(ix);
        let demand = tsg.ready > 0;
        if tsg.place != Place::On && tsg.demand != demand {
            tsg.demand = demand;
            tsg.demand_since = self.clock;
            tsg.woken = demand;
            if tsg.engine == COMPUTE {
                self.stirred.push(&mut self.tsgs, ix);
            }
        }
        let tsg = self.tsgs.get_mut(ix);
        let engine = self.engines.get_mut(EngineIx::new(tsg.engine));
        engine.dirty = true;
        match (tsg.place, tsg.eligible()) {
            (Place::Out, true) => {
                tsg.place = Place::Queued;
                engine.runlist.push(&mut self.tsgs, ix);
            }
            (Place::Queued, false) => {
                engine.runlist.remove(&mut self.tsgs, ix);
                self.tsgs.get_mut(ix).place = Place::Out;
            }
            _ => {}
        }
        self.account(ix);
    }

    /// The registers of a TSG's channels may show something else from now on.
    #[inline]
    pub(super) fn change(&mut self, _ix: TsgIx) {
        #[cfg(any(test, zernel_simrm))]
        self.changed.push(&mut self.tsgs, _ix);
    }

    /// Puts a TSG there.
    fn put(&mut self, ix: TsgIx, place: Place) {
        self.tsgs.get_mut(ix).place = place;
        self.change(ix);
    }

    /// Brings the account of a TSG up to date with where it stands.
    fn account(&mut self, ix: TsgIx) {
        if ix.is_nil() {
            return;
        }
        let tsg = self.tsgs.get_mut(ix);
        let engine = self.engines.get(EngineIx::new(tsg.engine));
        let saved = engine.phase() == Phase::Saving && engine.loaded == ix;
        let restored = engine.phase() == Phase::Restoring && engine.next == ix;
        let state = if saved || restored {
            TsgState::Switch
        } else {
            match tsg.place {
                Place::On => TsgState::Busy,
                Place::Out => TsgState::Inactive,
                Place::Queued | Place::Next => match tsg.eligible() {
                    true => TsgState::Wait,
                    false => TsgState::Inactive,
                },
            }
        };
        tsg.account.enter(state, self.clock);
    }

    /// The engine does something else from now on.
    fn enter(&mut self, at: EngineIx, phase: Phase, sink: &mut impl Sink<C>) {
        let engine = self.engines.get_mut(at);
        let ix = match engine.phase() {
            Phase::Idle => TsgIx::NIL,
            Phase::Saving | Phase::Running => engine.loaded,
            Phase::Restoring => engine.next,
        };
        let (activity, start) = (engine.phase().activity(), engine.since());
        engine.enter(phase, self.clock);
        if self.clock == start {
            return;
        }
        let (tsg, context) = match ix.is_nil() {
            true => (Handle::NONE, None),
            false => {
                let tsg = self.tsgs.get(ix);
                (tsg.handle, tsg.context.as_ref())
            }
        };
        let record = Record {
            engine: at.raw(),
            activity,
            tsg,
            start,
            end: self.clock,
        };
        sink.recorded(context, &record);
    }

    /// An idle engine takes the next TSG, if there is one.
    pub(super) fn dispatch(&mut self, at: EngineIx, sink: &mut impl Sink<C>) {
        let engine = self.engines.get_mut(at);
        engine.event = Ns::NEVER;
        if self.suspended {
            return;
        }
        let Some(ix) = engine.runlist.pick(&mut self.tsgs) else {
            // The switch that was under way leads to nobody.
            engine.end_switch(self.clock);
            return;
        };
        engine.next = ix;
        engine.cut = false;
        let loaded = engine.loaded;
        self.put(ix, Place::Next);
        if loaded == ix {
            self.run(at, sink);
        } else if loaded.is_nil() {
            self.restore(at, sink);
        } else {
            self.enter(at, Phase::Saving, sink);
            let engine = self.engines.get_mut(at);
            engine.event = self.clock.plus(engine.switch_cost);
            self.account(loaded);
            self.account(ix);
        }
    }

    /// The loaded context has been saved.
    pub(super) fn saved(&mut self, at: EngineIx, sink: &mut impl Sink<C>) {
        self.enter(at, Phase::Idle, sink);
        let engine = self.engines.get_mut(at);
        let from = core::mem::replace(&mut engine.loaded, TsgIx::NIL);
        let ix = engine.next;
        self.account(from);
        if !self.drop_next(at, ix) {
            self.restore(at, sink);
        } else {
            self.dispatch(at, sink);
        }
    }

    /// Begins to restore the context of the next TSG.
    fn restore(&mut self, at: EngineIx, sink: &mut impl Sink<C>) {
        self.enter(at, Phase::Restoring, sink);
        let engine = self.engines.get_mut(at);
        engine.event = self.clock.plus(engine.switch_cost);
        engine.switches = engine.switches.saturating_add(1);
        let ix = engine.next;
        let tsg = self.tsgs.get_mut(ix);
        tsg.switches = tsg.switches.saturating_add(1);
        self.account(ix);
    }

    /// The context of the next TSG has been restored.
    pub(super) fn restored(&mut self, at: EngineIx, sink: &mut impl Sink<C>) {
        self.enter(at, Phase::Idle, sink);
        let engine = self.engines.get_mut(at);
        let ix = engine.next;
        engine.loaded = ix;
        if !self.drop_next(at, ix) {
            self.run(at, sink);
        } else {
            self.dispatch(at, sink);
        }
    }

    /// Forgets the next TSG if it is gone or cannot run any more. Returns whether it did.
    fn drop_next(&mut self, at: EngineIx, ix: TsgIx) -> bool {
        if !ix.is_nil() {
            if self.tsgs.get(ix).eligible() {
                return false;
            }
            self.put(ix, Place::Out);
            self.engines.get_mut(at).next = TsgIx::NIL;
            self.account(ix);
        }
        true
    }

    /// The next TSG, whose context is loaded, gets the engine and a slice.
    fn run(&mut self, at: EngineIx, sink: &mut impl Sink<C>) {
        self.enter(at, Phase::Running, sink);
        let ix = core::mem::replace(&mut self.engines.get_mut(at).next, TsgIx::NIL);
        self.put(ix, Place::On);
        let engine = self.engines.get_mut(at);
        let tsg = self.tsgs.get_mut(ix);
        engine.loaded = ix;
        engine.synced = self.clock;
        engine.draining = false;
        engine.dirty = true;
        let slice = match core::mem::take(&mut engine.cut) {
            true => Us(0),
            false => tsg.timeslice,
        };
        engine.start_slice(slice, self.clock);
        let start = Start {
            engine: at.raw(),
            tsg: tsg.handle,
            at: self.clock,
            woken: core::mem::take(&mut tsg.woken).then_some(tsg.demand_since),
            switch: engine.end_switch(self.clock),
        };
        self.account(ix);
        sink.started(&start);
    }

    /// The running TSG leaves at the next point where it can: now, or when the blocks that have
    /// begun are finished.
    pub(super) fn begin_drain(&mut self, at: EngineIx, sink: &mut impl Sink<C>) {
        self.sync(at, sink);
        let engine = self.engines.get_mut(at);
        if engine.phase() != Phase::Running || engine.draining {
            return;
        }
        engine.draining = true;
        engine.dirty = true;
        let ix = engine.loaded;
        self.change(ix);
        let mut ch = self.tsgs.get(ix).channels;
        while !ch.is_nil() {
            let channel = self.channels.get_mut(ch);
            if let (true, Some(first)) = (channel.active, channel.first()) {
                let item = self.items.get(first);
                if is_block(&item.order.work) {
                    channel.stop = item.left_at_boundary();
                    channel.active = channel.stop < item.left;
                }
            }
            ch = channel.next;
        }
    }

    /// True if a block that has begun is still to be finished.
    fn in_block(&self, at: EngineIx) -> bool {
        let mut ch = self.tsgs.get(self.engines.get(at).loaded).channels;
        while !ch.is_nil() {
            let channel = self.channels.get(ch);
            if let (true, Some(first)) = (channel.active, channel.first()) {
                if is_block(&self.items.get(first).order.work) {
                    return true;
                }
            }
            ch = channel.next;
        }
        false
    }

    /// The running TSG loses the engine, which stays idle.
    fn vacate(&mut self, at: EngineIx, sink: &mut impl Sink<C>) -> TsgIx {
        let ix = self.engines.get(at).loaded;
        let mut ch = self.tsgs.get(ix).channels;
        while !ch.is_nil() {
            let channel = self.channels.get_mut(ch);
            channel.active = false;
            let (next, head) = (channel.next, channel.head);
            if head == Head::Ready {
                self.unwatch(ch);
            }
            ch = next;
        }
        self.put(ix, Place::Out);
        let tsg = self.tsgs.get_mut(ix);
        let engine = self.engines.get_mut(at);
        engine.draining = false;
        // Counts the slices that ran on by themselves.
        engine.slice_end(tsg.timeslice, self.clock);
        self.enter(at, Phase::Idle, sink);
        self.place(ix);
        ix
    }

    /// The running TSG loses the engine to the next one.
    fn leave(&mut self, at: EngineIx, sink: &mut impl Sink<C>) {
        let ix = self.vacate(at, sink);
        self.dispatch(at, sink);
        let tsg = self.tsgs.get_mut(ix);
        if tsg.place == Place::Queued {
            tsg.preemptions = tsg.preemptions.saturating_add(1);
            tsg.preempted_at = self.clock;
        }
    }

    /// Takes a TSG off its engine and out of the runlist, for good, in any state.
    pub(super) fn evict(&mut self, ix: TsgIx, sink: &mut impl Sink<C>) {
        let at = EngineIx::new(self.tsgs.get(ix).engine);
        if self.runs(ix) {
            self.sync(at, sink);
            self.vacate(at, sink);
        }
        if self.engines.get(at).loaded == ix {
            // A save under way is not needed any more: it ends now.
            if self.engines.get(at).phase() == Phase::Saving {
                self.enter(at, Phase::Idle, sink);
                let engine = self.engines.get_mut(at);
                engine.loaded = TsgIx::NIL;
                let next = engine.next;
                if self.drop_next(at, next) {
                    engine_idle(self.engines.get_mut(at));
                } else {
                    self.restore(at, sink);
                }
            }
            self.engines.get_mut(at).loaded = TsgIx::NIL;
        }
        if self.engines.get(at).next == ix {
            if self.engines.get(at).phase() == Phase::Restoring {
                self.enter(at, Phase::Idle, sink);
                engine_idle(self.engines.get_mut(at));
            }
            self.engines.get_mut(at).next = TsgIx::NIL;
        }
        self.tsgs.get_mut(ix).enabled = false;
        self.place(ix);
    }

    /// Stops an engine: its work ends now and its context is lost.
    pub(super) fn halt(&mut self, at: EngineIx, sink: &mut impl Sink<C>) {
        match self.engines.get(at).phase() {
            Phase::Idle => {}
            Phase::Running => {
                self.sync(at, sink);
                self.vacate(at, sink);
            }
            Phase::Saving | Phase::Restoring => self.enter(at, Phase::Idle, sink),
        }
        let engine = self.engines.get_mut(at);
        engine_idle(engine);
        engine.end_switch(self.clock);
        let from = core::mem::replace(&mut engine.loaded, TsgIx::NIL);
        let next = core::mem::replace(&mut engine.next, TsgIx::NIL);
        self.account(from);
        if !next.is_nil() {
            self.put(next, Place::Out);
            self.place(next);
        }
    }

    /// Looks at an engine after something has changed, before time goes on.
    pub(super) fn check(&mut self, at: EngineIx, sink: &mut impl Sink<C>) {
        let engine = self.engines.get_mut(at);
        engine.dirty = false;
        match engine.phase() {
            Phase::Idle => self.dispatch(at, sink),
            Phase::Saving | Phase::Restoring => {}
            Phase::Running => self.check_running(at, sink),
        }
    }

    fn check_running(&mut self, at: EngineIx, sink: &mut impl Sink<C>) {
        self.sync(at, sink);
        let ix = self.engines.get(at).loaded;
        if !self.pending.is_empty() {
            // Items have completed: their successors decide.
            self.engines.get_mut(at).dirty = true;
            return;
        }
        let tsg = self.tsgs.get(ix);
        let (eligible, timeslice) = (tsg.eligible(), tsg.timeslice);
        if !eligible {
            self.begin_drain(at, sink);
        }
        let engine = self.engines.get_mut(at);
        let mut slice_end = Ns::NEVER;
        if !engine.draining {
            if !engine.runlist.is_empty() {
                slice_end = engine.slice_end(timeslice, self.clock);
                if slice_end <= self.clock {
                    self.begin_drain(at, sink);
                }
            }
            if !self.engines.get(at).draining && self.activate(ix, sink) {
                self.engines.get_mut(at).dirty = true;
                return;
            }
        }
        if self.engines.get(at).draining {
            slice_end = Ns::NEVER;
            if !self.in_block(at) {
                self.engines.get_mut(at).dirty = false;
                self.leave(at, sink);
                return;
            }
        }
        let event = self.running_event(at).min(slice_end);
        let engine = self.engines.get_mut(at);
        engine.dirty = false;
        engine.event = event;
    }
}

/// An engine that waits for [`Gpu::check`].
fn engine_idle(engine: &mut super::engine::Engine) {
    engine.event = Ns::NEVER;
    engine.dirty = true;
}

/// True if work can only be interrupted between blocks.
pub(super) fn is_block(work: &Work) -> bool {
    matches!(
        work,
        Work::Run {
            granularity: Granularity::Block(_),
            ..
        }
    )
}
