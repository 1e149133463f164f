// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of the program, as far as they concern requests.

mod contexts;

use std::sync::atomic::{AtomicBool, Ordering::Acquire};
use std::sync::OnceLock;

use cuda::Context;

use crate::course::{Course, Step};
use crate::kernels::Kernels;
use crate::requests::{Requests, Ticket};
use crate::settings::{Begin, Settings};
use crate::sys;
use crate::thread::{Origin, THREAD};
use crate::underway::End;

pub use contexts::{destroying, made, making, released, releasing, retained, retaining};

/// The requests of this process.
pub static REQUESTS: Requests = Requests::new();

/// Its kernels.
static KERNELS: Kernels = Kernels::new();

/// A context was made: a child of `fork()` cannot use CUDA from then on.
static IS_USED: AtomicBool = AtomicBool::new(false);

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Has the wishes of the user.
pub fn set_up(settings: Settings) {
    SETTINGS.get_or_init(|| settings);
}

/// The wishes of the user.
pub fn settings() -> Settings {
    SETTINGS.get().copied().unwrap_or_default()
}

/// True if a child of `fork()` has nothing to do.
pub fn is_used() -> bool {
    IS_USED.load(Acquire)
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

/// A launch of the program. At its end the data of a request is ready, if this is its first work.
#[derive(Debug)]
#[must_use = "the data is ready behind the launch"]
pub struct Launch {
    due: Option<Ticket>,
}

impl Drop for Launch {
    /// Not before the call: without work behind its holder a TSG would leave the GPU. Also if it
    /// fails: there will be no work then.
    #[inline]
    fn drop(&mut self) {
        if let Some(ticket) = self.due {
            ready(ticket);
        }
    }
}

#[cold]
fn ready(ticket: Ticket) {
    sys::aside(|| REQUESTS.ready(ticket));
}

/// The program launches work. `kernel`: its handle, or 0.
#[inline]
pub fn launching(stream: u64, kernel: u64) -> Launch {
    let mut due = THREAD.with(|own| {
        let course = own.course.get();
        if course.is_begun() {
            return own.launching(stream);
        }
        if course.is_launched() && REQUESTS.launched_in(own.ticket.get(), stream) {
            return None;
        }
        match REQUESTS.has_offered() {
            true => own.adopt(stream),
            false => None,
        }
    });
    let is_first = KERNELS.is_first(kernel_of(kernel));
    if REQUESTS.has_begun() && (is_first || settings().is_blocking) {
        // The call would wait for its own holder.
        if let Some(ticket) = due.take() {
            ready(ticket);
        }
        if is_first {
            stop_holding(None, End::Dropped);
        }
    }
    Launch { due }
}

/// A number for a kernel of the current context. The handle of a kernel of a library is that of all
/// contexts, and each loads it.
#[inline]
fn kernel_of(handle: u64) -> u64 {
    match handle != 0 && crate::contexts::are_several() {
        true => in_context(handle),
        false => handle,
    }
}

#[cold]
fn in_context(handle: u64) -> u64 {
    let context = sys::aside(sys::current).flatten().map_or(0, sys::number);
    handle ^ (context as u64).rotate_left(32)
}

/// The program has unloaded kernels.
pub fn unloaded() {
    KERNELS.forget();
}

/// Data has come from a socket, if that begins requests: `site` is the function that got it.
#[inline]
pub fn received(site: usize, bytes: u64, is_socket: impl FnOnce() -> bool) {
    if settings().begin != Begin::Socket {
        return;
    }
    if sys::aside(is_socket) != Some(true) {
        return;
    }
    THREAD.with(|own| {
        own.look();
        match own.step(Course::copy) {
            Step::Begin => {
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
        stop_holding(context, End::Cancelled);
    }
}

#[cold]
fn stop_holding(context: Option<Context>, end: End) {
    sys::aside(|| {
        if let Some(context) = context.or_else(sys::current) {
            REQUESTS.end_begun(sys::number(context), end);
        }
    });
}
