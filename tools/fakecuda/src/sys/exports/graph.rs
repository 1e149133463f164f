// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs, and their launches.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::Arc;

use crate::capture;
use crate::driver::{self, driver, Object};
use crate::graph::{self, Exec, Graph, Update};
use crate::status::{Result, Status};
use crate::sys::args::{functions, Handle, In, Out, StreamOf};

/// Flags of instantiation: free memory, upload, launch by the device, priority of nodes.
const FLAGS: u64 = 15;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`.
const DEVICE_LAUNCH: u64 = 4;

fn instantiate(exec: Out<Handle>, graph: Handle, flags: u64) -> Result<()> {
    let driver = driver()?;
    driver::current()?;
    exec.check()?;
    if flags & !FLAGS != 0 {
        return Err(Status::INVALID_VALUE);
    }
    if flags & DEVICE_LAUNCH != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    let new = Exec::new(&*driver.graph(graph)?)?;
    let handle = driver.new_handle();
    driver.insert(handle, Object::Exec(Arc::new(new)));
    exec.set(handle)
}

/// Handles into a list of the program: as many as fit, or their number where there is no list.
pub(super) fn list(handles: &[u64], places: Out<Handle>, count: Out<usize>) -> Result<()> {
    let room = count.get()?;
    if places.check().is_ok() {
        // Places beyond the last handle are null.
        let all = handles.iter().copied().chain(std::iter::repeat(0));
        places.set_list(all, room)?;
        count.set(handles.len().min(room))
    } else {
        count.set(handles.len())
    }
}

/// The same with the data of the edges, which is 0 for all of them.
fn list_with_data(
    handles: &[u64],
    places: Out<Handle>,
    data: Out<u64>,
    count: Out<usize>,
) -> Result<()> {
    let room = count.get()?;
    if places.check().is_ok() && data.check().is_ok() {
        data.set_list(std::iter::repeat(0), room)?;
    }
    list(handles, places, count)
}

fn edges(graph: Handle) -> Result<Vec<(u64, u64)>> {
    let graph = driver()?.graph(graph)?;
    let nodes = graph.nodes();
    let all = nodes
        .iter()
        .flat_map(|(&to, node)| node.after.iter().map(move |&from| (from, to)));
    Ok(all.collect())
}

fn list_edges(
    graph: Handle,
    from: Out<Handle>,
    to: Out<Handle>,
    data: Out<u64>,
    count: Out<usize>,
) -> Result<()> {
    let edges = edges(graph)?;
    let (before, after): (Vec<u64>, Vec<u64>) = edges.into_iter().unzip();
    let room = count.get()?;
    list_with_data(&before, from, data, count)?;
    count.set(room)?;
    list(&after, to, count)
}

fn dependencies(
    node: Handle,
    places: Out<Handle>,
    data: Out<u64>,
    count: Out<usize>,
) -> Result<()> {
    let node = driver()?.node(node)?;
    let after = node
        .graph
        .nodes()
        .get(&node.handle)
        .map(|node| node.after.clone());
    list_with_data(&after.ok_or(Status::INVALID_VALUE)?, places, data, count)
}

fn dependents(node: Handle, places: Out<Handle>, data: Out<u64>, count: Out<usize>) -> Result<()> {
    let graph = driver()?.node(node)?.graph;
    let edges = edges(graph.handle)?;
    let behind: Vec<u64> = edges
        .iter()
        .filter(|edge| edge.0 == node)
        .map(|edge| edge.1)
        .collect();
    list_with_data(&behind, places, data, count)
}

fn change_edges(
    graph: Handle,
    from: In<Handle>,
    to: In<Handle>,
    count: usize,
    adds: bool,
) -> Result<()> {
    let graph = driver()?.graph(graph)?;
    let (from, to) = (from.list(count)?, to.list(count)?);
    let mut nodes = graph.nodes();
    let pairs = || from.iter().copied().zip(to.iter().copied());
    for (from, to) in pairs() {
        let is_there = nodes
            .get(&to)
            .is_some_and(|node| node.after.contains(&from));
        if !nodes.contains_key(&from) || !nodes.contains_key(&to) || from == to || is_there == adds
        {
            return Err(Status::INVALID_VALUE);
        }
    }
    for (from, to) in pairs() {
        if let Some(node) = nodes.get_mut(&to) {
            match adds {
                true => node.after.push(from),
                false => node.after.retain(|after| *after != from),
            }
        }
    }
    Ok(())
}

/// Takes the calls of a graph into one that can be launched. The second result is that of the
/// update.
fn update(exec: Handle, graph: Handle) -> Result<(Result<()>, c_int)> {
    let driver = driver()?;
    let (exec, graph) = (driver.exec(exec)?, driver.graph(graph)?);
    let result = exec.update(&graph)?;
    let outcome = match result {
        Update::Success => Ok(()),
        _ => Err(Status::GRAPH_EXEC_UPDATE_FAILURE),
    };
    Ok((outcome, result as c_int))
}

functions! {
    cuGraphCreate(graph: Out<Handle>, flags: c_uint) {
        driver()?;
        graph.check()?;
        match flags {
            0 => graph.set(Graph::create()?.handle),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    cuGraphDestroy(graph: Handle) {
        driver()?.graph(graph)?.destroy()
    }

    cuGraphClone(copy: Out<Handle>, graph: Handle) {
        copy.check()?;
        copy.set(driver()?.graph(graph)?.copy()?.handle)
    }

    cuGraphGetNodes(graph: Handle, places: Out<Handle>, count: Out<usize>) {
        let graph = driver()?.graph(graph)?;
        let nodes: Vec<u64> = graph.nodes().keys().copied().collect();
        list(&nodes, places, count)
    }

    cuGraphGetRootNodes(graph: Handle, places: Out<Handle>, count: Out<usize>) {
        let graph = driver()?.graph(graph)?;
        let nodes = graph.nodes();
        let roots = nodes.iter().filter(|(_, node)| node.after.is_empty());
        list(&roots.map(|(&handle, _)| handle).collect::<Vec<_>>(), places, count)
    }

    cuGraphGetEdges(graph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) {
        list_edges(graph, from, to, Out::nowhere(), count)
    }

    cuGraphGetEdges_v2(
        graph: Handle, from: Out<Handle>, to: Out<Handle>, data: Out<u64>, count: Out<usize>
    ) {
        list_edges(graph, from, to, data, count)
    }

    cuGraphNodeGetDependencies(node: Handle, places: Out<Handle>, count: Out<usize>) {
        dependencies(node, places, Out::nowhere(), count)
    }

    cuGraphNodeGetDependencies_v2(
        node: Handle, places: Out<Handle>, data: Out<u64>, count: Out<usize>
    ) {
        dependencies(node, places, data, count)
    }

    cuGraphNodeGetDependentNodes(node: Handle, places: Out<Handle>, count: Out<usize>) {
        dependents(node, places, Out::nowhere(), count)
    }

    cuGraphNodeGetDependentNodes_v2(
        node: Handle, places: Out<Handle>, data: Out<u64>, count: Out<usize>
    ) {
        dependents(node, places, data, count)
    }

    cuGraphAddDependencies(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        change_edges(graph, from, to, count, true)
    }

    cuGraphAddDependencies_v2(
        graph: Handle, from: In<Handle>, to: In<Handle>, data: In<u64>, count: usize
    ) {
        data.refuse_all_but_zero(count)?;
        change_edges(graph, from, to, count, true)
    }

    cuGraphRemoveDependencies(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        change_edges(graph, from, to, count, false)
    }

    cuGraphRemoveDependencies_v2(
        graph: Handle, from: In<Handle>, to: In<Handle>, data: In<u64>, count: usize
    ) {
        data.refuse_all_but_zero(count)?;
        change_edges(graph, from, to, count, false)
    }

    cuGraphNodeGetType(node: Handle, kind: Out<c_int>) {
        kind.set(graph::kind(&driver()?.node(node)?.call()?))
    }

    cuGraphDestroyNode(node: Handle) {
        driver()?.node(node)?.remove()
    }

    cuGraphInstantiate(
        exec: Out<Handle>, graph: Handle, node: Out<Handle>, log: Out<c_char>, room: usize
    ) {
        let _ = (node, log, room);
        instantiate(exec, graph, 0)
    }

    cuGraphInstantiate_v2(
        exec: Out<Handle>, graph: Handle, node: Out<Handle>, log: Out<c_char>, room: usize
    ) {
        let _ = (node, log, room);
        instantiate(exec, graph, 0)
    }

    cuGraphInstantiateWithFlags(exec: Out<Handle>, graph: Handle, flags: u64) {
        instantiate(exec, graph, flags)
    }

    [cuGraphInstantiateWithParams cuGraphInstantiateWithParams_ptsz](
        exec: Out<Handle>, graph: Handle, parameters: Out<[u64; 4]>
    ) {
        let mut words = parameters.get()?;
        instantiate(exec, graph, words[0])?;
        // No node failed, and the result is success.
        (words[2], words[3]) = (0, 0);
        parameters.set(words)
    }

    [cuGraphUpload cuGraphUpload_ptsz](exec: Handle, stream: StreamOf) {
        stream.target()?;
        driver()?.exec(exec).map(|_| ())
    }

    [cuGraphLaunch cuGraphLaunch_ptsz](exec: Handle, stream: StreamOf) {
        let target = stream.target()?;
        driver()?.exec(exec)?.launch(&target)
    }

    cuGraphExecDestroy(exec: Handle) {
        let driver = driver()?;
        driver.exec(exec)?;
        driver.remove(exec);
        Ok(())
    }

    cuGraphExecGetFlags(exec: Handle, flags: Out<u64>) {
        driver()?.exec(exec)?;
        flags.set(0)
    }

    cuGraphExecUpdate(exec: Handle, graph: Handle, node: Out<Handle>, result: Out<c_int>) {
        let (outcome, value) = update(exec, graph)?;
        node.set_if_wanted(0);
        result.set_if_wanted(value);
        outcome
    }

    cuGraphExecUpdate_v2(exec: Handle, graph: Handle, information: Out<[u64; 3]>) {
        let (outcome, value) = update(exec, graph)?;
        information.set_if_wanted([value as u64, 0, 0]);
        outcome
    }

    cuGraphNodeSetEnabled(exec: Handle, node: Handle, is_enabled: c_uint) {
        driver()?.exec(exec)?.set_enabled(node, is_enabled != 0)
    }

    cuGraphNodeGetEnabled(exec: Handle, node: Handle, is_enabled: Out<c_uint>) {
        is_enabled.set(driver()?.exec(exec)?.is_enabled(node)?.into())
    }

    [cuStreamIsCapturing cuStreamIsCapturing_ptsz](stream: StreamOf, state: Out<c_int>) {
        let target = stream.target()?;
        state.set(match capture::info(&target) {
            None => 0,
            Some(info) if info.is_valid => 1,
            Some(_) => 2,
        })
    }
}
