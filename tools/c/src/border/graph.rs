// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of `runtime.h` for graphs.

use cuda::{Executable, Stream};

use super::{abi, begin, c_int, c_void, call, handle, place, spec, write, Fault, Handle};

/// # Safety
///
/// As the header says, here and below.
#[no_mangle]
pub(super) unsafe extern "C" fn zernel_graph_record(
    runtime: *mut abi::zernel_runtime,
    stream: *mut c_void,
    graph: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let (handle, stream) = unsafe { (handle(runtime)?, Stream::from_raw(stream)) };
        place(graph)?;
        let number = handle.record(stream)?;
        // SAFETY: By the caller, and not null.
        unsafe { write(graph, number) }
    })
}

#[no_mangle]
pub(super) unsafe extern "C" fn zernel_graph_instantiated(
    runtime: *mut abi::zernel_runtime,
    graph: u64,
    exec: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let handle = unsafe { handle(runtime)? };
        if exec.is_null() {
            return Err(Fault::Argument("the graph to launch is a null pointer"));
        }
        // SAFETY: By the caller.
        handle.instantiated(graph, unsafe { Executable::from_raw(exec) })
    })
}

#[no_mangle]
pub(super) unsafe extern "C" fn zernel_graph_begin(
    runtime: *mut abi::zernel_runtime,
    graph: u64,
    from: *const abi::zernel_spec,
    request: *mut u64,
) -> c_int {
    let in_graph = |handle: &Handle, raw: &abi::zernel_spec| {
        if raw.flags & abi::ZERNEL_SPEC_INLINE != 0 {
            return Err(Fault::Argument(
                "the request of a graph goes into no stream",
            ));
        }
        handle.begin_in_graph(graph, &spec(raw))
    };
    // SAFETY: By the caller.
    unsafe { begin(runtime, from, request, in_graph) }
}

#[no_mangle]
pub(super) unsafe extern "C" fn zernel_graph_destroy(
    runtime: *mut abi::zernel_runtime,
    graph: u64,
) -> c_int {
    // SAFETY: By the caller.
    call(|| unsafe { handle(runtime)? }.end_graph(graph))
}

/// The functions have the types that the header declares.
#[allow(clippy::type_complexity)]
const _: () = {
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] =
        [abi::zernel_graph_record, zernel_graph_record];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] =
        [abi::zernel_graph_instantiated, zernel_graph_instantiated];
    let _: [unsafe extern "C" fn(_, _, _, _) -> _; 2] =
        [abi::zernel_graph_begin, zernel_graph_begin];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_graph_destroy, zernel_graph_destroy];
};
