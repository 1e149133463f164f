// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of the program, as far as they concern requests.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::OnceLock;
use std::time::Instant;

use cuda::Context;
use zernel_runtime::{Spec, TsgsBefore};

use crate::course::{Course, Step};
use crate::requests::{End, Requests, Ticket, Underway};
use crate::settings::{Begin, Settings};
use crate::sites::Sites;
use crate::{contexts, key, sys};

/// The requests of this process.
static REQUESTS: Requests = Requests::new();

/// Its call sites.
static SITES: Sites = Sites::new();

/// A context was made: a child of `fork()` cannot use CUDA from then on.
static IS_USED: AtomicBool = AtomicBool::new(false);

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Has the wishes of the user.
pub fn set_up(settings: Settings) {
    SETTINGS.get_or_init(|| settings);
}

fn settings() -> Settings {
    SETTINGS.get().copied().unwrap_or_default()
}

/// True if a child of `fork()` has nothing to do.
pub fn is_used() -> bool {
    IS_USED.load(Acquire)
}

/// The state of a thread.
struct Thread {
    course: Cell<Course>,
    ticket: Cell<Ticket>,
    /// The request ends with the thread: no other one may launch its work.
    is_owner: Cell<bool>,
}

thread_local! {
    static THREAD: Thread = const {
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
    fn step(&self, step: impl FnOnce(&mut Course) -> Step) -> Step {
        let mut course = self.course.get();
        let step = step(&mut course);
        self.course.set(course);
        step
    }

    /// Learns that another thread has ended its request.
    fn look(&self) {
        let course = self.course.get();
        let has = course.is_begun() || course.is_launched();
        if has && !REQUESTS.is_live(self.ticket.get()) {
            self.forget();
        }
    }

    fn forget(&self) {
        self.step(|course| {
            course.ended();
            Step::Nothing
        });
    }

    fn end(&self, end: End) {
        let ticket = self.ticket.replace(Ticket::NONE);
        sys::aside(|| REQUESTS.end(ticket, end));
    }

    /// Begins a request, if its site is to have one.
    #[cold]
    fn begin(&self, origin: Origin) {
        let begun = sys::aside(|| begin(origin)).flatten();
        self.step(|course| {
            course.began(begun.is_some());
            Step::Nothing
        });
        self.ticket.set(begun.unwrap_or(Ticket::NONE));
        self.is_owner.set(true);
        if begun.is_some() {
            // From now on something is to be done at its end.
            let _ = LEAVING.try_with(|_| ());
        }
    }

    /// Takes over a request that began with data from a socket in another thread.
    #[cold]
    fn adopt(&self, stream: u64) {
        let adopted = sys::aside(|| {
            let context = sys::current()?;
            let ticket = REQUESTS.adopt(sys::number(context))?;
            REQUESTS.ready(ticket, stream).then_some(ticket)
        });
        if let Some(ticket) = adopted.flatten() {
            self.ticket.set(ticket);
            self.is_owner.set(true);
            self.step(|course| {
                course.began(true);
                course.launch()
            });
            let _ = LEAVING.try_with(|_| ());
        }
    }

    #[cold]
    fn ready(&self, stream: u64) {
        let ticket = self.ticket.get();
        self.is_owner.set(true);
        sys::aside(|| REQUESTS.ready(ticket, stream));
    }
}

/// The call that may begin a request: the address that it returns to, and its bytes.
#[derive(Debug, Clone, Copy)]
struct Origin {
    caller: usize,
    bytes: u64,
}

fn begin(origin: Origin) -> Option<Ticket> {
    let start = Instant::now();
    let site = SITES.find(key::of_call(origin.caller, origin.bytes));
    if !site.begins() {
        return None;
    }
    let settings = settings();
    let context = match settings.begin {
        Begin::Copy => sys::current()?,
        // A thread that reads has none, perhaps.
        Begin::Socket => sys::current().or_else(contexts::only)?,
    };
    let key = site.key(|| {
        let (file, offset) = sys::place(origin.caller);
        key::of_place(file, offset, origin.bytes)
    });
    contexts::with_runtime(context, &settings, |runtime| {
        let request = runtime.begin(&Spec::new().key(key)).ok()?;
        if request.idle().is_some() {
            return None;
        }
        let begun = Instant::now();
        let underway = Underway {
            request,
            site,
            begun,
            cost: begun - start,
            outcome: None,
        };
        // Without room it is given up at once.
        REQUESTS.put(underway, sys::number(context)).ok()
    })?
}

/// The ends of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// From the host to a device.
    In,
    /// From a device to the host.
    Out,
    /// Of memory that its addresses tell: to, from.
    Unified(u64, u64),
    /// Another one.
    Other,
}

impl Ends {
    /// Asks the driver, where addresses are to tell.
    fn known(self) -> Self {
        let Self::Unified(to, from) = self else {
            return self;
        };
        match (sys::is_of_device(to), sys::is_of_device(from)) {
            (true, false) => Self::In,
            (false, true) => Self::Out,
            _ => Self::Other,
        }
    }
}

/// A copy of the program.
#[derive(Debug, Clone, Copy)]
pub struct Copy {
    /// Its ends.
    pub ends: Ends,
    /// Its bytes.
    pub bytes: u64,
    /// Its stream, a default stream by the handle that it has.
    pub stream: u64,
    /// The call ends with the copy.
    pub is_synchronous: bool,
}

/// The program is about to copy. `caller`: the address that its call returns to.
#[inline]
pub fn copying(copy: &Copy, caller: usize) {
    if !matches!(copy.ends, Ends::In | Ends::Unified(..)) {
        return;
    }
    THREAD.with(|own| {
        own.look();
        match own.step(Course::copy) {
            Step::Begin if settings().begin == Begin::Copy && is_into_device(copy) => {
                own.begin(Origin {
                    caller,
                    bytes: copy.bytes,
                });
            }
            Step::Done => own.end(End::Done),
            Step::Cancel => own.end(End::Cancelled),
            _ => {}
        }
    });
}

#[cold]
fn is_into_device(copy: &Copy) -> bool {
    // In a capture nothing is copied now.
    sys::aside(|| copy.ends.known() == Ends::In && !sys::is_capturing(copy.stream)) == Some(true)
}

/// A copy of the program was made without an error.
#[inline]
pub fn copied(copy: &Copy) {
    let may_wait = copy.is_synchronous && matches!(copy.ends, Ends::Out | Ends::Unified(..));
    if !may_wait || !is_waited_for() {
        return;
    }
    if sys::aside(|| copy.ends.known() == Ends::Out) == Some(true) {
        synchronized(Wait::Stream(copy.stream));
    }
}

/// True if the end of some work means something.
#[inline]
fn is_waited_for() -> bool {
    REQUESTS.has_launched() || THREAD.with(|own| own.course.get() != Course::NEW)
}

/// The program launches work.
#[inline]
pub fn launching(stream: u64) {
    THREAD.with(|own| match own.step(Course::launch) {
        Step::Ready => own.ready(stream),
        _ if own.course.get().is_launched() => REQUESTS.launched_in(own.ticket.get(), stream),
        _ if REQUESTS.has_offered() => own.adopt(stream),
        _ => {}
    });
}

/// Data has come from a socket, if that begins requests: `site` is the function that got it.
#[inline]
pub fn received(site: usize, bytes: u64, is_socket: impl FnOnce() -> bool) {
    if settings().begin != Begin::Socket {
        return;
    }
    THREAD.with(|own| {
        own.look();
        match own.step(Course::copy) {
            Step::Begin if sys::aside(is_socket) == Some(true) => {
                own.begin(Origin {
                    caller: site,
                    bytes,
                });
                // Another thread may launch, and synchronise.
                REQUESTS.offer(own.ticket.get());
                own.is_owner.set(false);
                if !own.course.get().is_begun() {
                    // This one may never synchronise: the next data may begin.
                    own.forget();
                }
            }
            Step::Done => own.end(End::Done),
            Step::Cancel => own.end(End::Cancelled),
            _ => {}
        }
    });
}

/// The program has recorded an event.
#[inline]
pub fn recorded(event: u64, stream: u64) {
    THREAD.with(|own| {
        if own.course.get().is_launched() {
            REQUESTS.recorded(own.ticket.get(), event, stream);
        }
    });
}

/// That for which a thread has waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// A stream.
    Stream(u64),
    /// An event.
    Event(u64),
    /// A context; none: the current one.
    Context(Option<Context>),
}

/// A thread has waited for the end of work.
#[inline]
pub fn synchronized(wait: Wait) {
    THREAD.with(|own| {
        own.look();
        match own.step(Course::synchronize) {
            Step::Done => own.end(End::Done),
            Step::Cancel => own.end(End::Cancelled),
            _ => {}
        }
    });
    if REQUESTS.has_launched() {
        passed(wait);
    }
}

/// A thread has asked, and work is over. It may be anybody's: that of its own request is known by
/// the stream or the event.
#[inline]
pub fn queried(wait: Wait) {
    if !is_waited_for() {
        return;
    }
    THREAD.with(|own| {
        own.look();
        let ticket = own.ticket.get();
        let is_own = match wait {
            Wait::Stream(stream) => REQUESTS.is_in(ticket, stream),
            Wait::Event(event) => REQUESTS.has_event(ticket, event),
            Wait::Context(_) => true,
        };
        let is_left_out = !own.course.get().is_begun() && !own.course.get().is_launched();
        if (is_own || is_left_out) && own.step(Course::synchronize) == Step::Done {
            own.end(End::Done);
        }
    });
    if REQUESTS.has_launched() {
        passed(wait);
    }
}

/// Ends requests of other threads.
#[cold]
fn passed(wait: Wait) {
    sys::aside(|| match wait {
        Wait::Event(event) => REQUESTS.event_has_passed(event),
        Wait::Stream(stream) => {
            if let Some(context) = sys::current() {
                REQUESTS.stream_is_idle(sys::number(context), stream);
            }
        }
        Wait::Context(context) => {
            if let Some(context) = context.or_else(sys::current) {
                REQUESTS.context_is_idle(sys::number(context));
            }
        }
    });
}

/// The program is about to make a call that waits for all streams of a context, those of requests
/// included; none: of the current one.
#[inline]
pub fn stalling(context: Option<Context>) {
    if REQUESTS.has_begun() {
        stop_holding(context);
    }
}

#[cold]
fn stop_holding(context: Option<Context>) {
    sys::aside(|| {
        if let Some(context) = context.or_else(sys::current) {
            REQUESTS.cancel_begun(sys::number(context));
        }
    });
}

/// The TSGs of this process before it makes a context.
pub fn making() -> Option<TsgsBefore> {
    IS_USED.store(true, Release);
    sys::aside(TsgsBefore::now)
}

/// The program has made a context.
pub fn made(context: Option<Context>, before: Option<TsgsBefore>) {
    if let Some(context) = context {
        sys::aside(|| contexts::made(context, before.unwrap_or_default(), &settings()));
    }
}

/// Seen references to primary contexts, by device.
static PRIMARIES: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

fn references(device: i32) -> Option<&'static AtomicU32> {
    PRIMARIES.get(usize::try_from(device).ok()?)
}

/// The program is about to retain the primary context of a device: the TSGs before it, unless it is
/// there.
pub fn retaining(device: i32) -> Option<TsgsBefore> {
    IS_USED.store(true, Release);
    sys::aside(|| contexts::primary(device).is_none().then(TsgsBefore::now)).flatten()
}

/// It has retained it.
pub fn retained(context: Option<Context>, device: i32, before: Option<TsgsBefore>) {
    if let Some(references) = references(device) {
        references.fetch_add(1, Relaxed);
    }
    if let Some((context, before)) = context.zip(before) {
        sys::aside(|| contexts::retained(context, device, before, &settings()));
    }
}

/// The program is about to give the primary context of a device back, or to reset it.
pub fn releasing(device: i32, is_reset: bool) {
    let left = references(device).map_or(0, |references| references.load(Relaxed));
    if is_reset || left <= 1 {
        sys::aside(|| {
            if let Some(context) = contexts::primary(device) {
                REQUESTS.drop_all(sys::number(context));
            }
            contexts::end_primary(device);
        });
    }
}

/// It has given it back.
pub fn released(device: i32) {
    let one_less = |left: u32| left.checked_sub(1);
    if let Some(references) = references(device) {
        // None for a reference that was not seen.
        let _ = references.fetch_update(Relaxed, Relaxed, one_less);
    }
}

/// The program is about to destroy a context.
pub fn destroying(context: Option<Context>) {
    let Some(context) = context else {
        return;
    };
    sys::aside(|| {
        REQUESTS.drop_all(sys::number(context));
        contexts::end(context);
    });
}
