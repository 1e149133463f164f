// SPDX-License-Identifier: GPL-2.0
//! The calls of `zernel.ko` to a provider: a trait, and its table of C functions.

use super::description::TsgLoad;
use crate::glue::{
    module::this_module,
    provider_abi as raw, //
};
use core::marker::PhantomData;
use kernel::{
    error::{
        from_result,
        VTABLE_DEFAULT_ERROR, //
    },
    prelude::*,
};

/// Optional operations that a provider does not offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lacks {
    /// `set_interleave` and `get_interleave`.
    pub(crate) interleave: bool,
    /// `preempt`.
    pub(crate) preempt: bool,
    /// `set_enabled`.
    pub(crate) enable: bool,
    /// `query_load`.
    pub(crate) load: bool,
    /// `query_tsg` and `query_tsgs`.
    pub(crate) tsg_load: bool,
    /// `kick`.
    pub(crate) kick: bool,
}

/// The calls of `zernel.ko` to a provider. Errors as in the header.
#[vtable]
pub(crate) trait Provider: Send + Sync + 'static {
    /// Name, at most 15 bytes.
    const NAME: &'static CStr;
    /// Operations that are not offered, of those that are here. Asked for once.
    fn lacks(&self) -> Lacks {
        Lacks::default()
    }
    /// Gives a TSG a time slice in µs.
    fn set_timeslice(&self, gpu: u64, tsg: u64, us: u32) -> Result;
    /// The time slice of a TSG in µs.
    fn timeslice(&self, gpu: u64, tsg: u64) -> Result<u32>;
    /// Gives a TSG an interleave level, 0 to 2.
    fn set_interleave(&self, gpu: u64, tsg: u64, level: u32) -> Result;
    /// The interleave level of a TSG.
    fn interleave(&self, gpu: u64, tsg: u64) -> Result<u32>;
    /// Takes the engine away from a TSG.
    fn preempt(&self, gpu: u64, tsg: u64, timeout_us: u32) -> Result;
    /// Lets a TSG run, or not.
    fn set_enabled(&self, gpu: u64, tsg: u64, enabled: bool) -> Result;
    /// Has the run list of a TSG begin anew, without waiting for that.
    fn kick(&self, gpu: u64, tsg: u64) -> Result;
    /// For how long the compute engine was busy, and since when the GPU has been there, in ns. Not
    /// every driver can tell.
    fn load(&self, _gpu: u64) -> Result<(u64, u64)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
    /// The load of a TSG. Not every driver can tell.
    fn tsg_load(&self, _gpu: u64, _tsg: u64) -> Result<TsgLoad> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
    /// Tells the load of some TSGs with their places, for less than a call for each. Not every driver
    /// can.
    fn tsg_loads(
        &self,
        _gpu: u64,
        _tsgs: &[u64],
        _tell: &mut dyn FnMut(usize, Result<TsgLoad>),
    ) -> Result {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

/// The C functions of `P`.
pub(super) struct Table<P>(PhantomData<P>);

/// Calls `f` with the provider behind `private`.
///
/// # Safety
///
/// `private` comes from the registration, and the provider is still registered.
unsafe fn call<P: Provider>(private: *mut c_void, f: impl FnOnce(&P) -> Result) -> c_int {
    // SAFETY: By the caller: the registration holds an `Arc`.
    let provider = unsafe { &*private.cast::<P>() };
    from_result(|| f(provider).map(|()| 0))
}

impl<P: Provider> Table<P> {
    /// The functions that a provider offers.
    pub(super) fn of(provider: &P) -> raw::zernel_provider_ops {
        let (all, lacks) = (Self::OPS, provider.lacks());
        raw::zernel_provider_ops {
            set_interleave: all.set_interleave.filter(|_| !lacks.interleave),
            get_interleave: all.get_interleave.filter(|_| !lacks.interleave),
            preempt: all.preempt.filter(|_| !lacks.preempt),
            set_enabled: all.set_enabled.filter(|_| !lacks.enable),
            query_load: all.query_load.filter(|_| !lacks.load),
            query_tsg: all.query_tsg.filter(|_| !lacks.tsg_load),
            query_tsgs: all.query_tsgs.filter(|_| !lacks.tsg_load),
            kick: all.kick.filter(|_| !lacks.kick),
            ..all
        }
    }

    const OPS: raw::zernel_provider_ops = raw::zernel_provider_ops {
        size: size_of::<raw::zernel_provider_ops>() as u32,
        abi: raw::ZERNEL_PROVIDER_ABI,
        owner: this_module().cast(),
        name: kernel::str::as_char_ptr_in_const_context(P::NAME).cast(),
        replay: None,
        set_timeslice: Some(Self::set_timeslice),
        get_timeslice: Some(Self::get_timeslice),
        set_interleave: Some(Self::set_interleave),
        get_interleave: Some(Self::get_interleave),
        preempt: Some(Self::preempt),
        set_enabled: Some(Self::set_enabled),
        query_load: if P::HAS_LOAD {
            Some(Self::query_load)
        } else {
            None
        },
        query_tsg: if P::HAS_TSG_LOAD {
            Some(Self::query_tsg)
        } else {
            None
        },
        kick: Some(Self::kick),
        query_tsgs: if P::HAS_TSG_LOADS {
            Some(Self::query_tsgs)
        } else {
            None
        },
    };

    /// # Safety
    ///
    /// As [`call`].
    unsafe extern "C" fn set_timeslice(private: *mut c_void, gpu: u64, tsg: u64, us: u32) -> c_int {
        // SAFETY: By the caller.
        unsafe { call(private, |provider: &P| provider.set_timeslice(gpu, tsg, us)) }
    }

    /// # Safety
    ///
    /// As [`call`]; `us` is valid for writes.
    unsafe extern "C" fn get_timeslice(
        private: *mut c_void,
        gpu: u64,
        tsg: u64,
        us: *mut u32,
    ) -> c_int {
        // SAFETY: By the caller.
        unsafe {
            call(private, |provider: &P| {
                us.write(provider.timeslice(gpu, tsg)?);
                Ok(())
            })
        }
    }

    /// # Safety
    ///
    /// As [`call`].
    unsafe extern "C" fn set_interleave(
        private: *mut c_void,
        gpu: u64,
        tsg: u64,
        level: u32,
    ) -> c_int {
        // SAFETY: By the caller.
        unsafe {
            call(private, |provider: &P| {
                provider.set_interleave(gpu, tsg, level)
            })
        }
    }

    /// # Safety
    ///
    /// As [`call`]; `level` is valid for writes.
    unsafe extern "C" fn get_interleave(
        private: *mut c_void,
        gpu: u64,
        tsg: u64,
        level: *mut u32,
    ) -> c_int {
        // SAFETY: By the caller.
        unsafe {
            call(private, |provider: &P| {
                level.write(provider.interleave(gpu, tsg)?);
                Ok(())
            })
        }
    }

    /// # Safety
    ///
    /// As [`call`].
    unsafe extern "C" fn preempt(
        private: *mut c_void,
        gpu: u64,
        tsg: u64,
        timeout_us: u32,
    ) -> c_int {
        // SAFETY: By the caller.
        unsafe {
            call(private, |provider: &P| {
                provider.preempt(gpu, tsg, timeout_us)
            })
        }
    }

    /// # Safety
    ///
    /// As [`call`].
    unsafe extern "C" fn set_enabled(
        private: *mut c_void,
        gpu: u64,
        tsg: u64,
        enabled: bool,
    ) -> c_int {
        // SAFETY: By the caller.
        unsafe {
            call(private, |provider: &P| {
                provider.set_enabled(gpu, tsg, enabled)
            })
        }
    }

    /// # Safety
    ///
    /// As [`call`].
    unsafe extern "C" fn kick(private: *mut c_void, gpu: u64, tsg: u64) -> c_int {
        // SAFETY: By the caller.
        unsafe { call(private, |provider: &P| provider.kick(gpu, tsg)) }
    }

    /// # Safety
    ///
    /// As [`call`]; `load` is valid and tells its size.
    unsafe extern "C" fn query_load(
        private: *mut c_void,
        gpu: u64,
        load: *mut raw::zernel_gpu_load,
    ) -> c_int {
        // SAFETY: By the caller.
        unsafe {
            call(private, |provider: &P| {
                if ((*load).size as usize) < size_of::<raw::zernel_gpu_load>() {
                    return Err(EINVAL);
                }
                let (busy, elapsed) = provider.load(gpu)?;
                (*load).busy_ns = busy;
                (*load).elapsed_ns = elapsed;
                Ok(())
            })
        }
    }

    /// # Safety
    ///
    /// As [`call`]; `load` is valid and tells its size.
    unsafe extern "C" fn query_tsg(
        private: *mut c_void,
        gpu: u64,
        tsg: u64,
        load: *mut raw::zernel_tsg_load,
    ) -> c_int {
        // SAFETY: By the caller.
        unsafe {
            call(private, |provider: &P| {
                const FIRST_SIZE: usize = core::mem::offset_of!(raw::zernel_tsg_load, since_ns);
                let size = (*load).size as usize;
                if size < FIRST_SIZE {
                    return Err(EINVAL);
                }
                let mut told = provider.tsg_load(gpu, tsg)?.describe();
                told.size = size as u32;
                // An older zernel has no room for all of it.
                let known = size.min(size_of::<raw::zernel_tsg_load>());
                core::ptr::copy_nonoverlapping(
                    core::ptr::from_ref(&told).cast::<u8>(),
                    load.cast::<u8>(),
                    known,
                );
                Ok(())
            })
        }
    }

    /// # Safety
    ///
    /// As [`call`]; there are `count` handles at `tsgs`, and `tell` may be called with `to`.
    unsafe extern "C" fn query_tsgs(
        private: *mut c_void,
        gpu: u64,
        tsgs: *const u64,
        count: u32,
        tell: Option<unsafe extern "C" fn(*mut c_void, u32, c_int, *const raw::zernel_tsg_load)>,
        to: *mut c_void,
    ) -> c_int {
        let Some(tell) = tell else {
            return EINVAL.to_errno();
        };
        let mut told = |at: usize, load: Result<TsgLoad>| {
            let (error, load) = match load {
                Ok(load) => (0, load.describe()),
                Err(error) => (error.to_errno(), Default::default()),
            };
            let pointer = match error {
                0 => core::ptr::from_ref(&load),
                _ => core::ptr::null(),
            };
            // SAFETY: By the caller; the load is valid for the call.
            unsafe { tell(to, at as u32, error, pointer) };
        };
        // SAFETY: By the caller.
        unsafe {
            call(private, |provider: &P| {
                let tsgs = core::slice::from_raw_parts(tsgs, count as usize);
                provider.tsg_loads(gpu, tsgs, &mut told)
            })
        }
    }
}
