// SPDX-License-Identifier: GPL-2.0
//! The requests of one TSG: their statistics, and their end with it.

use super::{
    sleep,
    starts::{
        Start,
        Waiting, //
    },
    stats::{
        Shared,
        Totals, //
    },
};
use crate::{
    error::Failure,
    glue::{
        errno,
        irqlock::{
            new_irq_lock,
            new_raw_lock,
            IrqLock,
            RawLock, //
        },
        memory::account_nowait,
        work::Kick, //
    },
    ids::TsgId,
    policy::{
        histogram::Latencies,
        level::{
            self,
            Level, //
        },
        request::record::Cause,
        switch_cost::{
            Cost,
            Costs,
            Phase,
            Switched, //
        },
        units::Ns, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        Mutex, //
    }, //
};

/// State that the requests of a GPU share.
#[pin_data]
pub(crate) struct Device {
    /// The cost of a switch, learned from requests.
    #[pin]
    switch: IrqLock<Costs>,
    /// The present estimates of it, in ns: settled, and while the GPU changes hands.
    switch_costs: [Atomic<u64>; 2],
    /// The GPU goes from one best-effort TSG to another.
    handing_over: Atomic<bool>,
    /// TSGs above best-effort have something to run.
    lc_busy: Atomic<bool>,
    /// When the last request begun above best-effort takes the GPU, in ns.
    trigger: Atomic<u64>,
    /// No request begins: the GPU is suspended, or retrying (its provider's last answer was
    /// `-EAGAIN`).
    suspended: Atomic<bool>,
    /// Less urgent TSGs can be kept off it.
    can_exclude: bool,
    /// The cost of keeping them off, in ns, learned from the time that it took.
    gate_cost: Atomic<u64>,
    /// Requests without a holder that ever held the GPU.
    arrivals: Atomic<u64>,
    /// Requests without a holder that hold the GPU, by level.
    holders: [Atomic<u32>; level::COUNT],
    /// Statistics of all requests on it.
    pub(crate) totals: Totals,
    /// Reports of its provider that are not counted yet. They come in any context.
    #[pin]
    starts: RawLock<Waiting>,
    /// Context switches, as its provider measured them.
    #[pin]
    switches: IrqLock<KBox<Latencies>>,
    /// Excludes TSGs; `None` in tests, and when the GPU is gone.
    #[pin]
    worker: IrqLock<Option<Kick>>,
}

impl Device {
    /// The cost of keeping TSGs off the GPU before it was tried: the longest measured call of
    /// NVIDIA's driver.
    const GATE_PRIOR: u64 = 356_000;

    /// Of a new GPU. `can_exclude`: less urgent TSGs can be kept off it.
    pub(crate) fn new(can_exclude: bool) -> Result<Arc<Self>> {
        let costs = Costs::new(Cost::IN_TIME);
        let (totals, starts) = (Totals::new()?, Waiting::new()?);
        let switches = KBox::zeroed(GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                switch <- new_irq_lock!(costs, c"zernel_switch"),
                switch_costs: Phase::ALL.map(|phase| Atomic::new(costs.estimate(phase).0)),
                handing_over: Atomic::new(false),
                lc_busy: Atomic::new(false),
                trigger: Atomic::new(0),
                suspended: Atomic::new(false),
                can_exclude,
                gate_cost: Atomic::new(Self::GATE_PRIOR),
                arrivals: Atomic::new(0),
                holders: [const { Atomic::new(0) }; level::COUNT],
                totals,
                starts <- new_raw_lock!(starts, c"zernel_starts"),
                switches <- new_irq_lock!(switches, c"zernel_switches"),
                worker <- new_irq_lock!(None, c"zernel_excluder"),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the worker that excludes TSGs; `None`: none any more.
    pub(crate) fn set_worker(&self, worker: Option<Kick>) {
        let old = core::mem::replace(&mut *self.worker.lock(), worker);
        // Dropped without the lock.
        drop(old);
    }

    /// True if less urgent TSGs can be kept off the GPU.
    pub(super) fn can_exclude(&self) -> bool {
        self.can_exclude
    }

    /// The state of the GPU.
    pub(super) fn phase(&self) -> Phase {
        match self.handing_over.load(Relaxed) {
            true => Phase::HandingOver,
            false => Phase::Settled,
        }
    }

    /// Says whether the GPU goes from one best-effort TSG to another.
    pub(crate) fn set_handing_over(&self, handing_over: bool) {
        self.handing_over.store(handing_over, Relaxed);
    }

    /// True if TSGs above best-effort have something to run: a request that takes the GPU then
    /// waits for them, which says nothing of a switch.
    pub(crate) fn is_lc_busy(&self) -> bool {
        self.lc_busy.load(Relaxed)
    }

    /// Says whether they have.
    pub(crate) fn set_lc_busy(&self, busy: bool) {
        self.lc_busy.store(busy, Relaxed);
    }

    /// A request begins that takes the GPU at `trigger`.
    pub(super) fn announce(&self, trigger: Ns) {
        self.trigger.store(trigger.0, Relaxed);
    }

    /// When the last request that began takes the GPU, or took it.
    pub(crate) fn announced(&self) -> Ns {
        Ns(self.trigger.load(Relaxed))
    }

    /// A TSG has got its engine. In any context. Returns whether it is time to count.
    pub(crate) fn started(&self, start: Start) -> bool {
        let start = start.since_trigger(self.announced());
        self.starts.lock().push(start)
    }

    /// A start that is to be counted.
    pub(crate) fn next_start(&self) -> Option<Start> {
        self.starts.lock().pop()
    }

    /// A context switch took so long.
    pub(crate) fn count_switch(&self, time: Ns) {
        self.switches.lock().record(time);
    }

    /// Adds the context switches to `sum`.
    pub(crate) fn add_switches_to(&self, sum: &mut Latencies) {
        sum.merge(&self.switches.lock());
    }

    /// The cost of a switch.
    pub(crate) fn switch_cost(&self, phase: Phase) -> Ns {
        let [settled, handing_over] = &self.switch_costs;
        Ns(match phase {
            Phase::Settled => settled.load(Relaxed),
            Phase::HandingOver => handing_over.load(Relaxed),
        })
    }

    /// Learns the cost of a switch from one more, for a request that began in this phase.
    pub(super) fn switched(&self, phase: Phase, seen: Switched) {
        let mut switch = self.switch.lock();
        switch.learn(phase, seen);
        for (phase, cost) in Phase::ALL.into_iter().zip(&self.switch_costs) {
            cost.store(switch.estimate(phase).0, Relaxed);
        }
    }

    /// The cost of keeping them off.
    pub(super) fn gate_cost(&self) -> Ns {
        Ns(self.gate_cost.load(Relaxed))
    }

    /// Keeping them off took so long: the estimate follows longer ones at once, shorter ones by an
    /// eighth, so that it is seldom too short.
    pub(crate) fn took(&self, time: Ns) {
        let old = self.gate_cost.load(Relaxed);
        let new = if time.0 > old {
            time.0
        } else {
            old - (old - time.0) / 8
        };
        self.gate_cost.store(new, Relaxed);
    }

    /// Requests without a holder that ever held the GPU.
    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals.load(Relaxed)
    }

    /// The level for which TSGs are to be excluded: the least urgent one that holds the GPU, of
    /// those that are not `throttled`.
    pub(crate) fn holder(&self, throttled: level::Set) -> Option<Level> {
        Level::ALL
            .into_iter()
            .zip(&self.holders)
            .filter(|(level, holders)| !throttled.contains(*level) && holders.load(Relaxed) > 0)
            .map(|(level, _)| level)
            .next_back()
    }

    /// A request without a holder holds the GPU from now on, or does not any more. In any context.
    pub(super) fn hold(&self, level: Level, holds: bool) {
        let Some(holders) = self.holders.get(level.number() as usize) else {
            return;
        };
        if holds {
            self.arrivals.fetch_add(1, Relaxed);
            holders.fetch_add(1, Relaxed);
        } else {
            holders.fetch_sub(1, Relaxed);
        }
        if let Some(worker) = &*self.worker.lock() {
            worker.kick();
        }
    }

    /// True if no request can begin.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended.load(Relaxed) || sleep::is_asleep()
    }

    /// No request begins from now on, as the GPU is suspended or retrying; or some may again. Returns
    /// the state before.
    pub(crate) fn set_suspended(&self, suspended: bool) -> bool {
        self.suspended.xchg(suspended, Relaxed)
    }
}

/// The requests of a TSG.
///
/// Members and group hold each other, until the member's page goes.
#[pin_data]
pub(crate) struct Group {
    /// The TSG.
    pub(crate) tsg: TsgId,
    /// Its GPU.
    pub(crate) gpu: Arc<Device>,
    /// Statistics of the TSG.
    pub(crate) stats: Arc<Shared>,
    /// The level in force, [`NO_LEVEL`] if there is none.
    level: Atomic<u32>,
    /// The TSG is gone.
    gone: Atomic<bool>,
    /// Slots with requests of the TSG, by address.
    #[pin]
    members: Mutex<RBTree<usize, Arc<dyn Member>>>,
}

/// Slots of a TSG that are looked at in one hold of its members.
const PIECE: usize = 16;

/// A slot with requests of a TSG.
pub(super) trait Member: Send + Sync {
    /// Makes its requests a TSG's. The present one is over. Returns the TSG before.
    fn set_group(&self, group: Arc<Group>) -> Option<Arc<Group>>;
    /// Ends the request that is not over.
    fn end(&self, cause: Cause);
    /// Takes up the stores of the process, and counts them.
    fn poll(&self);
}

/// A place among the members of a group.
pub(super) type Place = RBTreeNode<usize, Arc<dyn Member>>;

const NO_LEVEL: u32 = u32::MAX;

fn number(level: Option<Level>) -> u32 {
    level.map_or(NO_LEVEL, Level::number)
}

impl Group {
    /// A TSG without requests.
    pub(crate) fn new(
        tsg: TsgId,
        gpu: Arc<Device>,
        stats: Arc<Shared>,
        level: Option<Level>,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                tsg,
                gpu,
                stats,
                level: Atomic::new(number(level)),
                gone: Atomic::new(false),
                members <- new_mutex!(RBTree::new(), "zernel_request_group"),
            }),
            account_nowait(),
        )
    }

    /// The level in force.
    pub(super) fn level(&self) -> Option<Level> {
        Level::new(self.level.load(Relaxed))
    }

    /// Another level is in force.
    pub(crate) fn set_level(&self, level: Option<Level>) {
        self.level.store(number(level), Relaxed);
    }

    /// Its TSG waited so long for the engine.
    pub(crate) fn waited(&self, time: Ns) {
        self.stats.waited(time);
        if let Some(level) = self.gpu.totals.of(self.level()) {
            level.waited(time);
        }
    }

    /// True if the TSG is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Checks that a request can begin. `holder`: its stream has one.
    ///
    /// # Errors
    ///
    /// `ENOENT` the TSG is gone, `EAGAIN` its GPU is suspended or retrying; without a holder also
    /// [`Failure::NotPermitted`], and `EOPNOTSUPP` nobody can be kept off the GPU.
    pub(crate) fn check(&self, holder: bool) -> Result {
        if self.is_gone() {
            return Err(ENOENT);
        }
        if self.gpu.is_suspended() {
            return Err(EAGAIN);
        }
        if holder {
            return Ok(());
        }
        // It stops others, so it takes a level that only privilege gives.
        if !self.level().is_some_and(|l| l.is_above(Level::DEFAULT)) {
            return Err(Failure::NotPermitted.into());
        }
        if !self.gpu.can_exclude() {
            return Err(errno::unsupported());
        }
        Ok(())
    }

    /// Memory for [`Self::attach`].
    pub(super) fn reserve<M: Member + 'static>(&self, slot: &Arc<M>) -> Result<Place> {
        let member: Arc<dyn Member> = slot.clone();
        RBTreeNode::new(address(slot), member, GFP_KERNEL_ACCOUNT)
    }

    /// Has the requests of `slot` be the TSG's. Returns the other group that they were of.
    ///
    /// # Errors
    ///
    /// `ENOENT` the TSG is gone.
    pub(super) fn attach<M: Member>(
        self: &Arc<Self>,
        slot: &Arc<M>,
        member: Place,
    ) -> Result<Option<Arc<Self>>> {
        let mut members = self.members.lock();
        // Those that end the requests of a TSG that is gone lock the members after it is: they find
        // this slot, or it finds the TSG gone.
        if self.is_gone() {
            return Err(ENOENT);
        }
        let member = members.insert(member);
        let old = slot.set_group(self.clone());
        drop(members);
        // Dropped without the lock.
        drop(member);
        Ok(old.filter(|old| !core::ptr::eq::<Self>(&**old, &**self)))
    }

    /// The requests of `slot` are not the TSG's any more.
    pub(super) fn detach<M: Member>(&self, slot: &Arc<M>) {
        let member = self.members.lock().remove(&address(slot));
        // Dropped without the lock.
        drop(member);
    }

    /// The TSG is gone: no request begins any more. [`Self::end`] follows.
    pub(crate) fn close(&self) {
        self.gone.store(true, Relaxed);
    }

    /// Ends the requests of a TSG that is gone. May sleep.
    pub(crate) fn end(&self) {
        self.each(|slot| slot.end(Cause::TsgGone));
    }

    /// Calls `f` with each slot that is a member, and perhaps with some that become one meanwhile.
    /// Holds the members for a few of them at a time.
    fn each(&self, f: impl Fn(&dyn Member)) {
        let mut from = Some(0);
        while let Some(mut next) = from.take() {
            let members = self.members.lock();
            for left in (0..PIECE).rev() {
                let Some(cursor) = members.cursor_lower_bound(&next) else {
                    break;
                };
                let (&address, slot) = cursor.current();
                f(&**slot);
                next = address.saturating_add(1);
                from = (left == 0).then_some(next);
            }
        }
    }

    /// Ends the requests of a GPU that is suspended or retrying.
    pub(crate) fn suspend(&self) {
        self.each(|slot| slot.end(Cause::Suspended));
    }

    /// Takes up the stores of processes for their requests.
    pub(crate) fn poll(&self) {
        self.each(|slot| slot.poll());
    }
}

fn address<M: Member>(slot: &Arc<M>) -> usize {
    core::ptr::from_ref::<M>(slot) as usize
}
