// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of graphs: the wait and the holder are nodes of a graph, and each of its launches may be
//! the work of a request, in the same slot.

use std::sync::Arc;

use cuda::{Executable, Node, Status, Stream};
use libzernel::request::Number;

use crate::active::Active;
use crate::counters::count;
use crate::lane::Lanes;
use crate::request::{Held, Idle, Request, Spec};
use crate::sys::Nodes;
use crate::{Error, Result};

/// A lane that belongs to a graph. It has one request at a time.
#[derive(Debug)]
pub(crate) struct GraphLane {
    active: Arc<Active>,
    lane: u32,
    /// Of one lane.
    own: Lanes,
}

impl GraphLane {
    fn new(active: &Arc<Active>) -> Result<Self> {
        let lane = active.take_lane().ok_or(Error::NoLane)?;
        Ok(Self {
            active: active.clone(),
            lane,
            own: Lanes::new(1),
        })
    }

    pub(crate) fn active(&self) -> &Arc<Active> {
        &self.active
    }

    pub(crate) fn lane(&self) -> u32 {
        self.lane
    }

    fn take(&self) -> bool {
        let has_ended = |_, number| self.active.has_ended(self.lane, number);
        self.own.take(has_ended).is_some()
    }

    /// Its request is over.
    pub(crate) fn give(&self) {
        self.active.set_under_way(self.lane, 0);
        self.own.give(0);
    }

    /// It is over when the GPU has stored its number.
    pub(crate) fn give_after(&self, number: Number) {
        self.active.set_under_way(self.lane, 0);
        self.own.give_after(0, number.get());
    }
}

impl Drop for GraphLane {
    fn drop(&mut self) {
        // A child of fork() has none of the lanes.
        if crate::sys::is_child() {
            return;
        }
        match self.own.ending(0).and_then(Number::new) {
            Some(number) => self.active.give_lane_after(self.lane, number),
            None => self.active.give_lane(self.lane),
        }
    }
}

/// The place of a request in a graph that is captured ([`Runtime::record`](crate::Runtime::record)).
/// Where the runtime is inert, it is none.
#[derive(Debug)]
#[must_use = "a graph whose request is dropped must not be launched"]
pub struct Recorded(Option<(Arc<GraphLane>, Node, Node)>);

impl Recorded {
    pub(crate) fn new(active: &Arc<Active>, stream: Stream) -> Result<Self> {
        let lane = GraphLane::new(active)?;
        let (wait, holder) = active.record(lane.lane, stream)?;
        Ok(Self(Some((Arc::new(lane), wait, holder))))
    }

    pub(crate) fn nothing() -> Self {
        Self(None)
    }

    /// In a graph that can be launched and was made of the captured one. The duties of
    /// [`Executable::from_raw`] hold for as long as the result and its requests are there. Of several
    /// such graphs one at a time has a request, or is launched.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignGraph`] for one that was made of another graph, [`Error::NoLane`] while a request
    /// of the graph is not over, those of CUDA, [`Error::Forked`]. Nothing has changed then. Where the
    /// runtime is inert nothing is looked at.
    pub fn instantiated(&self, graph: Executable) -> Result<GraphRequests> {
        let Some((lane, wait, holder)) = &self.0 else {
            return Ok(GraphRequests(None));
        };
        if crate::sys::is_child() {
            return Err(Error::Forked);
        }
        let nodes = Nodes {
            graph,
            wait: *wait,
            holder: *holder,
        };
        if !lane.take() {
            return Err(Error::NoLane);
        }
        let known = lane.active.pass_in(lane.lane, &nodes);
        lane.give();
        match known {
            Err(error) if error.status() == Some(Status::INVALID_VALUE) => Err(Error::ForeignGraph),
            known => Ok(GraphRequests(known.map(|()| Some((lane.clone(), nodes)))?)),
        }
    }
}

/// The requests of a graph, one after the other.
///
/// A launch without a request goes through at once, as does one whose request is over.
#[derive(Debug)]
pub struct GraphRequests(Option<(Arc<GraphLane>, Nodes)>);

impl GraphRequests {
    /// Begins the request of the next launch: its data is prepared from now on. It never waits. While
    /// the last request is not over, it answers [`Idle::NoLane`]. The stream of [`Spec::inline`] is not
    /// looked at: wait and holder are in the graph.
    pub fn begin(&self, spec: &Spec) -> Request {
        let Some((lane, nodes)) = &self.0 else {
            return Request::nothing(Idle::Inert);
        };
        let active = &lane.active;
        if let Some(why) = active.is_idle() {
            return Request::nothing(why);
        }
        if !lane.take() {
            count(&active.counting.no_lane);
            return Request::nothing(Idle::NoLane);
        }
        match active.begin_in(lane.lane, &spec.begin(active.tsg()), nodes) {
            Ok(begun) => Request::new(Held::of_graph(lane.clone(), begun, spec.is_promised())),
            Err(why) => {
                lane.give();
                Request::nothing(why)
            }
        }
    }
}
