// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs: nodes that a capture has made, and what they do in the next launch.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use super::context::{Context, Entered};
use super::module::{Function, Grid};
use super::stream::{Stream, AT_LEAST};
use super::{Address, Raw};
use crate::Result;

/// Calls on the stream are captured, and the capture is of use.
const CAPTURED: c_int = 1;
/// A wait for a word of 32 bits.
const WAIT: c_uint = 1;

/// A node of a graph that a capture has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node(usize);

/// A graph that can be launched (`CUgraphExec`, `cudaGraphExec_t`), as its handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executable(usize);

impl Executable {
    /// Of a handle of the program.
    ///
    /// # Safety
    ///
    /// The driver has made it. It is there while this is used, and so is the graph (`CUgraph`) that it was
    /// made of, with its nodes: the driver knows them by that. While nodes are changed, no other thread
    /// launches or changes it. When what is recorded in it has been given back, it is not launched.
    pub unsafe fn from_raw(handle: *mut c_void) -> Self {
        Self(handle as usize)
    }
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[derive(Debug)]
#[repr(C)]
pub struct KernelNode {
    function: Raw,
    blocks: [c_uint; 3],
    threads: [c_uint; 3],
    shared: c_uint,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
    kernel: Raw,
    context: Raw,
}

/// `CUstreamBatchMemOpParams` of a wait.
#[derive(Debug)]
#[repr(C)]
struct WaitParams {
    operation: c_uint,
    address: Address,
    value: u64,
    flags: c_uint,
    alias: Address,
    pad: u64,
}

/// `CUDA_BATCH_MEM_OP_NODE_PARAMS`.
#[derive(Debug)]
#[repr(C)]
pub struct WordsNode {
    context: Raw,
    count: c_uint,
    operations: *mut c_void,
    flags: c_uint,
}

impl Entered<'_> {
    /// The node after which the next call on a captured stream comes; `None`: there are several, or
    /// none, or nothing is captured.
    pub fn last_node(&self, stream: Stream) -> Result<Option<Node>> {
        let (mut status, mut nodes, mut count) = (0, ptr::null(), 0);
        let none = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: The stream is there; places for what is not asked for may be null, the others are
        // valid for writes.
        let told = unsafe {
            let info = self.driver().functions.stream_capture;
            info(
                stream.raw(),
                &mut status,
                none.0,
                none.1,
                &mut nodes,
                &mut count,
            )
        };
        self.driver().check("cuStreamGetCaptureInfo", told)?;
        let is_there = status == CAPTURED && count == 1 && !nodes.is_null();
        // SAFETY: The driver's array has one, until the next call on the stream.
        Ok(is_there.then(|| Node(unsafe { *nodes } as usize)))
    }

    /// Has a node of this context that waits for a word wait for it to reach a value, cyclic, in the
    /// launches to come.
    ///
    /// # Safety
    ///
    /// The graph is there. A node that is none of it, or no wait, is refused.
    pub unsafe fn wait_word_in(
        &self,
        graph: Executable,
        node: Node,
        address: u64,
        value: u32,
    ) -> Result<()> {
        let mut wait = WaitParams {
            operation: WAIT,
            address,
            value: value.into(),
            flags: AT_LEAST,
            alias: 0,
            pad: 0,
        };
        let parameters = WordsNode {
            context: self
                .driver()
                .current()?
                .map_or(ptr::null_mut(), Context::raw),
            count: 1,
            operations: ptr::from_mut(&mut wait).cast(),
            flags: 0,
        };
        // SAFETY: By the caller; the parameters are read before the call returns.
        let status = unsafe {
            (self.driver().functions.graph_words)(graph.0 as Raw, node.0 as Raw, &parameters)
        };
        let name = "cuGraphExecBatchMemOpNodeSetParams";
        self.driver().check(name, status)
    }
}

impl Function {
    /// Has a node that launches it take other arguments in the launches to come.
    ///
    /// # Safety
    ///
    /// As [`Self::launch`], for each of those launches, and the graph is there. A node that is none of it,
    /// or of another kind, is refused.
    pub unsafe fn launch_in<const N: usize>(
        &self,
        grid: Grid,
        graph: Executable,
        node: Node,
        mut arguments: [u64; N],
    ) -> Result<()> {
        let mut places = self.places(&mut arguments);
        let parameters = KernelNode {
            function: self.raw(),
            blocks: [grid.blocks, 1, 1],
            threads: [grid.threads, 1, 1],
            shared: 0,
            arguments: places.as_mut_ptr(),
            extra: ptr::null_mut(),
            kernel: ptr::null_mut(),
            context: ptr::null_mut(),
        };
        let driver = self.driver();
        // SAFETY: By the caller; the arguments are read before the call returns.
        let status =
            unsafe { (driver.functions.graph_kernel)(graph.0 as Raw, node.0 as Raw, &parameters) };
        driver.check("cuGraphExecKernelNodeSetParams", status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structures_are_those_of_the_header() {
        assert_eq!(
            (
                size_of::<KernelNode>(),
                size_of::<WaitParams>(),
                size_of::<WordsNode>()
            ),
            (72, 48, 32)
        );
        let kernel = [
            offset_of!(KernelNode, shared),
            offset_of!(KernelNode, arguments),
            offset_of!(KernelNode, kernel),
        ];
        assert_eq!(kernel, [32, 40, 56]);
        let wait = [
            offset_of!(WaitParams, address),
            offset_of!(WaitParams, value),
            offset_of!(WaitParams, flags),
            offset_of!(WaitParams, alias),
        ];
        assert_eq!(wait, [8, 16, 24, 32]);
        let words = [
            offset_of!(WordsNode, count),
            offset_of!(WordsNode, operations),
            offset_of!(WordsNode, flags),
        ];
        assert_eq!(words, [8, 16, 24]);
    }
}
