// SPDX-License-Identifier: GPL-2.0
//! The state of a slot: its request, whose it is, what is known of it and told to others.

use crate::{
    glue::{
        identity::Uid,
        trace, //
    },
    ids::TsgId,
    policy::{
        counters::Uncounted,
        deadline::line::Place,
        level::Level,
        predict::{
            features::{
                lessons::{
                    Lesson,
                    Lessons,
                    Taken, //
                },
                Features, //
            },
            Choice,
            Kind, //
        },
        request::{
            record::{
                Ended,
                Record, //
            },
            succession::Succession,
            trial::Trial,
            words::Number, //
        },
        units::Ns, //
    },
    request::{
        boost::Ticket,
        device::Device,
        group::Group,
        holds::Hold,
        keys::{
            Key,
            Prediction,
            Thought, //
        },
    },
};
use kernel::sync::Arc;

/// A key of a user.
pub(crate) type Name = (u64, Uid);

/// The place of a request in the order of deadlines.
pub(super) struct Turn {
    pub(super) gpu: Arc<Device>,
    pub(super) place: Place,
    pub(super) number: Number,
    /// The level that it is counted under, and the deadline that was promised.
    pub(super) promise: Option<(Level, Ns)>,
    /// Its end, where another request has begun since.
    pub(super) ended: Option<Ended>,
}

/// Lessons to be learned without the lock of the slot: not in a timer, but by a call.
pub(super) struct Due {
    pub(super) key: Arc<Key>,
    pub(super) lessons: Taken,
}

impl Due {
    /// Has the key learn them. Sleeps.
    #[cold]
    #[inline(never)]
    pub(super) fn learn(self) {
        self.key.study(self.lessons);
    }
}

/// The state that the lock of a slot protects.
pub(crate) struct State {
    pub(super) requests: Succession,
    /// The time that was asked for last, before it was spread; 0: the timer is not armed. Asking
    /// again takes no other place.
    pub(super) alarm: Ns,
    /// The timers of its user were many when it was set last, but by itself.
    pub(super) is_spread: bool,
    /// The TSG, while it is there.
    pub(super) group: Option<Arc<Group>>,
    /// The key of the requests, its user, and its history.
    pub(super) key: Option<(Name, Arc<Key>)>,
    /// Level under which the request that is not over is counted.
    pub(super) level: Option<Level>,
    /// The predictions of the request that is not over, and of the one before it; kept while one of
    /// them has a margin or features, which is all that is learned from it.
    pub(super) choices: (Choice, Choice),
    /// The lessons from the features of both.
    pub(super) lessons: Lessons,
    /// The prediction of the key, for the next begin.
    pub(super) ahead: Option<Prediction>,
    /// Events that the statistics do not have yet.
    pub(super) uncounted: Uncounted,
    /// The GPU that it took without a holder.
    pub(super) holds: Option<(Arc<Device>, Hold)>,
    /// The place of a request in the order of deadlines. Changed with the order locked.
    pub(super) turn: Option<Turn>,
    /// Names the thread that bound it, for the preference of that thread.
    pub(super) ticket: Option<Arc<Ticket>>,
}

impl State {
    /// No request, no TSG.
    pub(super) fn new() -> Self {
        Self {
            requests: Succession::new(),
            alarm: Ns::ZERO,
            is_spread: false,
            group: None,
            key: None,
            level: None,
            choices: (Choice::default(), Choice::default()),
            lessons: Lessons::NONE,
            ahead: None,
            uncounted: Uncounted::default(),
            holds: None,
            turn: None,
            ticket: None,
        }
    }

    /// Has both statistics that the requests count in follow.
    fn count(&mut self) {
        if self.uncounted.is_empty() {
            return;
        }
        if let Some(group) = &self.group {
            group
                .stats
                .count(|counters| counters.count(&self.uncounted));
            if let Some(level) = group.gpu.totals.of(self.level) {
                level.count(|counters| counters.count(&self.uncounted));
            }
        }
        self.uncounted.clear();
    }

    /// A request is over: the one that was not over (`LAST`), or the one before it. A constant, as that
    /// costs a begin nothing.
    pub(super) fn over<const LAST: bool>(&mut self, record: &Record) {
        if let (Some(took), Some((_, key))) = (record.preparation(), &self.key) {
            let choice = match LAST {
                true => self.choices.0,
                false => self.choices.1,
            };
            key.learn(took, choice);
            if choice.kind == Kind::Features {
                // Later: this may be a timer.
                self.lessons.end(LAST, took);
            }
        }
        if let Some(group) = &self.group {
            trace::request_end(
                group.tsg.0,
                record.number.get(),
                record.cause as u32,
                record.latency().unwrap_or_default().0,
                record.early.0,
                record.late.0,
            );
        }
        if let Some(trial) = &record.trial {
            self.learn(trial);
        }
        if self.uncounted.over.is_some() {
            self.count();
        }
        self.uncounted.over = Some(*record);
    }

    /// Works out an outcome that was left for later, and counts it.
    pub(super) fn catch_up(&mut self) {
        if let Some(record) = self.requests.catch_up() {
            self.over::<false>(&record);
        }
        self.count();
        // As the one before this is most likely to be asked for.
        if let Some(ahead) = self.ahead {
            self.predict(ahead.choice);
        }
    }

    /// The TSG of the requests, if it and their key are these.
    pub(super) fn bound(&self, tsg: TsgId, name: Name) -> Option<&Group> {
        match (&self.group, &self.key) {
            (Some(group), Some((bound, _))) if group.tsg == tsg && *bound == name => Some(group),
            _ => None,
        }
    }

    /// The time from begin at which the GPU shall be free; `None` if nothing is known.
    #[inline]
    pub(super) fn predict(&mut self, choice: Choice) -> Option<Ns> {
        let (_, key) = self.key.as_ref()?;
        match &self.ahead {
            Some(ahead) if ahead.choice == choice && key.predicts(ahead) => ahead.time,
            _ => self.ahead.insert(key.predict(choice)).time,
        }
    }

    /// The same for a request with features, when more was learned of its key than features tell.
    #[cold]
    #[inline(never)]
    pub(super) fn think_again(&self, thought: &mut Thought, choice: Choice) -> Option<Ns> {
        let (_, key) = self.key.as_ref()?;
        if thought.told.is_none() {
            thought.fallback = key.predict(choice).time;
            thought.told = thought.fallback;
        }
        thought.told
    }

    /// The lessons that are due, from requests that are over.
    #[cold]
    #[inline(never)]
    pub(super) fn due(&mut self) -> Option<Due> {
        let (_, key) = self.key.as_ref()?;
        (!self.lessons.is_none()).then(|| Due {
            key: key.clone(),
            lessons: self.lessons.take(),
        })
    }

    /// Keeps how the request that begins was predicted. Returns the lessons that are due.
    #[cold]
    #[inline(never)]
    pub(super) fn keep(
        &mut self,
        choice: Choice,
        features: Option<&Features>,
        thought: Option<&Thought>,
    ) -> Option<Due> {
        self.choices = (choice, self.choices.0);
        let due = self.due();
        let lesson = features.zip(thought).map(|(&features, thought)| Lesson {
            features,
            costs: thought.costs,
            fallback: thought.fallback,
        });
        self.lessons.begin(lesson);
        due
    }

    /// The ticket, if threads of requests like this one are preferred where any are.
    pub(super) fn preferable(&self) -> Option<&Arc<Ticket>> {
        self.ticket
            .as_ref()
            .filter(|_| self.level == Some(Level::LC))
    }

    /// Its thread is preferred from now on.
    #[cold]
    #[inline(never)]
    pub(super) fn prefer(&self) {
        if let Some(ticket) = self.preferable() {
            ticket.triggered();
        }
    }

    /// Its thread is preferred no more.
    #[cold]
    #[inline(never)]
    pub(super) fn prefer_no_more(&self) {
        if let Some(ticket) = self.preferable() {
            ticket.over();
        }
    }

    /// Learns the cost of a switch. The process stores the observation, and it concerns all
    /// requests of the GPU, so only those with a privileged class are believed.
    pub(super) fn learn(&self, trial: &Trial) {
        let believed = self.level.is_some_and(|l| l.is_above(Level::DEFAULT));
        if let (Some(group), true) = (&self.group, believed) {
            group.gpu.tried(group.handle, trial);
        }
    }

    /// Has the exclusion of the GPU follow the hold of the request.
    #[inline]
    pub(super) fn follow(&mut self) {
        if self.requests.holds() != self.holds.is_some() {
            self.hold();
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn hold(&mut self) {
        match (self.holds.take(), &self.group, self.level) {
            (Some((gpu, hold)), _, _) => gpu.let_go(hold, self.requests.runs()),
            (None, Some(group), Some(level)) => {
                let until = self.requests.holds_until();
                let hold = group.gpu.hold(group.tsg, level, until);
                self.holds = Some((group.gpu.clone(), hold));
            }
            _ => {}
        }
    }
}
