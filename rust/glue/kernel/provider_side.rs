// SPDX-License-Identifier: GPL-2.0
//! The provider ABI of `zernel.ko`, from the side of a provider.

#[cfg(zernel_sim)]
mod bell;
mod description;
#[cfg(zernel_nvidia)]
mod herald;
mod ops;
mod start;

use super::provider_abi as raw;
#[cfg(zernel_sim)]
pub(crate) use bell::Bell;
#[cfg(zernel_sim)]
use bell::Rope;
pub(crate) use description::{
    Gpu,
    Task,
    Tsg,
    TsgLoad, //
};
#[cfg(zernel_nvidia)]
pub(crate) use herald::Herald;
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::Arc, //
};
#[cfg(zernel_sim)]
pub(crate) use ops::Lacks;
pub(crate) use ops::Provider;
use ops::Table;
pub(crate) use start::Start;

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
    fn zernel_tsg_rescheduled(provider: *mut raw::zernel_provider, gpu: u64, tsg: u64);
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

/// A provider that `zernel.ko` knows.
///
/// # Invariants
///
/// `provider` is registered until this is dropped, with `inner` as its private data and the operations of
/// `_ops`.
pub(crate) struct Registration<P: Provider> {
    provider: *mut raw::zernel_provider,
    inner: Arc<P>,
    _ops: KBox<raw::zernel_provider_ops>,
    #[cfg(zernel_sim)]
    rope: Arc<Rope>,
    #[cfg(zernel_nvidia)]
    herald: Arc<Herald>,
}

// SAFETY: The functions of `zernel.ko` may be called from any thread in process context.
unsafe impl<P: Provider> Send for Registration<P> {}
// SAFETY: As above.
unsafe impl<P: Provider> Sync for Registration<P> {}

impl<P: Provider> Registration<P> {
    /// Registers a provider without GPUs.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of `zernel_provider_register()`; it is not registered then.
    pub(crate) fn new(inner: Arc<P>) -> Result<Self> {
        let private = core::ptr::from_ref::<P>(&inner).cast_mut().cast();
        let ops = KBox::new(Table::of(&*inner), GFP_KERNEL)?;
        #[cfg(zernel_sim)]
        let rope = Rope::new()?;
        #[cfg(zernel_nvidia)]
        let herald = Herald::new()?;
        // Last: nothing fails while it is registered and not yet given back by a drop.
        // SAFETY: The table and `inner` stay until the provider is unregistered.
        let provider = from_err_ptr(unsafe { zernel_provider_register(&*ops, private) })?;
        #[cfg(zernel_sim)]
        rope.tie(provider);
        #[cfg(zernel_nvidia)]
        herald.appoint(provider);
        // INVARIANT: Just registered.
        Ok(Self {
            provider,
            inner,
            _ops: ops,
            #[cfg(zernel_sim)]
            rope,
            #[cfg(zernel_nvidia)]
            herald,
        })
    }

    /// The provider.
    pub(crate) fn inner(&self) -> &Arc<P> {
        &self.inner
    }

    /// Reports a GPU.
    pub(crate) fn gpu_added(&self, gpu: &Gpu<'_>) -> Result {
        let desc = gpu.describe();
        // SAFETY: Registered by the type invariant.
        to_result(unsafe { zernel_gpu_added(self.provider, &desc) })
    }

    /// Reports a TSG.
    pub(crate) fn tsg_added(&self, gpu: u64, tsg: &Tsg<'_>) -> Result {
        let desc = tsg.describe();
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

/// A change that a process asked the driver to make on its own TSG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// The time slice.
    Timeslice,
    /// The interleave level.
    Interleave,
    /// That it is scheduled, or when.
    Schedule,
    /// That it is scheduled, as every program asks for.
    Start,
}

/// The answer to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does it.
    Allow,
    /// It refuses.
    Deny,
    /// It does it, and then [`Registration::changed`] is called.
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

    /// Reports from operations.
    #[cfg(zernel_nvidia)]
    pub(crate) fn herald(&self) -> Arc<Herald> {
        self.herald.clone()
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
        let desc = tsg.describe();
        // SAFETY: Registered by the type invariant.
        to_result(unsafe { zernel_tsg_changed(self.provider, gpu, &desc) })
    }

    /// Asks whether a process may change its own TSG.
    pub(crate) fn user_control(&self, gpu: u64, tsg: u64, setting: Setting) -> Verdict {
        let what = match setting {
            Setting::Timeslice => raw::ZERNEL_USER_TIMESLICE,
            Setting::Interleave => raw::ZERNEL_USER_INTERLEAVE,
            Setting::Schedule => raw::ZERNEL_USER_SCHEDULE,
            Setting::Start => raw::ZERNEL_USER_START,
        };
        // SAFETY: Registered by the type invariant.
        match unsafe { zernel_tsg_user_control(self.provider, gpu, tsg, what) } {
            raw::ZERNEL_USER_ALLOW => Verdict::Allow,
            raw::ZERNEL_USER_REAPPLY => Verdict::Reapply,
            _ => Verdict::Deny,
        }
    }

    /// Reports that a process may have changed its own TSG.
    pub(crate) fn changed(&self, gpu: u64, tsg: u64, setting: Setting) {
        match setting {
            // SAFETY: Registered by the type invariant.
            Setting::Timeslice | Setting::Interleave => unsafe {
                zernel_tsg_refresh(self.provider, gpu, tsg)
            },
            // SAFETY: As above.
            Setting::Schedule | Setting::Start => unsafe {
                zernel_tsg_rescheduled(self.provider, gpu, tsg)
            },
        }
    }
}

impl<P: Provider> Drop for Registration<P> {
    fn drop(&mut self) {
        #[cfg(zernel_sim)]
        self.rope.cut();
        #[cfg(zernel_nvidia)]
        self.herald.dismiss();
        // SAFETY: Registered by the type invariant; nobody reports through a registration that
        // is being dropped.
        unsafe { zernel_provider_unregister(self.provider) };
    }
}
