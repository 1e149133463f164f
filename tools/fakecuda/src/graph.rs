// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs: calls with dependencies, launched as one. The calls run one after the other, in an order
//! that keeps to the dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::call::{Call, Plan};
use crate::capture;
use crate::driver::{driver, lock, Object, Target};
use crate::event::{Event, DISABLE_TIMING};
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
    /// The end of the last launch: the next one comes after it.
    last: Mutex<Option<Arc<Event>>>,
}

#[derive(Debug, Clone)]
struct Step {
    node: u64,
    call: Call,
    /// Places of the steps that it depends on, in their order.
    after: Vec<usize>,
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
        lock(&self.nodes)
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
        Ok(Self {
            steps: Mutex::new(in_order(graph)?),
            last: Mutex::default(),
        })
    }

    fn steps(&self) -> MutexGuard<'_, Vec<Step>> {
        lock(&self.steps)
    }

    /// The calls that a launch makes.
    fn calls(&self) -> Vec<Call> {
        let steps = self.steps();
        let enabled = steps.iter().filter(|step| step.is_enabled);
        enabled.map(|step| step.call.clone()).collect()
    }

    /// Launches it in a stream; in a captured one it becomes a node. Launches come one after the
    /// other also in different streams.
    pub(crate) fn launch(&self, target: &Target) -> Result<()> {
        let calls = self.calls();
        let call = Call::Graph(calls.into());
        if capture::add(target, &call)? {
            return Ok(());
        }
        let mut last = lock(&self.last);
        let mut plan = Plan::new(&target.context);
        if let Some(last) = &*last {
            plan.add(&Call::Await(last.clone()), true)?;
        }
        plan.add(&call, true)?;
        plan.run(target)?;
        let end = Event::new(target.context.clone(), DISABLE_TIMING);
        end.record(target)?;
        *last = Some(Arc::new(end));
        Ok(())
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

    /// Takes the calls of a graph with the same nodes and edges, in the same order.
    pub(crate) fn update(&self, graph: &Graph) -> Result<Update> {
        let new = in_order(graph)?;
        let mut steps = self.steps();
        let mut pairs = steps.iter().zip(&new);
        if new.len() != steps.len() || pairs.any(|(old, new)| old.after != new.after) {
            return Ok(Update::TopologyChanged);
        }
        let mut pairs = steps.iter().zip(&new);
        if pairs.any(|(old, new)| kind(&old.call) != kind(&new.call)) {
            return Ok(Update::NodeTypeChanged);
        }
        for (old, new) in steps.iter_mut().zip(new) {
            old.call = new.call;
        }
        Ok(Update::Success)
    }
}

/// The outcome of an update, with its number in cuda.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Update {
    Success = 0,
    TopologyChanged = 2,
    NodeTypeChanged = 3,
}

/// The steps of a launch of a graph.
fn in_order(graph: &Graph) -> Result<Vec<Step>> {
    let order = graph.order()?;
    let places = order.iter().map(|(node, _)| *node).zip(0..);
    let places: BTreeMap<u64, usize> = places.collect();
    let nodes = graph.nodes();
    let steps = order.into_iter().map(|(node, call)| {
        let after = nodes.get(&node).into_iter().flat_map(|node| &node.after);
        let after = after.filter_map(|after| places.get(after).copied());
        Step {
            node,
            call,
            after: BTreeSet::from_iter(after).into_iter().collect(),
            is_enabled: true,
        }
    });
    Ok(steps.collect())
}
