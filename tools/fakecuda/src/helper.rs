// SPDX-License-Identifier: MIT OR Apache-2.0
//! The helper threads of a context: one takes completions, one looks at words that the GPU does not
//! see, one calls functions of the program. The last two start with their first work.

use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags};
use rustix::thread::set_current_timer_slack;

use crate::command::Check;
use crate::context::Context;
use crate::driver::{self, lock};
use crate::gpu::Gate;
use crate::status::{Result, Status};
use crate::sys::process::{self, Callback};

/// Time between two looks at a word.
const LOOK: Duration = Duration::from_micros(20);

thread_local! {
    static IS_CALLBACK: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// True in a function that a stream calls.
pub(crate) fn is_callback() -> bool {
    IS_CALLBACK.get()
}

/// The threads.
#[derive(Debug)]
pub(crate) struct Helpers {
    stop: OwnedFd,
    threads: Mutex<Vec<JoinHandle<()>>>,
    watches: Arc<Watches>,
    callbacks: Mutex<Option<Sender<(Callback, Gate)>>>,
}

#[derive(Debug, Default)]
struct Watches {
    list: Mutex<List>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct List {
    watches: Vec<(Check, Gate)>,
    state: State,
    /// Rises when all are forgotten.
    round: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Runs,
    Stops,
}

impl Helpers {
    pub(crate) fn new() -> Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|_| Status::OPERATING_SYSTEM)?;
        Ok(Self {
            stop,
            threads: Mutex::default(),
            watches: Arc::default(),
            callbacks: Mutex::default(),
        })
    }

    fn spawn(&self, run: impl FnOnce() + Send + 'static) -> bool {
        let thread = process::spawn(run);
        let is_there = thread.is_some();
        lock(&self.threads).extend(thread);
        is_there
    }

    /// Takes completions from now on.
    pub(crate) fn start(&self, context: &Arc<Context>) -> Result<()> {
        let own = context.clone();
        match self.spawn(move || own.helpers.take_completions(&own)) {
            true => Ok(()),
            false => Err(Status::OPERATING_SYSTEM),
        }
    }

    fn take_completions(&self, context: &Arc<Context>) {
        loop {
            let entry = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            let mut fds = [entry(context.gpu.as_fd()), entry(self.stop.as_fd())];
            let has_come = poll(&mut fds, None);
            if has_come.is_ok() && !fds[1].revents().is_empty() {
                return;
            }
            context.apply();
        }
    }

    /// Opens a gate when something is true.
    pub(crate) fn watch(&self, context: &Arc<Context>, check: Check, gate: Gate) {
        // A look at another context takes the locks of that: the thread does it, which has none.
        if !matches!(check, Check::Point(..)) && is_true(&check) {
            return context.gpu.open(gate);
        }
        let mut list = lock(&self.watches.list);
        list.watches.push((check, gate));
        if list.state == State::Idle {
            list.state = State::Runs;
            let (watches, own) = (self.watches.clone(), context.clone());
            if !self.spawn(move || watches.run(&own)) {
                list.state = State::Idle;
            }
        }
        self.watches.changed.notify_all();
    }

    /// Calls a function of the program, then opens a gate. In a context that has failed, callbacks
    /// of streams alone are called.
    pub(crate) fn call(&self, context: &Arc<Context>, callback: Callback, gate: Gate) {
        let mut sender = lock(&self.callbacks);
        let send = sender.get_or_insert_with(|| {
            let (send, receive) = channel::<(Callback, Gate)>();
            let own = context.clone();
            self.spawn(move || {
                IS_CALLBACK.set(true);
                for (callback, gate) in receive {
                    callback.call(own.status().err().map_or(0, |status| status.0));
                    own.gpu.open(gate);
                }
            });
            send
        });
        if send.send((callback, gate)).is_err() {
            // No thread could be made.
            context.gpu.open(gate);
        }
    }

    /// Forgets all words.
    pub(crate) fn forget(&self) {
        lock(&self.watches.list).forget();
    }

    /// Ends the threads.
    pub(crate) fn stop(&self) {
        // The counter of the eventfd never gets near its end.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        *lock(&self.callbacks) = None;
        let mut list = lock(&self.watches.list);
        list.forget();
        list.state = State::Stops;
        self.watches.changed.notify_all();
        drop(list);
        let threads = std::mem::take(&mut *lock(&self.threads));
        let own = std::thread::current().id();
        for thread in threads
            .into_iter()
            .filter(|thread| thread.thread().id() != own)
        {
            // One that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

impl List {
    fn forget(&mut self) {
        self.watches.clear();
        self.round += 1;
    }
}

impl Watches {
    fn run(&self, context: &Arc<Context>) {
        // Without it looks come later.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut list = lock(&self.list);
        loop {
            let (watches, round) = (std::mem::take(&mut list.watches), list.round);
            drop(list);
            let left: Vec<_> = watches
                .into_iter()
                .filter(|(check, gate)| {
                    // That of a holder that ended by its bound is passed by a later one.
                    if context.gpu.is_open(*gate) {
                        return false;
                    }
                    let is_over = is_true(check);
                    if is_over {
                        context.gpu.open(*gate);
                    }
                    !is_over
                })
                .collect();
            list = lock(&self.list);
            if list.round == round {
                list.watches.splice(0..0, left);
            }
            let wait = match (&list.state, list.watches.is_empty()) {
                (State::Stops, _) => return,
                (_, true) => Duration::from_secs(3_600),
                (_, false) => LOOK,
            };
            let woken = self.changed.wait_timeout(list, wait);
            (list, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A word that is not there any more meets every condition, so that no stream waits for ever. So
/// does a point of a context that has failed or is gone.
fn is_true(check: &Check) -> bool {
    match check {
        Check::Word(word, condition, value) => {
            let now = driver::space().load(word.spot, word.is_wide);
            now.map_or(true, |now| condition.is_met(now, *value, word.is_wide))
        }
        Check::Point(other, word, ticket) => {
            let Some(other) = other.upgrade() else {
                return true;
            };
            // All effects before the point are there then.
            let point = (*word, *ticket);
            other.status().is_err() || other.has_come_to(point).unwrap_or(true)
        }
    }
}
