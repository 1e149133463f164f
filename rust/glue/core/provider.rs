// SPDX-License-Identifier: GPL-2.0
//! The C side of the provider ABI: `include/linux/zernel_provider.h`.

pub(crate) mod gpu;
mod owners;
mod reports;
pub(crate) mod tsg;

use crate::{
    glue::{
        errno,
        provider_abi as raw, //
    },
    policy::{
        rotation::entity::Sample,
        units::{
            Ns,
            Us, //
        },
    },
};
use kernel::{error::to_result, prelude::*, str::CStr};
pub(crate) use owners::*;
pub(crate) use reports::*;

/// Length of a provider's name with its NUL, as user space sees it.
pub(crate) const NAME_LEN: usize = 16;

/// The operations of a provider, checked at registration.
///
/// # Invariants
///
/// The pointers are valid until the provider is unregistered, which waits until no call is under
/// way. The time slice operations are there; the interleave operations both or none.
pub(crate) struct Ops {
    ops: raw::zernel_provider_ops,
    private: *mut c_void,
}

// SAFETY: Operations may be called from any thread in process context, by the ABI.
unsafe impl Send for Ops {}
// SAFETY: As above.
unsafe impl Sync for Ops {}

/// The answer of an operation; a code that no user may see is `EIO`.
fn answer(errno: c_int) -> Result {
    // From here on codes are the kernel's own.
    const FIRST_INTERNAL: c_int = 512;
    to_result(errno).map_err(|e| {
        if e.to_errno() <= -FIRST_INTERNAL {
            EIO
        } else {
            e
        }
    })
}

impl Ops {
    /// TSGs whose load is told at a time.
    pub(crate) const LOADS: usize = 16;

    /// Checks and copies a provider's registration; a shorter structure is zero-extended.
    ///
    /// # Safety
    ///
    /// `ops` is null or points to `size` bytes, and is valid until the provider is unregistered.
    unsafe fn new(ops: *const raw::zernel_provider_ops, private: *mut c_void) -> Result<Self> {
        // The part of the structure that the first version has.
        const FIRST_SIZE: usize = 88;
        static_assert!(size_of::<raw::zernel_provider_ops>() == FIRST_SIZE + 24);
        // SAFETY: By the caller. Operations that are missing are null.
        let ops = unsafe { copy(ops, FIRST_SIZE) }?;
        if ops.abi != raw::ZERNEL_PROVIDER_ABI {
            return Err(errno::protocol());
        }
        if ops.name.is_null()
            || ops.set_timeslice.is_none()
            || ops.get_timeslice.is_none()
            || ops.set_interleave.is_some() != ops.get_interleave.is_some()
        {
            return Err(EINVAL);
        }
        // INVARIANT: Just checked, and valid by the caller.
        Ok(Self { ops, private })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &[u8] {
        // SAFETY: Valid and terminated by the ABI.
        unsafe { CStr::from_char_ptr(self.ops.name) }.to_bytes()
    }

    /// The abilities of the provider.
    pub(crate) fn abilities(&self) -> gpu::Abilities {
        gpu::Abilities {
            interleave: self.ops.set_interleave.is_some(),
            preempt: self.ops.preempt.is_some(),
            enable: self.ops.set_enabled.is_some(),
            load: self.ops.query_load.is_some(),
            tsg_load: self.ops.query_tsg.is_some(),
            turns: self.ops.set_enabled.is_some() && self.ops.query_tsg.is_some(),
            kick: self.ops.kick.is_some(),
        }
    }

    /// Reads the driver's settings of a TSG.
    pub(crate) fn get(&self, gpu: gpu::Handle, tsg: u64) -> Result<tsg::Hardware> {
        let mut us = 0;
        let get = self.ops.get_timeslice.ok_or(EINVAL)?;
        // SAFETY: Valid by the type invariant.
        answer(unsafe { get(self.private, gpu.0, tsg, &mut us) })?;
        let interleave = match self.ops.get_interleave {
            None => None,
            Some(get) => {
                let mut level = 0;
                // SAFETY: Valid by the type invariant.
                answer(unsafe { get(self.private, gpu.0, tsg, &mut level) })?;
                Some(level)
            }
        };
        Ok(tsg::Hardware {
            timeslice: Us(us),
            interleave,
        })
    }

    /// Gives a TSG a time slice.
    pub(crate) fn set_timeslice(&self, gpu: gpu::Handle, tsg: u64, slice: Us) -> Result {
        let set = self.ops.set_timeslice.ok_or(EINVAL)?;
        // SAFETY: Valid by the type invariant.
        answer(unsafe { set(self.private, gpu.0, tsg, slice.0) })
    }

    /// Gives a TSG an interleave level.
    pub(crate) fn set_interleave(&self, gpu: gpu::Handle, tsg: u64, level: u32) -> Result {
        let set = self.ops.set_interleave.ok_or(EINVAL)?;
        // SAFETY: Valid by the type invariant.
        answer(unsafe { set(self.private, gpu.0, tsg, level) })
    }

    /// Takes the engine away from a TSG.
    pub(crate) fn preempt(&self, gpu: gpu::Handle, tsg: u64, timeout: Us) -> Result {
        let preempt = self.ops.preempt.ok_or_else(errno::unsupported)?;
        // SAFETY: Valid by the type invariant.
        answer(unsafe { preempt(self.private, gpu.0, tsg, timeout.0) })
    }

    /// Lets a TSG be scheduled, or not.
    pub(crate) fn set_enabled(&self, gpu: gpu::Handle, tsg: u64, enabled: bool) -> Result {
        let set = self.ops.set_enabled.ok_or_else(errno::unsupported)?;
        // SAFETY: Valid by the type invariant.
        answer(unsafe { set(self.private, gpu.0, tsg, enabled) })
    }

    /// Has the run list of a TSG begin anew.
    pub(crate) fn kick(&self, gpu: gpu::Handle, tsg: u64) -> Result {
        let kick = self.ops.kick.ok_or_else(errno::unsupported)?;
        // SAFETY: Valid by the type invariant.
        answer(unsafe { kick(self.private, gpu.0, tsg) })
    }

    /// The load of a TSG.
    pub(crate) fn tsg_load(&self, gpu: gpu::Handle, tsg: u64) -> Result<Sample> {
        let query = self.ops.query_tsg.ok_or_else(errno::unsupported)?;
        let mut load = raw::zernel_tsg_load {
            size: size_of::<raw::zernel_tsg_load>() as u32,
            ..Default::default()
        };
        // SAFETY: Valid by the type invariant.
        answer(unsafe { query(self.private, gpu.0, tsg, &mut load) })?;
        Ok(sample(&load))
    }

    /// Calls `tell` with the load of each of some TSGs, [`Self::LOADS`] at most, or with its error; not
    /// for those that an error of the call itself concerns.
    pub(crate) fn tsg_loads(
        &self,
        gpu: gpu::Handle,
        tsgs: &[u64],
        mut tell: impl FnMut(usize, Result<Sample>),
    ) -> Result {
        match self.ops.query_tsgs {
            None => {
                for (at, &tsg) in tsgs.iter().enumerate() {
                    tell(at, self.tsg_load(gpu, tsg));
                }
                Ok(())
            }
            Some(query) => self.told(query, gpu, tsgs, &mut |at, load| {
                if at < tsgs.len() {
                    tell(at, load);
                }
            }),
        }
    }

    fn told<F: FnMut(usize, Result<Sample>)>(
        &self,
        query: QueryTsgs,
        gpu: gpu::Handle,
        tsgs: &[u64],
        tell: &mut F,
    ) -> Result {
        const FIRST_SIZE: usize = core::mem::offset_of!(raw::zernel_tsg_load, since_ns);

        /// # Safety
        ///
        /// `tell` is the caller's; `load` is null, or valid for as many bytes as its first word tells.
        unsafe extern "C" fn told<F: FnMut(usize, Result<Sample>)>(
            tell: *mut c_void,
            at: u32,
            error: c_int,
            load: *const raw::zernel_tsg_load,
        ) {
            // SAFETY: By the caller.
            let tell = unsafe { &mut *tell.cast::<F>() };
            let load = answer(error).and_then(|()| {
                // SAFETY: By the caller.
                unsafe { copy(load, FIRST_SIZE) }
            });
            tell(at as usize, load.map(|load| sample(&load)));
        }

        let count = tsgs.len().min(Self::LOADS) as u32;
        // SAFETY: Valid by the type invariant; there are so many handles, and `told` gets `tell`.
        answer(unsafe {
            query(
                self.private,
                gpu.0,
                tsgs.as_ptr(),
                count,
                Some(told::<F>),
                core::ptr::from_mut(tell).cast(),
            )
        })
    }

    /// The work of a TSG so far.
    pub(crate) fn tsg_done(&self, gpu: gpu::Handle, tsg: u64) -> Result<tsg::Done> {
        let query = self.ops.query_tsg.ok_or_else(errno::unsupported)?;
        let mut load = raw::zernel_tsg_load {
            size: size_of::<raw::zernel_tsg_load>() as u32,
            ..Default::default()
        };
        // SAFETY: Valid by the type invariant.
        answer(unsafe { query(self.private, gpu.0, tsg, &mut load) })?;
        Ok(done(&load))
    }

    /// The time for which the GPU was busy, and the time over which that is counted, in ns.
    pub(crate) fn load(&self, gpu: gpu::Handle) -> Result<(u64, u64)> {
        let query = self.ops.query_load.ok_or_else(errno::unsupported)?;
        let mut load = raw::zernel_gpu_load {
            size: size_of::<raw::zernel_gpu_load>() as u32,
            ..Default::default()
        };
        // SAFETY: Valid by the type invariant.
        answer(unsafe { query(self.private, gpu.0, &mut load) })?;
        Ok((load.busy_ns, load.elapsed_ns))
    }

    /// Has the provider report everything that exists already.
    fn replay(&self, provider: *mut raw::zernel_provider) -> Result {
        match self.ops.replay {
            None => Ok(()),
            // SAFETY: Valid by the type invariant.
            Some(replay) => answer(unsafe { replay(self.private, provider) }),
        }
    }
}

/// [`raw::zernel_provider_ops::query_tsgs`].
type QueryTsgs = unsafe extern "C" fn(
    *mut c_void,
    u64,
    *const u64,
    u32,
    Option<unsafe extern "C" fn(*mut c_void, u32, c_int, *const raw::zernel_tsg_load)>,
    *mut c_void,
) -> c_int;

fn sample(load: &raw::zernel_tsg_load) -> Sample {
    Sample {
        ran: Ns(load.ran_ns),
        runnable: load.flags & raw::ZERNEL_TSG_LOAD_RUNNABLE != 0,
        since: (load.since_ns != 0).then_some(Ns(load.since_ns)),
    }
}

fn done(load: &raw::zernel_tsg_load) -> tsg::Done {
    tsg::Done {
        ran: Ns(load.ran_ns),
        preemptions: load.preemptions,
        preempted_at: Ns(load.preempted_ns),
        context_bytes: load.context_bytes,
    }
}

/// Copies a structure that begins with its size, zero-extended.
///
/// # Errors
///
/// `EINVAL` null, or shorter than `first`.
///
/// # Safety
///
/// `raw` is null or points to as many bytes as its first word tells. All-zero bytes and every
/// prefix that ends between fields are values of `T`; the first word of `T` is a `u32`.
unsafe fn copy<T: Default>(raw: *const T, first: usize) -> Result<T> {
    if raw.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: Not null; the size comes first in every version.
    let size = unsafe { raw.cast::<u32>().read() } as usize;
    if size < first {
        return Err(EINVAL);
    }
    let mut copy = T::default();
    // SAFETY: Both are that long.
    unsafe {
        core::ptr::copy_nonoverlapping(
            raw.cast::<u8>(),
            core::ptr::from_mut(&mut copy).cast::<u8>(),
            size.min(size_of::<T>()),
        );
    }
    Ok(copy)
}
