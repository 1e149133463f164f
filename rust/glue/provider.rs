// SPDX-License-Identifier: GPL-2.0
//! The C side of the provider ABI: `include/linux/zernel_provider.h`.

use super::{
    errno,
    identity::{
        Pid,
        Scope, //
    },
    module::Reference,
    provider_abi as raw, //
};
use crate::{
    policy::{
        control::Verdict,
        rotation::entity::Sample,
        units::{
            Ns,
            Us, //
        }, //
    },
    provider::{
        self,
        GpuDescription,
        Provider,
        TsgDescription, //
    },
    registry::{
        gpu,
        gpu_time::Done,
        tsg::{
            self,
            Hardware, //
        },
    },
    request::starts::Start,
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    str::CStr,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

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

/// What an operation answered; a code that no user may see is `EIO`.
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
    /// Checks and copies what a provider registers; a shorter structure is zero-extended.
    ///
    /// # Safety
    ///
    /// `ops` is null or points to `size` bytes, and is valid until the provider is unregistered.
    unsafe fn new(ops: *const raw::zernel_provider_ops, private: *mut c_void) -> Result<Self> {
        // The part of the structure that the first version has.
        const FIRST_SIZE: usize = 88;
        static_assert!(size_of::<raw::zernel_provider_ops>() == FIRST_SIZE + 8);
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

    /// What the provider can do.
    pub(crate) fn abilities(&self) -> gpu::Abilities {
        gpu::Abilities {
            interleave: self.ops.set_interleave.is_some(),
            preempt: self.ops.preempt.is_some(),
            enable: self.ops.set_enabled.is_some(),
            load: self.ops.query_load.is_some(),
            tsg_load: self.ops.query_tsg.is_some(),
            turns: self.ops.set_enabled.is_some() && self.ops.query_tsg.is_some(),
        }
    }

    /// Pins the provider's module, unless it is being unloaded.
    pub(crate) fn pin(&self) -> Option<Reference> {
        // SAFETY: The module is there until it has unregistered.
        unsafe { Reference::try_get(self.ops.owner.cast()) }
    }

    /// Reads what the driver holds for a TSG.
    pub(crate) fn get(&self, gpu: gpu::Handle, tsg: u64) -> Result<Hardware> {
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
        Ok(Hardware {
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

    /// What a TSG does with the GPU.
    pub(crate) fn tsg_load(&self, gpu: gpu::Handle, tsg: u64) -> Result<Sample> {
        let query = self.ops.query_tsg.ok_or_else(errno::unsupported)?;
        let mut load = raw::zernel_tsg_load {
            size: size_of::<raw::zernel_tsg_load>() as u32,
            ..Default::default()
        };
        // SAFETY: Valid by the type invariant.
        answer(unsafe { query(self.private, gpu.0, tsg, &mut load) })?;
        Ok(Sample {
            ran: Ns(load.ran_ns),
            runnable: load.flags & raw::ZERNEL_TSG_LOAD_RUNNABLE != 0,
            since: (load.since_ns != 0).then_some(Ns(load.since_ns)),
        })
    }

    /// What a TSG has done.
    pub(crate) fn tsg_done(&self, gpu: gpu::Handle, tsg: u64) -> Result<Done> {
        let query = self.ops.query_tsg.ok_or_else(errno::unsupported)?;
        let mut load = raw::zernel_tsg_load {
            size: size_of::<raw::zernel_tsg_load>() as u32,
            ..Default::default()
        };
        // SAFETY: Valid by the type invariant.
        answer(unsafe { query(self.private, gpu.0, tsg, &mut load) })?;
        Ok(done(&load))
    }

    /// How long the GPU was busy, and since when that is counted, in ns.
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
    fn replay(&self, provider: *const Provider) -> Result {
        match self.ops.replay {
            None => Ok(()),
            // SAFETY: Valid by the type invariant.
            Some(replay) => answer(unsafe { replay(self.private, provider.cast_mut().cast()) }),
        }
    }
}

fn done(load: &raw::zernel_tsg_load) -> Done {
    Done {
        ran: Ns(load.ran_ns),
        preemptions: load.preemptions,
        preempted_at: Ns(load.preempted_ns),
        context_bytes: load.context_bytes,
    }
}

/// Copies a structure whose size comes first, zero-extended.
///
/// # Errors
///
/// `EINVAL` null, or shorter than `first`.
///
/// # Safety
///
/// `raw` is null or points to as many bytes as its first word tells. All-zero bytes and every
/// prefix that ends between fields are values of `T`, whose first word is a `u32`.
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

fn error_pointer(error: Error) -> *mut raw::zernel_provider {
    error.to_errno() as isize as *mut raw::zernel_provider
}

/// # Safety
///
/// `provider` comes from [`zernel_provider_register`] or from the replay, and is not unregistered.
unsafe fn borrow<'a>(provider: *mut raw::zernel_provider) -> ArcBorrow<'a, Provider> {
    // SAFETY: By the caller it is an `Arc<Provider>` that the registration holds.
    unsafe { ArcBorrow::from_raw(provider.cast::<Provider>()) }
}

/// See the header.
///
/// # Safety
///
/// As the header says: `ops` is valid until the provider is unregistered.
#[no_mangle]
unsafe extern "C" fn zernel_provider_register(
    ops: *const raw::zernel_provider_ops,
    private: *mut c_void,
) -> *mut raw::zernel_provider {
    // SAFETY: By the caller.
    let provider = unsafe { Ops::new(ops, private) }.and_then(Provider::new);
    let provider = match provider {
        Ok(provider) => provider,
        Err(e) => return error_pointer(e),
    };
    if let Err(e) = provider.ops().replay(&*provider) {
        provider::restore(&provider);
        provider::forget(&provider);
        return error_pointer(e);
    }
    Arc::into_raw(provider).cast_mut().cast()
}

/// See the header.
///
/// # Safety
///
/// `provider` comes from [`zernel_provider_register`], and nobody uses it any more.
#[no_mangle]
unsafe extern "C" fn zernel_provider_unregister(provider: *mut raw::zernel_provider) {
    // SAFETY: By the caller: the reference that the registration holds.
    let provider = unsafe { Arc::from_raw(provider.cast::<Provider>()) };
    provider::restore(&provider);
    provider::forget(&provider);
}

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
#[no_mangle]
unsafe extern "C" fn zernel_gpu_added(
    provider: *mut raw::zernel_provider,
    desc: *const raw::zernel_gpu_desc,
) -> c_int {
    from_result(|| {
        const FIRST_SIZE: usize = 40;
        const FLAGS: u32 = raw::ZERNEL_GPU_DESC_CONTROL
            | raw::ZERNEL_GPU_DESC_WAITS
            | raw::ZERNEL_GPU_DESC_CONTEXT
            | raw::ZERNEL_GPU_DESC_NUMA_NODE;
        static_assert!(size_of::<raw::zernel_gpu_desc>() == FIRST_SIZE + 24);
        // SAFETY: By the caller. What is missing is null or zero.
        let desc = unsafe { copy(desc, FIRST_SIZE) }?;
        if desc.flags & !FLAGS != 0 || desc.reserved != 0 {
            return Err(EINVAL);
        }
        let has = |flag| desc.flags & flag != 0;
        let description = GpuDescription {
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
            handle: gpu::Handle(desc.handle),
            min: Us(desc.min_timeslice_us),
            max: Us(desc.max_timeslice_us),
            // SAFETY: By the caller.
            name: unsafe { bytes(desc.name) },
            // SAFETY: By the caller.
            bus: unsafe { bytes(desc.bus) },
        };
        // SAFETY: By the caller.
        provider::gpu_added(unsafe { borrow(provider) }, &description)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
#[no_mangle]
unsafe extern "C" fn zernel_gpu_removed(provider: *mut raw::zernel_provider, gpu: u64) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow(provider) };
    provider::gpu_removed(&provider, gpu::Handle(gpu));
}

/// Checks and copies the description of a TSG.
///
/// # Safety
///
/// `desc` is null or points to `size` bytes.
unsafe fn tsg_desc(desc: *const raw::zernel_tsg_desc) -> Result<raw::zernel_tsg_desc> {
    const FIRST_SIZE: usize = 48;
    const FLAGS: u32 = raw::ZERNEL_TSG_DESC_COMPUTE | raw::ZERNEL_TSG_DESC_SHARED;
    static_assert!(size_of::<raw::zernel_tsg_desc>() == FIRST_SIZE);
    // SAFETY: By the caller.
    let desc = unsafe { copy(desc, FIRST_SIZE) }?;
    if desc.flags & !FLAGS != 0 {
        return Err(EINVAL);
    }
    Ok(desc)
}

fn traits(desc: &raw::zernel_tsg_desc) -> tsg::Traits {
    tsg::Traits {
        compute: desc.flags & raw::ZERNEL_TSG_DESC_COMPUTE != 0,
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
#[no_mangle]
unsafe extern "C" fn zernel_tsg_added(
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
        let description = TsgDescription {
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
        let provider = unsafe { borrow(provider) };
        provider::tsg_added(&provider, gpu::Handle(gpu), description)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
#[no_mangle]
unsafe extern "C" fn zernel_tsg_removed(provider: *mut raw::zernel_provider, gpu: u64, tsg: u64) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow(provider) };
    provider::tsg_removed(&provider, gpu::Handle(gpu), tsg, None);
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered and `load` is null or points to `size` bytes.
#[no_mangle]
unsafe extern "C" fn zernel_tsg_ended(
    provider: *mut raw::zernel_provider,
    gpu: u64,
    tsg: u64,
    load: *const raw::zernel_tsg_load,
) {
    // What the first version of the structure has.
    const FIRST_SIZE: usize = 16;
    // SAFETY: By the caller.
    let provider = unsafe { borrow(provider) };
    // SAFETY: By the caller.
    let load = unsafe { copy(load, FIRST_SIZE) };
    let done = load.ok().map(|load| done(&load));
    provider::tsg_removed(&provider, gpu::Handle(gpu), tsg, done);
}

/// See the header. In any context.
///
/// # Safety
///
/// `provider` is registered and `start` is null or points to `size` bytes.
#[no_mangle]
unsafe extern "C" fn zernel_tsg_started(
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
    let start = Start {
        handle: start.tsg,
        at: Ns(start.at_ns),
        woken: woken.then_some(Ns(start.since_ns)),
        switch: Ns(start.switch_ns),
    };
    // SAFETY: By the caller.
    unsafe { borrow(provider) }.started(gpu::Handle(gpu), start);
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered and `desc` is null or points to `size` bytes.
#[no_mangle]
unsafe extern "C" fn zernel_tsg_changed(
    provider: *mut raw::zernel_provider,
    gpu: u64,
    desc: *const raw::zernel_tsg_desc,
) -> c_int {
    from_result(|| {
        // SAFETY: By the caller.
        let desc = unsafe { tsg_desc(desc) }?;
        // SAFETY: By the caller.
        let provider = unsafe { borrow(provider) };
        provider::tsg_changed(&provider, gpu::Handle(gpu), desc.handle, traits(&desc))?;
        Ok(0)
    })
}

/// The number of an answer in the header.
pub(crate) fn answer_number(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Allow => raw::ZERNEL_USER_ALLOW,
        Verdict::Deny => raw::ZERNEL_USER_DENY,
        Verdict::Watch | Verdict::Reapply => raw::ZERNEL_USER_REAPPLY,
    }
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
#[no_mangle]
unsafe extern "C" fn zernel_tsg_user_control(
    provider: *mut raw::zernel_provider,
    gpu: u64,
    tsg: u64,
    what: u32,
) -> u32 {
    // SAFETY: By the caller.
    let provider = unsafe { borrow(provider) };
    answer_number(provider::user_control(
        &provider,
        gpu::Handle(gpu),
        tsg,
        what,
    ))
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
#[no_mangle]
unsafe extern "C" fn zernel_tsg_refresh(provider: *mut raw::zernel_provider, gpu: u64, tsg: u64) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow(provider) };
    provider::tsg_refresh(&provider, gpu::Handle(gpu), tsg);
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
#[no_mangle]
unsafe extern "C" fn zernel_gpu_refresh(provider: *mut raw::zernel_provider, gpu: u64) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow(provider) };
    provider::gpu_refresh(&provider, gpu::Handle(gpu));
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
#[no_mangle]
unsafe extern "C" fn zernel_gpu_suspended(provider: *mut raw::zernel_provider, gpu: u64) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow(provider) };
    provider::gpu_suspended(&provider, gpu::Handle(gpu));
}

/// See the header.
///
/// # Safety
///
/// `provider` is registered.
#[no_mangle]
unsafe extern "C" fn zernel_gpu_activity(provider: *mut raw::zernel_provider, gpu: u64) {
    // SAFETY: By the caller.
    let provider = unsafe { borrow(provider) };
    provider.activity(gpu::Handle(gpu));
}
