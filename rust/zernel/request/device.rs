// SPDX-License-Identifier: GPL-2.0
//! The requests of a GPU: when they take it, and the cost of that.

use super::{
    claims::Claims,
    holds::{
        Hold,
        Holds, //
    },
    kicks::{
        Kicks,
        Urgent, //
    },
    order::Order,
    sharing::Sharing,
    sleep,
    starts::{
        Start,
        Waiting, //
    },
    stats::Totals,
};
use crate::{
    glue::{
        irqlock::{
            new_irq_lock,
            new_raw_lock,
            IrqLock,
            RawLock, //
        },
        time::now_ns,
        work::Kick, //
    },
    ids::TsgId,
    policy::{
        histogram::Latencies,
        level::{
            self,
            Level, //
        },
        request::trial::{
            Look,
            Trial, //
        },
        switch_cost::{
            Cost,
            Costs,
            Phase,
            Switched, //
        },
        tunables::requests::NoHolder,
        units::Ns, //
    },
    tuned,
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc, //
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
    /// Its provider has told of the start of the last request that was looked at, before that look.
    tells_starts: Atomic<bool>,
    /// Requests without a holder that hold the GPU.
    holds: Holds,
    /// TSGs that are to be served at once.
    #[pin]
    kicks: Kicks,
    /// The TSGs that share it.
    pub(super) sharing: Sharing,
    /// Requests whose triggers wait for their turn.
    #[pin]
    pub(crate) order: Order,
    /// TSGs that have requests with deadlines.
    #[pin]
    pub(crate) claims: Claims,
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

    /// Of a new GPU. `can_exclude`: less urgent TSGs can be kept off it. `can_kick`: their slice can
    /// be ended.
    pub(crate) fn new(can_exclude: bool, can_kick: bool) -> Result<Arc<Self>> {
        let costs = Costs::new(Cost::IN_TIME);
        let (totals, starts) = (Totals::new()?, Waiting::new()?);
        let switches = KBox::zeroed(GFP_KERNEL)?;
        let order = Order::new()?;
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
                tells_starts: Atomic::new(false),
                holds: Holds::new(),
                kicks <- Kicks::new(can_kick),
                sharing: Sharing::new(),
                order <- order,
                claims <- Claims::new(),
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

    /// True if a request without a holder can keep less urgent TSGs off the GPU, or end their slice.
    pub(super) fn can_take(&self) -> bool {
        self.can_exclude || self.is_kicked()
    }

    /// True if a run list can begin anew, as far as known.
    pub(crate) fn can_kick(&self) -> bool {
        self.kicks.works()
    }

    /// It turned out that a run list can begin anew, or cannot.
    pub(crate) fn set_can_kick(&self, can: bool) {
        self.kicks.set_works(can);
    }

    /// True if requests without a holder end the slice of others rather than keep them off.
    fn is_kicked(&self) -> bool {
        self.can_kick() && tuned::no_holder() == NoHolder::Kick
    }

    /// A TSG is to be served at once. In any context.
    pub(crate) fn urge(&self, urgent: Urgent) {
        self.kicks.add(urgent);
        self.wake();
    }

    /// The provider has had a run list begin anew, or failed to.
    pub(crate) fn kicked(&self, is_good: bool) {
        self.kicks.done(is_good);
    }

    /// It cannot be served yet; the worker knows when to try again.
    pub(crate) fn put_off(&self, urgent: Urgent) {
        self.kicks.add(urgent);
    }

    /// True if TSGs are to be served at once.
    pub(crate) fn has_urgent(&self) -> bool {
        self.kicks.are_waiting()
    }

    /// The TSG that is to be served at once, and waits longest.
    pub(crate) fn urgent(&self) -> Option<Urgent> {
        self.kicks.take()
    }

    /// A request with a deadline began. `new`: the level and the user of a TSG that is not one of
    /// [`Self::claims`]. Returns true if it is one now. With the slot locked.
    pub(super) fn claim(&self, tsg: TsgId, new: Option<(Level, u32)>) -> bool {
        let is_one = new.is_none_or(|(level, user)| self.claims.add(tsg, level, user));
        if !self.claims.are_watched() {
            // Where there is no room, for a look at those that need theirs no more.
            self.wake();
        }
        is_one
    }

    fn wake(&self) {
        if let Some(worker) = &*self.worker.lock() {
            worker.kick();
        }
    }

    /// True if a request takes the GPU from others with later deadlines.
    pub(super) fn can_hold(&self) -> bool {
        self.can_exclude && tuned::order_preempts()
    }

    /// These levels are shared from now on, and no others; `None`: as before. Without a lock.
    pub(crate) fn follow_shared(&self, news: Option<level::Set>) {
        if let Some(levels) = news {
            self.order.share(levels);
        }
    }

    /// Has the worker follow the order of deadlines. Without a lock.
    pub(super) fn follow_order(&self) {
        if self.order.has_news() {
            self.wake();
        }
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

    /// True if TSGs above best-effort have something to run, or the last request begun there takes the GPU
    /// at this time, with a hand-over at most.
    pub(crate) fn is_lc_near(&self, now: Ns) -> bool {
        let since = now.0.checked_sub(self.announced().0);
        let takes = || since.is_some_and(|since| since < self.switch_cost(Phase::HandingOver).0);
        self.is_lc_busy() || takes()
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

    /// The cost of taking the GPU for a request now, and the state of the GPU.
    #[inline(always)]
    pub(super) fn cost(&self, holder: bool) -> (Ns, Phase) {
        let phase = self.phase();
        let cost = match holder {
            true => self.switch_cost(phase),
            false => self.gate_cost(),
        };
        (cost, phase)
    }

    /// When the switch of a request with a holder is looked at.
    #[inline(always)]
    pub(super) fn look(&self) -> Look {
        match self.tells_starts.load(Relaxed) {
            true => Look::Later,
            false => Look::AtDue,
        }
    }

    /// Learns from a request of the TSG with this number. What its provider does not tell is looked at
    /// in time from then on.
    pub(super) fn tried(&self, handle: u64, trial: &Trial) {
        let start = self.starts.lock().first_since(handle, trial.trigger);
        if trial.has_run || start.is_some() {
            self.tells_starts.store(start.is_some(), Relaxed);
        }
        if let Some(seen) = trial.outcome(start) {
            self.switched(trial.phase, seen);
        }
    }

    /// Learns the cost of a switch from one more, for a request that began in this phase.
    fn switched(&self, phase: Phase, seen: Switched) {
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
        self.holds.arrivals()
    }

    /// The level for which TSGs are to be excluded: the least urgent one that holds the GPU, of
    /// those that are not `throttled`.
    pub(crate) fn holder(&self, throttled: level::Set) -> Option<Level> {
        self.holds.level(throttled, Ns(now_ns()))
    }

    /// The end of the last lease of a level that holds the GPU.
    pub(crate) fn holds_until(&self, level: Level) -> Ns {
        self.holds.until(level)
    }

    /// A request without a holder takes the GPU from now on, `until` then at the latest. In any
    /// context.
    pub(super) fn hold(&self, tsg: TsgId, level: Level, until: Ns) -> Hold {
        if self.is_kicked() {
            let urgent = Urgent { tsg, level };
            self.urge(urgent);
            return Hold::Kick(urgent);
        }
        let worker = self.worker.lock();
        // Only with the lock held.
        self.holds.add(level, until);
        if let Some(worker) = &*worker {
            worker.kick();
        }
        Hold::Exclude(level)
    }

    /// A request that took it lets go. `is_ready`: its TSG has something to run now. In any context.
    pub(super) fn let_go(&self, hold: Hold, is_ready: bool) {
        match hold {
            Hold::Exclude(level) => {
                self.holds.remove(level);
                self.wake();
            }
            Hold::Kick(urgent) if is_ready => self.urge(urgent),
            Hold::Kick(_) => {}
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

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_request_device)]
mod tests {
    use crate::request::device::*;

    #[test]
    fn a_start_teaches_the_cost_later_where_it_is_told() -> Result {
        let device = Device::new(false, false)?;
        let cost = || device.switch_cost(Phase::Settled);
        let trial = Trial {
            trigger: Ns(1_000),
            due: Ns(2_000),
            phase: Phase::Settled,
            has_run: true,
            told: None,
        };
        // Nobody tells.
        device.tried(7, &trial);
        assert_eq!(device.look(), Look::AtDue);
        assert_eq!(cost(), Cost::PRIOR);
        device.started(Start {
            handle: 7,
            at: Ns(2_001),
            ..Start::default()
        });
        device.tried(7, &trial);
        assert_eq!(device.look(), Look::Later);
        let late = cost();
        assert!(late > Cost::PRIOR);
        // It counts for its trigger alone, and for its TSG.
        let next = Trial {
            trigger: Ns(3_000),
            due: Ns(4_000),
            ..trial
        };
        device.tried(7, &next);
        assert_eq!((device.look(), cost()), (Look::AtDue, late));
        device.tried(8, &trial);
        assert_eq!((device.look(), cost()), (Look::AtDue, late));
        // One whose holder has not run may still be told.
        device.tried(7, &trial);
        let waits = Trial {
            has_run: false,
            told: Some(Switched::NotYet),
            ..next
        };
        let before = cost();
        device.tried(7, &waits);
        assert_eq!(device.look(), Look::Later);
        assert!(cost() > before);
        Ok(())
    }
}
