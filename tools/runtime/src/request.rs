// SPDX-License-Identifier: MIT OR Apache-2.0
//! A request, from begin to done.

use std::sync::Arc;
use std::time::Duration;

use cuda::Stream;
use libzernel::request::{Begin, Begun, Features, Number, Slot, Word};
use libzernel::tsg;

use crate::active::Active;
use crate::graph::GraphLane;

/// A kind of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spec {
    key: u64,
    expected: Duration,
    slo: Duration,
    exact: bool,
    features: Option<Features>,
    /// Its burst; zero: not known.
    admit: Option<Duration>,
    pub(crate) stream: Option<Stream>,
}

impl Spec {
    /// Of which nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// The key of its preparation time: any number that stands for the causes of it, such as model
    /// and batch size.
    #[inline]
    #[must_use]
    pub fn key(self, key: u64) -> Self {
        Self { key, ..self }
    }

    /// The expected time of its preparation, used while the key has no history; zero: not known.
    #[inline]
    #[must_use]
    pub fn expected(self, expected: Duration) -> Self {
        Self { expected, ..self }
    }

    /// The longest time from begin to done that is no violation; zero: any.
    #[inline]
    #[must_use]
    pub fn slo(self, slo: Duration) -> Self {
        Self { slo, ..self }
    }

    /// The numbers that its preparation time depends on. zernel's tunable `predictor` says whether they
    /// count; a module that is older than features refuses the request ([`Idle::Refused`]).
    #[inline]
    #[must_use]
    pub fn features(self, features: Features) -> Self {
        Self {
            features: Some(features),
            ..self
        }
    }

    /// It begins only if zernel promises that it is done within [`Self::slo`]; else it is [`Idle::Late`]. The
    /// tunable `order` is `edf`, and the TSG has a class above best-effort; without them, or by a module that
    /// is older, it is [`Idle::Refused`].
    ///
    /// `burst`: its expected time on the GPU, used while the key has no history of that; zero: not known,
    /// which is refused then. *Ready* and *done* of such a request are system calls.
    #[must_use]
    pub fn admit(self, burst: Duration) -> Self {
        Self {
            admit: Some(burst),
            ..self
        }
    }

    /// True if its deadline is to be promised.
    pub(crate) fn is_promised(&self) -> bool {
        self.admit.is_some()
    }

    /// Its preparation takes as long as expected: history is not asked.
    #[inline]
    #[must_use]
    pub fn exact(self) -> Self {
        Self {
            exact: true,
            ..self
        }
    }

    /// Wait and holder go into this stream of the program, before its work, in place of one of the
    /// runtime's own.
    ///
    /// Work that is put into it before the data is ready runs when the request is released, which an
    /// expired lease does, too.
    #[inline]
    #[must_use]
    pub fn inline(self, stream: Stream) -> Self {
        Self {
            stream: Some(stream),
            ..self
        }
    }

    pub(crate) fn begin(&self, tsg: tsg::Id) -> Begin {
        let begin = Begin::new(tsg)
            .key(self.key)
            .expected(self.expected)
            .slo(self.slo);
        let begin = match self.features {
            Some(features) => begin.features(features),
            None => begin,
        };
        let begin = match self.admit {
            Some(burst) => begin.admit(burst),
            None => begin,
        };
        match self.exact {
            true => begin.exact(),
            false => begin,
        }
    }
}

/// The reason for which a request does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Idle {
    /// The runtime is inert.
    Inert,
    /// All lanes are in use.
    NoLane,
    /// zernel or CUDA refused it.
    Refused,
    /// zernel does not promise its deadline ([`Spec::admit`]).
    Late {
        /// The shortest [`Spec::slo`] that would have done; `None`: none, until other requests are over.
        earliest: Option<Duration>,
    },
    /// The context is lost.
    Lost,
    /// This is a child of `fork()`.
    Forked,
}

#[derive(Debug)]
pub(crate) struct Held {
    active: Arc<Active>,
    lane: u32,
    /// The graph that the lane belongs to.
    graph: Option<Arc<GraphLane>>,
    begun: Begun,
    /// Its deadline was promised, so that its turn has to come.
    is_promised: bool,
    is_ready: bool,
}

/// A request. It may do nothing: see [`Request::idle`].
///
/// One that is dropped before its data is ready is cancelled; one that is dropped later is done.
#[derive(Debug)]
#[must_use = "a request that is dropped is cancelled"]
pub struct Request(Result<Held, Idle>);

impl Held {
    pub(crate) fn new(active: Arc<Active>, lane: u32, begun: Begun, is_promised: bool) -> Self {
        Self {
            active,
            lane,
            graph: None,
            begun,
            is_promised,
            is_ready: false,
        }
    }

    /// In the lane of a graph.
    pub(crate) fn of_graph(graph: Arc<GraphLane>, begun: Begun, is_promised: bool) -> Self {
        Self {
            active: graph.active().clone(),
            lane: graph.lane(),
            graph: Some(graph),
            begun,
            is_promised,
            is_ready: false,
        }
    }

    fn give_lane(&self) {
        match &self.graph {
            Some(graph) => graph.give(),
            None => self.active.give_lane(self.lane),
        }
    }

    fn slot(&self) -> Option<Slot<'_>> {
        self.active.slot(self.lane)
    }

    fn ready(&mut self) {
        if self.is_ready || crate::sys::is_child() {
            return;
        }
        self.is_ready = true;
        match self.is_promised {
            true => self.active.ready_in_turn(self.lane, self.begun.number),
            false => self.active.ready(self.lane, self.begun.number),
        }
    }

    fn done(&mut self) {
        self.ready();
        if let Some(slot) = self.slot() {
            // The next in turn goes in the call. It may be over.
            if self.is_promised {
                let _ = slot.done_call(self.begun.number);
            }
            slot.done(self.begun.number);
        }
        if self.graph.is_none() {
            self.active.linger(self.lane, self.begun.number);
        }
        self.give_lane();
    }

    fn cancel(&mut self) {
        self.active.cancel(self.lane, self.begun.number);
        self.give_lane();
    }

    fn done_in(&mut self, stream: Stream) {
        self.ready();
        let number = self.begun.number;
        if let Some(slot) = self.slot() {
            slot.done_when_seen();
        }
        if self.active.done_in(self.lane, stream, number).is_none() {
            return self.done();
        }
        match &self.graph {
            Some(graph) => graph.give_after(number),
            None => {
                self.active.linger(self.lane, number);
                self.active.give_lane_after(self.lane, number);
            }
        }
    }
}

impl Request {
    pub(crate) fn new(held: Held) -> Self {
        Self(Ok(held))
    }

    pub(crate) fn nothing(why: Idle) -> Self {
        Self(Err(why))
    }

    /// Why it does nothing, if it does nothing. The program goes on in either case.
    pub fn idle(&self) -> Option<Idle> {
        self.0.as_ref().err().copied()
    }

    /// Its number in its slot.
    pub fn number(&self) -> Option<Number> {
        self.0.as_ref().ok().map(|held| held.begun.number)
    }

    /// Its lane, which no other request has meanwhile.
    pub fn lane(&self) -> Option<u32> {
        self.0.as_ref().ok().map(|held| held.lane)
    }

    /// The time that its preparation will take, as far as zernel can tell.
    pub fn predicted(&self) -> Option<Duration> {
        self.0.as_ref().ok().and_then(|held| held.begun.predicted)
    }

    /// zernel has made, or makes, the GPU switch to it.
    pub fn is_triggered(&self) -> bool {
        self.has_reached(Word::Trigger)
    }

    /// The holder runs, or has run: zernel has made the GPU switch to it.
    pub fn is_held(&self) -> bool {
        self.has_reached(Word::Held)
    }

    /// The GPU was given back before its data was ready: its lease is over, or its TSG gone.
    pub fn is_expired(&self) -> bool {
        let is_waiting = self.0.as_ref().is_ok_and(|held| !held.is_ready);
        is_waiting && self.has_reached(Word::Release)
    }

    fn has_reached(&self, word: Word) -> bool {
        // A child of fork() has no slots.
        if crate::sys::is_child() {
            return false;
        }
        self.0.as_ref().is_ok_and(|held| {
            let value = held.slot().map(|slot| slot.load(word));
            value.is_some_and(|value| held.begun.number.is_reached_by(value))
        })
    }

    /// Its data is ready, and its work is about to be launched or has been: best right behind the
    /// first launch, as the GPU goes to others when the holder ends and there is no work. A second
    /// time changes nothing.
    pub fn ready(&mut self) {
        if let Ok(held) = &mut self.0 {
            held.ready();
        }
    }

    /// Its result is there.
    pub fn done(mut self) {
        self.end(Held::done);
    }

    /// Its result is there when all that is in a stream now is over. The stream is of the context of
    /// the runtime.
    pub fn done_in(mut self, stream: Stream) {
        self.end(|held| held.done_in(stream));
    }

    /// It is given up.
    pub fn cancel(mut self) {
        self.end(Held::cancel);
    }

    fn end(&mut self, how: impl FnOnce(&mut Held)) {
        let held = std::mem::replace(&mut self.0, Err(Idle::Inert));
        if let Some(mut held) = held.ok().filter(|_| !crate::sys::is_child()) {
            how(&mut held);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.end(|held| match held.is_ready {
            true => held.done(),
            false => held.cancel(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_reach_the_begin_of_each_request() {
        let tsg = tsg::Id::new(3);
        let features = Features::new(&[5, -7]).unwrap();
        let spec = Spec::new().key(2).features(features);
        assert_eq!(spec.begin(tsg), Begin::new(tsg).key(2).features(features));
        let exact = spec.exact().begin(tsg);
        assert_eq!(exact, Begin::new(tsg).key(2).features(features).exact());
        assert_eq!(Spec::new().begin(tsg), Begin::new(tsg));
    }

    #[test]
    fn a_promise_is_asked_for_with_the_burst() {
        let tsg = tsg::Id::new(3);
        let (slo, burst) = (Duration::from_millis(9), Duration::from_micros(800));
        let spec = Spec::new().slo(slo).admit(burst);
        assert!(spec.is_promised() && !Spec::new().is_promised());
        assert_eq!(spec.begin(tsg), Begin::new(tsg).slo(slo).admit(burst));
    }
}
