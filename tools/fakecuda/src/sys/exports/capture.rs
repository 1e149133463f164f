// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captures of streams.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint};

use crate::capture::{self, Info};
use crate::driver::driver;
use crate::graph::Graph;
use crate::status::{Result, Status};
use crate::sys::args::{functions, Handle, In, Out, StreamOf};

thread_local! {
    /// Nodes of the last answer to this thread, which has their address.
    static NODES: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

fn check_mode(mode: c_int) -> Result<()> {
    match mode {
        0..=2 => Ok(()),
        _ => Err(Status::INVALID_VALUE),
    }
}

fn begin(stream: StreamOf, mode: c_int) -> Result<()> {
    let target = stream.target()?;
    check_mode(mode)?;
    let graph = Graph::create()?;
    capture::begin(&target, mode, graph.clone(), Vec::new()).inspect_err(|_| {
        // It was made just now.
        let _ = graph.destroy();
    })
}

/// The state of a stream. Without a capture only that is set.
fn info(stream: StreamOf, state: Out<c_int>, id: Out<u64>) -> Result<Option<Info>> {
    let info = capture::info(&stream.target()?);
    let value = info
        .as_ref()
        .map_or(0, |info| if info.is_valid { 1 } else { 2 });
    state.set(value)?;
    let valid = info.filter(|info| info.is_valid);
    if let Some(info) = &valid {
        id.set_if_wanted(info.id);
    }
    Ok(valid)
}

fn whole_info(
    stream: StreamOf,
    state: Out<c_int>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<u64>,
    count: Out<usize>,
) -> Result<()> {
    if let Some(info) = info(stream, state, id)? {
        graph.set_if_wanted(info.graph.handle);
        count.set_if_wanted(info.nodes.len());
        let show = |shown: &RefCell<Vec<Handle>>| {
            nodes.set_if_wanted(info.nodes.as_ptr() as u64);
            shown.replace(info.nodes);
        };
        // A thread that ends keeps none.
        NODES.try_with(show).map_err(|_| Status::ILLEGAL_STATE)?;
    }
    Ok(())
}

fn update(stream: StreamOf, nodes: In<Handle>, count: usize, flags: c_uint) -> Result<()> {
    let target = stream.target()?;
    match flags {
        0 | 1 => capture::update(&target, &nodes.list(count)?, flags == 1),
        _ => Err(Status::INVALID_VALUE),
    }
}

functions! {
    [cuStreamBeginCapture cuStreamBeginCapture_ptsz](stream: StreamOf) {
        begin(stream, 0)
    }

    [cuStreamBeginCapture_v2 cuStreamBeginCapture_v2_ptsz](stream: StreamOf, mode: c_int) {
        begin(stream, mode)
    }

    [cuStreamBeginCaptureToGraph cuStreamBeginCaptureToGraph_ptsz](
        stream: StreamOf, graph: Handle, after: In<Handle>, data: In<u64>, count: usize, mode: c_int
    ) {
        data.refuse_all_but_zero(count)?;
        let target = stream.target()?;
        check_mode(mode)?;
        let (graph, after) = (driver()?.graph(graph)?, after.list(count)?);
        if !after.iter().all(|node| graph.nodes().contains_key(node)) {
            return Err(Status::INVALID_VALUE);
        }
        capture::begin(&target, mode, graph, after)
    }

    [cuStreamEndCapture cuStreamEndCapture_ptsz](stream: StreamOf, graph: Out<Handle>) {
        let target = stream.target()?;
        graph.set(0)?;
        graph.set(capture::end(&target)?.handle)
    }

    [cuStreamGetCaptureInfo cuStreamGetCaptureInfo_ptsz](
        stream: StreamOf, state: Out<c_int>, id: Out<u64>
    ) {
        info(stream, state, id).map(|_| ())
    }

    [cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v2_ptsz](
        stream: StreamOf, state: Out<c_int>, id: Out<u64>, graph: Out<Handle>, nodes: Out<u64>,
        count: Out<usize>
    ) {
        whole_info(stream, state, id, graph, nodes, count)
    }

    [cuStreamGetCaptureInfo_v3 cuStreamGetCaptureInfo_v3_ptsz](
        stream: StreamOf, state: Out<c_int>, id: Out<u64>, graph: Out<Handle>, nodes: Out<u64>,
        data: Out<u64>, count: Out<usize>
    ) {
        // No edge has data.
        data.set_if_wanted(0);
        whole_info(stream, state, id, graph, nodes, count)
    }

    [cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_ptsz](
        stream: StreamOf, nodes: In<Handle>, count: usize, flags: c_uint
    ) {
        update(stream, nodes, count, flags)
    }

    [cuStreamUpdateCaptureDependencies_v2 cuStreamUpdateCaptureDependencies_v2_ptsz](
        stream: StreamOf, nodes: In<Handle>, data: In<u64>, count: usize, flags: c_uint
    ) {
        data.refuse_all_but_zero(count)?;
        update(stream, nodes, count, flags)
    }

    cuThreadExchangeStreamCaptureMode(mode: Out<c_int>) {
        driver()?;
        let new = mode.get()?;
        check_mode(new)?;
        mode.set(capture::exchange_mode(new))
    }
}
