// SPDX-License-Identifier: MIT OR Apache-2.0
//! The place of each thread of the program in its course, and its request.

use std::cell::Cell;
use std::time::Instant;

use zernel_runtime::{Idle, Request, Runtime, Spec};

use crate::course::Course;
use crate::requests::Ticket;
use crate::settings::Begin;
use crate::sites::{Place, Sites};
use crate::underway::{End, Underway, LONGEST};
use crate::verdict::{Outcome, Part};
use crate::watch::{settings, REQUESTS};
use crate::{contexts, key, sys};

/// The call sites of this process.
static SITES: Sites = Sites::new();

/// The state of a thread.
pub struct Thread {
    pub course: Cell<Course>,
    pub ticket: Cell<Ticket>,
    /// The request ends with the thread: no other one may launch its work.
    pub is_owner: Cell<bool>,
}

thread_local! {
    pub static THREAD: Thread = const {
        Thread {
            course: Cell::new(Course::NEW),
            ticket: Cell::new(Ticket::NONE),
            is_owner: Cell::new(true),
        }
    };
    static LEAVING: Leaving = const { Leaving };
}

/// Ends the request of a thread that ends.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        THREAD.with(|own| {
            // A child of fork() has none of the requests of its parent.
            if own.is_owner.get() && sys::is_watching() {
                sys::aside(|| REQUESTS.end(own.ticket.get(), End::Dropped));
            }
        });
    }
}

impl Thread {
    /// Moves it on.
    pub fn step<T>(&self, step: impl FnOnce(&mut Course) -> T) -> T {
        let mut course = self.course.get();
        let result = step(&mut course);
        self.course.set(course);
        result
    }

    /// Learns that another thread has ended its request, or that its lease is over.
    pub fn look(&self) {
        let course = self.course.get();
        let has = course.is_begun() || course.is_launched();
        if has && !REQUESTS.is_live(self.ticket.get()) {
            self.forget();
        } else if course.is_begun() {
            self.look_at_lease();
        }
    }

    /// Gives a request up whose lease is over: its lane is for others. The round goes on without.
    #[cold]
    fn look_at_lease(&self) {
        let ticket = self.ticket.get();
        sys::aside(|| {
            if REQUESTS.is_expired(ticket) {
                REQUESTS.expire(ticket);
            }
        });
    }

    /// Its request is over: it starts anew.
    pub fn forget(&self) {
        self.step(|course| course.ended());
    }

    /// Ends its request.
    pub fn end(&self, end: End) {
        let ticket = self.ticket.replace(Ticket::NONE);
        sys::aside(|| REQUESTS.end(ticket, end));
    }

    /// Begins a request, if its site is to have one.
    #[cold]
    pub fn begin(&self, origin: Origin) {
        let begun = sys::aside(|| begin(origin)).flatten();
        self.step(|course| course.began(begun.is_some()));
        self.ticket.set(begun.unwrap_or(Ticket::NONE));
        self.is_owner.set(true);
        if begun.is_some() {
            // From now on something is to be done at its end.
            let _ = LEAVING.try_with(|_| ());
        }
    }

    /// Takes over a request that began with data from a socket in another thread, and whose work
    /// this one launches.
    #[cold]
    pub fn adopt(&self, stream: u64) -> Option<Ticket> {
        let adopted = sys::aside(|| match sys::is_capturing(stream) {
            true => None,
            false => REQUESTS.adopt(sys::number(sys::current()?)),
        });
        self.ticket.set(adopted.flatten()?);
        self.step(|course| course.began(true));
        let _ = LEAVING.try_with(|_| ());
        self.launching(stream)
    }

    /// The first work of its request is about to be launched in a stream. In a capture nothing is
    /// launched now.
    #[cold]
    pub fn launching(&self, stream: u64) -> Option<Ticket> {
        let ticket = self.ticket.get();
        let launching = sys::aside(|| {
            let is_work = !sys::is_capturing(stream);
            if is_work {
                REQUESTS.launching(ticket, stream);
            }
            is_work
        });
        if launching != Some(true) {
            return None;
        }
        self.step(Course::launch);
        self.is_owner.set(true);
        Some(ticket)
    }
}

/// The call that may begin a request: the address that it returns to, and its bytes.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    pub caller: usize,
    pub bytes: u64,
}

fn begin(origin: Origin) -> Option<Ticket> {
    let start = Instant::now();
    let settings = settings();
    // First of all: a child of fork() that has none takes no lock.
    let context = match settings.begin {
        Begin::Copy => sys::current()?,
        // A thread that reads has none, perhaps.
        Begin::Socket => sys::current().or_else(contexts::only)?,
    };
    let site = SITES.find(key::of_call(origin.caller, origin.bytes));
    let part = match settings.has_all_sites {
        true => Part::UNJUDGED,
        false => site.begins()?,
    };
    let key = site.key(|| {
        let (file, offset) = sys::place(origin.caller);
        key::of_place(file, offset, origin.bytes)
    });
    let number = sys::number(context);
    contexts::with_runtime(context, &settings, |runtime| {
        if !REQUESTS.has_room(number) {
            return None;
        }
        let mut outcome = None;
        let mut request = None;
        if part.has_request {
            request = self::request(runtime, number, site, key)?;
            outcome = request.is_none().then_some(Outcome::Refused);
        }
        let begun = Instant::now();
        let underway = Underway {
            request,
            site,
            part,
            begun,
            cost: begun - start,
            outcome,
            has_work: false,
        };
        REQUESTS.put(underway, number)
    })?
}

/// Begins a request of the context with a number. `Some(None)`: there is no lane, or zernel or CUDA has
/// refused it. `None`: it does nothing for a cause that says nothing of its site.
fn request(runtime: &Runtime, context: usize, site: &Place, key: u64) -> Option<Option<Request>> {
    let mut request = begin_in(runtime, key, site)?;
    if request.idle() == Some(Idle::NoLane) && REQUESTS.reap(context) {
        request = begin_in(runtime, key, site)?;
    }
    match request.idle() {
        None => Some(Some(request)),
        Some(Idle::NoLane | Idle::Refused) => Some(None),
        Some(_) => None,
    }
}

/// Begins a request, whose trigger waits no longer than it may.
fn begin_in(runtime: &Runtime, key: u64, site: &Place) -> Option<Request> {
    let usual = Spec::new().key(key);
    let short = usual.expected(LONGEST).exact();
    if !site.is_slow() {
        let request = runtime.begin(&usual).ok()?;
        if request.predicted() <= Some(LONGEST) {
            return Some(request);
        }
        request.cancel();
    }
    runtime.begin(&short).ok()
}
