// SPDX-License-Identifier: GPL-2.0
//! Reports of `nvidia.ko` to zernel: GPUs, TSGs, and requests of processes for their own TSGs.

use super::raw;
use crate::glue::{
    module::this_module,
    provider_side::{
        Setting,
        Task,
        Verdict, //
    },
};
use core::marker::PhantomData;
use kernel::{
    error::to_result,
    prelude::*,
    str::CStr,
    sync::Arc, //
};

/// A GPU that was bound to the driver.
pub(crate) struct Gpu<'a> {
    /// The driver's number of it.
    pub(crate) id: u32,
    /// Product.
    pub(crate) name: &'a CStr,
    /// PCI address.
    pub(crate) bus: &'a CStr,
    /// Version of the driver, and the mode if it has no hooks.
    pub(crate) driver: &'a CStr,
    /// Calls are seen when the driver has answered: none can be denied.
    pub(crate) observed: bool,
}

/// A TSG that user space made.
pub(crate) struct Tsg<'a> {
    /// Its GPU.
    pub(crate) gpu: u32,
    /// Number in the table of the hook; never used again.
    pub(crate) id: u64,
    /// True if it computes.
    pub(crate) compute: bool,
    /// True if it was made through a file that serves MPS clients.
    pub(crate) mps: bool,
    /// Records of context switches name all its channels.
    pub(crate) traced: bool,
    /// The driver's number of it.
    pub(crate) hw_tsg: Option<u32>,
    /// Engine type, local to the MIG instance if there is one.
    pub(crate) engine: Option<u32>,
    /// MIG instance.
    pub(crate) mig: Option<u32>,
    /// Compute instance of that.
    pub(crate) compute_instance: Option<u32>,
    /// Address of the registers of its run list.
    pub(crate) runlist: Option<u32>,
    /// Channels now.
    pub(crate) channels: u32,
    /// Process that made it.
    pub(crate) process: Task<'a>,
    /// Thread that made it.
    pub(crate) thread: Task<'a>,
}

/// The receiver of the reports. Everything is called in process context and may sleep; the header
/// names the locks that each must not wait for.
pub(crate) trait Observer: Send + Sync + 'static {
    /// A GPU was bound to the driver.
    fn gpu_added(&self, gpu: &Gpu<'_>);
    /// The driver lets a GPU go.
    fn gpu_removed(&self, gpu: u32);
    /// User space made a TSG.
    fn tsg_added(&self, tsg: &Tsg<'_>);
    /// A TSG is described otherwise now.
    fn tsg_changed(&self, tsg: &Tsg<'_>);
    /// The last handle of a TSG is gone.
    fn tsg_removed(&self, gpu: u32, tsg: u64);
    /// A process wants to change its own TSG.
    fn user_control(&self, gpu: u32, tsg: u64, setting: Setting) -> Verdict;
    /// Such a change has come back from the driver, after any answer and with any result.
    fn user_controlled(&self, gpu: u32, tsg: u64, setting: Setting);
    /// The driver answers no control from now on.
    fn suspended(&self);
    /// It does again.
    fn resumed(&self);
}

impl Gpu<'_> {
    /// Calls `f` with C's description; one shorter than the first version cannot be, and is left
    /// out.
    ///
    /// # Safety
    ///
    /// `gpu` points to a structure that tells its size.
    unsafe fn with(gpu: *const raw::nv_zernel_gpu, f: impl FnOnce(&Gpu<'_>)) {
        // SAFETY: By the caller.
        if (unsafe { (*gpu).size } as usize) < size_of::<raw::nv_zernel_gpu>() {
            return;
        }
        // SAFETY: By the caller, and at least as long.
        let gpu = unsafe { &*gpu };
        f(&Gpu {
            id: gpu.gpu_id,
            name: text(&gpu.name),
            bus: text(&gpu.bus),
            driver: text(&gpu.driver),
            observed: gpu.flags & raw::NV_ZERNEL_GPU_OBSERVED != 0,
        });
    }
}

/// The text in an array; nothing if it does not end there.
fn text(array: &[c_char]) -> &CStr {
    CStr::from_bytes_until_nul(array).unwrap_or(c"")
}

impl Tsg<'_> {
    /// As [`Gpu::with`].
    ///
    /// # Safety
    ///
    /// `tsg` points to a structure that tells its size; its pids are valid during the call.
    unsafe fn with(tsg: *const raw::nv_zernel_tsg, f: impl FnOnce(&Tsg<'_>)) {
        // SAFETY: By the caller.
        if (unsafe { (*tsg).size } as usize) < size_of::<raw::nv_zernel_tsg>() {
            return;
        }
        // SAFETY: By the caller, and at least as long.
        let tsg = unsafe { &*tsg };
        let known = |value| Some(value).filter(|&value| value != raw::NV_ZERNEL_UNKNOWN);
        f(&Tsg {
            gpu: tsg.gpu_id,
            id: tsg.id,
            compute: tsg.flags & raw::NV_ZERNEL_TSG_COMPUTE != 0,
            mps: tsg.flags & raw::NV_ZERNEL_TSG_MPS != 0,
            traced: tsg.flags & raw::NV_ZERNEL_TSG_TRACED != 0,
            hw_tsg: known(tsg.hw_tsg),
            engine: known(tsg.engine),
            mig: known(tsg.mig),
            compute_instance: known(tsg.compute),
            runlist: Some(tsg.runlist).filter(|&base| base != 0),
            channels: tsg.channels,
            // SAFETY: By the caller; `f` cannot keep it.
            process: unsafe { Task::from_raw(tsg.process.cast()) },
            // SAFETY: As above.
            thread: unsafe { Task::from_raw(tsg.thread.cast()) },
        });
    }
}

/// The part of a TSG that a control of a process changes; `None` if zernel does not decide about it.
fn setting(cmd: u32) -> Option<Setting> {
    match cmd {
        raw::NV_ZERNEL_CTRL_SET_TIMESLICE => Some(Setting::Timeslice),
        raw::NV_ZERNEL_CTRL_SET_INTERLEAVE => Some(Setting::Interleave),
        raw::NV_ZERNEL_CTRL_DISABLE_CHANNELS => Some(Setting::Schedule),
        raw::NV_ZERNEL_CTRL_SCHEDULE => Some(Setting::Start),
        _ => None,
    }
}

/// The C functions of `O`.
struct Table<O>(PhantomData<O>);

/// # Safety
///
/// `private` comes from the registration, and is still registered.
unsafe fn observer<'a, O: Observer>(private: *mut c_void) -> &'a O {
    // SAFETY: By the caller: the registration holds an `Arc`.
    unsafe { &*private.cast::<O>() }
}

impl<O: Observer> Table<O> {
    const OPS: raw::nv_zernel_ops = raw::nv_zernel_ops {
        size: size_of::<raw::nv_zernel_ops>() as u32,
        abi: raw::NV_ZERNEL_ABI,
        owner: this_module().cast(),
        gpu_added: Some(Self::gpu_added),
        gpu_removed: Some(Self::gpu_removed),
        tsg_added: Some(Self::tsg_added),
        tsg_changed: Some(Self::tsg_changed),
        tsg_removed: Some(Self::tsg_removed),
        user_control: Some(Self::user_control),
        user_controlled: Some(Self::user_controlled),
        suspended: Some(Self::suspended),
        resumed: Some(Self::resumed),
    };

    /// # Safety
    ///
    /// As [`observer`] and [`Gpu::with`].
    unsafe extern "C" fn gpu_added(private: *mut c_void, gpu: *const raw::nv_zernel_gpu) {
        // SAFETY: By the caller.
        unsafe { Gpu::with(gpu, |gpu| observer::<O>(private).gpu_added(gpu)) };
    }

    /// # Safety
    ///
    /// As [`observer`].
    unsafe extern "C" fn gpu_removed(private: *mut c_void, gpu: u32) {
        // SAFETY: By the caller.
        unsafe { observer::<O>(private) }.gpu_removed(gpu);
    }

    /// # Safety
    ///
    /// As [`observer`] and [`Tsg::with`].
    unsafe extern "C" fn tsg_added(private: *mut c_void, tsg: *const raw::nv_zernel_tsg) {
        // SAFETY: By the caller.
        unsafe { Tsg::with(tsg, |tsg| observer::<O>(private).tsg_added(tsg)) };
    }

    /// # Safety
    ///
    /// As [`observer`] and [`Tsg::with`].
    unsafe extern "C" fn tsg_changed(private: *mut c_void, tsg: *const raw::nv_zernel_tsg) {
        // SAFETY: By the caller.
        unsafe { Tsg::with(tsg, |tsg| observer::<O>(private).tsg_changed(tsg)) };
    }

    /// # Safety
    ///
    /// As [`observer`].
    unsafe extern "C" fn tsg_removed(private: *mut c_void, gpu: u32, tsg: u64) {
        // SAFETY: By the caller.
        unsafe { observer::<O>(private) }.tsg_removed(gpu, tsg);
    }

    /// # Safety
    ///
    /// As [`observer`].
    unsafe extern "C" fn user_control(private: *mut c_void, gpu: u32, tsg: u64, cmd: u32) -> u32 {
        let Some(setting) = setting(cmd) else {
            return raw::NV_ZERNEL_ALLOW;
        };
        // SAFETY: By the caller.
        match unsafe { observer::<O>(private) }.user_control(gpu, tsg, setting) {
            Verdict::Allow => raw::NV_ZERNEL_ALLOW,
            Verdict::Deny => raw::NV_ZERNEL_DENY,
            Verdict::Reapply => raw::NV_ZERNEL_OBSERVE,
        }
    }

    /// # Safety
    ///
    /// As [`observer`].
    unsafe extern "C" fn user_controlled(private: *mut c_void, gpu: u32, tsg: u64, cmd: u32) {
        let Some(setting) = setting(cmd) else {
            return;
        };
        // SAFETY: By the caller.
        unsafe { observer::<O>(private) }.user_controlled(gpu, tsg, setting);
    }

    /// # Safety
    ///
    /// As [`observer`].
    unsafe extern "C" fn suspended(private: *mut c_void) {
        // SAFETY: By the caller.
        unsafe { observer::<O>(private) }.suspended();
    }

    /// # Safety
    ///
    /// As [`observer`].
    unsafe extern "C" fn resumed(private: *mut c_void) {
        // SAFETY: By the caller.
        unsafe { observer::<O>(private) }.resumed();
    }
}

/// A registered observer, until this is dropped.
///
/// # Invariants
///
/// `ops` is a table of `O` that is always there; it is registered with a pointer to the observer,
/// which `_observer` keeps.
pub(crate) struct Registration<O: Observer> {
    /// The receiver is known by the address of the table, and a constant may have several.
    ops: *const raw::nv_zernel_ops,
    _observer: Arc<O>,
}

// SAFETY: The table is constant, so that its address may go anywhere, and an `Arc<O>` may as an
// observer is `Send` and `Sync`. It can be unregistered from any thread.
unsafe impl<O: Observer> Send for Registration<O> {}
// SAFETY: As above; nothing can be done by a shared reference.
unsafe impl<O: Observer> Sync for Registration<O> {}

impl<O: Observer> Registration<O> {
    /// Registers `observer`; it is told of present objects first.
    ///
    /// # Errors
    ///
    /// `EPROTO` `nvidia.ko` is patched with another version of the hooks, `EBUSY` somebody else is
    /// told.
    pub(crate) fn new(observer: Arc<O>) -> Result<Self> {
        let private = core::ptr::from_ref::<O>(&observer).cast_mut().cast();
        let ops: &'static raw::nv_zernel_ops = const { &Table::<O>::OPS };
        // SAFETY: The table is static; the observer stays until it is unregistered.
        to_result(unsafe { raw::nv_zernel_register(ops, private) })?;
        // INVARIANT: Just registered.
        Ok(Self {
            ops,
            _observer: observer,
        })
    }
}

impl<O: Observer> Drop for Registration<O> {
    fn drop(&mut self) {
        // SAFETY: Registered by the type invariant; nobody drops this from a callback, since the
        // observer does not have it. No callback runs or comes when it returns.
        unsafe { raw::nv_zernel_unregister(self.ops) };
    }
}
