// SPDX-License-Identifier: GPL-2.0
//! What providers report: GPUs, TSGs, and what owners ask of the driver.

use super::{
    super::identity::{
        Pid,
        Scope, //
    },
    borrow, copy, done,
};
use crate::{
    glue::provider_abi as raw,
    policy::{
        control::Verdict,
        units::{
            Ns,
            Us, //
        },
    },
    registry::{
        gpu,
        tsg, //
    },
    request::starts::Start,
    worker::provider::{
        self,
        GpuDescription,
        TsgDescription, //
    },
};
use kernel::{
    error::from_result,
    prelude::*,
    str::CStr, //
};

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
