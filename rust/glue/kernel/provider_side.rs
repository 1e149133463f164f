// SPDX-License-Identifier: GPL-2.0
//! The provider ABI of `zernel.ko`, from the side of a provider.

#[cfg(zernel_sim)]
mod bell;

use super::{
    module::this_module,
    provider_abi as raw, //
};
#[cfg(zernel_sim)]
use bell::Rope;
#[cfg(zernel_sim)]
pub(crate) use bell::{
    Bell,
    Start, //
};
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        from_result,
        to_result,
        VTABLE_DEFAULT_ERROR, //
    },
    prelude::*,
    sync::Arc, //
};

extern "C" {
    fn zernel_provider_register(
        ops: *const raw::zernel_provider_ops,
        private: *mut c_void,
    ) -> *mut raw::zernel_provider;
    fn zernel_provider_unregister(provider: *mut raw::zernel_provider);
    fn zernel_gpu_added(
        provider: *mut raw::zernel_provider,
        desc: *const raw::zernel_gpu_desc,
    ) -> c_int;
    fn zernel_tsg_added(
        provider: *mut raw::zernel_provider,
        gpu: u64,
        desc: *const raw::zernel_tsg_desc,
    ) -> c_int;
    fn zernel_tsg_removed(provider: *mut raw::zernel_provider, gpu: u64, tsg: u64);
    #[cfg(zernel_sim)]
    fn zernel_tsg_ended(
        provider: *mut raw::zernel_provider,
        gpu: u64,
        tsg: u64,
        load: *const raw::zernel_tsg_load,
    );
    #[cfg(zernel_nvidia)]
    fn zernel_gpu_removed(provider: *mut raw::zernel_provider, gpu: u64);
    fn zernel_gpu_refresh(provider: *mut raw::zernel_provider, gpu: u64);
    fn zernel_gpu_suspended(provider: *mut raw::zernel_provider, gpu: u64);
    fn zernel_tsg_changed(
        provider: *mut raw::zernel_provider,
        gpu: u64,
        desc: *const raw::zernel_tsg_desc,
    ) -> c_int;
    fn zernel_tsg_user_control(
        provider: *mut raw::zernel_provider,
        gpu: u64,
        tsg: u64,
        what: u32,
    ) -> u32;
    fn zernel_tsg_refresh(provider: *mut raw::zernel_provider, gpu: u64, tsg: u64);
    #[cfg(zernel_sim)]
    fn zernel_gpu_wait_begin();
    #[cfg(zernel_sim)]
    fn zernel_gpu_wait_end();
}

/// Lets zernel know that the current thread waits for the GPU while `wait` runs. Process context.
#[cfg(zernel_sim)]
pub(crate) fn waiting<T>(wait: impl FnOnce() -> T) -> T {
    // SAFETY: In process context, by the caller.
    unsafe { zernel_gpu_wait_begin() };
    let done = wait();
    // SAFETY: As above, and begun by the same thread.
    unsafe { zernel_gpu_wait_end() };
    done
}

/// The calls of `zernel.ko` to a provider. Errors as in the header.
#[vtable]
pub(crate) trait Provider: Send + Sync + 'static {
    /// Name, at most 15 bytes.
    const NAME: &'static CStr;
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
    /// For how long the compute engine was busy, and since when the GPU has been there, in ns. Not
    /// every driver can tell.
    fn load(&self, _gpu: u64) -> Result<(u64, u64)> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
    /// The load of a TSG. Not every driver can tell.
    fn tsg_load(&self, _gpu: u64, _tsg: u64) -> Result<TsgLoad> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

/// The load of a TSG.
pub(crate) struct TsgLoad {
    /// Time that it had the engine and ran, in ns.
    pub(crate) ran: u64,
    /// True if it has something to run.
    pub(crate) runnable: bool,
    /// Since when, as the kernel's monotonic clock tells it in ns; 0: not known.
    pub(crate) since: u64,
    /// Times that it lost the engine while it had something to run.
    pub(crate) preemptions: u64,
    /// When it did so last, on the same clock; 0: never, or not known.
    pub(crate) preempted: u64,
    /// Memory of its context; 0: not known.
    pub(crate) context_bytes: u64,
}

impl TsgLoad {
    fn describe(&self) -> raw::zernel_tsg_load {
        raw::zernel_tsg_load {
            size: size_of::<raw::zernel_tsg_load>() as u32,
            flags: match self.runnable {
                true => raw::ZERNEL_TSG_LOAD_RUNNABLE,
                false => 0,
            },
            ran_ns: self.ran,
            since_ns: self.since,
            preemptions: self.preemptions,
            preempted_ns: self.preempted,
            context_bytes: self.context_bytes,
        }
    }
}

/// A process or thread, for as long as it is borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a>(*mut bindings::pid, PhantomData<&'a ()>);

impl Task<'_> {
    /// A process or thread from C.
    ///
    /// # Safety
    ///
    /// `pid` is null or stays valid while this is used; null is refused by `zernel.ko`.
    pub(in crate::glue) unsafe fn from_raw(pid: *mut bindings::pid) -> Self {
        Self(pid, PhantomData)
    }
}

/// A GPU, to be reported.
pub(crate) struct Gpu<'a> {
    /// Handle.
    pub(crate) handle: u64,
    /// Shortest time slice in µs.
    pub(crate) min_us: u32,
    /// Longest time slice in µs.
    pub(crate) max_us: u32,
    /// Product.
    pub(crate) name: &'a CStr,
    /// Address.
    pub(crate) bus: &'a CStr,
    /// Node of the host that it is attached to.
    pub(crate) numa_node: Option<i32>,
    /// UUID.
    pub(crate) uuid: Option<&'a [u8; 16]>,
    /// Version of the driver.
    pub(crate) driver: Option<&'a CStr>,
    /// Owners of TSGs ask the driver for changes, and it asks [`Registration::user_control`].
    pub(crate) control: bool,
    /// It tells that threads wait, with [`waiting`].
    pub(crate) waits: bool,
    /// It tells [`TsgLoad::context_bytes`].
    pub(crate) context: bool,
}

/// A TSG, to be reported.
pub(crate) struct Tsg<'a> {
    /// Handle.
    pub(crate) handle: u64,
    /// True if it computes.
    pub(crate) compute: bool,
    /// True if it carries work of several processes.
    pub(crate) shared: bool,
    /// Place on the GPU, for people.
    pub(crate) place: u32,
    /// Engine type.
    pub(crate) engine_type: u32,
    /// Run list.
    pub(crate) runlist: u32,
    /// Channels.
    pub(crate) channels: u32,
    /// Owner.
    pub(crate) process: Task<'a>,
    /// Thread that made it.
    pub(crate) thread: Task<'a>,
}

impl Tsg<'_> {
    fn desc(&self) -> raw::zernel_tsg_desc {
        let flag = |on, flag| if on { flag } else { 0 };
        raw::zernel_tsg_desc {
            size: size_of::<raw::zernel_tsg_desc>() as u32,
            flags: flag(self.compute, raw::ZERNEL_TSG_DESC_COMPUTE)
                | flag(self.shared, raw::ZERNEL_TSG_DESC_SHARED),
            handle: self.handle,
            hw_tsg: self.place,
            engine: self.engine_type,
            runlist: self.runlist,
            channels: self.channels,
            process: self.process.0.cast(),
            thread: self.thread.0.cast(),
        }
    }
}

/// The C functions of `P`.
struct Table<P>(PhantomData<P>);

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
}

/// A provider that `zernel.ko` knows.
///
/// # Invariants
///
/// `provider` is registered until this is dropped, with `inner` as its private data.
pub(crate) struct Registration<P: Provider> {
    provider: *mut raw::zernel_provider,
    inner: Arc<P>,
    #[cfg(zernel_sim)]
    rope: Arc<Rope>,
}

// SAFETY: The functions of `zernel.ko` may be called from any thread in process context.
unsafe impl<P: Provider> Send for Registration<P> {}
// SAFETY: As above.
unsafe impl<P: Provider> Sync for Registration<P> {}

impl<P: Provider> Registration<P> {
    /// Registers a provider without GPUs.
    pub(crate) fn new(inner: Arc<P>) -> Result<Self> {
        let private = core::ptr::from_ref::<P>(&inner).cast_mut().cast();
        // SAFETY: The table is static; `inner` stays until the provider is unregistered.
        let provider =
            from_err_ptr(unsafe { zernel_provider_register(const { &Table::<P>::OPS }, private) })?;
        // INVARIANT: Just registered.
        Ok(Self {
            provider,
            inner,
            #[cfg(zernel_sim)]
            rope: Rope::new(provider)?,
        })
    }

    /// The provider.
    pub(crate) fn inner(&self) -> &Arc<P> {
        &self.inner
    }

    /// Reports a GPU.
    pub(crate) fn gpu_added(&self, gpu: &Gpu<'_>) -> Result {
        let flag = |on, flag| if on { flag } else { 0 };
        let desc = raw::zernel_gpu_desc {
            size: size_of::<raw::zernel_gpu_desc>() as u32,
            min_timeslice_us: gpu.min_us,
            max_timeslice_us: gpu.max_us,
            flags: flag(gpu.control, raw::ZERNEL_GPU_DESC_CONTROL)
                | flag(gpu.waits, raw::ZERNEL_GPU_DESC_WAITS)
                | flag(gpu.context, raw::ZERNEL_GPU_DESC_CONTEXT)
                | flag(gpu.numa_node.is_some(), raw::ZERNEL_GPU_DESC_NUMA_NODE),
            handle: gpu.handle,
            name: gpu.name.as_char_ptr().cast(),
            bus: gpu.bus.as_char_ptr().cast(),
            numa_node: gpu.numa_node.unwrap_or(0),
            reserved: 0,
            uuid: gpu.uuid.map_or(core::ptr::null(), |uuid| uuid.as_ptr()),
            driver: gpu
                .driver
                .map_or(core::ptr::null(), |text| text.as_char_ptr().cast()),
        };
        // SAFETY: Registered by the type invariant.
        to_result(unsafe { zernel_gpu_added(self.provider, &desc) })
    }

    /// Reports a TSG.
    pub(crate) fn tsg_added(&self, gpu: u64, tsg: &Tsg<'_>) -> Result {
        let desc = tsg.desc();
        // SAFETY: Registered by the type invariant; the pids are valid while borrowed.
        to_result(unsafe { zernel_tsg_added(self.provider, gpu, &desc) })
    }

    /// Reports that a TSG is gone, with its last load.
    #[cfg(zernel_sim)]
    pub(crate) fn tsg_ended(&self, gpu: u64, tsg: u64, load: &TsgLoad) {
        let load = load.describe();
        // SAFETY: Registered by the type invariant.
        unsafe { zernel_tsg_ended(self.provider, gpu, tsg, &load) };
    }

    /// Reports that a TSG is gone.
    pub(crate) fn tsg_removed(&self, gpu: u64, tsg: u64) {
        // SAFETY: Registered by the type invariant.
        unsafe { zernel_tsg_removed(self.provider, gpu, tsg) };
    }
}

/// A setting that a process asked the driver to change on its own TSG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// The time slice.
    Timeslice,
    /// The interleave level.
    Interleave,
}

/// The answer to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does it.
    Allow,
    /// It refuses.
    Deny,
    /// It does it, and then [`Registration::refresh`] is called.
    Reapply,
}

impl<P: Provider> Registration<P> {
    /// Reports that a GPU is gone. Waits for operations of that GPU.
    #[cfg(zernel_nvidia)]
    pub(crate) fn gpu_removed(&self, gpu: u64) {
        // SAFETY: Registered by the type invariant.
        unsafe { zernel_gpu_removed(self.provider, gpu) };
    }

    /// Reports that a GPU is suspended; [`Self::gpu_refresh`] tells that it is back.
    pub(crate) fn gpu_suspended(&self, gpu: u64) {
        // SAFETY: Registered by the type invariant.
        unsafe { zernel_gpu_suspended(self.provider, gpu) };
    }

    /// A bell to ring when a TSG of a GPU gets something to run, or runs out of it.
    #[cfg(zernel_sim)]
    pub(crate) fn bell(&self, gpu: u64) -> Bell {
        Bell::new(self.rope.clone(), gpu)
    }

    /// Reports that the driver may hold anything for the TSGs of a GPU.
    pub(crate) fn gpu_refresh(&self, gpu: u64) {
        // SAFETY: Registered by the type invariant.
        unsafe { zernel_gpu_refresh(self.provider, gpu) };
    }

    /// Reports that a TSG is described otherwise now; its owner stays.
    pub(crate) fn tsg_changed(&self, gpu: u64, tsg: &Tsg<'_>) -> Result {
        let desc = tsg.desc();
        // SAFETY: Registered by the type invariant.
        to_result(unsafe { zernel_tsg_changed(self.provider, gpu, &desc) })
    }

    /// Asks whether a process may change its own TSG.
    pub(crate) fn user_control(&self, gpu: u64, tsg: u64, setting: Setting) -> Verdict {
        let what = match setting {
            Setting::Timeslice => raw::ZERNEL_USER_TIMESLICE,
            Setting::Interleave => raw::ZERNEL_USER_INTERLEAVE,
        };
        // SAFETY: Registered by the type invariant.
        match unsafe { zernel_tsg_user_control(self.provider, gpu, tsg, what) } {
            raw::ZERNEL_USER_ALLOW => Verdict::Allow,
            raw::ZERNEL_USER_REAPPLY => Verdict::Reapply,
            _ => Verdict::Deny,
        }
    }

    /// Reports that the driver may hold anything for a TSG.
    pub(crate) fn refresh(&self, gpu: u64, tsg: u64) {
        // SAFETY: Registered by the type invariant.
        unsafe { zernel_tsg_refresh(self.provider, gpu, tsg) };
    }
}

impl<P: Provider> Drop for Registration<P> {
    fn drop(&mut self) {
        #[cfg(zernel_sim)]
        self.rope.cut();
        // SAFETY: Registered by the type invariant; nobody reports through a registration that
        // is being dropped.
        unsafe { zernel_provider_unregister(self.provider) };
    }
}
