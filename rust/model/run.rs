// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The passage of time: progress of items, semaphores, and the order of events.

use super::{
    arena::Index,
    channel::{
        ChannelIx,
        Head, //
    },
    engine::{
        EngineIx,
        Phase, //
    },
    error::Error,
    event::{
        Completion,
        Sink,
        Status, //
    },
    gpu::{
        Gpu,
        Store,
        MAX_SHARERS,
        OPERATION_BUDGET,
        POLL_BATCH, //
    },
    measures::{
        Ns,
        Permille,
        Ps, //
    },
    schedule::is_block,
    tsg::{
        Context,
        Handle,
        TsgIx, //
    },
    work::Work, //
};

impl<C: Context, S: Store<C>> Gpu<C, S> {
    /// Lets time go on up to `now`, in at most `budget` events: an event looks at the channels of
    /// one TSG, or of those that share its semaphore words. Returns whether it got there; if not,
    /// model time is behind and the next call goes on from there.
    pub(crate) fn advance(&mut self, now: Ns, budget: u32, sink: &mut impl Sink<C>) -> bool {
        let mut left = budget;
        loop {
            let (at, event) = if self.pending.is_empty() {
                self.check_dirty(sink);
                self.earliest()
            } else {
                (EngineIx::NIL, self.clock)
            };
            if self.pending.is_empty() && event > now {
                self.clock = self.clock.max(now);
                return true;
            }
            if left == 0 {
                return false;
            }
            left = left.saturating_sub(1);
            if let Some(channel) = self.pending.pop(&mut self.channels) {
                self.step(channel, sink);
                continue;
            }
            self.clock = self.clock.max(event);
            match self.engines.get(at).phase() {
                Phase::Idle => {}
                Phase::Saving => self.saved(at, sink),
                Phase::Restoring => self.restored(at, sink),
                Phase::Running => self.engines.get_mut(at).dirty = true,
            }
        }
    }

    /// When [`Gpu::advance`] has something to do, if nobody intervenes.
    pub(crate) fn next_event(&self) -> Option<Ns> {
        let dirty = (0..self.nr_engines()).any(|n| self.engines.get(EngineIx::new(n)).dirty);
        if dirty || !self.pending.is_empty() {
            return Some(self.clock);
        }
        match self.earliest() {
            (_, Ns::NEVER) => None,
            (_, event) => Some(event),
        }
    }

    /// True if a channel waits for a semaphore word, or spins on one: stores from outside are seen
    /// through [`Gpu::poll`] or [`Gpu::doorbell`] only.
    pub(crate) fn watching(&self) -> bool {
        !self.watchers.is_empty()
    }

    /// The same of words whose change is told by a doorbell: [`Gpu::poll_rung`] looks at them, too.
    pub(crate) fn watching_rung(&self) -> bool {
        !self.rung.is_empty()
    }

    /// Looks at the words of up to [`POLL_BATCH`] waiting channels, in turn.
    pub(crate) fn poll(&mut self, now: Ns, budget: u32, sink: &mut impl Sink<C>) -> bool {
        if !self.advance(now, budget, sink) {
            return false;
        }
        for _ in 0..POLL_BATCH.min(self.watchers.len()) {
            if let Some(channel) = self.watchers.pop(&mut self.channels) {
                self.watchers.push(&mut self.channels, channel);
                self.look(channel, sink);
            }
        }
        self.advance(now, budget, sink)
    }

    /// As [`Gpu::poll`], at words whose change is told by a doorbell.
    pub(crate) fn poll_rung(&mut self, now: Ns, budget: u32, sink: &mut impl Sink<C>) -> bool {
        if !self.advance(now, budget, sink) {
            return false;
        }
        for _ in 0..POLL_BATCH.min(self.rung.len()) {
            if let Some(channel) = self.rung.pop(&mut self.channels) {
                self.rung.push(&mut self.channels, channel);
                self.look(channel, sink);
            }
        }
        self.advance(now, budget, sink)
    }

    /// A channel waits for a word, or spins on one.
    fn watch(&mut self, at: ChannelIx) {
        let first = self.channels.get(at).first();
        if first.is_some_and(|first| self.items.get(first).order.work.is_rung()) {
            self.rung.push(&mut self.channels, at);
        } else {
            self.watchers.push(&mut self.channels, at);
        }
    }

    /// A channel does so no more.
    pub(super) fn unwatch(&mut self, at: ChannelIx) {
        self.watchers.remove(&mut self.channels, at);
        self.rung.remove(&mut self.channels, at);
    }

    /// Lets happen all that is due at this instant, after an operation has changed something.
    pub(super) fn settle(&mut self, sink: &mut impl Sink<C>) {
        self.advance(self.clock, OPERATION_BUDGET, sink);
    }

    /// Looks at the words of a TSG and of those that share them.
    pub(crate) fn doorbell(
        &mut self,
        now: Ns,
        handle: Handle,
        sink: &mut impl Sink<C>,
    ) -> Result<(), Error> {
        self.advance(now, OPERATION_BUDGET, sink);
        let ix = self.find(handle)?;
        self.words_changed(ix, sink);
        self.settle(sink);
        Ok(())
    }

    fn check_dirty(&mut self, sink: &mut impl Sink<C>) {
        for number in 0..self.nr_engines() {
            let at = EngineIx::new(number);
            // Starting a TSG needs another look; completions come first.
            while self.engines.get(at).dirty && self.pending.is_empty() {
                self.check(at, sink);
            }
        }
    }

    /// The engine whose event comes first, the lowest number if several do.
    fn earliest(&self) -> (EngineIx, Ns) {
        (0..self.nr_engines())
            .map(|number| {
                let at = EngineIx::new(number);
                (at, self.engines.get(at).event)
            })
            .min_by_key(|(_, event)| *event)
            .unwrap_or((EngineIx::NIL, Ns::NEVER))
    }

    /// Does the first item of a channel if it needs no engine, else makes the channel wait.
    fn step(&mut self, at: ChannelIx, sink: &mut impl Sink<C>) {
        let channel = self.channels.get(at);
        let ix = channel.tsg;
        let Some(first) = channel.first() else {
            return;
        };
        match self.items.get(first).order.work {
            Work::Fence => self.complete(at, Status::Done, sink),
            Work::Wait(expect) => {
                if self.tsgs.get(ix).met(&expect) {
                    self.complete(at, Status::Done, sink);
                } else {
                    self.set_head(at, Head::Blocked);
                }
            }
            Work::Release { word, value } => {
                if let Some(context) = self.tsgs.get(ix).context.as_ref() {
                    context.store(word, value);
                }
                self.complete(at, Status::Done, sink);
                self.words_changed(ix, sink);
            }
            Work::Run { .. } | Work::Hold { .. } => {
                self.set_head(at, Head::Ready);
                self.place(ix);
            }
        }
    }

    /// Changes the state of a channel for its first item.
    pub(super) fn set_head(&mut self, at: ChannelIx, head: Head) {
        let channel = self.channels.get_mut(at);
        let before = core::mem::replace(&mut channel.head, head);
        channel.active = false;
        let ix = channel.tsg;
        self.change(ix);
        let tsg = self.tsgs.get_mut(ix);
        if before == Head::Ready {
            tsg.ready = tsg.ready.saturating_sub(1);
        }
        match head {
            Head::None => self.unwatch(at),
            Head::Blocked => self.watch(at),
            Head::Ready => tsg.ready = tsg.ready.saturating_add(1),
        }
    }

    /// Ends the first item of a channel.
    fn complete(&mut self, at: ChannelIx, status: Status, sink: &mut impl Sink<C>) {
        self.set_head(at, Head::None);
        let channel = self.channels.get_mut(at);
        let Some(place) = channel.pop(&self.items, self.clock) else {
            return;
        };
        let item = self.items.get(place);
        let completion = Completion {
            channel: channel.number,
            seq: item.seq,
            tag: item.order.tag,
            notify: item.order.notify,
            queued: item.queued,
            start: item.started.min(self.clock),
            end: self.clock,
            status,
        };
        let more = channel.first().is_some();
        let ix = channel.tsg;
        self.items.put(place);
        if more {
            self.pending.push(&mut self.channels, at);
        }
        let tsg = self.tsgs.get_mut(ix);
        tsg.completed = tsg.completed.saturating_add(1);
        tsg.queued = tsg.queued.saturating_sub(1);
        let engine = self.engines.get_mut(EngineIx::new(tsg.engine));
        engine.completed = engine.completed.saturating_add(1);
        engine.dirty = true;
        if let Some(context) = tsg.context.as_ref() {
            sink.completed(context, &completion);
        }
    }

    /// A word of a TSG may have changed.
    fn words_changed(&mut self, first: TsgIx, sink: &mut impl Sink<C>) {
        let mut ix = first;
        for _ in 0..MAX_SHARERS {
            let mut at = self.tsgs.get(ix).channels;
            while !at.is_nil() {
                self.look(at, sink);
                at = self.channels.get(at).next;
            }
            ix = self.tsgs.get(ix).sharer;
            if ix == first {
                break;
            }
        }
    }

    /// Ends the first item of a channel if it waits for a word, or spins on one, that is now as
    /// expected.
    fn look(&mut self, at: ChannelIx, sink: &mut impl Sink<C>) {
        let channel = self.channels.get(at);
        let ix = channel.tsg;
        if channel.active {
            let engine = EngineIx::new(self.tsgs.get(ix).engine);
            self.sync(engine, sink);
        }
        let channel = self.channels.get(at);
        let Some(first) = channel.first() else {
            return;
        };
        let met = match self.items.get(first).order.work {
            Work::Wait(expect) => channel.head == Head::Blocked && self.tsgs.get(ix).met(&expect),
            Work::Hold { expect, .. } => channel.active && self.tsgs.get(ix).met(&expect),
            _ => false,
        };
        if met {
            self.complete(at, Status::Done, sink);
        }
    }

    /// Demand of the items that run on an engine.
    fn demand(&self, at: EngineIx) -> Permille {
        let mut total = Permille(0);
        let mut ch = self.tsgs.get(self.engines.get(at).loaded).channels;
        while !ch.is_nil() {
            let channel = self.channels.get(ch);
            if let (true, Some(first)) = (channel.active, channel.first()) {
                total = total.plus(self.items.get(first).order.work.demand());
            }
            ch = channel.next;
        }
        total
    }

    /// Credits the running items of an engine with the time since the last call, and ends those
    /// that are done.
    pub(super) fn sync(&mut self, at: EngineIx, sink: &mut impl Sink<C>) {
        let engine = self.engines.get_mut(at);
        let passed = self.clock.since(engine.synced);
        if engine.phase() != Phase::Running || passed == Ns::ZERO {
            return;
        }
        engine.synced = self.clock;
        let (ix, draining) = (engine.loaded, engine.draining);
        let done = Ps::done_in(passed, self.demand(at));
        if draining {
            self.change(ix);
        }
        let mut ch = self.tsgs.get(ix).channels;
        while !ch.is_nil() {
            let channel = self.channels.get_mut(ch);
            let next = channel.next;
            if let (true, Some(first)) = (channel.active, channel.first()) {
                let item = self.items.get_mut(first);
                match item.order.work {
                    Work::Hold { bound, .. } => {
                        if self.clock >= item.started.plus(bound) {
                            self.complete(ch, Status::Expired, sink);
                        }
                    }
                    work => {
                        item.left = item.left.less(done);
                        if draining && is_block(&work) {
                            item.left = item.left.max(channel.stop);
                            channel.active = item.left > channel.stop;
                        }
                        if item.left == Ps::ZERO {
                            self.complete(ch, Status::Done, sink);
                        }
                    }
                }
            }
            ch = next;
        }
    }

    /// Lets everything run that the running TSG has to run. Returns whether a hold ended at once.
    pub(super) fn activate(&mut self, ix: TsgIx, sink: &mut impl Sink<C>) -> bool {
        let mut ended = false;
        let mut ch = self.tsgs.get(ix).channels;
        while !ch.is_nil() {
            let channel = self.channels.get_mut(ch);
            let next = channel.next;
            if let (Head::Ready, false, Some(first)) =
                (channel.head, channel.active, channel.first())
            {
                channel.active = true;
                let item = self.items.get_mut(first);
                item.started = item.started.min(self.clock);
                let (work, started) = (item.order.work, item.started);
                self.change(ix);
                if let Work::Hold { expect, bound, .. } = work {
                    let expired = self.clock >= started.plus(bound);
                    self.watch(ch);
                    if self.tsgs.get(ix).met(&expect) {
                        self.complete(ch, Status::Done, sink);
                        ended = true;
                    } else if expired {
                        self.complete(ch, Status::Expired, sink);
                        ended = true;
                    }
                }
            }
            ch = next;
        }
        ended
    }

    /// When the first of the running items ends, or stops for another TSG.
    pub(super) fn running_event(&self, at: EngineIx) -> Ns {
        let engine = self.engines.get(at);
        let total = self.demand(at);
        let mut event = Ns::NEVER;
        let mut ch = self.tsgs.get(engine.loaded).channels;
        while !ch.is_nil() {
            let channel = self.channels.get(ch);
            if let (true, Some(first)) = (channel.active, channel.first()) {
                let item = self.items.get(first);
                let end = match item.order.work {
                    Work::Hold { bound, .. } => item.started.plus(bound),
                    work if engine.draining && is_block(&work) => {
                        self.clock.plus(item.left.less(channel.stop).time_at(total))
                    }
                    _ => self.clock.plus(item.left.time_at(total)),
                };
                event = event.min(end);
            }
            ch = channel.next;
        }
        event
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_model_run))]
mod tests {
    use crate::model::{
        error::Error,
        fixture::{
            gpu,
            order,
            tsg,
            Log,
            Words, //
        },
        measures::{
            Ns,
            Permille, //
        },
        work::{
            Condition,
            Expect,
            Work, //
        }, //
    };

    const BUDGET: u32 = 10_000;

    #[test]
    fn words_with_a_doorbell_are_looked_at_apart() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let expect = |word, value, rung| Expect {
            word,
            value,
            condition: Condition::AtLeast,
            rung,
        };
        let hold = Work::Hold {
            expect: expect(1, 1, true),
            bound: Ns(100_000),
            demand: Permille(10),
        };
        let waits = [
            order(1, Work::Wait(expect(0, 1, true))),
            order(2, Work::Wait(expect(0, 2, true))),
            order(3, hold),
            order(4, Work::Wait(expect(0, 3, false))),
        ];
        gpu.submit(Ns(0), a, 0, &waits, &mut log)?;
        assert!(!gpu.watching() && gpu.watching_rung());
        words.set(0, 1);
        assert!(gpu.poll(Ns(100), BUDGET, &mut log));
        assert_eq!(log.end(1), None);
        assert!(gpu.poll_rung(Ns(200), BUDGET, &mut log));
        assert_eq!(log.end(1), Some(Ns(200)));
        words.set(0, 2);
        gpu.doorbell(Ns(300), a, &mut log)?;
        assert_eq!(log.end(2), Some(Ns(300)));
        // It spins.
        assert!(!gpu.watching() && gpu.watching_rung());
        words.set(1, 1);
        assert!(gpu.poll(Ns(400), BUDGET, &mut log));
        assert_eq!(log.end(3), None);
        assert!(gpu.poll_rung(Ns(500), BUDGET, &mut log));
        assert_eq!(log.end(3), Some(Ns(500)));
        assert!(gpu.watching() && !gpu.watching_rung());
        Ok(())
    }
}
