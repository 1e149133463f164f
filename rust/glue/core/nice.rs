// SPDX-License-Identifier: GPL-2.0
//! Nice values of threads, as the kernel has them, and of threads that are made meanwhile.

use super::thread::Thread;
use crate::{
    nice::Table,
    policy::nice::{
        Lowest,
        Nice,
        Seen, //
    },
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::Arc, //
};

extern "C" {
    fn zernel_helper_niceness(task: *mut bindings::task_struct, niceness: *mut Niceness);
    fn zernel_helper_set_nice(task: *mut bindings::task_struct, nice: i32);
    fn zernel_helper_births_on(table: *mut c_void) -> c_int;
    fn zernel_helper_births_off(table: *mut c_void);
}

/// `struct zernel_niceness`.
#[repr(C)]
#[derive(Default)]
struct Niceness {
    now: i32,
    lowest: i32,
    fair: bool,
    exits: bool,
}

/// What the kernel says of a task.
///
/// # Safety
///
/// `task` is valid during this call.
unsafe fn seen(task: *mut bindings::task_struct) -> (Seen, bool) {
    let mut niceness = Niceness::default();
    // SAFETY: By the caller.
    unsafe { zernel_helper_niceness(task, &mut niceness) };
    let seen = Seen {
        now: Nice::nearest(niceness.now),
        lowest: Lowest::of(niceness.lowest),
        fair: niceness.fair,
    };
    (seen, !niceness.exits)
}

impl Thread {
    /// What the kernel says of it; `None` when it exits.
    pub(crate) fn niceness(&self) -> Option<Seen> {
        // SAFETY: Valid by the type invariant.
        let (seen, is_there) = unsafe { seen(self.as_raw()) };
        is_there.then_some(seen)
    }

    /// Changes its nice value. The scheduler's locks are taken.
    pub(crate) fn set_nice(&self, nice: Nice) {
        // SAFETY: Valid by the type invariant.
        unsafe { zernel_helper_set_nice(self.as_raw(), nice.number()) };
    }
}

/// Has each thread that is made begin with the base of its maker, as long as it lives.
///
/// # Invariants
///
/// The probe is registered with the table, to which this has a reference.
pub(crate) struct Births(Arc<Table>);

impl Births {
    /// Begins.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` the kernel has no such tracepoint, `ENOMEM`.
    pub(crate) fn new(table: Arc<Table>) -> Result<Self> {
        // SAFETY: The table lives until `drop` has removed the probe.
        to_result(unsafe { zernel_helper_births_on(pointer(&table)) })?;
        // INVARIANT: Just registered.
        Ok(Self(table))
    }
}

impl Drop for Births {
    fn drop(&mut self) {
        // SAFETY: Registered by the type invariant.
        unsafe { zernel_helper_births_off(pointer(&self.0)) };
    }
}

fn pointer(table: &Arc<Table>) -> *mut c_void {
    core::ptr::from_ref::<Table>(table).cast_mut().cast()
}

/// The nice value that a thread has by itself.
///
/// # Safety
///
/// `table` is what [`Births::new`] handed over; `task` is valid during this call.
#[no_mangle]
unsafe extern "C" fn zernel_rust_nice_base(
    table: *mut c_void,
    task: *mut bindings::task_struct,
) -> i32 {
    // SAFETY: By the caller.
    let table = unsafe { &*table.cast::<Table>() };
    // SAFETY: By the caller.
    let look = || unsafe { seen(task) }.0;
    table.base_of(task as usize, look).number()
}
