// SPDX-License-Identifier: GPL-2.0
//! Nice values of threads, as the kernel has them, and of threads that are made meanwhile.

use super::thread::Thread;
use crate::policy::nice::{
    Lowest,
    Nice,
    Seen, //
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

/// The kernel's account of a task.
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
    /// The kernel's account of it; `None` when it exits.
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

/// Knows the nice values that threads have by themselves.
pub(crate) trait Bases: Send + Sync {
    /// That of the thread with this key; `look` reads the kernel's values.
    fn base_of(&self, key: usize, look: &dyn Fn() -> Seen) -> Nice;
}

/// Has each thread that is made begin with the base of its maker, as long as it lives.
///
/// # Invariants
///
/// The probe is registered with the content of the box.
pub(crate) struct Births(KBox<Arc<dyn Bases>>);

impl Births {
    /// Begins.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` the kernel has no such tracepoint, `ENOMEM`.
    pub(crate) fn new(bases: Arc<dyn Bases>) -> Result<Self> {
        let bases = KBox::new(bases, GFP_KERNEL)?;
        // SAFETY: The box lives until `drop` has removed the probe.
        to_result(unsafe { zernel_helper_births_on(pointer(&bases)) })?;
        // INVARIANT: Just registered.
        Ok(Self(bases))
    }
}

impl Drop for Births {
    fn drop(&mut self) {
        // SAFETY: Registered by the type invariant.
        unsafe { zernel_helper_births_off(pointer(&self.0)) };
    }
}

fn pointer(bases: &KBox<Arc<dyn Bases>>) -> *mut c_void {
    core::ptr::from_ref::<Arc<dyn Bases>>(bases)
        .cast_mut()
        .cast()
}

/// The nice value that a thread has by itself.
///
/// # Safety
///
/// `bases` comes from [`Births::new`]; `task` is valid during this call.
#[no_mangle]
unsafe extern "C" fn zernel_rust_nice_base(
    bases: *mut c_void,
    task: *mut bindings::task_struct,
) -> i32 {
    // SAFETY: By the caller.
    let bases = unsafe { &*bases.cast::<Arc<dyn Bases>>() };
    // SAFETY: By the caller.
    let look = || unsafe { seen(task) }.0;
    bases.base_of(task as usize, &look).number()
}
