// SPDX-License-Identifier: GPL-2.0
//! The worker of a GPU: brings the driver in line with the registry, one TSG at a time.

mod deadlines;
mod urgent;

use crate::{
    glue::{
        provider::Ops,
        time::now_ns,
        work::{
            Job,
            Worker, //
        },
    },
    policy::{
        level::{
            self,
            Level, //
        },
        poll::{
            self,
            Poll, //
        },
        units::{
            Ms,
            Ns, //
        },
    },
    registry::{
        self,
        gpu,
        meters::Meters,
        reader::{
            Piece,
            Reader, //
        },
        steps::Next, //
    },
    tuned,
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
        perform::Real,
        rotation::{
            self,
            Rotation, //
        },
        slices::Slices,
        takeover::Takeover,
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
    /// Looks at TSGs, where the provider reports no activity.
    poll: Option<Pin<KBox<Mutex<Poll>>>>,
    /// TSGs to look at.
    activity: Pin<KBox<Activity>>,
    /// Some TSGs take turns, so that the load of TSGs matters.
    listening: Atomic<bool>,
    /// Looks at the load, for others than requests.
    looks: Looks,
    /// Slices that follow latencies or slacks.
    slices: Slices,
    /// TSGs that yield to requests with earlier deadlines.
    takeover: Pin<KBox<Mutex<Takeover>>>,
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
            if let Some(level) = step.raised(&outcome) {
                self.urge(step.tsg, level);
            }
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
        polled: bool,
    ) -> Result<Self> {
        let looks = Looks::new(gpu, handle, ops.clone(), meters)?;
        let slices = Slices::new(gpu, handle, ops.clone())?;
        let poll = match polled {
            true => Some(KBox::pin_init(
                new_mutex!(Poll::default(), "zernel_poll"),
                GFP_KERNEL,
            )?),
            false => None,
        };
        Ok(Self {
            poll,
            gpu,
            handle,
            ops,
            news: KBox::pin_init(new_mutex!(Reader::default(), "zernel_news"), GFP_KERNEL)?,
            rotation: KBox::pin_init(
                new_mutex!(Rotation::new(polled), "zernel_rotation"),
                GFP_KERNEL,
            )?,
            exclusion: KBox::pin_init(
                new_mutex!(Exclusion::new(), "zernel_exclusion"),
                GFP_KERNEL,
            )?,
            budgets: KBox::pin_init(new_mutex!(Budgets::new()?, "zernel_budgets"), GFP_KERNEL)?,
            activity: KBox::pin_init(Activity::new(), GFP_KERNEL)?,
            listening: Atomic::new(false),
            looks,
            slices,
            takeover: KBox::pin_init(new_mutex!(Takeover::new(), "zernel_takeover"), GFP_KERNEL)?,
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
    fn take_news(&self, driver: &calls::Driver<'_>, budgets: &mut Budgets) -> Result<bool> {
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
            let mut taken = budgets.take(driver, change, &self.activity);
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

    /// True if the provider may be called for the GPU: it responds, as far as known.
    fn may_ask(&self) -> bool {
        // Without a registry there is nothing to call for.
        registry::with(|r| r.may_ask(self.gpu)).unwrap_or(false)
    }

    /// The provider cannot be asked for a while: a look that is under way is over.
    fn stop_looks(&self) {
        if let Some(poll) = &self.poll {
            poll.lock().stop();
        }
    }

    /// Where the provider reports no activity, has all TSGs looked at once more when that is due.
    /// `turns`: they go on.
    fn next_look(
        &self,
        turns: bool,
        rotation: &mut Rotation,
        budgets: &Budgets,
    ) -> Option<poll::Next> {
        let mut poll = self.poll.as_ref()?.lock();
        let turns = turns && rotation.has_rivals();
        let levels = !budgets.is_empty();
        if !turns && !levels {
            poll.stop();
            return None;
        }
        let is_over = (!turns || rotation.has_looked(&self.activity))
            && (!levels || budgets.has_looked(&self.activity));
        let is_busy = rotation.is_busy() || budgets.has_running();
        let next = poll.step(Ns(now_ns()), rotation.interval(), is_over, is_busy);
        if next == poll::Next::Look {
            rotation.begin_look(*poll);
            self.activity.report(None);
        }
        Some(next)
    }

    /// Does one thing about exclusion, turns and budgets. Returns the next one.
    fn rotate_turns(&self) -> rotation::Next {
        let abilities = self.ops.abilities();
        let driver = calls::Driver {
            ops: &self.ops,
            gpu: self.gpu,
            handle: self.handle,
        };
        let mut budgets = self.budgets.lock();
        let throttled = budgets.throttled();
        let device = registry::with(|r| {
            let gpu = r.gpu(self.gpu)?;
            Some((gpu.requests.clone(), gpu.has_turns(), gpu.unresponsive))
        });
        let Ok(Some((device, has_turns, false))) = device else {
            if let Ok(Some((device, ..))) = device {
                device.follow_shared(budgets.news_of_shared(false));
            }
            budgets.release();
            self.stop_looks();
            return rotation::Next::Idle;
        };
        let kept = tuned::kept_levels();
        if kept != level::Set::NONE && device.has_urgent() {
            // A burst that has just begun is not to be ended.
            budgets.look(&driver, &self.activity);
        }
        if let Some(delay) = self.kick_urgent(&device, &budgets, kept) {
            budgets.release();
            self.stop_looks();
            return rotation::Next::Wait(delay);
        }
        // Some of them, if there are any, wait for the end of a burst.
        let waits = kept != level::Set::NONE && device.has_urgent();
        self.slices.tell_missing(self.gpu, abilities, has_turns);
        let can_look = abilities.enable && has_turns;
        if !abilities.enable {
            device.follow_shared(budgets.news_of_shared(can_look));
            return rotation::Next::Idle;
        }
        let news = self.take_news(&driver, &mut budgets);
        let state = self
            .exclusion
            .lock()
            .step(&driver, &device, abilities.preempt, throttled);
        if !self.may_ask() {
            // It did not respond.
            budgets.release();
            self.stop_looks();
            return rotation::Next::Idle;
        }
        let served = self.rotation.lock().served();
        let held = match state {
            exclusion::State::Nobody => None,
            exclusion::State::Below(level, since) => Some((level, since)),
            exclusion::State::Wait(delay) => {
                budgets.release();
                self.stop_looks();
                return rotation::Next::Wait(delay);
            }
            exclusion::State::Again(held) => {
                // The time until then is charged.
                budgets.step(&driver, (self.gpu, &self.activity), served, held);
                device.follow_shared(budgets.news_of_shared(can_look));
                return rotation::Next::Again;
            }
        };
        if held.is_some() {
            // Turns stand still.
            device.set_handing_over(false);
        }
        let charge = budgets.step(&driver, (self.gpu, &self.activity), served, held);
        device.set_lc_busy(budgets.is_busy());
        device.follow_shared(budgets.news_of_shared(can_look));
        if budgets.throttled() != throttled {
            // Requests of levels with a spent budget exclude no TSG, and they keep nothing.
            return rotation::Next::Again;
        }
        if waits && !budgets.keeps_from(Level::LC, kept) {
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
        let due = match self.next_look(held.is_none(), &mut rotation, &budgets) {
            Some(poll::Next::Look) => return rotation::Next::Again,
            Some(poll::Next::At(due)) => Some(due),
            Some(poll::Next::Go) | None => None,
        };
        let next = match (news, next, charge) {
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
        };
        let next = match (next, due) {
            (rotation::Next::Idle, Some(due)) => rotation::Next::At(due),
            (rotation::Next::At(at), Some(due)) => rotation::Next::At(at.min(due)),
            (next, _) => next,
        };
        match (held, next) {
            // The requests may not be told of the ends of their leases by then.
            (Some((level, _)), rotation::Next::Idle) => {
                rotation::Next::At(device.holds_until(level))
            }
            (Some((level, _)), rotation::Next::At(at)) => {
                rotation::Next::At(at.min(device.holds_until(level)))
            }
            (_, next) => next,
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
                worker.stop_looks();
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
            let may_ask = worker.may_ask();
            // These follow once it is back; looks that are asked for end without an answer.
            let slices = may_ask.then(|| worker.slices.step()).flatten();
            if worker.looks.go_on(may_ask) || more {
                continue;
            }
            let at = match next {
                rotation::Next::At(at) => Some(at),
                _ => None,
            };
            // A TSG with changes that fail is left alone until then.
            let due = registry::with(|r| r.next_due(worker.gpu)).unwrap_or(None);
            let all = [at, due, slices].into_iter().flatten();
            if let Some(at) = all.min() {
                worker.kick_at(at);
            }
            return;
        }
    }
}
