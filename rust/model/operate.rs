// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Operations on existing TSGs: submit, time slice, interleave level, enable, preempt, restart,
//! suspend.

use super::{
    arena::Index,
    engine::{
        EngineIx,
        Phase, //
    },
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
        let lost = channel.deaf && !self.tsgs.get(ix).enabled;
        let idle = channel.first().is_none();
        if idle && lost {
            (channel.deaf, channel.unseen) = (false, true);
        }
        let heard = match idle {
            true => !channel.unseen,
            false => core::mem::take(&mut channel.unseen),
        };
        for order in orders {
            channel.push(&mut self.items, *order, self.clock);
        }
        let last = channel.submitted();
        let tsg = self.tsgs.get_mut(ix);
        tsg.queued = tsg.queued.saturating_add(count);
        self.change(ix);
        if heard {
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
        self.settle(sink);
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
        self.change(ix);
        let mut at = self.tsgs.get(ix).channels;
        while enabled && !at.is_nil() {
            let channel = self.channels.get_mut(at);
            let next = channel.next;
            if core::mem::take(&mut channel.unseen) {
                self.pending.push(&mut self.channels, at);
            }
            at = next;
        }
        self.place(ix);
        self.settle(sink);
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
        self.settle(sink);
        Ok(())
    }

    /// Ends the slice under way on the engine of a TSG, and has its run list start anew from the
    /// highest level. Nothing happens if that TSG has the engine already, unless `force`. A switch
    /// under way is completed first.
    pub(crate) fn restart(
        &mut self,
        now: Ns,
        handle: Handle,
        force: bool,
        sink: &mut impl Sink<C>,
    ) -> Result<(), Error> {
        self.advance(now, OPERATION_BUDGET, sink);
        let ix = self.find(handle)?;
        let tsg = self.tsgs.get(ix);
        let at = EngineIx::new(tsg.engine);
        if !force && matches!(tsg.place, Place::On | Place::Next) {
            return Ok(());
        }
        let engine = self.engines.get_mut(at);
        engine.runlist.restart(&mut self.tsgs);
        engine.cut = !engine.next.is_nil();
        if engine.phase() == Phase::Running && !engine.runlist.is_empty() {
            self.begin_drain(at, sink);
        }
        self.settle(sink);
        Ok(())
    }

    /// Loses the next doorbell of a channel that has nothing to do, if its TSG is disabled then: the
    /// items are not seen before the TSG is enabled or more come.
    #[cfg_attr(
        not(any(test, zernel_kunit, zernel_simrm)),
        expect(dead_code, reason = "of GPUs that belong to NVIDIA's driver")
    )]
    pub(crate) fn lose_doorbell(
        &mut self,
        now: Ns,
        handle: Handle,
        channel: u32,
        sink: &mut impl Sink<C>,
    ) -> Result<(), Error> {
        self.advance(now, OPERATION_BUDGET, sink);
        let at = self.find_channel(self.find(handle)?, channel)?;
        self.channels.get_mut(at).deaf = true;
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
        self.settle(sink);
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_model_operate))]
mod tests {
    use crate::model::{
        error::Error,
        fixture::{
            gpu,
            run,
            tsg,
            Log,
            Words, //
        },
        measures::{
            Ns,
            Us, //
        },
        tsg::{
            Handle,
            Interleave, //
        },
        work::{
            Granularity,
            Order,
            Work, //
        }, //
    };

    const BUDGET: u32 = 10_000;

    #[test]
    fn a_restart_ends_the_slice_and_begins_at_the_top() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        let lc = tsg(&mut gpu, 3, &words, &mut log)?;
        gpu.set_interleave(Ns(0), lc, Interleave::High, &mut log)?;
        for be in [a, b] {
            gpu.set_timeslice(Ns(0), be, Us(1_000), &mut log)?;
            gpu.submit(Ns(0), be, 0, &[run(1, 9_000_000, 1_000)], &mut log)?;
        }
        // In the slice of A the run list is not looked at: B would be next, then LC.
        gpu.submit(Ns(100_000), lc, 0, &[run(2, 10_000, 1_000)], &mut log)?;
        gpu.restart(Ns(200_000), lc, false, &mut log)?;
        assert!(gpu.advance(Ns(300_000), BUDGET, &mut log));
        assert_eq!(log.end(2), Some(Ns(210_000)));
        assert_eq!(gpu.tsg_stats(a)?.preemptions, 1);
        // A lost its slice; B, which has not been served, is due before it.
        assert_eq!(log.started.map(|start| start.tsg), Some(b));
        Ok(())
    }

    #[test]
    fn a_restart_for_one_that_runs_is_skipped_unless_forced() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        for tsg in [a, b] {
            gpu.set_timeslice(Ns(0), tsg, Us(1_000), &mut log)?;
            gpu.submit(Ns(0), tsg, 0, &[run(1, 9_000_000, 1_000)], &mut log)?;
        }
        gpu.restart(Ns(100_000), a, false, &mut log)?;
        assert!(gpu.tsg_stats(a)?.on_engine);
        gpu.restart(Ns(100_000), a, true, &mut log)?;
        assert!(gpu.tsg_stats(b)?.on_engine);
        assert_eq!(gpu.tsg_stats(a)?.times.busy, Ns(100_000));
        // Nobody waits: the one that runs keeps the engine.
        gpu.set_enabled(Ns(150_000), a, false, &mut log)?;
        gpu.restart(Ns(200_000), b, true, &mut log)?;
        assert!(gpu.tsg_stats(b)?.on_engine);
        assert_eq!(gpu.tsg_stats(b)?.preemptions, 0);
        assert_eq!(
            gpu.restart(Ns(200_000), Handle::NONE, true, &mut log),
            Err(Error::NoTsg)
        );
        Ok(())
    }

    #[test]
    fn a_restart_during_a_switch_counts_when_that_is_over() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(40_000))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let lc = tsg(&mut gpu, 2, &words, &mut log)?;
        gpu.set_interleave(Ns(0), lc, Interleave::High, &mut log)?;
        gpu.submit(Ns(0), a, 0, &[run(1, 9_000_000, 1_000)], &mut log)?;
        gpu.submit(Ns(10_000), lc, 0, &[run(2, 5_000, 1_000)], &mut log)?;
        gpu.restart(Ns(20_000), lc, false, &mut log)?;
        assert!(gpu.advance(Ns(200_000), BUDGET, &mut log));
        // A is restored until 40 µs, saved until 80, LC restored until 120.
        assert_eq!(log.end(2), Some(Ns(125_000)));
        // To LC itself: there is nothing to end.
        gpu.submit(Ns(1_000_000), lc, 0, &[run(3, 5_000, 1_000)], &mut log)?;
        gpu.restart(Ns(1_000_000), lc, false, &mut log)?;
        gpu.restart(Ns(1_010_000), lc, false, &mut log)?;
        assert!(gpu.advance(Ns(2_000_000), BUDGET, &mut log));
        assert_eq!(log.end(3), Some(Ns(1_085_000)));
        Ok(())
    }

    #[test]
    fn a_restart_waits_for_blocks_that_have_begun() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        let work = Work::Run {
            alone: Ns(100_000),
            demand: crate::model::measures::Permille(1_000),
            granularity: Granularity::Block(Ns(7_000)),
        };
        let blocks = Order {
            work,
            notify: false,
            tag: 1,
        };
        gpu.submit(Ns(0), a, 0, &[blocks], &mut log)?;
        gpu.submit(Ns(0), b, 0, &[run(2, 1_000, 1_000)], &mut log)?;
        gpu.restart(Ns(10_000), b, false, &mut log)?;
        assert!(gpu.advance(Ns(20_000), BUDGET, &mut log));
        assert_eq!(log.end(2), Some(Ns(15_000)));
        Ok(())
    }
}
