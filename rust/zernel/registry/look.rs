// SPDX-License-Identifier: GPL-2.0
//! Looks at TSGs without the lock of the registry.

use super::{
    tsg,
    view::{
        Found,
        View,
        TRIES,
        VIEW, //
    }, //
};
use crate::{
    glue::{
        rcu::Guard,
        time::now_ns, //
    },
    policy::tunables::settings::OnGpu, //
};
use kernel::prelude::*;

/// Calls `f` with a TSG, the conditions on its GPU, and whether another class is in force for it
/// than it has been brought in line with. `None`: there is no such TSG. Takes no lock, unless it
/// changes all the time.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
pub(crate) fn tsg<T>(id: tsg::Id, f: impl Fn(&Found<'_>, &OnGpu, bool) -> T) -> Result<Option<T>> {
    let look = |view: &View, guard: &Guard| {
        let Some(found) = view.tsg(id, guard)? else {
            return Some(None);
        };
        let on = view.conditions(found.gpu, guard)?;
        let follows = view.read(guard, |classes| classes.is_to_follow(id, &found))?;
        Some(Some(f(&found, &on, follows)))
    };
    for _ in 0..TRIES {
        if let Some(result) = VIEW.with(look).ok_or(ENODEV)? {
            return Ok(result);
        }
    }
    // Nobody changes anything meanwhile.
    super::with(|r| look(&r.view, &Guard::new()).flatten())
}

/// TSGs that have come and gone.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
pub(crate) fn changes() -> Result<u64> {
    VIEW.with(|view, _| view.changes()).ok_or(ENODEV)
}

/// Asks the workers of all GPUs for the load of their TSGs, where that was not asked for just now.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
pub(crate) fn want_done() -> Result {
    let due = VIEW.with(|view, _| view.is_look_due(now_ns()));
    if due.ok_or(ENODEV)? {
        super::with(|r| r.want_done())?;
    }
    Ok(())
}
