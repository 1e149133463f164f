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
        registers,
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

/// A GPU without MIG instances, or one of its instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) gpu: u32,
    pub(crate) mig: Option<u32>,
}

/// A TSG.
pub(crate) struct Tsg {
    of: Part,
    /// Address of the registers of its run list.
    runlist: Option<u32>,
    meter: Meter,
    /// Its time by looks and by records.
    account: Account,
    /// The channel to look at next.
    first: u32,
    /// Looks that had found its engine idle when the last interval of records ended.
    idles: Option<u64>,
}

/// An engine that computes.
struct On {
    gpu: u32,
    runlist: u32,
    engine: Engine,
    /// Looks that found it idle, or perhaps.
    idles: u64,
}

/// A GPU.
struct Gpu {
    id: u32,
    /// The last try of a TSG on it.
    tried: Ns,
    /// Since when no look has told anything.
    unreadable: Option<Ns>,
}

impl Tsg {
    /// Some of its channels were looked at; `at`: its GPU.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` no register tells anything.
    #[inline]
    fn look(&mut self, at: &mut Gpu, sample: &Sample, is_busy: Option<bool>, now: Ns) -> Result {
        let words = sample.words();
        let next = sample.first().saturating_add(words.len() as u32);
        let is_last = next >= sample.channels();
        let is_idle = !sample.is_asleep() && registers::are_idle(words, sample.is_pccsr());
        if is_idle && self.meter.rest(now) {
            // Most TSGs, most of the time.
            at.unreadable = None;
        } else {
            self.look_closely(at, sample, is_last, is_busy, now)?;
        }
        self.first = if is_last { 0 } else { next };
        Ok(())
    }

    #[inline(never)]
    fn look_closely(
        &mut self,
        at: &mut Gpu,
        sample: &Sample,
        is_last: bool,
        is_busy: Option<bool>,
        now: Ns,
    ) -> Result {
        let words = sample.words();
        let (state, unknown) = registers::of_channels(words, sample.is_pccsr());
        counters::UNREADABLE.add(unknown.into());
        counters::ASLEEP.add(sample.is_asleep().into());
        // One TSG whose channels are not known says nothing about the others.
        if is_busy.is_none() && unknown > 0 && unknown as usize == words.len() {
            let since = *at.unreadable.get_or_insert(now);
            if now.saturating_sub(since) >= UNREADABLE {
                return Err(errno::unsupported());
            }
        } else {
            at.unreadable = None;
        }
        let was_tried = self.meter.is_tried();
        self.meter.look(
            state,
            Look {
                is_last,
                is_busy,
                may_try: !sample.is_asleep() && now.saturating_sub(at.tried) >= TRIES,
                now,
            },
        );
        if self.meter.is_tried() && !was_tried {
            at.tried = now;
        }
        Ok(())
    }

    #[inline]
    fn load(&self) -> TsgLoad {
        TsgLoad {
            ran: self.account.time(self.meter.ran).0,
            runnable: self.meter.is_runnable(),
            since: self.meter.since.0,
            preemptions: 0,
            preempted: 0,
            context_bytes: 0,
        }
    }
}

impl On {
    /// Its register was read.
    fn look(&mut self, is_busy: Option<bool>, now: Ns) {
        self.engine.look(is_busy, now);
        if is_busy != Some(true) {
            self.idles = self.idles.wrapping_add(1);
        }
    }
}

/// From one try on a GPU to the next: each takes two calls of the driver.
const TRIES: Ns = Ns(20_000_000);

/// No register of a GPU can be read if none could for so long: a reset is shorter.
const UNREADABLE: Ns = Ns(500_000_000);

/// The work of TSGs and engines.
pub(crate) struct Meters {
    tsgs: RBTree<u64, Tsg>,
    /// A TSG has had more channels than are looked at at a time.
    is_parted: bool,
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
    pub(crate) fn new(id: u64, of: Part, runlist: Option<u32>, compute: bool) -> Result<Self> {
        let tsg = Tsg {
            of,
            runlist,
            meter: Meter::default(),
            account: Account::default(),
            first: 0,
            idles: None,
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
            is_parted: false,
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
            cursor = match at.current().1.of.gpu == id {
                true => at.remove_current().0,
                false => at.move_next(),
            };
        }
    }

    /// A TSG is there.
    pub(crate) fn add(&mut self, new: Arrival) {
        let (gpu, runlist) = (new.tsg.of.gpu, new.tsg.runlist);
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
            idles: 0,
        });
    }

    /// A TSG is gone. Returns its memory, to be dropped without a lock.
    pub(crate) fn remove(&mut self, id: u64) -> Option<RBTreeNode<u64, Tsg>> {
        self.tsgs.remove_node(&id)
    }

    /// The channel of a TSG to look at next.
    pub(crate) fn next_channel(&self, id: u64) -> u32 {
        if !self.is_parted {
            return 0;
        }
        // One that is gone is gone for the driver, too.
        self.tsgs.get(&id).map_or(0, |tsg| tsg.first)
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

    /// TSGs of a GPU were looked at, one after the other, from a moment on and in so long a time for each
    /// read. Tells of each the load, `ENOENT` if it is gone, or `EOPNOTSUPP` if no register tells
    /// anything.
    pub(crate) fn look(
        &mut self,
        gpu: u32,
        samples: &[Sample],
        begin: Ns,
        each: Ns,
        tell: &mut dyn FnMut(usize, Result<TsgLoad>),
    ) {
        let mut now = begin;
        let mut at = self.gpus.iter_mut().find(|at| at.id == gpu);
        // The engine of the TSG before, what its register told, and when it told that last.
        let mut on: Option<(&mut On, Option<bool>, Ns)> = None;
        for (place, sample) in samples.iter().enumerate() {
            now = Ns(now.0.wrapping_add(each.0.wrapping_mul(sample.reads())));
            let tsg = self.tsgs.get_mut(&sample.tsg());
            let (Some(tsg), Some(at)) = (tsg.filter(|tsg| tsg.of.gpu == gpu), &mut at) else {
                tell(place, Err(ENOENT));
                continue;
            };
            if sample.is_gone() {
                tsg.meter.pause();
                tell(place, Err(ENOENT));
                continue;
            }
            let is_busy = registers::is_busy(sample.engine());
            if let Err(e) = tsg.look(at, sample, is_busy, now) {
                tell(place, Err(e));
                continue;
            }
            self.is_parted |= tsg.first > 0;
            let is_its = |on: &On| on.gpu == gpu && Some(on.runlist) == tsg.runlist;
            match &mut on {
                Some((on, seen, last)) if *seen == is_busy && is_its(on) => *last = now,
                _ => {
                    if let Some((on, seen, last)) = on.take() {
                        on.look(seen, last);
                    }
                    on = self.engines.iter_mut().find(|on| is_its(on)).map(|on| {
                        on.look(is_busy, now);
                        (on, is_busy, now)
                    });
                }
            }
            tell(place, Ok(tsg.load()));
        }
        if let Some((on, seen, last)) = on {
            on.look(seen, last);
        }
    }

    /// A TSG is in a MIG instance or in none, and on a run list.
    pub(crate) fn set_place(&mut self, id: u64, of: Part, runlist: Option<u32>, compute: bool) {
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            return;
        };
        tsg.of = of;
        if tsg.runlist != runlist {
            (tsg.runlist, tsg.idles) = (runlist, None);
        }
        if let Some(runlist) = runlist.filter(|_| compute) {
            self.add_engine(of.gpu, runlist);
        }
    }

    /// The MIG instances of a GPU with TSGs, a bit for each.
    pub(crate) fn instances(&self, gpu: u32) -> u32 {
        let here = self.tsgs.iter().filter(|(_, tsg)| tsg.of.gpu == gpu);
        let numbers = here.filter_map(|(_, tsg)| tsg.of.mig);
        numbers.fold(0, |all, mig| all | 1_u32.checked_shl(mig).unwrap_or(0))
    }

    /// Records of context switches name all channels of a TSG, or not.
    pub(crate) fn set_traced(&mut self, id: u64, traced: bool) {
        if let Some(tsg) = self.tsgs.get_mut(&id) {
            tsg.account.set_traced(traced);
        }
    }

    /// A TSG has had the engine for so long, by records. Returns false if it says that it is in another
    /// instance than the records are of: then these tell nothing.
    pub(crate) fn has_run(&mut self, of: Part, id: u64, ran: Ns) -> bool {
        let tsg = self.tsgs.get_mut(&id).filter(|tsg| tsg.of == of);
        tsg.map(|tsg| tsg.account.has_run(ran)).is_some()
    }

    /// The records of intervals have been read: they take the place of looks, as far as they tell.
    /// `interval`: if one of the GPU or instance of a TSG has ended, whether all its records were read
    /// and fit each other, and if the TSG has an engine at its end, for how long it had it as it began.
    pub(crate) fn settle(
        &mut self,
        gpu: u32,
        interval: impl Fn(Part, u64) -> Option<(bool, Option<Ns>)>,
    ) {
        for (id, tsg) in self.tsgs.iter_mut().filter(|(_, tsg)| tsg.of.gpu == gpu) {
            let Some((is_whole, running)) = interval(tsg.of, *id) else {
                continue;
            };
            let mut on = self.engines.iter().filter(|on| on.gpu == gpu);
            let on = on.find(|on| Some(on.runlist) == tsg.runlist);
            let idles = on.map(|on| on.idles);
            let idle = idles.is_none() || tsg.idles != idles;
            tsg.idles = idles;
            if running.is_some() {
                tsg.account.has_run(Ns::ZERO);
            }
            let running = running.unwrap_or(Ns::ZERO);
            tsg.account.settle(tsg.meter.ran, running, is_whole, idle);
        }
    }

    /// The time of a TSG by records.
    #[cfg(zernel_kunit)]
    pub(crate) fn resident(&self, id: u64) -> Option<Ns> {
        self.tsgs.get(&id).map(|tsg| tsg.account.resident())
    }

    /// Shows the time of each TSG: a line for each.
    pub(crate) fn show(&self, out: &mut Text) -> Result {
        for (id, tsg) in &self.tsgs {
            out.write_fmt(fmt!(
                "tsg={id} gpu={:#x} ran_ns={} looks_ns={} records_ns={} known={}\n",
                tsg.of.gpu,
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
        for (id, _) in self.tsgs.iter().filter(|(_, tsg)| tsg.of.gpu == gpu) {
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
        for on in self.engines.iter_mut().filter(|on| on.gpu == gpu) {
            let looked = runlists.iter().zip(values);
            let mut looked = looked.filter(|(&runlist, _)| runlist == on.runlist);
            if let Some((_, &value)) = looked.next() {
                on.look(registers::is_busy(value), now);
            }
            if on.engine.is_known() {
                busy = busy.max(Some(on.engine.busy));
            }
        }
        busy.ok_or_else(errno::unsupported)
    }
}
