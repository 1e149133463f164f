// SPDX-License-Identifier: GPL-2.0
//! The payer of memory, and the wait for it.

use kernel::{
    alloc::{
        flags::{
            __GFP_NOWARN,
            GFP_KERNEL,
            GFP_KERNEL_ACCOUNT,
            GFP_NOWAIT, //
        },
        Flags, //
    },
    page::PAGE_SIZE,
    prelude::*, //
};

/// Times that memory is waited for.
const WAITS: u32 = 8;

/// Memory to wait for: more than is taken with a lock held at a time.
const ROOM: usize = 4 * PAGE_SIZE;

/// Charged to a cgroup; a tenant whose cgroup has no room for large pieces fills nobody's log.
pub(crate) fn account_quietly() -> Flags {
    GFP_KERNEL_ACCOUNT | __GFP_NOWARN
}

/// Charged to a cgroup, without waiting: neither for memory nor because the cgroup has too much.
/// For callers that hold a lock that others wait for.
pub(crate) fn account_nowait() -> Flags {
    GFP_NOWAIT | (GFP_KERNEL_ACCOUNT & !GFP_KERNEL)
}

/// Calls `f`, which takes a lock and then memory by [`account_nowait`]. While there is none it is
/// waited for without the lock, and `f` called again: a cgroup that has too much holds up the caller
/// alone.
///
/// # Errors
///
/// Those of `f`, which has changed nothing when that is `ENOMEM`.
pub(crate) fn with_memory<T, E>(mut f: impl FnMut() -> Result<T, E>) -> Result<T, E>
where
    E: From<Error> + PartialEq,
{
    for _ in 0..WAITS {
        match f() {
            Err(error) if error == E::from(ENOMEM) => {
                // Given back at once, and there for the next allocation.
                drop(VVec::<u8>::with_capacity(ROOM, account_quietly()).map_err(|_| error)?);
            }
            result => return result,
        }
    }
    f()
}
