// SPDX-License-Identifier: MIT OR Apache-2.0
//! A round of a call site, from its begin to its end.

use std::time::{Duration, Instant};

use zernel_runtime::Request;

use crate::sites::Place;
use crate::verdict::Outcome;

/// The longest time from a begin to its trigger. A call that waits for the whole context and is not
/// seen waits so long for it, and for its lease.
pub const LONGEST: Duration = Duration::from_millis(20);

/// A round, and what its site is to learn of it.
#[derive(Debug)]
pub struct Underway {
    /// None: its time is compared with that of rounds with one.
    pub request: Option<Request>,
    pub site: &'static Place,
    pub begun: Instant,
    /// Time that the begin took.
    pub cost: Duration,
    /// The outcome, once it is known.
    pub outcome: Option<Outcome>,
}

/// The way a request ends.
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

    /// Its first work is about to be launched.
    pub fn launching(&mut self) {
        let preparation = self.begun.elapsed();
        self.site.set_slow(preparation > LONGEST);
        self.outcome = Some(match self.is_expired() {
            true => Outcome::Expired,
            false => Outcome::Launched {
                preparation,
                is_held: self.request.as_ref().is_some_and(Request::is_held),
            },
        });
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
        let has_request = self.request.is_some();
        match (self.request, end) {
            (Some(request), End::Done) => request.done(),
            // One that is ready is done then.
            (request, _) => drop(request),
        }
        let was_launched = matches!(self.outcome, Some(Outcome::Launched { .. }));
        // The begin and the end themselves are a part of it.
        let time = (was_launched && end == End::Done).then(|| self.begun.elapsed() + self.cost);
        match (has_request, time) {
            _ if end == End::Dropped => {}
            (true, time) => self
                .site
                .add(self.outcome.unwrap_or(unused), self.cost, time),
            (false, Some(time)) => self.site.compare(time),
            (false, None) => {}
        }
    }
}
