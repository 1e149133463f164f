// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs: calls with dependencies, launched as one. The calls run one after the other, in an order
//! that keeps to the dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::call::{self, Call};
use crate::capture;
use crate::driver::{driver, Object, Target};
use crate::status::{Result, Status};

/// A node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) call: Call,
    /// Handles of the nodes before it.
    pub(crate) after: Vec<u64>,
}

/// A node, as its handle names it.
#[derive(Debug, Clone)]
pub(crate) struct NodeOf {
    pub(crate) graph: Arc<Graph>,
    pub(crate) handle: u64,
}

/// A graph.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) handle: u64,
    /// By handle, which rises.
    nodes: Mutex<BTreeMap<u64, Node>>,
}

/// A graph that can be launched.
#[derive(Debug)]
pub(crate) struct Exec {
    steps: Mutex<Vec<Step>>,
}

#[derive(Debug, Clone)]
struct Step {
    node: u64,
    call: Call,
    is_enabled: bool,
}

impl Graph {
    /// A new graph without nodes.
    pub(crate) fn create() -> Result<Arc<Self>> {
        let driver = driver()?;
        let graph = Arc::new(Self {
            handle: driver.new_handle(),
            nodes: Mutex::default(),
        });
        driver.insert(graph.handle, Object::Graph(graph.clone()));
        Ok(graph)
    }

    pub(crate) fn nodes(&self) -> MutexGuard<'_, BTreeMap<u64, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a node; returns its handle.
    pub(crate) fn add(self: &Arc<Self>, call: Call, after: &[u64]) -> Result<u64> {
        let driver = driver()?;
        let mut nodes = self.nodes();
        if !after.iter().all(|node| nodes.contains_key(node)) {
            return Err(Status::INVALID_VALUE);
        }
        let handle = driver.new_handle();
        let node = Node {
            call,
            after: after.to_vec(),
        };
        nodes.insert(handle, node);
        drop(nodes);
        let graph = self.clone();
        driver.insert(handle, Object::Node(NodeOf { graph, handle }));
        Ok(handle)
    }

    /// These nodes, and all before them.
    pub(crate) fn ancestors(&self, of: &[u64]) -> BTreeSet<u64> {
        let nodes = self.nodes();
        let mut found = BTreeSet::new();
        let mut left = of.to_vec();
        while let Some(node) = left.pop() {
            if found.insert(node) {
                left.extend(nodes.get(&node).into_iter().flat_map(|node| &node.after));
            }
        }
        found
    }

    /// The nodes in an order that keeps to their dependencies.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID_VALUE`]: they form a circle.
    pub(crate) fn order(&self) -> Result<Vec<(u64, Call)>> {
        let nodes = self.nodes();
        let mut done = BTreeSet::new();
        let mut order = Vec::with_capacity(nodes.len());
        while order.len() < nodes.len() {
            let before = order.len();
            for (&handle, node) in nodes.iter() {
                let is_next = node.after.iter().all(|after| done.contains(after));
                if !done.contains(&handle) && is_next {
                    done.insert(handle);
                    order.push((handle, node.call.clone()));
                }
            }
            if order.len() == before {
                return Err(Status::INVALID_VALUE);
            }
        }
        Ok(order)
    }

    /// A copy with nodes of its own.
    pub(crate) fn copy(&self) -> Result<Arc<Self>> {
        let copy = Self::create()?;
        let mut handles = BTreeMap::new();
        let after: BTreeMap<u64, Vec<u64>> = self
            .nodes()
            .iter()
            .map(|(&handle, node)| (handle, node.after.clone()))
            .collect();
        for (handle, call) in self.order()? {
            let after = after.get(&handle).into_iter().flatten();
            let after: Vec<u64> = after
                .filter_map(|node| handles.get(node).copied())
                .collect();
            handles.insert(handle, copy.add(call, &after)?);
        }
        Ok(copy)
    }

    /// Ends it, and the handles of its nodes.
    pub(crate) fn destroy(&self) -> Result<()> {
        let driver = driver()?;
        driver.remove(self.handle);
        let nodes = std::mem::take(&mut *self.nodes());
        for handle in nodes.keys() {
            driver.remove(*handle);
        }
        Ok(())
    }
}

impl NodeOf {
    /// Its call.
    pub(crate) fn call(&self) -> Result<Call> {
        let nodes = self.graph.nodes();
        let node = nodes.get(&self.handle).ok_or(Status::INVALID_VALUE)?;
        Ok(node.call.clone())
    }

    /// Replaces its call by one of the same kind.
    pub(crate) fn set_call(&self, call: Call) -> Result<()> {
        let mut nodes = self.graph.nodes();
        let node = nodes.get_mut(&self.handle).ok_or(Status::INVALID_VALUE)?;
        replace(&mut node.call, call)
    }

    /// Takes it out of its graph.
    pub(crate) fn remove(&self) -> Result<()> {
        let mut nodes = self.graph.nodes();
        nodes.remove(&self.handle).ok_or(Status::INVALID_VALUE)?;
        for node in nodes.values_mut() {
            node.after.retain(|after| *after != self.handle);
        }
        drop(nodes);
        driver()?.remove(self.handle);
        Ok(())
    }
}

fn replace(old: &mut Call, new: Call) -> Result<()> {
    if kind(old) != kind(&new) {
        return Err(Status::INVALID_VALUE);
    }
    *old = new;
    Ok(())
}

/// The number of a kind of nodes in cuda.h.
pub(crate) fn kind(call: &Call) -> i32 {
    match call {
        Call::Kernel(..) => 0,
        Call::Copy(_) => 1,
        Call::Fill(_) => 2,
        Call::Host(_) => 3,
        Call::Graph(_) => 4,
        Call::Nothing => 5,
        Call::Await(_) => 6,
        Call::Record(_) => 7,
        Call::Free(_) => 11,
        Call::MemoryOperations(_) => 12,
    }
}

impl Exec {
    /// Of a graph as it is now; later changes of the graph are not seen.
    pub(crate) fn new(graph: &Graph) -> Result<Self> {
        let steps = graph.order()?.into_iter().map(|(node, call)| Step {
            node,
            call,
            is_enabled: true,
        });
        Ok(Self {
            steps: Mutex::new(steps.collect()),
        })
    }

    fn steps(&self) -> MutexGuard<'_, Vec<Step>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls that a launch makes.
    fn calls(&self) -> Vec<Call> {
        let steps = self.steps();
        let enabled = steps.iter().filter(|step| step.is_enabled);
        enabled.map(|step| step.call.clone()).collect()
    }

    /// Launches it in a stream; in a captured one it becomes a node.
    pub(crate) fn launch(&self, target: &Target) -> Result<()> {
        let calls = self.calls();
        match capture::is_any(&target.context) {
            true => call::run(target, Call::Graph(calls.into())),
            false => call::run_all(target, &calls),
        }
    }

    fn step<T>(&self, node: u64, change: impl FnOnce(&mut Step) -> Result<T>) -> Result<T> {
        let mut steps = self.steps();
        let step = steps.iter_mut().find(|step| step.node == node);
        change(step.ok_or(Status::INVALID_VALUE)?)
    }

    /// Replaces the call of a node by one of the same kind.
    pub(crate) fn set_call(&self, node: u64, call: Call) -> Result<()> {
        self.step(node, |step| replace(&mut step.call, call))
    }

    /// Has launches leave a node out, or not.
    pub(crate) fn set_enabled(&self, node: u64, is_enabled: bool) -> Result<()> {
        self.step(node, |step| {
            step.is_enabled = is_enabled;
            Ok(())
        })
    }

    /// True if launches have a node.
    pub(crate) fn is_enabled(&self, node: u64) -> Result<bool> {
        self.step(node, |step| Ok(step.is_enabled))
    }

    /// Takes the calls of a graph with the same nodes in the same order.
    pub(crate) fn update(&self, graph: &Graph) -> Result<bool> {
        let new = graph.order()?;
        let mut steps = self.steps();
        let same = new.len() == steps.len()
            && steps
                .iter()
                .zip(&new)
                .all(|(old, (_, call))| kind(&old.call) == kind(call));
        if same {
            for (old, (_, call)) in steps.iter_mut().zip(new) {
                old.call = call;
            }
        }
        Ok(same)
    }
}
