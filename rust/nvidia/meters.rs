// SPDX-License-Identifier: GPL-2.0
//! The work of the TSGs that `zernel.ko` was told of, and of the engines that they are on.

use crate::{
    accounts::Account,
    counters,
    glue::{
        debugfs::Text,
        errno,
        nvidia::load::{
            Sample,
            MOST, //
        },
        provider_side::TsgLoad,
    },
    occupancy::{
        registers::{
            self,
            State, //
        },
        Engine,
        Look,
        Meter, //
    },
    units::Ns,
};
use kernel::{
    fmt::Write as _,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode,
        RBTreeNodeReservation, //
    },
};

/// A TSG.
pub(crate) struct Tsg {
    gpu: u32,
    /// Address of the registers of its run list.
    runlist: Option<u32>,
    meter: Meter,
    /// Its time by looks and by records.
    account: Account,
    /// The channel to look at next.
    first: u32,
}

/// An engine that computes.
struct On {
    gpu: u32,
    runlist: u32,
    engine: Engine,
}

/// A GPU.
struct Gpu {
    id: u32,
    /// The last try of a TSG on it.
    tried: Ns,
    /// Since when no look has told anything.
    unreadable: Option<Ns>,
    /// An engine that computes was seen idle since the last interval of records, or perhaps.
    idle: bool,
}

/// The time between two reads of records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    /// All its records were read, and fit each other.
    pub(crate) is_whole: bool,
    /// The TSG that has the engine at its end, and for how long it had it as it began.
    pub(crate) running: Option<(u64, Ns)>,
}

/// From one try on a GPU to the next: each takes two calls of the driver.
const TRIES: Ns = Ns(20_000_000);

/// No register of a GPU can be read if none could for so long: a reset is shorter.
const UNREADABLE: Ns = Ns(500_000_000);

/// The work of TSGs and engines.
pub(crate) struct Meters {
    tsgs: RBTree<u64, Tsg>,
    engines: KVec<On>,
    gpus: KVec<Gpu>,
}

/// A TSG that is to be added.
pub(crate) struct Arrival {
    id: u64,
    tsg: Tsg,
    compute: bool,
    node: RBTreeNodeReservation<u64, Tsg>,
}

impl Arrival {
    /// A TSG; `runlist`: the address of the registers of its run list.
    pub(crate) fn new(id: u64, gpu: u32, runlist: Option<u32>, compute: bool) -> Result<Self> {
        let tsg = Tsg {
            gpu,
            runlist,
            meter: Meter::default(),
            account: Account::default(),
            first: 0,
        };
        Ok(Self {
            id,
            tsg,
            compute,
            node: RBTreeNodeReservation::new(GFP_KERNEL)?,
        })
    }
}

impl Meters {
    /// Nobody is there.
    pub(crate) fn new() -> Self {
        Self {
            tsgs: RBTree::new(),
            engines: KVec::new(),
            gpus: KVec::new(),
        }
    }

    /// A GPU is there.
    pub(crate) fn add_gpu(&mut self, id: u32) -> Result {
        let engines = self.engines.len() + MOST * (self.gpus.len() + 1);
        self.engines.reserve(engines, GFP_KERNEL)?;
        let gpu = Gpu {
            id,
            tried: Ns::ZERO,
            unreadable: None,
            idle: true,
        };
        self.gpus.push(gpu, GFP_KERNEL)?;
        Ok(())
    }

    /// A GPU is gone.
    pub(crate) fn remove_gpu(&mut self, id: u32) {
        self.engines.retain(|on| on.gpu != id);
        self.gpus.retain(|gpu| gpu.id != id);
        let mut cursor = self.tsgs.cursor_front_mut();
        while let Some(at) = cursor {
            cursor = match at.current().1.gpu == id {
                true => at.remove_current().0,
                false => at.move_next(),
            };
        }
    }

    /// A TSG is there.
    pub(crate) fn add(&mut self, new: Arrival) {
        let (gpu, runlist) = (new.tsg.gpu, new.tsg.runlist);
        self.tsgs.insert(new.node.into_node(new.id, new.tsg));
        if let Some(runlist) = runlist.filter(|_| new.compute) {
            self.add_engine(gpu, runlist);
        }
    }

    fn add_engine(&mut self, gpu: u32, runlist: u32) {
        let mut here = self.engines.iter().filter(|on| on.gpu == gpu);
        if here.clone().count() == MOST || here.any(|on| on.runlist == runlist) {
            return;
        }
        // There is room: it came with the GPU.
        let _ = self.engines.push_within_capacity(On {
            gpu,
            runlist,
            engine: Engine::default(),
        });
    }

    /// A TSG is gone. Returns its memory, to be dropped without a lock.
    pub(crate) fn remove(&mut self, id: u64) -> Option<RBTreeNode<u64, Tsg>> {
        self.tsgs.remove_node(&id)
    }

    /// The channel of a TSG to look at next.
    ///
    /// # Errors
    ///
    /// `ENOENT` it is gone.
    pub(crate) fn next_channel(&self, id: u64) -> Result<u32> {
        self.tsgs.get(&id).map(|tsg| tsg.first).ok_or(ENOENT)
    }

    /// A TSG is scheduled from now on, or not.
    pub(crate) fn set_enabled(&mut self, id: u64, enabled: bool, now: Ns) {
        if let Some(tsg) = self.tsgs.get_mut(&id) {
            tsg.meter.set_enabled(enabled, now);
        }
    }

    /// A TSG cannot be looked at for a while.
    pub(crate) fn pause(&mut self, id: u64) {
        if let Some(tsg) = self.tsgs.get_mut(&id) {
            tsg.meter.pause();
        }
    }

    /// Some channels of a TSG were looked at. Returns its load.
    ///
    /// # Errors
    ///
    /// `ENOENT` it is gone, `EOPNOTSUPP` no register tells anything.
    pub(crate) fn look(&mut self, id: u64, sample: &Sample, now: Ns) -> Result<TsgLoad> {
        let tsg = self.tsgs.get_mut(&id).ok_or(ENOENT)?;
        let gpu = self.gpus.iter_mut().find(|gpu| gpu.id == tsg.gpu);
        let at = gpu.ok_or(ENOENT)?;
        let (words, is_pccsr) = (sample.words(), sample.is_pccsr());
        let (mut state, mut unknown) = (State::default(), 0);
        for &word in words {
            let channel = match is_pccsr {
                true => registers::of_pccsr(word),
                false => registers::of_chram(word),
            };
            state = state.max(channel);
            unknown += usize::from(channel == State::Unknown);
        }
        counters::UNREADABLE.add(unknown as u64);
        counters::ASLEEP.add(sample.is_asleep().into());
        let is_busy = registers::is_busy(sample.engine());
        // One TSG whose channels are not known says nothing about the others.
        if is_busy.is_none() && unknown > 0 && unknown == words.len() {
            let since = *at.unreadable.get_or_insert(now);
            if now.saturating_sub(since) >= UNREADABLE {
                return Err(errno::unsupported());
            }
        } else {
            at.unreadable = None;
        }
        let next = sample.first().saturating_add(words.len() as u32);
        let is_last = next >= sample.channels();
        tsg.first = if is_last { 0 } else { next };
        let was_tried = tsg.meter.is_tried();
        tsg.meter.look(
            state,
            Look {
                is_last,
                is_busy,
                may_try: !sample.is_asleep() && now.saturating_sub(at.tried) >= TRIES,
                now,
            },
        );
        if tsg.meter.is_tried() && !was_tried {
            at.tried = now;
        }
        let (gpu, runlist) = (tsg.gpu, tsg.runlist);
        let load = TsgLoad {
            ran: tsg.account.time(tsg.meter.ran).0,
            runnable: tsg.meter.is_runnable(),
            since: tsg.meter.since.0,
            preemptions: 0,
            preempted: 0,
            context_bytes: 0,
        };
        let on = self.engines.iter_mut();
        let mut on = on.filter(|on| on.gpu == gpu && Some(on.runlist) == runlist);
        if let Some(on) = on.next() {
            on.engine.look(is_busy, now);
            at.idle |= is_busy != Some(true);
        }
        Ok(load)
    }

    /// Records of context switches name all channels of a TSG, or not.
    pub(crate) fn set_traced(&mut self, id: u64, traced: bool) {
        if let Some(tsg) = self.tsgs.get_mut(&id) {
            tsg.account.set_traced(traced);
        }
    }

    /// A TSG has had the engine for so long, by records.
    pub(crate) fn has_run(&mut self, id: u64, ran: Ns) {
        if let Some(tsg) = self.tsgs.get_mut(&id) {
            tsg.account.has_run(ran);
        }
    }

    /// The records of an interval have been read: they take the place of looks, as far as they tell.
    pub(crate) fn settle(&mut self, gpu: u32, interval: Interval) {
        let Some(at) = self.gpus.iter_mut().find(|at| at.id == gpu) else {
            return;
        };
        let idle = core::mem::take(&mut at.idle);
        for (id, tsg) in self.tsgs.iter_mut().filter(|(_, tsg)| tsg.gpu == gpu) {
            let running = interval.running.filter(|(runs, _)| runs == id);
            if running.is_some() {
                tsg.account.has_run(Ns::ZERO);
            }
            let running = running.map_or(Ns::ZERO, |(_, ran)| ran);
            tsg.account
                .settle(tsg.meter.ran, running, interval.is_whole, idle);
        }
    }

    /// Shows the time of each TSG: a line for each.
    pub(crate) fn show(&self, out: &mut Text) -> Result {
        for (id, tsg) in &self.tsgs {
            out.write_fmt(fmt!(
                "tsg={id} gpu={:#x} ran_ns={} looks_ns={} records_ns={} known={}\n",
                tsg.gpu,
                tsg.account.time(tsg.meter.ran).0,
                tsg.meter.ran.0,
                tsg.account.resident().0,
                u8::from(tsg.account.is_known())
            ))?;
        }
        Ok(())
    }

    /// The youngest TSGs of a GPU, as many as there is room for, and their number.
    pub(crate) fn some_tsgs<const N: usize>(&self, gpu: u32) -> ([u64; N], usize) {
        let mut found = [0; N];
        let mut count = 0;
        for (id, _) in self.tsgs.iter().filter(|(_, tsg)| tsg.gpu == gpu) {
            if let Some(place) = found.get_mut(count % N.max(1)) {
                *place = *id;
            }
            count += 1;
        }
        (found, count.min(N))
    }

    /// The run lists of a GPU whose engines compute, and their number.
    pub(crate) fn runlists(&self, gpu: u32) -> ([u32; MOST], usize) {
        let mut runlists = [0; MOST];
        let mut count = 0;
        let here = self.engines.iter().filter(|on| on.gpu == gpu);
        for (place, on) in runlists.iter_mut().zip(here) {
            *place = on.runlist;
            count += 1;
        }
        (runlists, count)
    }

    /// The engines of these run lists were looked at. Returns for how long the one worked that
    /// worked longest.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` no register tells anything.
    pub(crate) fn look_at_engines(
        &mut self,
        gpu: u32,
        runlists: &[u32],
        values: &[u32],
        now: Ns,
    ) -> Result<Ns> {
        let mut busy = None;
        let mut idle = false;
        for on in self.engines.iter_mut().filter(|on| on.gpu == gpu) {
            let looked = runlists.iter().zip(values);
            let mut looked = looked.filter(|(&runlist, _)| runlist == on.runlist);
            if let Some((_, &value)) = looked.next() {
                on.engine.look(registers::is_busy(value), now);
                idle |= registers::is_busy(value) != Some(true);
            }
            if on.engine.is_known() {
                busy = busy.max(Some(on.engine.busy));
            }
        }
        if let Some(at) = self.gpus.iter_mut().find(|at| at.id == gpu) {
            at.idle |= idle;
        }
        busy.ok_or_else(errno::unsupported)
    }
}
