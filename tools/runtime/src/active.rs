// SPDX-License-Identifier: MIT OR Apache-2.0
//! A runtime that works: a context, its TSG, its slots, and what is needed in it for requests.

use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Release};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cuda::{Context, Driver, Entered, Node, OwnStream, Registered, Stream};
use libzernel::request::{Begin, Begun, Number, Slot, Slots, Word};
use libzernel::{tsg, Target, Zernel};

use crate::counters::{count, Counting};
use crate::holder::{Holder, Words};
use crate::lane::Lanes;
use crate::place::{gpu_of, tsg_of, Named};
use crate::release::Released;
use crate::request::Idle;
use crate::sys::Nodes;
use crate::{sys, Error, Options, Result};

/// The driver of this process, or why there is none. It stays loaded.
fn driver(options: &Options) -> Result<Arc<Driver>> {
    static DRIVER: OnceLock<Result<Arc<Driver>, cuda::Error>> = OnceLock::new();
    if options.library.as_os_str() != cuda::LIBRARY {
        return Ok(Driver::open(&options.library)?);
    }
    let usual = DRIVER.get_or_init(|| Driver::open(&options.library));
    Ok(usual.clone()?)
}

/// The parts of a runtime, in the order in which they end: streams and holder use memory of the GPU and
/// of the host, which is given back before its mapping ends.
#[derive(Debug)]
struct Parts {
    streams: Vec<OwnStream>,
    holder: Holder,
    released: Released,
    memory: Registered,
    slots: Slots,
    zernel: Zernel,
}

/// A runtime that works.
#[derive(Debug)]
pub(crate) struct Active {
    parts: Arc<Parts>,
    driver: Arc<Driver>,
    context: Context,
    tsg: tsg::Id,
    lanes: Lanes,
    /// The request that each lane has, or 0.
    under_way: Vec<AtomicU32>,
    bound: Duration,
    linger: Duration,
    /// Why the context is of no use any more.
    lost: OnceLock<cuda::Error>,
    pub(crate) counting: Counting,
}

impl Active {
    /// In the context of this thread's calls. What was made before an error is given back.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        // First, as CUDA's initialisation takes time and memory of the GPU.
        let zernel = Zernel::open_at(&options.device)?;
        if !zernel.is_writable() {
            return Err(Error::ReadOnly);
        }
        let driver = driver(options)?;
        let context = driver.current()?.ok_or(Error::NoContext)?;
        let device = driver.enter(context)?.device()?;
        let named = Named {
            bus: driver.bus(device)?,
            uuid: driver.uuid(device)?,
        };
        let gpus: Vec<_> = zernel.gpus().collect::<libzernel::Result<_>>()?;
        let gpu = gpu_of(&gpus, &named)?;
        let own = zernel.tsgs_of(&Target::current_process());
        let own: Vec<_> = own.collect::<libzernel::Result<_>>()?;
        let tsg = tsg_of(&own, gpu, options.before.as_ref(), options.tsg)?;
        // One more, whose word takes the stores of holders that linger.
        let slots = Slots::map(&zernel, 0..options.lanes + 1)?;
        // First, as memory that is given back waits for the work of the context.
        let released = Released::new(options, &driver, context, &slots)?;
        let shared = slots.memory();
        let memory = driver.register(context, shared.address(), shared.length())?;
        let holder = Holder::load(&driver, context)?;
        let streams = (0..options.lanes).map(|_| driver.create_stream(context));
        let streams = streams.collect::<cuda::Result<_>>()?;
        let (bound, linger) = options.bounds();
        sys::remember_process();
        Ok(Self {
            parts: Arc::new(Parts {
                streams,
                holder,
                released,
                memory,
                slots,
                zernel,
            }),
            driver,
            context,
            tsg,
            lanes: Lanes::new(options.lanes),
            under_way: (0..options.lanes).map(|_| AtomicU32::new(0)).collect(),
            bound,
            linger,
            lost: OnceLock::new(),
            counting: Counting::default(),
        })
    }

    /// Its TSG.
    pub(crate) fn tsg(&self) -> tsg::Id {
        self.tsg
    }

    /// The device of zernel. It is not to be used in a child of `fork()`.
    pub(crate) fn zernel(&self) -> &Zernel {
        &self.parts.zernel
    }

    /// Why the context is of no use any more, if it is.
    pub(crate) fn lost(&self) -> Option<&cuda::Error> {
        self.lost.get()
    }

    /// Why a request does nothing now, which has been counted.
    pub(crate) fn is_idle(&self) -> Option<Idle> {
        let (counter, why) = if sys::is_child() {
            (&self.counting.forked, Idle::Forked)
        } else {
            self.lost()?;
            (&self.counting.lost, Idle::Lost)
        };
        count(counter);
        Some(why)
    }

    /// Takes a lane, if one is free.
    pub(crate) fn take_lane(&self) -> Option<u32> {
        self.lanes.take(|lane, number| self.has_ended(lane, number))
    }

    /// True if the request of a lane with a number is done.
    pub(crate) fn has_ended(&self, lane: u32, number: u32) -> bool {
        let (slot, number) = (self.slot(lane), Number::new(number));
        slot.zip(number)
            .is_some_and(|(slot, number)| number.is_reached_by(slot.load(Word::Done)))
    }

    /// Gives a lane back.
    pub(crate) fn give_lane(&self, lane: u32) {
        self.set_under_way(lane, 0);
        self.lanes.give(lane);
    }

    /// Gives a lane back for when its request is done in a stream.
    pub(crate) fn give_lane_after(&self, lane: u32, number: Number) {
        self.set_under_way(lane, 0);
        self.lanes.give_after(lane, number.get());
    }

    pub(crate) fn set_under_way(&self, lane: u32, number: u32) {
        if let Some(under_way) = self.under_way.get(lane as usize) {
            under_way.store(number, Release);
        }
    }

    /// The slot of a lane.
    pub(crate) fn slot(&self, lane: u32) -> Option<Slot<'_>> {
        self.parts.slots.slot(lane)
    }

    fn words(&self, lane: u32) -> Words {
        let words = Words::at(self.parts.memory.base(), lane);
        let release = self.parts.released.address(lane, words.release);
        Words { release, ..words }
    }

    /// The data of the request of a lane is ready: its holder ends, and zernel sees it.
    pub(crate) fn ready(&self, lane: u32, number: Number) {
        self.parts.released.store(lane, number.get());
        if let Some(slot) = self.slot(lane) {
            slot.ready(number);
        }
    }

    /// The same of a request whose turn has to come: zernel stores its trigger.
    pub(crate) fn ready_in_turn(&self, lane: u32, number: Number) {
        self.parts.released.store(lane, number.get());
        if let Some(slot) = self.slot(lane) {
            // It may be over: its lease has expired, or its TSG is gone.
            let _ = slot.ready_call(number);
        }
    }

    /// Gives the request of a lane up. With both words stored, what has come into a stream for it does
    /// not wait.
    pub(crate) fn cancel(&self, lane: u32, number: Number) {
        self.parts.released.store(lane, number.get());
        if let Some(slot) = self.slot(lane) {
            // It may be over: its lease has expired, or its TSG is gone.
            let _ = slot.cancel(number);
        }
    }

    /// Fails for a stream that requests cannot be put into.
    pub(crate) fn check_stream(&self, stream: Stream) -> Result<()> {
        match self.is_capturing(&self.driver.enter(self.context)?, stream)? {
            true => Err(Error::Capturing),
            false => Ok(()),
        }
    }

    /// True if calls on a stream are captured. Fails for one of another context.
    fn is_capturing(&self, entered: &Entered<'_>, stream: Stream) -> Result<bool> {
        if entered.context_of(stream)? != Some(self.context) {
            return Err(Error::ForeignStream);
        }
        Ok(entered.is_capturing(stream)?)
    }

    /// Begins a request in a lane: tells zernel, and puts the wait and the holder into a stream, or
    /// into that of the lane.
    ///
    /// # Errors
    ///
    /// zernel or CUDA refused it, which has been counted.
    pub(crate) fn begin(
        &self,
        lane: u32,
        begin: &Begin,
        stream: Option<Stream>,
    ) -> Result<Begun, Idle> {
        let stream = stream.or_else(|| Some(self.parts.streams.get(lane as usize)?.stream()));
        let stream = stream.ok_or(Idle::Refused)?;
        self.begin_with(lane, begin, |number| self.hold(lane, stream, number))
    }

    /// `hold`: has the GPU wait and hold for a request with a number.
    fn begin_with(
        &self,
        lane: u32,
        begin: &Begin,
        hold: impl FnOnce(Number) -> Option<()>,
    ) -> Result<Begun, Idle> {
        let slot = self.slot(lane).ok_or(Idle::Refused)?;
        let begun = slot.begin(begin).map_err(|error| {
            count(&self.counting.refused);
            match error {
                libzernel::Error::Late { earliest } => Idle::Late { earliest },
                _ => Idle::Refused,
            }
        })?;
        self.set_under_way(lane, begun.number.get());
        if hold(begun.number).is_none() {
            self.cancel(lane, begun.number);
            return Err(Idle::Refused);
        }
        count(&self.counting.begun);
        Ok(begun)
    }

    fn hold(&self, lane: u32, stream: Stream, number: Number) -> Option<()> {
        let (words, number) = (self.words(lane), number.get());
        self.call(|| {
            let entered = self.driver.enter(self.context)?;
            entered.wait_word(stream, words.trigger, number)?;
            let holder = &self.parts.holder;
            holder.launch(stream, words.held, words.release, number, self.bound)
        })
    }

    /// Puts a wait and a holder of a lane into a stream that is captured: launches of the graph go
    /// through them at once. Their nodes.
    pub(crate) fn record(&self, lane: u32, stream: Stream) -> Result<(Node, Node)> {
        let words = self.words(lane);
        let entered = self.driver.enter(self.context)?;
        if !self.is_capturing(&entered, stream)? {
            return Err(Error::NotCapturing);
        }
        let number = self.last(lane);
        let node = || entered.last_node(stream)?.ok_or(Error::NotCapturing);
        entered.wait_word(stream, words.trigger, number)?;
        let wait = node()?;
        let holder = &self.parts.holder;
        holder.launch(stream, words.held, words.release, number, self.bound)?;
        Ok((wait, node()?))
    }

    /// The number of the last request of a lane, which is over: launches go through with it.
    fn last(&self, lane: u32) -> u32 {
        let number = self.slot(lane).map_or(0, |slot| slot.load(Word::Release));
        // All words have come to it, but that of the GPU if zernel has ended the request.
        self.parts.released.store(lane, number);
        number
    }

    /// Has the launches of a graph to come go through the wait and the holder of a lane at once. Fails
    /// for nodes that are none of the graph.
    pub(crate) fn pass_in(&self, lane: u32, nodes: &Nodes) -> cuda::Result<()> {
        self.hold_in(lane, nodes, self.last(lane))
    }

    fn hold_in(&self, lane: u32, nodes: &Nodes, number: u32) -> cuda::Result<()> {
        let words = self.words(lane);
        let entered = self.driver.enter(self.context)?;
        nodes.wait(&entered, words.trigger, number)?;
        let holder = &self.parts.holder;
        holder.launch_in(nodes, words.held, words.release, number, self.bound)
    }

    /// Begins a request in a lane of a graph, as [`Self::begin`]: the next launch is its work.
    ///
    /// # Errors
    ///
    /// As [`Self::begin`].
    pub(crate) fn begin_in(&self, lane: u32, begin: &Begin, nodes: &Nodes) -> Result<Begun, Idle> {
        self.begin_with(lane, begin, |number| {
            self.call(|| self.hold_in(lane, nodes, number.get()))
        })
    }

    /// Has a stream tell that a request is done.
    pub(crate) fn done_in(&self, lane: u32, stream: Stream, number: Number) -> Option<()> {
        let words = self.words(lane);
        self.call(|| {
            let entered = self.driver.enter(self.context)?;
            sys::write(&entered, stream, words.done, number.get())
        })
    }

    /// Has a holder stay for the next request of a lane, if that is wished.
    pub(crate) fn linger(&self, lane: u32, number: Number) {
        let stream = self.parts.streams.get(lane as usize);
        let Some(stream) = stream.filter(|_| !self.linger.is_zero()) else {
            return;
        };
        let spare = self.words(self.under_way.len() as u32);
        let words = self.words(lane);
        // It is a favour: without it the next request has a holder of its own.
        let _ = self.call(|| {
            let _entered = self.driver.enter(self.context)?;
            let (holder, next) = (&self.parts.holder, number.next().get());
            holder.launch(
                stream.stream(),
                spare.held,
                words.release,
                next,
                self.linger,
            )
        });
    }

    /// Makes calls of CUDA. An error is counted, and tells whether the context is lost: then the
    /// requests that are under way end.
    fn call(&self, calls: impl FnOnce() -> cuda::Result<()>) -> Option<()> {
        let error = calls().err();
        let Some(error) = error else {
            return Some(());
        };
        count(&self.counting.failed_calls);
        if error.is_lost() && self.lost.set(error).is_ok() {
            self.end_requests();
        }
        None
    }

    /// Ends the requests of all lanes: no stream waits, and no holder holds.
    fn end_requests(&self) {
        for (lane, under_way) in (0..).zip(&self.under_way) {
            if let Some(number) = Number::new(under_way.swap(0, AcqRel)) {
                self.cancel(lane, number);
            }
        }
    }

    /// Ends the holders that linger.
    fn end_lingering(&self) {
        for lane in 0..self.under_way.len() as u32 {
            let Some(slot) = self.slot(lane).filter(|_| !self.linger.is_zero()) else {
                continue;
            };
            if let Some(number) = Number::new(slot.load(Word::Release)) {
                let next = number.next().get();
                self.parts.released.store(lane, next);
                slot.store(Word::Release, next);
            }
        }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        if sys::is_child() {
            // All of it stayed with the parent. It is never given back here.
            std::mem::forget(self.parts.clone());
            return;
        }
        self.end_requests();
        self.end_lingering();
    }
}
