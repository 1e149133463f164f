// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of graphs: the wait and the holder are nodes of a graph, and each of its launches may be
//! the work of a request, in the same slot.

use std::sync::Arc;

use cuda::{Executable, Node, Stream};
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
pub struct Recorded(Option<(GraphLane, Node, Node)>);

impl Recorded {
    pub(crate) fn new(active: &Arc<Active>, stream: Stream) -> Result<Self> {
        let lane = GraphLane::new(active)?;
        let (wait, holder) = active.record(lane.lane, stream)?;
        Ok(Self(Some((lane, wait, holder))))
    }

    pub(crate) fn nothing() -> Self {
        Self(None)
    }

    /// In a graph that can be launched and was made of the captured one. One that was not has no requests:
    /// CUDA refuses them. The duties of [`Executable::from_raw`] hold for as long as this and its requests
    /// are there.
    pub fn instantiated(self, graph: Executable) -> GraphRequests {
        GraphRequests(self.0.map(|(lane, wait, holder)| {
            let nodes = Nodes {
                graph,
                wait,
                holder,
            };
            (Arc::new(lane), nodes)
        }))
    }
}

/// The requests of a graph, one after the other.
///
/// A launch without a request goes through at once, as does one whose request is over.
#[derive(Debug)]
pub struct GraphRequests(Option<(Arc<GraphLane>, Nodes)>);

impl GraphRequests {
    /// Begins the request of the next launch: its data is prepared from now on. It never waits. While
    /// the last request is not over, it answers [`Idle::NoLane`].
    pub fn begin(&mut self, spec: &Spec) -> Request {
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
            Some(begun) => Request::new(Held::of_graph(lane.clone(), begun)),
            None => {
                lane.give();
                Request::nothing(Idle::Refused)
            }
        }
    }
}
