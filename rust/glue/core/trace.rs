// SPDX-License-Identifier: GPL-2.0
//! Tracepoints, declared in `rust/helpers/zernel_trace.h`.
//!
//! `kernel::tracepoint::declare_trace!` looks in `kernel::bindings`, which a module outside the
//! tree cannot extend, so the two symbols of each tracepoint are declared here.

use kernel::{
    bindings,
    macros::paste,
    prelude::*, //
};

macro_rules! tracepoints {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        paste! {
            extern "C" {
                static [<__tracepoint_ $name>]: bindings::tracepoint;
                fn [<rust_do_trace_ $name>]($($argument: $type),*);
            }

            /// Somebody listens to it: its arguments are worth their price.
            #[inline]
            #[allow(dead_code, reason = "most have no price")]
            pub(crate) fn [<is_ $name _on>]() -> bool {
                // SAFETY: The key is defined by rust/helpers/zernel.c.
                unsafe {
                    kernel::jump_label::static_branch_unlikely!(
                        [<__tracepoint_ $name>],
                        bindings::tracepoint,
                        key
                    )
                }
            }

            $(#[$doc])*
            #[inline]
            pub(crate) fn $name($($argument: $type),*) {
                if [<is_ $name _on>]() {
                    // SAFETY: Takes plain values, from any context.
                    unsafe { [<rust_do_trace_ $name>]($($argument),*) };
                }
            }
        }
    )*};
}

tracepoints! {
    /// A provider reported a GPU.
    fn gpu_added(gpu: u64);
    /// A GPU is gone.
    fn gpu_removed(gpu: u64);
    /// A provider reported a TSG.
    fn tsg_added(gpu: u64, tsg: u64, pid: c_int);
    /// A TSG is gone.
    fn tsg_removed(gpu: u64, tsg: u64, pid: c_int);
    /// A provider describes a TSG otherwise.
    fn tsg_changed(gpu: u64, tsg: u64, pid: c_int);
    /// A process asked to change its own TSG, which zernel has settings of.
    fn tsg_user_control(gpu: u64, tsg: u64, pid: c_int, what: u32, answer: u32);
    /// A request to set a class was decided.
    fn class_set(target: u32, id: u64, level: c_int, error: c_int);
    /// A request to clear a class was decided.
    fn class_cleared(target: u32, id: u64, level: c_int, error: c_int);
    /// An assignment ended with its target.
    fn class_expired(target: u32, id: u64, level: c_int, error: c_int);
    /// The level in force of a TSG changed.
    fn class_changed(tsg: u64, level: c_int, source: u32);
    /// A provider took the settings of a TSG.
    fn slice_applied(gpu: u64, tsg: u64, timeslice_us: u32, error: c_int);
    /// A provider asked to be called again.
    fn slice_retried(gpu: u64, tsg: u64, timeslice_us: u32, error: c_int);
    /// A TSG was to be taken off the GPU for a request.
    fn tsg_preempted(gpu: u64, tsg: u64, verdict: u32);
    /// The run list of a TSG was to begin anew.
    fn tsg_kicked(gpu: u64, tsg: u64, error: c_int);
    /// The budget of a level is spent on a GPU, or is back.
    fn level_throttled(gpu: u64, level: u32, on: bool);
    /// A request began.
    fn request_begin(tsg: u64, request: u32, predicted_ns: u64, trigger_at: u64);
    /// zernel stored the trigger word of a request.
    fn request_trigger(tsg: u64, request: u32);
    /// A request is over.
    fn request_end(tsg: u64, request: u32, cause: u32, latency_ns: u64, early_ns: u64,
        late_ns: u64);
    /// The phase of a thread changed.
    fn phase_changed(pid: c_int, tid: c_int, from: u32, to: u32, lasted_ns: u64, hinted: bool);
    /// It is time for a process to load its next batch.
    fn prefetch_signal(pid: c_int, elapsed_ns: u64, predicted_ns: u64, lead_ns: u64);
    /// A provider refused the settings of a TSG for good.
    fn slice_failed(gpu: u64, tsg: u64, timeslice_us: u32, error: c_int);
}
