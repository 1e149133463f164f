// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A GPU: its engines, TSGs and channels, and the operations on them.
//!
//! Time goes on only through [`Gpu::advance`], which every operation does first. Between two
//! events nothing is stored, so that the result does not depend on how often anybody looks.

use super::{
    arena::{
        Arena,
        Index,
        Pool, //
    },
    channel::{
        Channel,
        ChannelIx,
        Head,
        PENDING,
        RUNG,
        WATCHERS, //
    },
    engine::{
        Engine,
        EngineIx,
        Phase, //
    },
    error::Error,
    event::Sink,
    list::List,
    measures::Ns,
    tsg::{
        Context,
        Handle,
        Place,
        Tsg,
        TsgIx,
        STIRRED, //
    },
    work::Item, //
};

#[cfg(any(test, zernel_simrm))]
use super::tsg::CHANGED;

/// Most channels of a TSG. Bounds the work of everything that looks at all channels of a TSG.
pub(crate) const MAX_CHANNELS: u32 = 16;
/// Most TSGs that share semaphore words. Bounds the work of a release.
pub(crate) const MAX_SHARERS: u32 = 8;
/// Most waiting channels that one [`Gpu::poll`] looks at.
pub(crate) const POLL_BATCH: u32 = 64;
/// Most events that an operation handles itself; [`Gpu::advance`] does the rest.
pub(super) const OPERATION_BUDGET: u32 = 64;

/// Where the parts of a GPU are stored.
pub(crate) trait Store<C> {
    /// Engines.
    type Engines: Pool<Engine>;
    /// TSGs; those above [`Handle::TSGS`] are not used.
    type Tsgs: Pool<Tsg<C>>;
    /// Channels of all TSGs.
    type Channels: Pool<Channel>;
    /// Items of all channels.
    type Items: Pool<Item>;
}

/// The constants of a GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Number of the GPU, below [`Handle::GPUS`].
    pub(crate) number: u32,
    /// Time of a save, and of a restore, of the compute engine (number 0).
    pub(crate) compute_switch: Ns,
    /// The same for the copy engines (all others).
    pub(crate) copy_switch: Ns,
    /// Most items that wait in a channel.
    pub(crate) channel_items: u32,
}

/// A TSG to be made.
pub(crate) struct NewTsg<C> {
    /// Above all those used before.
    pub(crate) serial: u64,
    /// Its owner's data.
    pub(crate) context: C,
    /// Its engine.
    pub(crate) engine: u32,
    /// Its channels: 1 to [`MAX_CHANNELS`].
    pub(crate) nr_channels: u32,
    /// Another TSG whose semaphore words it uses.
    pub(crate) sharer: Option<Handle>,
}

/// A GPU.
pub(crate) struct Gpu<C: Context, S: Store<C>> {
    pub(super) config: Config,
    /// Model time: everything before it has happened.
    pub(super) clock: Ns,
    pub(super) created: Ns,
    pub(super) suspended: bool,
    /// TSGs on the compute engine that have got something to run, or have run out of it.
    pub(super) stirred: List<STIRRED, TsgIx>,
    /// TSGs whose channels' registers may show something else.
    #[cfg(any(test, zernel_simrm))]
    pub(super) changed: List<CHANGED, TsgIx>,
    /// A TSG has ended.
    #[cfg(any(test, zernel_simrm))]
    ended: bool,
    pub(super) engines: Arena<Engine, S::Engines>,
    pub(super) tsgs: Arena<Tsg<C>, S::Tsgs>,
    pub(super) channels: Arena<Channel, S::Channels>,
    pub(super) items: Arena<Item, S::Items>,
    pub(super) watchers: List<WATCHERS, ChannelIx>,
    pub(super) rung: List<RUNG, ChannelIx>,
    pub(super) pending: List<PENDING, ChannelIx>,
}

impl<C: Context, S: Store<C>> Gpu<C, S> {
    /// A GPU with as many engines as there is room for, at `now`.
    pub(crate) fn new(
        config: Config,
        engines: S::Engines,
        tsgs: S::Tsgs,
        channels: S::Channels,
        items: S::Items,
        now: Ns,
    ) -> Self {
        let mut engines = Arena::new(engines);
        let mut cost = config.compute_switch;
        while let Some(ix) = engines.take() {
            *engines.get_mut(ix) = Engine::new(cost, now);
            cost = config.copy_switch;
        }
        Self {
            config,
            clock: now,
            created: now,
            suspended: false,
            stirred: List::new(),
            #[cfg(any(test, zernel_simrm))]
            changed: List::new(),
            #[cfg(any(test, zernel_simrm))]
            ended: false,
            engines,
            tsgs: Arena::new(tsgs),
            channels: Arena::new(channels),
            items: Arena::new(items),
            watchers: List::new(),
            rung: List::new(),
            pending: List::new(),
        }
    }

    /// The places for channels, to let them grow.
    pub(crate) fn channel_pool(&mut self) -> &mut S::Channels {
        self.channels.pool_mut()
    }

    /// The places for items, to let them grow.
    pub(crate) fn item_pool(&mut self) -> &mut S::Items {
        self.items.pool_mut()
    }

    /// Channels that can still be made.
    pub(crate) fn channel_room(&self) -> u32 {
        self.channels.room()
    }

    /// Items that can still be queued.
    pub(crate) fn item_room(&self) -> u32 {
        self.items.room()
    }

    /// Number of engines.
    pub(crate) fn nr_engines(&self) -> u32 {
        self.engines.used()
    }

    /// Number of TSGs.
    pub(crate) fn nr_tsgs(&self) -> u32 {
        self.tsgs.used()
    }

    /// The next TSG on the compute engine that has got something to run, or has run out of it, since
    /// it was taken last.
    pub(crate) fn take_stirred(&mut self) -> Option<Handle> {
        let ix = self.stirred.pop(&mut self.tsgs)?;
        Some(self.tsgs.get(ix).handle)
    }

    /// The next TSG whose [`channel_words`](Self::channel_words) may be others than when it was taken
    /// last.
    #[cfg(any(test, zernel_simrm))]
    pub(crate) fn take_changed(&mut self) -> Option<Handle> {
        let ix = self.changed.pop(&mut self.tsgs)?;
        Some(self.tsgs.get(ix).handle)
    }

    /// True if a TSG has ended since the last call.
    #[cfg(any(test, zernel_simrm))]
    pub(crate) fn take_ended(&mut self) -> bool {
        core::mem::take(&mut self.ended)
    }

    /// True if the GPU is suspended.
    pub(crate) fn suspended(&self) -> bool {
        self.suspended
    }

    /// Model time.
    pub(crate) fn clock(&self) -> Ns {
        self.clock
    }

    /// The TSG that `handle` names.
    pub(super) fn find(&self, handle: Handle) -> Result<TsgIx, Error> {
        let ix = handle.ix();
        if handle == Handle::NONE || ix.raw() >= self.tsgs.size() {
            return Err(Error::NoTsg);
        }
        let tsg = self.tsgs.get(ix);
        if tsg.handle == handle && tsg.context.is_some() {
            Ok(ix)
        } else {
            Err(Error::NoTsg)
        }
    }

    /// The TSG at a place.
    #[cfg_attr(
        all(zernel_simrm, not(zernel_kunit)),
        expect(dead_code, reason = "for GPUs that belong to nobody else")
    )]
    pub(crate) fn handle_at(&self, place: u32) -> Option<Handle> {
        if place >= self.tsgs.size() {
            return None;
        }
        let tsg = self.tsgs.get(TsgIx::new(place));
        tsg.context.is_some().then_some(tsg.handle)
    }

    /// The channel of a TSG with number `number`.
    pub(super) fn find_channel(&self, tsg: TsgIx, number: u32) -> Result<ChannelIx, Error> {
        let mut at = self.tsgs.get(tsg).channels;
        while !at.is_nil() {
            let channel = self.channels.get(at);
            if channel.number == number {
                return Ok(at);
            }
            at = channel.next;
        }
        Err(Error::NoChannel)
    }

    /// The engine with number `number`.
    pub(super) fn find_engine(&self, number: u32) -> Result<EngineIx, Error> {
        (number < self.nr_engines())
            .then(|| EngineIx::new(number))
            .ok_or(Error::NoEngine)
    }

    /// The data of the owner of a TSG.
    pub(crate) fn context(&self, handle: Handle) -> Result<&C, Error> {
        let ix = self.find(handle)?;
        self.tsgs.get(ix).context.as_ref().ok_or(Error::NoTsg)
    }

    /// The engine of a number range with the fewest TSGs: the compute engine, or a copy engine.
    pub(crate) fn least_used(&self, copy: bool) -> Result<u32, Error> {
        let range = if copy { 1..self.nr_engines() } else { 0..1 };
        range
            .min_by_key(|number| self.engines.get(EngineIx::new(*number)).nr_tsgs)
            .ok_or(Error::NoEngine)
    }

    /// Makes a TSG. Gives the owner's data back on error.
    pub(crate) fn create(
        &mut self,
        now: Ns,
        new: NewTsg<C>,
        sink: &mut impl Sink<C>,
    ) -> Result<Handle, (Error, C)> {
        self.advance(now, OPERATION_BUDGET, sink);
        let (engine_ix, sharer) = match self.creation(&new) {
            Ok(found) => found,
            Err(error) => return Err((error, new.context)),
        };
        let Some(ix) = self.tsgs.take() else {
            return Err((Error::Full, new.context));
        };
        let handle = Handle::new(new.serial, self.config.number, ix);
        let mut tsg = Tsg::new(handle, Some(new.context), new.engine, self.clock);
        for number in (0..new.nr_channels).rev() {
            // Cannot fail: the room was looked at.
            if let Some(channel_ix) = self.channels.take() {
                let mut channel = Channel::new(ix, number);
                channel.next = tsg.channels;
                tsg.channels = channel_ix;
                *self.channels.get_mut(channel_ix) = channel;
            }
        }
        tsg.sharer = match sharer {
            Some(other) => core::mem::replace(&mut self.tsgs.get_mut(other).sharer, ix),
            None => ix,
        };
        *self.tsgs.get_mut(ix) = tsg;
        self.change(ix);
        let engine = self.engines.get_mut(engine_ix);
        engine.nr_tsgs = engine.nr_tsgs.saturating_add(1);
        Ok(handle)
    }

    fn creation(&self, new: &NewTsg<C>) -> Result<(EngineIx, Option<TsgIx>), Error> {
        if new.nr_channels == 0 || new.nr_channels > MAX_CHANNELS {
            return Err(Error::Invalid);
        }
        let engine = self.find_engine(new.engine)?;
        let sharer = match new.sharer {
            Some(handle) => Some(self.find(handle)?),
            None => None,
        };
        if let Some(first) = sharer {
            let mut count = 1u32;
            let mut at = self.tsgs.get(first).sharer;
            while at != first && count < MAX_SHARERS {
                count = count.saturating_add(1);
                at = self.tsgs.get(at).sharer;
            }
            if count >= MAX_SHARERS {
                return Err(Error::TooManySharers);
            }
        }
        if self.channels.room() < new.nr_channels || self.tsgs.used() >= Handle::TSGS {
            return Err(Error::Full);
        }
        Ok((engine, sharer))
    }

    /// Ends a TSG. Returns its owner's data and the number of items dropped.
    pub(crate) fn destroy(
        &mut self,
        now: Ns,
        handle: Handle,
        sink: &mut impl Sink<C>,
    ) -> Result<(Option<C>, u32), Error> {
        self.advance(now, OPERATION_BUDGET, sink);
        let ix = self.find(handle)?;
        self.evict(ix, sink);
        let mut dropped = 0u32;
        let mut at = self.tsgs.get(ix).channels;
        while !at.is_nil() {
            self.set_head(at, Head::None);
            self.pending.remove(&mut self.channels, at);
            let channel = self.channels.get_mut(at);
            let next = channel.next;
            dropped = dropped.saturating_add(channel.clear(&mut self.items));
            self.channels.put(at);
            at = next;
        }
        // Close the ring of sharers behind it.
        let mut before = ix;
        for _ in 0..MAX_SHARERS {
            let next = self.tsgs.get(before).sharer;
            if next == ix {
                break;
            }
            before = next;
        }
        let after = self.tsgs.get(ix).sharer;
        self.tsgs.get_mut(before).sharer = after;
        let engine_ix = EngineIx::new(self.tsgs.get(ix).engine);
        let engine = self.engines.get_mut(engine_ix);
        engine.nr_tsgs = engine.nr_tsgs.saturating_sub(1);
        engine.dirty = true;
        let tsg = self.tsgs.get_mut(ix);
        tsg.handle = Handle::NONE;
        let context = tsg.context.take();
        self.stirred.remove(&mut self.tsgs, ix);
        #[cfg(any(test, zernel_simrm))]
        {
            self.changed.remove(&mut self.tsgs, ix);
            self.ended = true;
        }
        self.tsgs.put(ix);
        self.settle(sink);
        Ok((context, dropped))
    }

    /// True if a TSG has the engine, and it runs.
    pub(super) fn runs(&self, ix: TsgIx) -> bool {
        let tsg = self.tsgs.get(ix);
        tsg.place == Place::On
            && self.engines.get(EngineIx::new(tsg.engine)).phase() == Phase::Running
    }
}
