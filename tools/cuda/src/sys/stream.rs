// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams and events.

use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::sync::Arc;

use super::context::{Context, Entered};
use super::driver::Driver;
use super::Raw;
use crate::{Result, Status};

/// Does not wait for the legacy default stream, nor this for it.
const NON_BLOCKING: u32 = 1;
/// Keeps no time.
const DISABLE_TIMING: u32 = 2;
/// The word is as late or later, cyclic.
pub(super) const AT_LEAST: u32 = 0;

/// A stream of the driver, as its handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream(pub(super) usize);

impl Stream {
    /// The legacy default stream of the context of a thread's calls.
    pub const LEGACY: Self = Self(1);
    /// The default stream of a thread.
    pub const PER_THREAD: Self = Self(2);

    pub(super) fn raw(self) -> Raw {
        self.0 as Raw
    }

    /// Of a handle (`CUstream`, `cudaStream_t`) of the program; null is its default stream.
    ///
    /// # Safety
    ///
    /// The driver has made it, or it stands for a default stream. It is there while it is used.
    pub unsafe fn from_raw(handle: *mut c_void) -> Self {
        Self(handle as usize)
    }

    /// Its handle (`CUstream`, `cudaStream_t`).
    pub fn as_raw(self) -> *mut c_void {
        self.raw()
    }
}

/// A function that a thread of the driver calls.
type Then = Box<dyn FnOnce() + Send>;

/// Calls such a function.
///
/// # Safety
///
/// The value was made of a box of one, and is used once.
unsafe extern "C" fn call(value: *mut c_void) {
    // SAFETY: As above.
    let then = unsafe { Box::from_raw(value.cast::<Then>()) };
    // A panic cannot leave a function of C.
    let _panicked = catch_unwind(AssertUnwindSafe(then));
}

/// A stream that was made here.
#[derive(Debug)]
pub struct OwnStream {
    driver: Arc<Driver>,
    context: Context,
    stream: Stream,
}

impl OwnStream {
    /// Its handle.
    pub fn stream(&self) -> Stream {
        self.stream
    }

    pub(super) fn context(&self) -> Context {
        self.context
    }

    pub(super) fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        // A context that is gone has taken it along.
        if let Ok(_entered) = self.driver.enter(self.context) {
            // SAFETY: It was made, and is ended once. Work in it goes on.
            let _ = unsafe { (self.driver.functions.stream_destroy)(self.stream.raw()) };
        }
    }
}

/// A point in a stream.
#[derive(Debug)]
pub struct Event {
    driver: Arc<Driver>,
    context: Context,
    handle: usize,
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_entered) = self.driver.enter(self.context) {
            // SAFETY: It was made, and is ended once.
            let _ = unsafe { (self.driver.functions.event_destroy)(self.handle as Raw) };
        }
    }
}

impl Driver {
    /// A new stream of a context, apart from its default stream and more urgent than others.
    pub fn create_stream(self: &Arc<Self>, context: Context) -> Result<OwnStream> {
        let priority = self.enter(context)?.highest_priority()?;
        self.create_stream_of(context, priority)
    }

    /// A new stream of a context, apart from its default stream, and as urgent as usual.
    pub fn create_usual_stream(self: &Arc<Self>, context: Context) -> Result<OwnStream> {
        self.create_stream_of(context, 0)
    }

    fn create_stream_of(self: &Arc<Self>, context: Context, priority: i32) -> Result<OwnStream> {
        let entered = self.enter(context)?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is valid for writes.
        let status = unsafe { (self.functions.stream_create)(&mut handle, NON_BLOCKING, priority) };
        self.check("cuStreamCreateWithPriority", status)?;
        drop(entered);
        Ok(OwnStream {
            driver: self.clone(),
            context,
            stream: Stream(handle as usize),
        })
    }

    /// A new event of a context.
    pub fn create_event(self: &Arc<Self>, context: Context) -> Result<Event> {
        let _entered = self.enter(context)?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is valid for writes.
        let status = unsafe { (self.functions.event_create)(&mut handle, DISABLE_TIMING) };
        self.check("cuEventCreate", status)?;
        Ok(Event {
            driver: self.clone(),
            context,
            handle: handle as usize,
        })
    }
}

/// Calls on streams of the context of this thread's calls. Each stream is there, as
/// [`Stream::from_raw`] demands.
impl Entered<'_> {
    /// The context of a stream; of a default stream, this one.
    pub fn context_of(&self, stream: Stream) -> Result<Option<Context>> {
        let mut context = ptr::null_mut();
        // SAFETY: The stream is there, `context` is valid for writes.
        let status =
            unsafe { (self.driver().functions.stream_context)(stream.raw(), &mut context) };
        self.driver().check("cuStreamGetCtx", status)?;
        // SAFETY: The driver says so.
        Ok(unsafe { Context::from_raw(context) })
    }

    /// True if nothing is left to do.
    pub fn is_idle(&self, stream: Stream) -> Result<bool> {
        // SAFETY: The stream is there.
        let status = unsafe { (self.driver().functions.stream_query)(stream.raw()) };
        if Status(status) == Status::NOT_READY {
            return Ok(false);
        }
        self.driver().check("cuStreamQuery", status).map(|()| true)
    }

    /// Waits until nothing is left to do.
    pub fn wait_idle(&self, stream: Stream) -> Result<()> {
        // SAFETY: The stream is there.
        let status = unsafe { (self.driver().functions.stream_synchronize)(stream.raw()) };
        self.driver().check("cuStreamSynchronize", status)
    }

    /// Has a thread of the driver call a function behind all that was given to a stream so far. The
    /// function makes no call of CUDA: the driver waits for its end. It is dropped if there is an error.
    /// A context that is lost or destroyed before calls it never. A stream that is captured is refused: a
    /// graph would call it as often as it is launched.
    pub fn when_idle(&self, stream: Stream, then: impl FnOnce() + Send + 'static) -> Result<()> {
        self.refuse_capture("cuLaunchHostFunc", stream)?;
        let then: Box<Then> = Box::new(Box::new(then));
        let raw = Box::into_raw(then);
        // SAFETY: The stream is there and not captured; the driver calls the function once, with this
        // value.
        let status =
            unsafe { (self.driver().functions.host_function)(stream.raw(), call, raw.cast()) };
        let begun = self.driver().check("cuLaunchHostFunc", status);
        if begun.is_err() {
            // SAFETY: It was just made of a box, and nobody else has it.
            drop(unsafe { Box::from_raw(raw) });
        }
        begun
    }

    /// An error if calls on a stream are captured for a graph.
    pub(super) fn refuse_capture(&self, call: &'static str, stream: Stream) -> Result<()> {
        match self.is_capturing(stream)? {
            true => self.driver().check(call, Status::CAPTURE_UNSUPPORTED.0),
            false => Ok(()),
        }
    }

    /// True if calls on it are captured for a graph.
    pub fn is_capturing(&self, stream: Stream) -> Result<bool> {
        let mut capturing = 0;
        // SAFETY: The stream is there, `capturing` is valid for writes.
        let status =
            unsafe { (self.driver().functions.stream_capturing)(stream.raw(), &mut capturing) };
        self.driver().check("cuStreamIsCapturing", status)?;
        Ok(capturing != 0)
    }

    /// Has a stream wait until a word has reached a value, cyclic. `address`: of the word, as the GPU
    /// sees it.
    pub fn wait_word(&self, stream: Stream, address: u64, value: u32) -> Result<()> {
        let functions = &self.driver().functions;
        // SAFETY: The stream is there; an address that is not the GPU's is refused.
        let status = unsafe { (functions.stream_wait)(stream.raw(), address, value, AT_LEAST) };
        self.driver().check("cuStreamWaitValue32", status)
    }

    /// Has a stream store a value to a word when all before is over.
    ///
    /// # Safety
    ///
    /// The word may be stored to until then.
    pub unsafe fn write_word(&self, stream: Stream, address: u64, value: u32) -> Result<()> {
        let functions = &self.driver().functions;
        // SAFETY: The stream is there; an address that is not the GPU's is refused.
        let status = unsafe { (functions.stream_write)(stream.raw(), address, value, 0) };
        self.driver().check("cuStreamWriteValue32", status)
    }

    /// Marks the point in a stream where all that was given to it so far is over.
    pub fn record(&self, event: &Event, stream: Stream) -> Result<()> {
        let functions = &self.driver().functions;
        // SAFETY: Both are there.
        let status = unsafe { (functions.event_record)(event.handle as Raw, stream.raw()) };
        self.driver().check("cuEventRecord", status)
    }

    /// True if the stream has come to the event.
    pub fn has_passed(&self, event: &Event) -> Result<bool> {
        // SAFETY: It is there.
        let status = unsafe { (self.driver().functions.event_query)(event.handle as Raw) };
        if Status(status) == Status::NOT_READY {
            return Ok(false);
        }
        self.driver().check("cuEventQuery", status).map(|()| true)
    }

    /// Waits until the stream has come to the event.
    pub fn wait_passed(&self, event: &Event) -> Result<()> {
        // SAFETY: It is there.
        let status = unsafe { (self.driver().functions.event_synchronize)(event.handle as Raw) };
        self.driver().check("cuEventSynchronize", status)
    }

    /// Has a stream wait for an event.
    pub fn wait_event(&self, stream: Stream, event: &Event) -> Result<()> {
        let functions = &self.driver().functions;
        // SAFETY: Both are there.
        let status = unsafe { (functions.stream_wait_event)(stream.raw(), event.handle as Raw, 0) };
        self.driver().check("cuStreamWaitEvent", status)
    }
}
