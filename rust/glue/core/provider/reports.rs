// SPDX-License-Identifier: GPL-2.0
//! Reports of providers: GPUs, TSGs, and requests of owners to the driver.

use super::{
    answer_number, copy, done,
    gpu::{
        self,
        Handle, //
    },
    tsg, Ops,
};
use crate::{
    glue::{
        identity::{
            Pid,
            Scope, //
        },
        provider_abi as raw,
    },
    policy::{
        control::Verdict,
        units::{
            Ns,
            Us, //
        },
    },
};
use kernel::{
    error::from_result,
    prelude::*,
    str::CStr,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

/// The receiver of the reports of providers: a registered provider, as it sees that.
pub(crate) trait Reports: Send + Sync + Sized {
    /// A provider with these operations.
    fn new(ops: Arc<Ops>) -> Result<Arc<Self>>;
    /// It is leaving: restores changed settings, and forgets its GPUs and TSGs.
    fn leave(&self);
    /// It reports a GPU.
    fn gpu_added(this: ArcBorrow<'_, Self>, description: &gpu::Description<'_>) -> Result;
    /// It reports that a GPU is gone.
    fn gpu_removed(&self, gpu: Handle);
    /// It reports that a GPU is suspended.
    fn gpu_suspended(&self, gpu: Handle);
    /// It does not know the driver's settings of a GPU's TSGs any more.
    fn gpu_refresh(&self, gpu: Handle);
    /// A TSG of a GPU has got something to run, or has run out of it; `None`: it does not tell which.
    /// In any context.
    fn activity(&self, gpu: Handle, tsg: Option<u64>);
    /// It reports a TSG.
    fn tsg_added(&self, gpu: Handle, description: tsg::Description) -> Result;
    /// It reports that a TSG is gone. `done`: its last load, if the provider tells.
    fn tsg_removed(&self, gpu: Handle, tsg: u64, done: Option<tsg::Done>);
    /// It describes a TSG otherwise.
    fn tsg_changed(&self, gpu: Handle, tsg: u64, traits: tsg::Traits) -> Result;
    /// It does not know the driver's settings of a TSG any more.
    fn tsg_refresh(&self, gpu: Handle, tsg: u64);
    /// It does not know any more if a TSG is enabled.
    fn tsg_rescheduled(&self, gpu: Handle, tsg: u64);
    /// A TSG of a GPU has got its engine. In any context.
    fn started(&self, gpu: Handle, start: tsg::Start);
    /// A process asks its driver to change its own TSG.
    fn user_control(&self, gpu: Handle, tsg: u64, what: u32) -> Verdict;
}

/// Makes the functions of the provider ABI, for the type that takes the reports.
macro_rules! provider_abi {
    ($reports:ty) => {
        $crate::glue::provider::provider_abi! { $reports;
            zernel_provider_register(
                ops: *const zernel_provider_ops, private: *mut c_void
            ) -> *mut zernel_provider;
            zernel_provider_unregister(provider: *mut zernel_provider) -> ();
            zernel_gpu_added(provider: *mut zernel_provider, desc: *const zernel_gpu_desc) -> c_int;
            zernel_gpu_removed(provider: *mut zernel_provider, gpu: u64) -> ();
            zernel_tsg_added(
                provider: *mut zernel_provider, gpu: u64, desc: *const zernel_tsg_desc
            ) -> c_int;
            zernel_tsg_removed(provider: *mut zernel_provider, gpu: u64, tsg: u64) -> ();
            zernel_tsg_ended(
                provider: *mut zernel_provider, gpu: u64, tsg: u64, load: *const zernel_tsg_load
            ) -> ();
            zernel_tsg_started(
                provider: *mut zernel_provider, gpu: u64, start: *const zernel_tsg_start
            ) -> ();
            zernel_tsg_changed(
                provider: *mut zernel_provider, gpu: u64, desc: *const zernel_tsg_desc
            ) -> c_int;
            zernel_tsg_user_control(
                provider: *mut zernel_provider, gpu: u64, tsg: u64, what: u32
            ) -> u32;
            zernel_tsg_refresh(provider: *mut zernel_provider, gpu: u64, tsg: u64) -> ();
            zernel_tsg_rescheduled(provider: *mut zernel_provider, gpu: u64, tsg: u64) -> ();
            zernel_gpu_refresh(provider: *mut zernel_provider, gpu: u64) -> ();
            zernel_gpu_suspended(provider: *mut zernel_provider, gpu: u64) -> ();
            zernel_gpu_activity(provider: *mut zernel_provider, gpu: u64) -> ();
            zernel_tsg_activity(provider: *mut zernel_provider, gpu: u64, tsg: u64) -> ();
        }
    };
    ($reports:ty; $($name:ident($($arg:ident: $type:ty),*) -> $ret:ty;)*) => {
        mod provider_abi {
            use super::*;
            use $crate::glue::{provider, provider_abi::*};

            $(
                /// See the header.
                ///
                /// # Safety
                ///
                /// As the header says.
                #[no_mangle]
                unsafe extern "C" fn $name($($arg: $type),*) -> $ret {
                    // SAFETY: By the caller, as the header says.
                    unsafe { provider::$name::<$reports>($($arg),*) }
                }
            )*
        }
    };
}
pub(crate) use provider_abi;

/// # Safety
///
/// `text` is null or terminated.
unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: By the caller.
    unsafe { CStr::from_char_ptr(text) }.to_bytes()
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered and `desc` is null or points to `size` bytes.
pub(crate) unsafe fn zernel_gpu_added<P: Reports>(
    provider: *mut raw::zernel_provider,
    desc: *const raw::zernel_gpu_desc,
) -> c_int {
    from_result(|| {
        const FIRST_SIZE: usize = 40;
        const FLAGS: u32 = raw::ZERNEL_GPU_DESC_CONTROL
            | raw::ZERNEL_GPU_DESC_WAITS
            | raw::ZERNEL_GPU_DESC_CONTEXT
            | raw::ZERNEL_GPU_DESC_NUMA_NODE
            | raw::ZERNEL_GPU_DESC_POLLED;
        static_assert!(size_of::<raw::zernel_gpu_desc>() == FIRST_SIZE + 24);
        // SAFETY: By the caller. A missing field is null or zero.
        let desc = unsafe { copy(desc, FIRST_SIZE) }?;
        if desc.flags & !FLAGS != 0 || desc.reserved != 0 {
            return Err(EINVAL);
        }
        let has = |flag| desc.flags & flag != 0;
        let description = gpu::Description {
            numa_node: has(raw::ZERNEL_GPU_DESC_NUMA_NODE).then_some(desc.numa_node),
            // SAFETY: Null or 16 bytes, by the caller.
            uuid: unsafe { desc.uuid.cast::<[u8; 16]>().as_ref() },
            // SAFETY: By the caller.
            driver: unsafe { bytes(desc.driver) },
            tells: gpu::Tells {
                control: has(raw::ZERNEL_GPU_DESC_CONTROL),
                waits: has(raw::ZERNEL_GPU_DESC_WAITS),
                context: has(raw::ZERNEL_GPU_DESC_CONTEXT),
            },
            polled: has(raw::ZERNEL_GPU_DESC_POLLED),
            handle: Handle(desc.handle),
            min: Us(desc.min_timeslice_us),
            max: Us(desc.max_timeslice_us),
            // SAFETY: By the caller.
            name: unsafe { bytes(desc.name) },
            // SAFETY: By the caller.
            bus: unsafe { bytes(desc.bus) },
        };
        // SAFETY: By the caller.
        P::gpu_added(unsafe { borrow(provider) }, &description)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
pub(crate) unsafe fn zernel_gpu_removed<P: Reports>(provider: *mut raw::zernel_provider, gpu: u64) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow::<P>(provider) };
    provider.gpu_removed(Handle(gpu));
}

/// Checks and copies the description of a TSG.
///
/// # Safety
///
/// `desc` is null or points to `size` bytes.
unsafe fn tsg_desc(desc: *const raw::zernel_tsg_desc) -> Result<raw::zernel_tsg_desc> {
    const FIRST_SIZE: usize = 48;
    const FLAGS: u32 =
        raw::ZERNEL_TSG_DESC_COMPUTE | raw::ZERNEL_TSG_DESC_SHARED | raw::ZERNEL_TSG_DESC_COPY;
    static_assert!(size_of::<raw::zernel_tsg_desc>() == FIRST_SIZE);
    // SAFETY: By the caller.
    let desc = unsafe { copy(desc, FIRST_SIZE) }?;
    if desc.flags & !FLAGS != 0 {
        return Err(EINVAL);
    }
    Ok(desc)
}

fn traits(desc: &raw::zernel_tsg_desc) -> tsg::Traits {
    let compute = desc.flags & raw::ZERNEL_TSG_DESC_COMPUTE != 0;
    tsg::Traits {
        compute,
        copies: !compute && desc.flags & raw::ZERNEL_TSG_DESC_COPY != 0,
        shared: desc.flags & raw::ZERNEL_TSG_DESC_SHARED != 0,
        hw_tsg: desc.hw_tsg,
        engine: desc.engine,
        runlist: desc.runlist,
        channels: desc.channels,
    }
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered, `desc` is null or points to `size` bytes, and its pids are valid.
pub(crate) unsafe fn zernel_tsg_added<P: Reports>(
    provider: *mut raw::zernel_provider,
    gpu: u64,
    desc: *const raw::zernel_tsg_desc,
) -> c_int {
    from_result(|| {
        // SAFETY: By the caller.
        let desc = unsafe { tsg_desc(desc) }?;
        // SAFETY: By the caller.
        let process = unsafe { Pid::share(desc.process.cast()) }.ok_or(EINVAL)?;
        // SAFETY: By the caller.
        let thread = unsafe { Pid::share(desc.thread.cast()) }.ok_or(EINVAL)?;
        let owner = process
            .owner(Scope::Process)
            .or_else(|_| thread.owner(Scope::Thread))
            .map_err(|_| ESRCH)?;
        let comm = thread.owner(Scope::Thread).map_or(owner.comm, |o| o.comm);
        let description = tsg::Description {
            handle: desc.handle,
            traits: traits(&desc),
            owner: tsg::Owner {
                process,
                thread,
                uid: owner.uid,
                comm,
            },
        };
        // SAFETY: By the caller.
        let provider = unsafe { borrow::<P>(provider) };
        provider.tsg_added(Handle(gpu), description)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
pub(crate) unsafe fn zernel_tsg_removed<P: Reports>(
    provider: *mut raw::zernel_provider,
    gpu: u64,
    tsg: u64,
) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow::<P>(provider) };
    provider.tsg_removed(Handle(gpu), tsg, None);
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered and `load` is null or points to `size` bytes.
pub(crate) unsafe fn zernel_tsg_ended<P: Reports>(
    provider: *mut raw::zernel_provider,
    gpu: u64,
    tsg: u64,
    load: *const raw::zernel_tsg_load,
) {
    // The size of the structure's first version.
    const FIRST_SIZE: usize = 16;
    // SAFETY: By the caller.
    let provider = unsafe { borrow::<P>(provider) };
    // SAFETY: By the caller.
    let load = unsafe { copy(load, FIRST_SIZE) };
    let done = load.ok().map(|load| done(&load));
    provider.tsg_removed(Handle(gpu), tsg, done);
}

/// See the header. In any context.
///
/// # Safety
///
/// `provider` is registered and `start` is null or points to `size` bytes.
pub(crate) unsafe fn zernel_tsg_started<P: Reports>(
    provider: *mut raw::zernel_provider,
    gpu: u64,
    start: *const raw::zernel_tsg_start,
) {
    const FIRST_SIZE: usize = 40;
    static_assert!(size_of::<raw::zernel_tsg_start>() == FIRST_SIZE);
    // SAFETY: By the caller.
    let Ok(start) = (unsafe { copy(start, FIRST_SIZE) }) else {
        return;
    };
    let woken = start.flags & raw::ZERNEL_TSG_START_WOKEN != 0;
    let start = tsg::Start {
        handle: start.tsg,
        at: Ns(start.at_ns),
        woken: woken.then_some(Ns(start.since_ns)),
        switch: Ns(start.switch_ns),
    };
    // SAFETY: By the caller.
    unsafe { borrow::<P>(provider) }.started(Handle(gpu), start);
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered and `desc` is null or points to `size` bytes.
pub(crate) unsafe fn zernel_tsg_changed<P: Reports>(
    provider: *mut raw::zernel_provider,
    gpu: u64,
    desc: *const raw::zernel_tsg_desc,
) -> c_int {
    from_result(|| {
        // SAFETY: By the caller.
        let desc = unsafe { tsg_desc(desc) }?;
        // SAFETY: By the caller.
        let provider = unsafe { borrow::<P>(provider) };
        provider.tsg_changed(Handle(gpu), desc.handle, traits(&desc))?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
pub(crate) unsafe fn zernel_tsg_user_control<P: Reports>(
    provider: *mut raw::zernel_provider,
    gpu: u64,
    tsg: u64,
    what: u32,
) -> u32 {
    // SAFETY: By the caller.
    let provider = unsafe { borrow::<P>(provider) };
    answer_number(provider.user_control(Handle(gpu), tsg, what))
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
pub(crate) unsafe fn zernel_tsg_refresh<P: Reports>(
    provider: *mut raw::zernel_provider,
    gpu: u64,
    tsg: u64,
) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow::<P>(provider) };
    provider.tsg_refresh(Handle(gpu), tsg);
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
pub(crate) unsafe fn zernel_tsg_rescheduled<P: Reports>(
    provider: *mut raw::zernel_provider,
    gpu: u64,
    tsg: u64,
) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow::<P>(provider) };
    provider.tsg_rescheduled(Handle(gpu), tsg);
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
pub(crate) unsafe fn zernel_gpu_refresh<P: Reports>(provider: *mut raw::zernel_provider, gpu: u64) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow::<P>(provider) };
    provider.gpu_refresh(Handle(gpu));
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
pub(crate) unsafe fn zernel_gpu_suspended<P: Reports>(
    provider: *mut raw::zernel_provider,
    gpu: u64,
) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow::<P>(provider) };
    provider.gpu_suspended(Handle(gpu));
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
pub(crate) unsafe fn zernel_gpu_activity<P: Reports>(
    provider: *mut raw::zernel_provider,
    gpu: u64,
) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow::<P>(provider) };
    provider.activity(Handle(gpu), None);
}

/// See the header. In any context.
///
/// # Safety
///
/// `provider` is registered.
pub(crate) unsafe fn zernel_tsg_activity<P: Reports>(
    provider: *mut raw::zernel_provider,
    gpu: u64,
    tsg: u64,
) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow::<P>(provider) };
    provider.activity(Handle(gpu), Some(tsg));
}

fn error_pointer(error: Error) -> *mut raw::zernel_provider {
    error.to_errno() as isize as *mut raw::zernel_provider
}

/// # Safety
///
/// `provider` comes from [`zernel_provider_register`] or from the replay, and is not unregistered.
unsafe fn borrow<'a, P: Reports>(provider: *mut raw::zernel_provider) -> ArcBorrow<'a, P> {
    // SAFETY: By the caller it is an `Arc<P>` that the registration holds.
    unsafe { ArcBorrow::from_raw(provider.cast::<P>()) }
}

/// See the header.
///
/// # Safety
///
/// As the header says: `ops` is valid until the provider is unregistered.
pub(crate) unsafe fn zernel_provider_register<P: Reports>(
    ops: *const raw::zernel_provider_ops,
    private: *mut c_void,
) -> *mut raw::zernel_provider {
    // SAFETY: By the caller.
    let ops = unsafe { Ops::new(ops, private) };
    let ops = ops.and_then(|ops| Ok(Arc::new(ops, GFP_KERNEL)?));
    let provider = ops.and_then(|ops| Ok((ops.clone(), P::new(ops)?)));
    let (ops, provider) = match provider {
        Ok(provider) => provider,
        Err(e) => return error_pointer(e),
    };
    let pointer = core::ptr::from_ref::<P>(&provider).cast_mut().cast();
    if let Err(e) = ops.replay(pointer) {
        provider.leave();
        return error_pointer(e);
    }
    Arc::into_raw(provider).cast_mut().cast()
}

/// See the header.
///
/// # Safety
///
/// `provider` comes from [`zernel_provider_register`], and nobody uses it any more.
pub(crate) unsafe fn zernel_provider_unregister<P: Reports>(provider: *mut raw::zernel_provider) {
    // SAFETY: By the caller: the reference that the registration holds.
    let provider = unsafe { Arc::from_raw(provider.cast::<P>()) };
    provider.leave();
}
