// SPDX-License-Identifier: GPL-2.0
//! Slices that follow latencies, or slacks, from the worker of a GPU: carries out decisions of
//! [`policy::slices`](crate::policy::slices).

use super::{
    follow::Followers,
    slack::Slack, //
};
use crate::{
    glue::{
        provider::Ops,
        time::now_ns, //
    },
    policy::{
        histogram::Latencies,
        level::{
            self,
            Level, //
        },
        slices::{
            pid::{
                Controllers,
                Target,
                Terms, //
            },
            Instead, //
        },
        units::{
            Ns,
            Ppm,
            Us, //
        },
    },
    registry::{
        self,
        gpu::{
            self,
            Abilities, //
        }, //
    },
    request::device::Device,
    tuned, //
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
    },
};

/// The slices of a GPU.
pub(super) struct Slices {
    state: Pin<KBox<Mutex<State>>>,
    /// It was told that levels are to keep the engine, which their budgets do not bound.
    is_told: Atomic<bool>,
    /// Slices follow, or did, and some of that is left.
    is_on: Atomic<bool>,
    gpu: gpu::Id,
    /// Its number at the provider.
    handle: gpu::Handle,
    ops: Arc<Ops>,
    /// Those of single TSGs.
    slack: Pin<KBox<Mutex<Slack>>>,
    /// These follow, or did.
    slack_is_on: Atomic<bool>,
    /// It was told that they cannot.
    slack_is_told: Atomic<bool>,
    /// It was told that copies have no places.
    copies_are_told: Atomic<bool>,
}

/// The state of controllers.
struct State {
    gpu: gpu::Id,
    controllers: Controllers,
    /// The latencies up to the last control period, of levels with a target.
    before: [Option<KBox<Latencies>>; level::COUNT],
    /// Those of one level now.
    now: Option<KBox<Latencies>>,
    /// The slices that are in force.
    instead: Instead,
    /// TSGs that are still to follow the last change of these.
    follow: Followers,
    /// The end of the control period.
    due: Ns,
    /// Slices followed latencies at the last step.
    is_on: bool,
}

impl Slices {
    /// They follow nothing yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(gpu: gpu::Id, handle: gpu::Handle, ops: Arc<Ops>) -> Result<Self> {
        let state = State {
            gpu,
            controllers: Controllers::new(),
            before: [const { None }; level::COUNT],
            now: None,
            instead: Instead::NONE,
            follow: Followers::none(),
            due: Ns::ZERO,
            is_on: false,
        };
        Ok(Self {
            state: KBox::pin_init(new_mutex!(state, "zernel_slices"), GFP_KERNEL)?,
            is_told: Atomic::new(false),
            is_on: Atomic::new(false),
            gpu,
            handle,
            ops,
            slack: KBox::pin_init(new_mutex!(Slack::new(), "zernel_slack"), GFP_KERNEL)?,
            slack_is_on: Atomic::new(false),
            slack_is_told: Atomic::new(false),
            copies_are_told: Atomic::new(false),
        })
    }

    /// Tells of operations that the provider lacks for what is tuned, once for each time that it is.
    /// `has_turns`: there are budgets.
    pub(super) fn tell_missing(&self, gpu: gpu::Id, abilities: Abilities, has_turns: bool) {
        self.tell_slack(abilities, has_turns);
        if !abilities.interleave {
            self.tell_copies();
        }
        if tuned::kept_levels() == level::Set::NONE {
            if self.is_told.load(Relaxed) {
                self.is_told.store(false, Relaxed);
            }
            return;
        }
        // The answers of a GPU come and go with the TSGs of anybody.
        if has_turns || self.is_told.xchg(true, Relaxed) {
            return;
        }
        let missing = match (abilities.enable, abilities.tsg_load) {
            (false, false) => "set_enabled and query_tsg",
            (false, true) => "set_enabled",
            (true, false) => "query_tsg",
            // It has all, and could not answer.
            (true, true) => "an answer to query_tsg",
        };
        pr_warn!(
            "GPU {}: its provider lacks {}: levels that are not preemptible have slices as long as \
             their budget there, but no budget, and are preemptible\n",
            gpu.0,
            missing
        );
    }

    /// The same of slices that follow slacks.
    fn tell_slack(&self, abilities: Abilities, has_turns: bool) {
        if !tuned::slack_is_followed() {
            if self.slack_is_told.load(Relaxed) {
                self.slack_is_told.store(false, Relaxed);
            }
            return;
        }
        let missing = match (abilities.tsg_load, abilities.turns && !has_turns) {
            (false, _) => "query_tsg",
            (true, true) => "an answer to query_tsg",
            (true, false) => return,
        };
        if !self.slack_is_told.xchg(true, Relaxed) {
            pr_warn!(
                "GPU {}: its provider lacks {}: with slice_policy slack, TSGs have the slices of the \
                 table there\n",
                self.gpu.0,
                missing
            );
        }
    }

    /// The same of classes of copies, which have no interleave levels.
    #[cold]
    fn tell_copies(&self) {
        let are_classed = tuned::copies_are_classed();
        if self.copies_are_told.xchg(are_classed, Relaxed) || !are_classed {
            return;
        }
        pr_warn!(
            "GPU {}: its provider lacks set_interleave: with copy_timeslice_us, copies have the slices of \
             their classes there, and none goes first\n",
            self.gpu.0
        );
    }

    /// Ends a control period or a quantum that is over, and brings some TSGs in line. Returns when to
    /// come back.
    pub(super) fn step(&self) -> Option<Ns> {
        let all = [self.step_levels(), self.step_slack()];
        all.into_iter().flatten().min()
    }

    fn step_slack(&self) -> Option<Ns> {
        let follows = tuned::slack_is_followed();
        if !follows && !self.slack_is_on.load(Relaxed) {
            return None;
        }
        self.slack_is_on.store(follows, Relaxed);
        let terms = registry::with(|r| r.tunables().slack());
        let mut slack = self.slack.lock();
        match terms.ok().flatten().filter(|_| follows) {
            Some(terms) => slack.step((self.gpu, self.handle), &self.ops, &terms),
            None => {
                slack.end(self.gpu);
                None
            }
        }
    }

    fn step_levels(&self) -> Option<Ns> {
        let follows = tuned::slices_follow();
        if !follows && !self.is_on.load(Relaxed) {
            return None;
        }
        let next = self.state.lock().step(follows);
        self.is_on.store(follows || next.is_some(), Relaxed);
        next
    }
}

impl State {
    fn step(&mut self, is_on: bool) -> Option<Ns> {
        let now = Ns(now_ns());
        match (is_on, self.is_on) {
            (true, false) => self.begin(now),
            // All have the slices of the change before: with many, those at the end never had one.
            (true, true) if self.due <= now && self.follow.are_none() => self.control(now),
            (false, true) => self.end(),
            _ => {}
        }
        self.follow.step();
        match self.follow.are_none() {
            true => is_on.then_some(self.due),
            false => Some(now),
        }
    }

    /// The control period that begins now.
    fn arm(&mut self, now: Ns) {
        let period = registry::with(|r| r.tunables().slices().period());
        self.due = now.saturating_add(Ns::from(period.unwrap_or(Us(u32::MAX))));
    }

    fn begin(&mut self, now: Ns) {
        self.is_on = true;
        self.controllers = Controllers::new();
        self.before = [const { None }; level::COUNT];
        self.arm(now);
        // All that was before is no latency of the first control period.
        self.measure();
    }

    fn end(&mut self) {
        self.is_on = false;
        self.before = [const { None }; level::COUNT];
        self.now = None;
        self.put(Instead::NONE);
    }

    fn control(&mut self, now: Ns) {
        self.arm(now);
        let Some((terms, measured)) = self.measure() else {
            return;
        };
        let instead = self.controllers.step(&terms, &measured);
        self.put(instead);
    }

    /// The latencies of the control period that is over, of each level with a target.
    fn measure(&mut self) -> Option<(Terms, [Option<Ns>; level::COUNT])> {
        let found = registry::with(|r| {
            let device = r.gpu(self.gpu)?.requests.clone();
            Some((r.tunables().feedback()?, device))
        });
        let (terms, device) = found.ok().flatten()?;
        let mut measured = [None; level::COUNT];
        for (place, level) in measured.iter_mut().zip(Level::ALL) {
            let target = terms
                .targets
                .get(level.number() as usize)
                .copied()
                .flatten();
            *place = match target {
                Some(target) => self.latency(&device, level, target),
                None => {
                    self.forget(level);
                    None
                }
            };
        }
        Some((terms, measured))
    }

    fn forget(&mut self, level: Level) {
        if let Some(place) = self.before.get_mut(level.number() as usize) {
            *place = None;
        }
    }

    /// The latency of the requests of a level that are over since the last look. Without memory, or
    /// at the first look, there is none.
    fn latency(&mut self, device: &Arc<Device>, level: Level, target: Target) -> Option<Ns> {
        let place = self.before.get_mut(level.number() as usize)?;
        let mut now = match self.now.take() {
            Some(now) => now,
            None => KBox::zeroed(GFP_KERNEL).ok()?,
        };
        now.clear();
        device.totals.of(Some(level))?.add_latencies_to(&mut now);
        let share = Ppm(target.quantile.0.saturating_mul(1_000));
        let before = place.replace(now);
        let latency = before
            .as_ref()
            .zip(place.as_ref())
            .and_then(|(before, now)| now.quantile_since(before, share));
        self.now = before;
        latency
    }

    /// Has levels have these slices.
    fn put(&mut self, instead: Instead) {
        if instead == self.instead {
            return;
        }
        self.instead = instead;
        // Without a registry there is nothing to change.
        let changed = registry::with(|r| r.set_instead(self.gpu, instead)).unwrap_or(None);
        self.follow.change(changed);
    }
}
