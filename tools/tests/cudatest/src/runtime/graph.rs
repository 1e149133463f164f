// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that are parts of graphs.

use std::cell::Cell;

use anyhow::{ensure, Context as _, Result};
use cuda::Stream;
use testkit::child::in_child;
use testkit::harness::Outcome;
use testkit::{check_eq, wait_until};
use zernel_runtime::{Error, GraphRequests, Idle, Mode, Options, Runtime, Spec};

use super::{attach, later, now, stats, TICK};
use crate::lab::{executable_of, stream_of, Program};
use crate::sys::Cuda;

/// A stream of the current context, and graphs that are captured from it.
struct Capture<'a> {
    cuda: &'a Cuda,
    program: &'a Program,
    stream: u64,
    /// The graph that was captured last.
    graph: Cell<u64>,
}

impl<'a> Capture<'a> {
    fn new(cuda: &'a Cuda, program: &'a Program) -> Result<Self> {
        let mut stream = 0;
        cuda.stream_create(&mut stream, 1).ok()?;
        Ok(Self {
            cuda,
            program,
            stream,
            graph: Cell::new(0),
        })
    }

    fn stream(&self) -> Stream {
        stream_of(self.stream)
    }

    /// Captures what is recorded, and a kernel behind it.
    fn capture<T>(&self, record: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
        let (mut graph, mut made) = (0, 0);
        self.cuda.capture_begin(self.stream, 0).ok()?;
        let recorded = record();
        self.program.work(self.stream(), TICK)?;
        self.cuda.capture_end(self.stream, &mut graph).ok()?;
        self.cuda.graph_instantiate(&mut made, graph, 0).ok()?;
        self.graph.set(graph);
        Ok((recorded?, made))
    }

    /// A graph with requests of a runtime.
    fn requests(&self, runtime: &Runtime) -> Result<(GraphRequests, u64)> {
        let (recorded, made) = self.capture(|| Ok(runtime.record(self.stream())?))?;
        Ok((recorded.instantiated(executable_of(made))?, made))
    }

    fn launch(&self, made: u64) -> Outcome {
        self.cuda.graph_launch(made, self.stream).ok()
    }

    fn is_idle(&self) -> bool {
        self.cuda.stream_query(self.stream).status == 0
    }

    fn wait(&self) -> Outcome {
        self.cuda.stream_synchronize(self.stream).ok()
    }
}

/// Each launch is the work of the request that was begun before it, in the same slot; one without a
/// request goes through.
pub fn launches() -> Outcome {
    const COUNT: u64 = 200;
    let program = Program::new()?;
    let runtime = attach(Options::default())?;
    let cuda = Cuda::open()?;
    let capture = Capture::new(&cuda, &program)?;
    let (requests, made) = capture.requests(&runtime)?;
    capture.launch(made)?;
    capture.wait()?;
    let mut lanes = Vec::new();
    for number in 0..COUNT {
        let mut request = requests.begin(&if number % 2 == 0 { now() } else { later() });
        check_eq!(request.idle(), None, "{number}");
        lanes.push(request.lane());
        capture.launch(made)?;
        if number % 2 == 0 {
            wait_until("the GPU is held", || Ok(request.is_held()))?;
        }
        ensure!(!capture.is_idle(), "launch {number} has not waited");
        match number % 4 {
            0 | 1 => {
                request.ready();
                capture.wait()?;
                ensure!(request.is_held(), "{number}: without a holder");
                request.done();
            }
            2 => request.done_in(capture.stream()),
            _ => request.cancel(),
        }
        capture.wait()?;
        // Again without one.
        capture.launch(made)?;
        capture.wait()?;
    }
    lanes.dedup();
    check_eq!(lanes.len(), 1, "{lanes:?}");
    drop(requests.begin(&later()));
    let told = stats(&runtime)?;
    check_eq!(
        (told.begun, told.done, told.cancelled, told.expired),
        (COUNT + 1, COUNT * 3 / 4, COUNT / 4 + 1, 0),
        "{told:?}"
    );
    check_eq!(runtime.counters().begun, COUNT + 1);
    Ok(())
}

/// It has one request at a time, and gives its lane back at its end.
pub fn lanes() -> Outcome {
    let program = Program::new()?;
    let runtime = attach(Options::default().lanes(2))?;
    let cuda = Cuda::open()?;
    let capture = Capture::new(&cuda, &program)?;
    let (requests, made) = capture.requests(&runtime)?;
    // The lane of the graph is none of the runtime's.
    let beside = [runtime.begin(&later())?, runtime.begin(&later())?];
    check_eq!(
        beside.each_ref().map(|request| request.idle()),
        [None, Some(Idle::NoLane)]
    );
    let (error, _) = capture.capture(|| Ok(runtime.record(capture.stream()).err()))?;
    ensure!(matches!(error, Some(Error::NoLane)), "{error:?}");
    let mut request = requests.begin(&later());
    check_eq!(requests.begin(&later()).idle(), Some(Idle::NoLane));
    // The GPU ends it, and so the lane is free.
    capture.launch(made)?;
    request.ready();
    request.done_in(capture.stream());
    capture.wait()?;
    let request = requests.begin(&later());
    check_eq!(request.idle(), None);
    check_eq!(runtime.counters().no_lane, 2);
    // With its last request the graph gives it back.
    drop((requests, beside));
    let both = || -> Result<_> { Ok([runtime.begin(&later())?, runtime.begin(&later())?]) };
    check_eq!(
        both()?.each_ref().map(|r| r.idle()),
        [None, Some(Idle::NoLane)]
    );
    drop(request);
    check_eq!(both()?.each_ref().map(|r| r.idle()), [None, None]);
    Ok(())
}

/// Streams that are not captured, or of another context; graphs of others; a lost context; a child.
pub fn refused() -> Outcome {
    let other = Program::new()?;
    let foreign = other.driver.create_stream(other.context())?;
    let tsg_of_other = crate::lab::tsgs()?[0];
    let program = Program::new()?;
    let tsg = crate::lab::tsgs()?
        .into_iter()
        .find(|&tsg| tsg != tsg_of_other);
    let runtime = attach(Options::default().tsg(tsg.context("a TSG")?))?;
    let cuda = Cuda::open()?;
    let capture = Capture::new(&cuda, &program)?;
    let record = |stream| runtime.record(stream).err();
    let before = runtime.counters();
    for (stream, name) in [
        (capture.stream(), "ZERNEL_NOT_CAPTURING"),
        (foreign.stream(), "ZERNEL_FOREIGN_STREAM"),
        (stream_of(capture.stream + 1), "ZERNEL_CUDA_FAILED"),
    ] {
        check_eq!(record(stream).map(|error| error.name()), Some(name));
    }
    check_eq!(runtime.counters(), before);
    // An inert runtime puts nothing there.
    let inert = Runtime::attach(&Options::default().mode(Mode::Off))?;
    let (nothing, made) = capture.requests(&inert)?;
    check_eq!(nothing.begin(&Spec::new()).idle(), Some(Idle::Inert));
    capture.launch(made)?;
    capture.wait()?;
    // Not with another graph than its own, nor with one that was destroyed.
    let (recorded, own) = capture.capture(|| Ok(runtime.record(capture.stream())?))?;
    let (_, gone) = capture.capture(|| Ok(()))?;
    cuda.graph_exec_destroy(gone).ok()?;
    for other in [made, gone] {
        let error = recorded.instantiated(executable_of(other)).err();
        let told = error.map(|error| (error.name(), error.errno()));
        check_eq!(told, Some(("ZERNEL_FOREIGN_GRAPH", 52)));
    }
    let requests = recorded.instantiated(executable_of(own))?;
    let request = requests.begin(&later());
    check_eq!(request.idle(), None);
    let error = recorded.instantiated(executable_of(own)).err();
    ensure!(matches!(error, Some(Error::NoLane)), "{error:?}");
    check_eq!(runtime.counters().failed_calls, before.failed_calls);
    drop(request);
    // The nodes are named by the captured graph.
    let (orphaned, launched) = capture.requests(&runtime)?;
    cuda.graph_destroy(capture.graph.get()).ok()?;
    check_eq!(orphaned.begin(&now()).idle(), Some(Idle::Refused));
    check_eq!(runtime.counters().failed_calls, before.failed_calls + 1);
    for graph in [own, made, launched] {
        capture.launch(graph)?;
        capture.wait()?;
    }
    drop((recorded, requests, orphaned));
    let (recorded, made) = capture.capture(|| Ok(runtime.record(capture.stream())?))?;
    let requests = recorded.instantiated(executable_of(made))?;
    in_child(|| {
        check_eq!(requests.begin(&now()).idle(), Some(Idle::Forked));
        let error = runtime.record(capture.stream()).err();
        ensure!(matches!(error, Some(Error::Forked)), "{error:?}");
        let error = recorded.instantiated(executable_of(made)).err();
        ensure!(matches!(error, Some(Error::Forked)), "{error:?}");
        Ok(())
    })?;
    let request = requests.begin(&later());
    capture.launch(made)?;
    drop(request);
    capture.wait()?;
    program.fail()?;
    // A call that meets the error finds that out.
    check_eq!(runtime.begin(&now())?.idle(), Some(Idle::Refused));
    check_eq!(requests.begin(&now()).idle(), Some(Idle::Lost));
    Ok(())
}
