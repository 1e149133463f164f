// SPDX-License-Identifier: GPL-2.0
//! The worker of a GPU: brings the driver in line with the registry, one TSG at a time.

use crate::{
    glue::{
        provider::Ops,
        work::{
            Job,
            Worker, //
        },
    },
    policy::units::Ms,
    registry::{
        self,
        gpu,
        meters::Meters,
        reader::{
            Piece,
            Reader, //
        },
        step::{
            Outcome,
            Step, //
        },
        steps::Next,
        tsg::Hardware, //
    },
    worker::{
        activity::Activity,
        budget::{
            self,
            Budgets, //
        },
        calls,
        exclusion::{
            self,
            Exclusion, //
        },
        looks::Looks,
        rotation::{
            self,
            Rotation, //
        },
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        Mutex, //
    }, //
};

/// The calls of a step; a trait so that tests can be the driver.
pub(crate) trait Driver {
    /// Reads the driver's settings.
    fn get(&self, tsg: u64) -> Result<Hardware>;
    /// Sets the time slice.
    fn set_timeslice(&self, tsg: u64, hardware: Hardware) -> Result;
    /// Sets the interleave level.
    fn set_interleave(&self, tsg: u64, level: u32) -> Result;
    /// Lets the TSG be scheduled, or not.
    fn set_enabled(&self, tsg: u64, enabled: bool) -> Result;
}

/// The driver behind a provider, for one GPU.
pub(crate) struct Real<'a> {
    /// Its operations.
    pub(crate) ops: &'a Ops,
    /// The GPU.
    pub(crate) gpu: gpu::Handle,
}

impl Driver for Real<'_> {
    fn get(&self, tsg: u64) -> Result<Hardware> {
        self.ops.get(self.gpu, tsg)
    }

    fn set_timeslice(&self, tsg: u64, hardware: Hardware) -> Result {
        self.ops.set_timeslice(self.gpu, tsg, hardware.timeslice)
    }

    fn set_interleave(&self, tsg: u64, level: u32) -> Result {
        self.ops.set_interleave(self.gpu, tsg, level)
    }

    fn set_enabled(&self, tsg: u64, enabled: bool) -> Result {
        self.ops.set_enabled(self.gpu, tsg, enabled)
    }
}

impl Outcome {
    /// Passes on the answer of a call. A failed call may have had its effect all the same, unless
    /// its error says otherwise: the driver's settings are unknown then.
    fn judge(&mut self, result: Result) -> Result {
        if !matches!(result, Ok(()) | Err(EAGAIN | ENOENT | EINVAL)) {
            self.sure = false;
        }
        result
    }
}

impl Step {
    /// Does it. The driver's settings are read before the first change, and again after a restore
    /// in between: the owner may have changed them.
    pub(crate) fn perform(&self, driver: &impl Driver) -> Outcome {
        let mut outcome = Outcome {
            original: self.original,
            current: self.current,
            sure: self.sure,
            managed: self.managed,
            touched: false,
            disabled: self.disabled,
            result: Ok(()),
        };
        outcome.result = self.try_perform(driver, &mut outcome);
        outcome
    }

    fn try_perform(&self, driver: &impl Driver, outcome: &mut Outcome) -> Result {
        if self.disable {
            Self::switch(self.handle, driver, outcome, true)?;
            return self.apply(driver, outcome);
        }
        // A TSG that is enabled again runs with its new settings, or with the old ones if those
        // failed.
        let applied = self.apply(driver, outcome);
        let switched = Self::switch(self.handle, driver, outcome, false);
        applied.and(switched)
    }

    fn switch(tsg: u64, driver: &impl Driver, outcome: &mut Outcome, disable: bool) -> Result {
        if outcome.disabled == Some(disable) {
            return Ok(());
        }
        let result = driver.set_enabled(tsg, !disable);
        outcome.disabled = match result {
            Ok(()) => Some(disable),
            // These keep the driver's settings.
            Err(EAGAIN | ENOENT | EINVAL) => outcome.disabled,
            Err(_) => None,
        };
        result
    }

    fn apply(&self, driver: &impl Driver, outcome: &mut Outcome) -> Result {
        if !self.managed {
            let held = driver.get(self.handle)?;
            outcome.original = Some(held);
            outcome.current = Some(held);
            outcome.sure = true;
        }
        let (Some(original), Some(mut held)) = (outcome.original, outcome.current) else {
            return Ok(());
        };
        let goal = self.want.map_or(original, |want| want.over(original));
        // Even if a call below fails half-way, its effect is undone later.
        outcome.managed = true;
        let all = !outcome.sure;
        if all || held.timeslice != goal.timeslice {
            let result = driver.set_timeslice(self.handle, goal);
            outcome.judge(result)?;
            held.timeslice = goal.timeslice;
            outcome.current = Some(held);
            outcome.touched = true;
        }
        if let Some(level) = goal
            .interleave
            .filter(|_| all || held.interleave != goal.interleave)
        {
            let result = driver.set_interleave(self.handle, level);
            outcome.judge(result)?;
            outcome.current = Some(goal);
            outcome.touched = true;
        }
        outcome.sure = true;
        outcome.managed = self.want.is_some();
        Ok(())
    }
}

/// The outcome of some steps.
pub(crate) struct Steps {
    /// The provider's wish.
    pub(crate) next: Next,
    /// Some were completed.
    pub(crate) progress: bool,
    /// There may be more.
    pub(crate) more: bool,
}

/// The job of a GPU's worker.
pub(crate) struct Pass {
    /// The GPU.
    pub(crate) gpu: gpu::Id,
    /// Its number at the provider.
    pub(crate) handle: gpu::Handle,
    /// The provider to call.
    ops: Arc<Ops>,
    /// Its place in the news of the registry.
    news: Pin<KBox<Mutex<Reader>>>,
    /// The turns.
    rotation: Pin<KBox<Mutex<Rotation>>>,
    /// The TSGs that are kept off the GPU.
    exclusion: Pin<KBox<Mutex<Exclusion>>>,
    /// The GPU time of levels.
    budgets: Pin<KBox<Mutex<Budgets>>>,
    /// TSGs to look at.
    activity: Pin<KBox<Activity>>,
    /// Some TSGs take turns, so that the load of TSGs matters.
    listening: Atomic<bool>,
    /// Looks at the load, for others than requests.
    looks: Looks,
}

impl Pass {
    /// Delay before another look after one that ran out of memory.
    const RETRY: Ms = Ms(10);

    /// Calls for turns in a row.
    const TURNS: u64 = 5;

    /// Rounds of steps and turns before the load is looked at, while there is more of those.
    const ROUNDS: u64 = 8;

    /// Steps that are taken before turns, the gate and budgets are looked at again: calls for one
    /// user's TSGs keep nobody waiting for longer than so many of them.
    const STEPS: usize = 8;

    /// Takes steps until nothing is left, there were [`Self::STEPS`], or the provider wants to be left
    /// alone for a while.
    pub(crate) fn run_steps(&self) -> Steps {
        let driver = Real {
            ops: &self.ops,
            gpu: self.handle,
        };
        let mut done = Steps {
            next: Next::Go,
            progress: false,
            more: false,
        };
        for _ in 0..Self::STEPS {
            let Ok(Some(step)) = registry::with(|r| r.next_step(self.gpu)) else {
                return done;
            };
            if step.is_moved {
                self.looks.look_at(&[step.handle]);
            }
            let outcome = step.perform(&driver);
            match registry::with(|r| r.complete(&step, &outcome)) {
                Ok(Next::Wait(delay)) => {
                    done.next = Next::Wait(delay);
                    return done;
                }
                Ok(Next::Go) | Err(_) => done.progress = true,
            }
        }
        done.more = true;
        done
    }

    /// A worker's job for a GPU.
    pub(crate) fn new(
        gpu: gpu::Id,
        handle: gpu::Handle,
        ops: Arc<Ops>,
        meters: Arc<Meters>,
    ) -> Result<Self> {
        let looks = Looks::new(gpu, handle, ops.clone(), meters)?;
        Ok(Self {
            gpu,
            handle,
            ops,
            news: KBox::pin_init(new_mutex!(Reader::default(), "zernel_news"), GFP_KERNEL)?,
            rotation: KBox::pin_init(new_mutex!(Rotation::new(), "zernel_rotation"), GFP_KERNEL)?,
            exclusion: KBox::pin_init(
                new_mutex!(Exclusion::new(), "zernel_exclusion"),
                GFP_KERNEL,
            )?,
            budgets: KBox::pin_init(new_mutex!(Budgets::new()?, "zernel_budgets"), GFP_KERNEL)?,
            activity: KBox::pin_init(Activity::new(), GFP_KERNEL)?,
            listening: Atomic::new(false),
            looks,
        })
    }

    /// Takes a report of activity; `None`: of any TSG. Returns false if it does not matter. In any
    /// context.
    pub(crate) fn report(&self, tsg: Option<u64>) -> bool {
        let matters = self.listening.load(Relaxed);
        if matters {
            self.activity.report(tsg);
        }
        matters
    }

    /// Takes over some of the news of the registry. Returns true if there are more.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; what could not be taken over is news again.
    fn take_news(&self, budgets: &mut Budgets) -> Result<bool> {
        let mut exclusion = self.exclusion.lock();
        if !exclusion.has_room() {
            // It is through with the others first.
            return Ok(true);
        }
        let mut piece = Piece::default();
        let mut reader = self.news.lock();
        // Without a registry there are none.
        let _ = registry::with(|r| r.read_news(self.gpu, &mut reader, &mut piece));
        for change in piece.changes.iter().flatten() {
            exclusion.hear(change);
        }
        drop((reader, exclusion));
        let mut rotation = self.rotation.lock();
        if let Some(terms) = &piece.terms {
            budgets.set_params(&terms.budgets);
            rotation.set_turns(&terms.turns);
        }
        let mut result = Ok(piece.more);
        for change in piece.changes.iter().flatten() {
            let mut taken = budgets.take(change, &self.activity);
            if self.ops.abilities().turns {
                taken = taken.and(rotation.take(change, &self.activity));
            }
            if let Err(error) = taken {
                let _ = registry::with(|r| r.add_news(change.id));
                result = Err(error);
            }
        }
        result
    }

    /// Does one thing about exclusion, turns and budgets. Returns the next one.
    fn rotate(&self) -> rotation::Next {
        let abilities = self.ops.abilities();
        let driver = calls::Driver {
            ops: &self.ops,
            gpu: self.gpu,
            handle: self.handle,
        };
        if !abilities.enable {
            return rotation::Next::Idle;
        }
        let mut budgets = self.budgets.lock();
        let throttled = budgets.throttled();
        let device = registry::with(|r| {
            let gpu = r.gpu(self.gpu).filter(|gpu| !gpu.unresponsive)?;
            Some(gpu.requests.clone())
        });
        let Ok(Some(device)) = device else {
            budgets.release();
            return rotation::Next::Idle;
        };
        let news = self.take_news(&mut budgets);
        let state = self
            .exclusion
            .lock()
            .step(&driver, &device, abilities.preempt, throttled);
        let held = match state {
            exclusion::State::Nobody => None,
            exclusion::State::Below(level, since) => Some((level, since)),
            exclusion::State::Wait(delay) => {
                budgets.release();
                return rotation::Next::Wait(delay);
            }
            exclusion::State::Again(held) => {
                // The time until then is charged.
                budgets.step(&driver, self.gpu, &self.activity, held);
                return rotation::Next::Again;
            }
        };
        if held.is_some() {
            // Turns stand still.
            device.set_handing_over(false);
        }
        let charge = budgets.step(&driver, self.gpu, &self.activity, held);
        device.set_lc_busy(budgets.is_busy());
        if budgets.throttled() != throttled {
            // Requests of levels with a spent budget exclude no TSG.
            return rotation::Next::Again;
        }
        let mut rotation = self.rotation.lock();
        let mut next = rotation::Next::Idle;
        if held.is_none() && abilities.turns {
            // The two calls of a hand-over come in a row, and some for TSGs out of turn; but a request
            // without a holder waits for one.
            for _ in 0..Self::TURNS {
                next = rotation.step(&driver, &device, &self.activity);
                if !matches!(next, rotation::Next::Called) || device.holder(throttled).is_some() {
                    break;
                }
            }
            if let rotation::Next::Called = next {
                next = rotation::Next::Again;
            }
        }
        let watches = !rotation.is_empty() || !budgets.is_empty();
        if !self.listening.xchg(watches, Relaxed) && watches {
            // Nobody told of earlier events: all are looked at once more.
            self.activity.report(None);
            return rotation::Next::Again;
        }
        match (news, next, charge) {
            (_, rotation::Next::Wait(delay), _) => rotation::Next::Wait(delay),
            // Out of memory: nothing else may ever remind of them.
            (Err(_), _, _) => rotation::Next::Wait(Self::RETRY),
            (Ok(true), _, _) | (_, rotation::Next::Again, _) | (_, _, budget::Next::Again) => {
                rotation::Next::Again
            }
            (_, rotation::Next::At(at), budget::Next::At(Some(other))) => {
                rotation::Next::At(at.min(other))
            }
            (_, rotation::Next::Idle, budget::Next::At(Some(at))) => rotation::Next::At(at),
            (_, next, _) => next,
        }
    }
}

impl Job for Pass {
    fn run(worker: &Worker<Self>) {
        if let Ok(Some(until)) = registry::with(|r| r.waits_until(worker.gpu)) {
            worker.kick_at(until);
            return;
        }
        for round in 1.. {
            let steps = worker.run_steps();
            if let Next::Wait(delay) = steps.next {
                worker.kick_after(delay.0);
                return;
            }
            let next = worker.rotate();
            if let rotation::Next::Wait(delay) = next {
                worker.kick_after(delay.0);
                return;
            }
            let more = steps.more || matches!(next, rotation::Next::Again);
            // Looks are less urgent, but are not to wait for ever.
            if more && round % Self::ROUNDS != 0 {
                continue;
            }
            if worker.looks.go_on() || more {
                continue;
            }
            let at = match next {
                rotation::Next::At(at) => Some(at),
                _ => None,
            };
            // A TSG with changes that fail is left alone until then.
            let due = registry::with(|r| r.next_due(worker.gpu)).unwrap_or(None);
            let at = match (at, due) {
                (Some(at), Some(due)) => Some(at.min(due)),
                (at, due) => at.or(due),
            };
            if let Some(at) = at {
                worker.kick_at(at);
            }
            return;
        }
    }
}
