// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that keeps to the protocol, if not always to its order, and its streams on the GPU.

use super::watched::{at, Coverage, Event, Watched, USED};
use crate::policy::request::{
    record::Cause,
    words::{Number, Observed},
    State,
};
use stateright::{Model, Property};

/// The progress of the process with its last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Process {
    Begun,
    Stamped,
    Released,
    Ready,
    Done,
}

/// The stream: the request that it is at, and whether it has passed the wait before the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stream {
    at: Number,
    holds: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    watched: Watched,
    words: Observed,
    process: Process,
    stream: Stream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct World<const LANES: usize> {
    lanes: [Lane; LANES],
    now: u8,
    alive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Kernel(usize, Event),
    Process(usize),
    DoneUnready(usize),
    Stream(usize),
    All(Cause),
    Die,
    Tick,
}

/// A process that keeps to the protocol, if not always to its order.
pub(super) struct Honest<const LANES: usize> {
    pub(super) requests: u8,
    /// Ticks by which the trigger of a slot's request can be ahead.
    pub(super) leads: [&'static [u8]; LANES],
    pub(super) ticks: u8,
    /// True if it stores each word in a step of its own, calls, and forgets ready; else it is ready
    /// and done by store, each in one step.
    pub(super) thorough: bool,
    pub(super) coverage: Coverage,
}

impl Lane {
    fn new() -> Self {
        Self {
            watched: Watched::new(),
            words: Observed {
                gate: 1,
                done: USED,
                trigger: USED,
                release: USED,
                held: USED,
                ..Observed::default()
            },
            process: Process::Done,
            stream: Stream {
                at: Number::new(USED).unwrap_or(Number::ONE).next(),
                holds: false,
            },
        }
    }

    fn kernel(&mut self, event: Event, now: u8, coverage: &Coverage) {
        let actions = self.watched.happen(event, now, &self.words);
        coverage.note(&actions);
        if let Some(number) = actions.release {
            self.words.release = number.get();
        }
        if let Some(number) = actions.trigger {
            self.words.trigger = number.get();
        }
        match event {
            Event::Begin { .. } => self.process = Process::Begun,
            Event::Ready => self.process = Process::Ready,
            Event::Done | Event::Cancel => self.process = Process::Done,
            Event::Poll | Event::End(_) => {}
        }
    }

    /// The next store of the process; `None` if it has nothing more to say.
    fn process(&mut self, now: u8) -> Option<()> {
        let number = self.watched.begun?;
        self.process = match self.process {
            Process::Begun => {
                self.words.ready_ns = at(now);
                Process::Stamped
            }
            Process::Stamped => {
                self.words.release = number.get();
                Process::Released
            }
            Process::Released => {
                if !number.is_reached_by(self.words.trigger) {
                    self.words.trigger = number.get();
                }
                Process::Ready
            }
            Process::Ready => self.say_done(now, number),
            Process::Done => return None,
        };
        Some(())
    }

    fn say_done(&mut self, now: u8, number: Number) -> Process {
        self.words.done_ns = at(now);
        self.words.done = number.get();
        Process::Done
    }

    fn stream(&mut self) -> Option<()> {
        // Not submitted yet.
        if !self.stream.at.is_reached_by(self.watched.begun?.get()) {
            return None;
        }
        if !self.stream.holds {
            if !self.stream.at.is_reached_by(self.words.trigger) {
                return None;
            }
            self.stream.holds = true;
            self.words.held = self.stream.at.get();
            return Some(());
        }
        if !self.stream.at.is_reached_by(self.words.release) {
            return None;
        }
        self.stream = Stream {
            at: self.stream.at.next(),
            holds: false,
        };
        Some(())
    }

    fn is_free(&self, number: Number) -> bool {
        number.is_reached_by(self.words.trigger) && number.is_reached_by(self.words.release)
    }

    /// True if no stream waits for a request that is over.
    fn loses_no_release(&self) -> bool {
        self.watched.over.is_none_or(|number| self.is_free(number))
    }

    /// True if a request that is ready, by store or call, waits for nothing more of the kernel.
    fn runs_when_ready(&self) -> bool {
        let running = matches!(self.watched.slot.state(), State::Running { .. });
        let ready = running || self.process == Process::Ready;
        !ready || self.watched.begun.is_none_or(|n| self.is_free(n))
    }

    /// True if the GPU is held by a stream only as long as a timer will end it.
    fn holds_within_lease(&self) -> bool {
        let holds = self.stream.holds && !self.stream.at.is_reached_by(self.words.release);
        let taken = matches!(self.watched.slot.state(), State::Taken { .. });
        !holds || taken && self.watched.slot.active() == Some(self.stream.at)
    }
}

impl<const LANES: usize> Honest<LANES> {
    fn every(of: fn(&Lane) -> bool) -> impl Fn(&World<LANES>) -> bool {
        move |world| world.lanes.iter().all(of)
    }
}

impl<const LANES: usize> Model for Honest<LANES> {
    type State = World<LANES>;
    type Action = Step;

    fn init_states(&self) -> Vec<Self::State> {
        vec![World {
            lanes: [Lane::new(); LANES],
            now: 0,
            alive: true,
        }]
    }

    fn actions(&self, world: &Self::State, steps: &mut Vec<Step>) {
        for (i, (lane, leads)) in world.lanes.iter().zip(self.leads).enumerate() {
            steps.push(Step::Stream(i));
            if world.alive {
                steps.push(Step::Process(i));
                if self.thorough && lane.process == Process::Begun {
                    steps.push(Step::DoneUnready(i));
                }
            }
            if !lane.watched.open {
                continue;
            }
            steps.push(Step::Kernel(i, Event::Poll));
            if world.alive {
                steps.push(Step::Kernel(i, Event::End(Cause::Closed)));
                if lane.watched.begins < self.requests {
                    let begin = |&lead| Step::Kernel(i, Event::Begin { lead });
                    steps.extend(leads.iter().map(begin));
                }
                if self.thorough && lane.watched.begins > 0 {
                    let calls = [Event::Ready, Event::Done, Event::Cancel];
                    steps.extend(calls.map(|event| Step::Kernel(i, event)));
                }
            }
        }
        if world.now < self.ticks {
            steps.push(Step::Tick);
        }
        steps.push(Step::All(Cause::Suspended));
        steps.push(if world.alive {
            Step::Die
        } else {
            Step::All(Cause::Closed)
        });
    }

    fn next_state(&self, world: &Self::State, step: Step) -> Option<Self::State> {
        let mut next = *world;
        match step {
            Step::Kernel(i, event) => next.lanes[i].kernel(event, world.now, &self.coverage),
            Step::Process(i) => {
                let lane = &mut next.lanes[i];
                lane.process(world.now)?;
                while !self.thorough && !matches!(lane.process, Process::Ready | Process::Done) {
                    lane.process(world.now)?;
                }
            }
            Step::DoneUnready(i) => {
                let lane = &mut next.lanes[i];
                lane.process = lane.say_done(world.now, lane.watched.begun?);
            }
            Step::Stream(i) => next.lanes[i].stream()?,
            Step::All(cause) => {
                for lane in next.lanes.iter_mut().filter(|lane| lane.watched.open) {
                    lane.kernel(Event::End(cause), world.now, &self.coverage);
                }
            }
            Step::Die => next.alive = false,
            Step::Tick => next.now += 1,
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every event is answered well", |_, w: &World<LANES>| {
                Self::every(|lane| lane.watched.fault.is_none())(w)
            }),
            Property::always("every begin has one outcome", |_, w: &World<LANES>| {
                Self::every(|lane| lane.watched.is_counted())(w)
            }),
            Property::always("no release is lost", |_, w: &World<LANES>| {
                Self::every(Lane::loses_no_release)(w)
            }),
            Property::always(
                "latency-critical work waits bounded",
                |_, w: &World<LANES>| Self::every(Lane::runs_when_ready)(w),
            ),
            Property::always("best-effort work waits bounded", |_, w: &World<LANES>| {
                Self::every(|lane| lane.watched.is_bounded() && lane.holds_within_lease())(w)
            }),
        ]
    }
}
