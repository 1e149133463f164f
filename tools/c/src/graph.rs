// SPDX-License-Identifier: MIT OR Apache-2.0
//! The graphs of a runtime that have requests, which C names by numbers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda::Executable;
use zernel_runtime::{GraphRequests, Recorded};

use crate::fault::Fault;

/// A graph in which a request is recorded.
#[derive(Clone)]
struct Graph {
    recorded: Arc<Recorded>,
    /// Once it can be launched.
    requests: Option<Arc<GraphRequests>>,
}

/// Those of a runtime, by their numbers. No call of CUDA is made with the lock.
#[derive(Default)]
pub(crate) struct Graphs(Mutex<BTreeMap<u64, Graph>>);

/// A number that no other graph of the process has.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

impl Graphs {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Graph>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one. Returns its number.
    pub(crate) fn add(&self, recorded: Recorded) -> u64 {
        let number = next_number();
        let graph = Graph {
            recorded: Arc::new(recorded),
            requests: None,
        };
        self.all().insert(number, graph);
        number
    }

    fn find(&self, number: u64) -> Result<Graph, Fault> {
        self.all().get(&number).cloned().ok_or(Fault::NoGraph)
    }

    /// A graph can be launched.
    pub(crate) fn instantiated(&self, number: u64, graph: Executable) -> Result<(), Fault> {
        let requests = self.find(number)?.recorded.instantiated(graph)?;
        let mut all = self.all();
        let graph = all.get_mut(&number).ok_or(Fault::NoGraph)?;
        // One that it was before ends without the lock.
        let before = graph.requests.replace(Arc::new(requests));
        drop(all);
        drop(before);
        Ok(())
    }

    /// The requests of one that can be launched.
    pub(crate) fn requests(&self, number: u64) -> Result<Arc<GraphRequests>, Fault> {
        let requests = self.find(number)?.requests;
        requests.ok_or(Fault::NotInstantiated)
    }

    /// Ends one, but for its request.
    pub(crate) fn remove(&self, number: u64) -> Result<(), Fault> {
        let graph = self.all().remove(&number);
        graph.map(drop).ok_or(Fault::NoGraph)
    }
}
