// SPDX-License-Identifier: MIT OR Apache-2.0
//! A round of a call site, from its begin to its end.

use std::time::{Duration, Instant};

use zernel_runtime::Request;

use crate::sites::Place;
use crate::verdict::{Outcome, Part};

/// The longest time from a begin to its trigger. A call that waits for the whole context and is not
/// seen waits so long for it, and for its lease.
pub const LONGEST: Duration = Duration::from_millis(20);

/// A round without a request whose work any thread may launch is given up after so long. One with a
/// request is when its lease is over.
const OFFERED: Duration = Duration::from_millis(100);

/// A round, and what its site is to learn of it.
#[derive(Debug)]
pub struct Underway {
    /// None: it is for comparison, or its request was refused or is over before its time.
    pub request: Option<Request>,
    pub site: &'static Place,
    pub part: Part,
    pub begun: Instant,
    /// Time that the begin took.
    pub cost: Duration,
    /// The outcome of the request, once it is known.
    pub outcome: Option<Outcome>,
    /// Its work was launched.
    pub has_work: bool,
}

/// The way a round ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its result is there.
    Done,
    /// It is given up, and its site learns that.
    Cancelled,
    /// It is given up for a cause that says nothing of its site.
    Dropped,
}

impl Underway {
    /// True if the lease of its request is over.
    pub fn is_expired(&self) -> bool {
        self.request.as_ref().is_some_and(Request::is_expired)
    }

    /// True if nobody will launch its work, as far as is known: its request has expired, or it has none
    /// and is old.
    pub fn is_stale(&self) -> bool {
        match &self.request {
            Some(request) => request.is_expired(),
            None => self.begun.elapsed() > OFFERED,
        }
    }

    /// Gives its request up, whose lease is over. Its time counts all the same.
    pub fn expire(&mut self) {
        self.outcome.get_or_insert(Outcome::Expired);
        self.request = None;
    }

    /// Its first work is about to be launched.
    pub fn launching(&mut self) {
        let preparation = self.begun.elapsed();
        self.has_work = true;
        if let Some(request) = &self.request {
            self.site.set_slow(preparation > LONGEST);
            self.outcome = Some(match request.is_expired() {
                true => Outcome::Expired,
                false => Outcome::Launched {
                    preparation,
                    is_held: request.is_held(),
                },
            });
        }
    }

    /// Its data is ready.
    pub fn ready(&mut self) {
        if let Some(request) = &mut self.request {
            request.ready();
        }
    }

    /// Ends it.
    pub fn end(self, end: End) {
        let unused = match self.is_expired() {
            true => Outcome::Expired,
            false => Outcome::Unused,
        };
        match (self.request, end) {
            (Some(request), End::Done) => request.done(),
            // One that is ready is done then.
            (request, _) => drop(request),
        }
        // The begin and the end themselves are a part of it.
        let time = (self.has_work && end == End::Done).then(|| self.begun.elapsed() + self.cost);
        if end != End::Dropped {
            let outcome = self.outcome.unwrap_or(unused);
            self.site.add(self.part, outcome, self.cost, time);
        }
    }
}
