// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Figures of a GPU, exact at the model time of the moment.

use super::{
    account::{
        EngineTimes,
        TsgTimes, //
    },
    arena::Index,
    engine::EngineIx,
    error::Error,
    gpu::{
        Gpu,
        Store, //
    },
    measures::{
        Ns,
        Us, //
    }, //
    preset::DEFAULT_TIMESLICE,
    tsg::{
        Context,
        Handle,
        Interleave, //
    },
};

/// Figures of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EngineStats {
    /// Model time.
    pub(crate) now: Ns,
    /// When the engine was made.
    pub(crate) created: Ns,
    /// Times.
    pub(crate) times: EngineTimes,
    /// Contexts restored.
    pub(crate) switches: u64,
    /// Slices that ended with nobody waiting.
    pub(crate) rearms: u64,
    /// Items completed.
    pub(crate) completed: u64,
    /// TSGs.
    pub(crate) nr_tsgs: u32,
    /// TSGs that could run, with the one that does.
    pub(crate) nr_runnable: u32,
}

/// Figures of a TSG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TsgStats {
    /// Model time.
    pub(crate) now: Ns,
    /// When the TSG was made.
    pub(crate) created: Ns,
    /// Times.
    pub(crate) times: TsgTimes,
    /// Times that it was restored.
    pub(crate) switches: u64,
    /// Times that it lost the engine while it had something to run.
    pub(crate) preemptions: u64,
    /// When it did so last; zero if never.
    pub(crate) preempted_at: Ns,
    /// Items completed.
    pub(crate) completed: u64,
    /// Items that have not completed.
    pub(crate) queued: u32,
    /// True if it has something to run, enabled or not.
    pub(crate) demand: bool,
    /// Since when, where it was looked at outside its turns.
    pub(crate) demand_since: Ns,
    /// Time slice changes.
    pub(crate) slice_changes: u64,
    /// When the last one was; zero if there was none.
    pub(crate) slice_changed: Ns,
    /// Time slice.
    pub(crate) timeslice: Us,
    /// Interleave level.
    pub(crate) interleave: Interleave,
    /// True if it may run.
    pub(crate) enabled: bool,
    /// True if it has the engine.
    pub(crate) on_engine: bool,
    /// Its engine.
    pub(crate) engine: u32,
}

/// Progress of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelStats {
    /// Highest sequence number submitted.
    pub(crate) submitted: u64,
    /// Highest sequence number completed.
    pub(crate) completed: u64,
    /// When that one was.
    pub(crate) completed_at: Ns,
}

impl<C: Context, S: Store<C>> Gpu<C, S> {
    /// Figures of an engine.
    pub(crate) fn engine_stats(&self, number: u32) -> Result<EngineStats, Error> {
        let at: EngineIx = self.find_engine(number)?;
        let engine = self.engines.get(at);
        let running = !engine.loaded.is_nil() && self.runs(engine.loaded);
        let timeslice = match engine.loaded.is_nil() {
            true => DEFAULT_TIMESLICE,
            false => self.tsgs.get(engine.loaded).timeslice,
        };
        let under_way = u32::from(running).saturating_add(u32::from(!engine.next.is_nil()));
        Ok(EngineStats {
            now: self.clock,
            created: self.created,
            times: engine.account.at(self.clock),
            switches: engine.switches,
            rearms: engine.rearms(timeslice, self.clock),
            completed: engine.completed,
            nr_tsgs: engine.nr_tsgs,
            nr_runnable: engine.runlist.len().saturating_add(under_way),
        })
    }

    /// Figures of a TSG.
    pub(crate) fn tsg_stats(&self, handle: Handle) -> Result<TsgStats, Error> {
        let ix = self.find(handle)?;
        let tsg = self.tsgs.get(ix);
        Ok(TsgStats {
            now: self.clock,
            created: tsg.created,
            times: tsg.account.at(self.clock),
            switches: tsg.switches,
            preemptions: tsg.preemptions,
            preempted_at: tsg.preempted_at,
            completed: tsg.completed,
            queued: tsg.queued,
            demand: tsg.demand,
            demand_since: tsg.demand_since,
            slice_changes: tsg.slice_changes,
            slice_changed: tsg.slice_changed,
            timeslice: tsg.timeslice,
            interleave: tsg.interleave,
            enabled: tsg.enabled,
            on_engine: self.runs(ix),
            engine: tsg.engine,
        })
    }

    /// Progress of a channel.
    pub(crate) fn channel_stats(
        &self,
        handle: Handle,
        channel: u32,
    ) -> Result<ChannelStats, Error> {
        let ix = self.find(handle)?;
        let channel = self.channels.get(self.find_channel(ix, channel)?);
        Ok(ChannelStats {
            submitted: channel.submitted(),
            completed: channel.completed,
            completed_at: channel.completed_at,
        })
    }
}
