// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nodes of graphs.

use std::ffi::{c_uint, c_void};

use super::copy::Copy3d;
use super::{module, words};
use crate::call::Call;
use crate::driver::driver;
use crate::status::{Result, Status};
use crate::sys::args::{functions, Arguments, Handle, In, Out};
use crate::sys::process::Callback;
use crate::transfer::Filling;

/// `CUDA_KERNEL_NODE_PARAMS`, first form.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Kernel {
    function: Handle,
    sizes: [c_uint; 7],
    places: In<u64>,
    extra: In<u64>,
}

/// The second form.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Kernel2 {
    first: Kernel,
    kernel: Handle,
    context: Handle,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Set {
    to: u64,
    pitch: usize,
    value: c_uint,
    unit: c_uint,
    width: usize,
    height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Host {
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    value: usize,
}

/// `CUDA_BATCH_MEM_OP_NODE_PARAMS`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Batch {
    context: Handle,
    count: c_uint,
    list: In<[u64; 6]>,
    flags: c_uint,
}

impl Kernel {
    fn call(&self) -> Result<Call> {
        let function = driver()?.function(self.function)?;
        let (places, extra) = (self.places, self.extra);
        module::kernel(&function, self.sizes, Arguments { places, extra })
    }
}

impl Kernel2 {
    fn call(&self) -> Result<Call> {
        let function = match self.first.function {
            0 => self.kernel,
            function => function,
        };
        Kernel {
            function,
            ..self.first
        }
        .call()
    }
}

impl Set {
    fn call(&self) -> Result<Call> {
        if ![1, 2, 4].contains(&self.unit) {
            return Err(Status::INVALID_VALUE);
        }
        let (unit, width) = (u64::from(self.unit), self.width as u64);
        Ok(Call::Fill(Filling {
            to: self.to,
            value: self.value,
            unit,
            pitch: match self.height {
                0 | 1 => width.saturating_mul(unit),
                _ => self.pitch as u64,
            },
            width,
            height: self.height as u64,
        }))
    }
}

impl Host {
    fn call(&self) -> Result<Call> {
        let function = self.function.ok_or(Status::INVALID_VALUE)?;
        Ok(Call::Host(Callback::Host(function, self.value)))
    }
}

impl Batch {
    fn call(&self) -> Result<Call> {
        match self.flags {
            0 => Ok(Call::MemoryOperations(
                words::operations(self.list, self.count)?.into(),
            )),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

/// The place, the graph and the dependencies of a new node.
#[derive(Debug, Clone, Copy)]
struct New(Out<Handle>, Handle, In<Handle>, usize);

impl New {
    fn add(self, call: impl FnOnce() -> Result<Call>) -> Result<()> {
        let Self(node, graph, after, count) = self;
        let graph = driver()?.graph(graph)?;
        node.check()?;
        node.set(graph.add(call()?, &after.list(count)?)?)
    }
}

/// Replaces the call of a node in a graph that can be launched. The graph that it is of names it.
fn set(exec: Handle, node: Handle, call: impl FnOnce() -> Result<Call>) -> Result<()> {
    let (exec, node) = (driver()?.exec(exec)?, driver()?.node(node)?);
    exec.set_call(node.handle, call()?)
}

/// The same in a graph.
fn set_node(node: Handle, call: impl FnOnce() -> Result<Call>) -> Result<()> {
    driver()?.node(node)?.set_call(call()?)
}

fn child(graph: Handle) -> Result<Call> {
    let calls = driver()?.graph(graph)?.order()?;
    Ok(Call::Graph(
        calls.into_iter().map(|(_, call)| call).collect(),
    ))
}

functions! {
    cuGraphAddKernelNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<Kernel>
    ) {
        New(node, graph, after, count).add(|| parameters.get()?.call())
    }

    cuGraphAddKernelNode_v2(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<Kernel2>
    ) {
        New(node, graph, after, count).add(|| parameters.get()?.call())
    }

    cuGraphAddMemcpyNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<Copy3d>,
        context: Handle
    ) {
        driver()?.context(context)?;
        New(node, graph, after, count).add(|| Ok(Call::Copy(parameters.get()?.transfer()?)))
    }

    cuGraphAddMemsetNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<Set>,
        context: Handle
    ) {
        driver()?.context(context)?;
        New(node, graph, after, count).add(|| parameters.get()?.call())
    }

    cuGraphAddHostNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<Host>
    ) {
        New(node, graph, after, count).add(|| parameters.get()?.call())
    }

    cuGraphAddEmptyNode(node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize) {
        New(node, graph, after, count).add(|| Ok(Call::Nothing))
    }

    cuGraphAddBatchMemOpNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<Batch>
    ) {
        New(node, graph, after, count).add(|| parameters.get()?.call())
    }

    cuGraphAddEventRecordNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, event: Handle
    ) {
        New(node, graph, after, count).add(|| Ok(Call::Record(driver()?.event(event)?)))
    }

    cuGraphAddEventWaitNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, event: Handle
    ) {
        New(node, graph, after, count).add(|| Ok(Call::Await(driver()?.event(event)?)))
    }

    cuGraphAddChildGraphNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, other: Handle
    ) {
        New(node, graph, after, count).add(|| child(other))
    }

    cuGraphKernelNodeSetParams(node: Handle, parameters: In<Kernel>) {
        set_node(node, || parameters.get()?.call())
    }

    cuGraphKernelNodeSetParams_v2(node: Handle, parameters: In<Kernel2>) {
        set_node(node, || parameters.get()?.call())
    }

    cuGraphBatchMemOpNodeSetParams(node: Handle, parameters: In<Batch>) {
        set_node(node, || parameters.get()?.call())
    }

    cuGraphMemcpyNodeSetParams(node: Handle, parameters: In<Copy3d>) {
        set_node(node, || Ok(Call::Copy(parameters.get()?.transfer()?)))
    }

    cuGraphMemsetNodeSetParams(node: Handle, parameters: In<Set>) {
        set_node(node, || parameters.get()?.call())
    }

    cuGraphHostNodeSetParams(node: Handle, parameters: In<Host>) {
        set_node(node, || parameters.get()?.call())
    }

    cuGraphExecKernelNodeSetParams(exec: Handle, node: Handle, parameters: In<Kernel>) {
        set(exec, node, || parameters.get()?.call())
    }

    cuGraphExecKernelNodeSetParams_v2(exec: Handle, node: Handle, parameters: In<Kernel2>) {
        set(exec, node, || parameters.get()?.call())
    }

    cuGraphExecBatchMemOpNodeSetParams(exec: Handle, node: Handle, parameters: In<Batch>) {
        set(exec, node, || parameters.get()?.call())
    }

    cuGraphExecMemcpyNodeSetParams(
        exec: Handle, node: Handle, parameters: In<Copy3d>, context: Handle
    ) {
        driver()?.context(context)?;
        set(exec, node, || Ok(Call::Copy(parameters.get()?.transfer()?)))
    }

    cuGraphExecMemsetNodeSetParams(
        exec: Handle, node: Handle, parameters: In<Set>, context: Handle
    ) {
        driver()?.context(context)?;
        set(exec, node, || parameters.get()?.call())
    }

    cuGraphExecHostNodeSetParams(exec: Handle, node: Handle, parameters: In<Host>) {
        set(exec, node, || parameters.get()?.call())
    }

    cuGraphExecEventRecordNodeSetEvent(exec: Handle, node: Handle, event: Handle) {
        set(exec, node, || Ok(Call::Record(driver()?.event(event)?)))
    }

    cuGraphExecEventWaitNodeSetEvent(exec: Handle, node: Handle, event: Handle) {
        set(exec, node, || Ok(Call::Await(driver()?.event(event)?)))
    }

    cuGraphExecChildGraphNodeSetParams(exec: Handle, node: Handle, graph: Handle) {
        set(exec, node, || child(graph))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structures_are_those_of_the_header() {
        assert_eq!((size_of::<Kernel>(), size_of::<Kernel2>()), (56, 72));
        assert_eq!(
            (size_of::<Set>(), size_of::<Host>(), size_of::<Batch>()),
            (40, 16, 32)
        );
        let kernel = [
            offset_of!(Kernel, function),
            offset_of!(Kernel, sizes),
            offset_of!(Kernel, places),
            offset_of!(Kernel, extra),
            offset_of!(Kernel2, kernel),
            offset_of!(Kernel2, context),
        ];
        assert_eq!(kernel, [0, 8, 40, 48, 56, 64]);
        let set = [
            offset_of!(Set, to),
            offset_of!(Set, pitch),
            offset_of!(Set, value),
            offset_of!(Set, unit),
            offset_of!(Set, width),
            offset_of!(Set, height),
        ];
        assert_eq!(set, [0, 8, 16, 20, 24, 32]);
        let others = [
            offset_of!(Host, value),
            offset_of!(Batch, count),
            offset_of!(Batch, list),
            offset_of!(Batch, flags),
        ];
        assert_eq!(others, [8, 8, 16, 24]);
    }
}
