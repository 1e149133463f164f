// SPDX-License-Identifier: GPL-2.0
//! The engine of the software resource manager: it runs TSGs, and hears of changes of them.

use super::{
    raw,
    registers::Registers, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    sync::Arc, //
};

/// Settings of a TSG.
pub(crate) struct State {
    /// Time slice in µs, from 1.
    pub(crate) slice_us: u32,
    /// Interleave level, 0 to 2.
    pub(crate) interleave: u32,
    /// True if it may run.
    pub(crate) runs: bool,
}

/// A TSG that gets work.
pub(crate) struct Tsg<'a> {
    /// Number of its GPU.
    pub(crate) gpu: u32,
    /// Its run list.
    pub(crate) runlist: u32,
    /// Its number on the run list.
    pub(crate) id: u32,
    /// The numbers of its channels on the run list.
    pub(crate) channels: &'a [u32],
    /// Its settings.
    pub(crate) state: State,
}

/// An engine. Called in process context, with locks of the resource manager held.
///
/// TSGs are named by the handle that was given for them, and may have ended.
pub(crate) trait Engine: Send + Sync + 'static {
    /// Settings of a TSG have changed.
    fn update(&self, gpu: u32, tsg: u64, state: &State);
    /// A TSG is to give its engine away.
    fn preempt(&self, gpu: u32, tsg: u64);
    /// The run list of a TSG starts anew.
    fn restart(&self, gpu: u32, tsg: u64, force: bool);
    /// True while the engine of a TSG is being given away.
    fn leaving(&self, gpu: u32, tsg: u64) -> bool;
    /// A TSG has lost a channel.
    fn ended(&self, gpu: u32, tsg: u64);
    /// A GPU starts. When [`Engine::stopped`] returns, the registers are dropped.
    fn started(&self, gpu: u32, registers: Registers);
    /// A GPU stops.
    fn stopped(&self, gpu: u32);
    /// A GPU sleeps, or is awake again.
    fn suspended(&self, gpu: u32, suspended: bool);
    /// Tells of all context switches of a GPU until now, by [`switched`].
    fn catch_up(&self, gpu: u32);
}

/// Tells that half of a context switch of the compute engine is over, in any context. Times are in
/// ns, as the kernel's monotonic clock has them.
pub(crate) fn switched(gpu: u32, tsg: u64, is_restore: bool, start: u64, end: u64) {
    // SAFETY: Any numbers, in any context.
    unsafe { raw::simrm_engine_switched(gpu, tsg, is_restore, start, end) };
}

impl From<&raw::simrm_engine_state> for State {
    fn from(state: &raw::simrm_engine_state) -> Self {
        Self {
            slice_us: state.slice_us,
            interleave: state.interleave,
            runs: state.runs != 0,
        }
    }
}

/// Takes a TSG; gives its handle.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&Tsg<'_>) -> Result<u64>;

/// The C functions of `E`.
struct Table<E>(PhantomData<E>);

/// # Safety
///
/// `private` comes from the registration, and is still registered.
unsafe fn engine<'a, E: Engine>(private: *mut c_void) -> &'a E {
    // SAFETY: By the caller: the registration holds an `Arc`.
    unsafe { &*private.cast::<E>() }
}

impl<E: Engine> Table<E> {
    const OPS: raw::simrm_engine_ops = raw::simrm_engine_ops {
        attach: Some(Self::attach),
        update: Some(Self::update),
        preempt: Some(Self::preempt),
        restart: Some(Self::restart),
        leaving: Some(Self::leaving),
        ended: Some(Self::ended),
        started: Some(Self::started),
        stopped: Some(Self::stopped),
        suspended: Some(Self::suspended),
        catch_up: Some(Self::catch_up),
    };

    /// # Safety
    ///
    /// `cookie` comes from [`attach`], which waits for this; `tsg` and `handle` are valid.
    unsafe extern "C" fn attach(
        _private: *mut c_void,
        cookie: *mut c_void,
        tsg: *const raw::simrm_engine_tsg,
        handle: *mut u64,
    ) -> c_int {
        // SAFETY: By the caller.
        let (take, tsg) = unsafe { (&mut *cookie.cast::<Take<'_>>(), &*tsg) };
        let channels = tsg.chids.get(..tsg.nr_channels as usize);
        from_result(|| {
            let given = take(&Tsg {
                gpu: tsg.gpu,
                runlist: tsg.runlist,
                id: tsg.id,
                channels: channels.ok_or(EINVAL)?,
                state: State::from(&tsg.state),
            })?;
            // SAFETY: By the caller.
            unsafe { *handle = given };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// As [`engine`]; `state` is valid.
    unsafe extern "C" fn update(
        private: *mut c_void,
        gpu: u32,
        tsg: u64,
        state: *const raw::simrm_engine_state,
    ) {
        // SAFETY: By the caller.
        let (engine, state) = unsafe { (engine::<E>(private), &*state) };
        engine.update(gpu, tsg, &State::from(state));
    }

    /// # Safety
    ///
    /// As [`engine`].
    unsafe extern "C" fn preempt(private: *mut c_void, gpu: u32, tsg: u64) {
        // SAFETY: By the caller.
        unsafe { engine::<E>(private) }.preempt(gpu, tsg);
    }

    /// # Safety
    ///
    /// As [`engine`].
    unsafe extern "C" fn restart(private: *mut c_void, gpu: u32, tsg: u64, force: bool) {
        // SAFETY: By the caller.
        unsafe { engine::<E>(private) }.restart(gpu, tsg, force);
    }

    /// # Safety
    ///
    /// As [`engine`].
    unsafe extern "C" fn leaving(private: *mut c_void, gpu: u32, tsg: u64) -> bool {
        // SAFETY: By the caller.
        unsafe { engine::<E>(private) }.leaving(gpu, tsg)
    }

    /// # Safety
    ///
    /// As [`engine`].
    unsafe extern "C" fn ended(private: *mut c_void, gpu: u32, tsg: u64) {
        // SAFETY: By the caller.
        unsafe { engine::<E>(private) }.ended(gpu, tsg);
    }

    /// # Safety
    ///
    /// As [`engine`]; `size` bytes of device memory are mapped until `stopped` has returned.
    unsafe extern "C" fn started(
        private: *mut c_void,
        gpu: u32,
        registers: *mut c_void,
        size: u64,
    ) {
        let (Some(base), Ok(size)) = (NonNull::new(registers.cast()), usize::try_from(size)) else {
            return;
        };
        // SAFETY: By the caller, and the engine drops them before `stopped` returns.
        let registers = unsafe { Registers::new(base, size) };
        // SAFETY: By the caller.
        unsafe { engine::<E>(private) }.started(gpu, registers);
    }

    /// # Safety
    ///
    /// As [`engine`].
    unsafe extern "C" fn stopped(private: *mut c_void, gpu: u32) {
        // SAFETY: By the caller.
        unsafe { engine::<E>(private) }.stopped(gpu);
    }

    /// # Safety
    ///
    /// As [`engine`].
    unsafe extern "C" fn suspended(private: *mut c_void, gpu: u32, suspended: bool) {
        // SAFETY: By the caller.
        unsafe { engine::<E>(private) }.suspended(gpu, suspended);
    }

    /// # Safety
    ///
    /// As [`engine`].
    unsafe extern "C" fn catch_up(private: *mut c_void, gpu: u32) {
        // SAFETY: By the caller.
        unsafe { engine::<E>(private) }.catch_up(gpu);
    }
}

/// A registered engine, until this is dropped.
///
/// # Invariants
///
/// A table of `E` is registered with a pointer to the engine, which `_engine` keeps.
pub(crate) struct Registration<E: Engine> {
    _engine: Arc<E>,
}

impl<E: Engine> Registration<E> {
    /// Registers `engine`; it hears of the GPUs that are started first.
    ///
    /// # Errors
    ///
    /// `EBUSY` there is an engine.
    pub(crate) fn new(engine: Arc<E>) -> Result<Self> {
        let private = core::ptr::from_ref::<E>(&engine).cast_mut().cast();
        // SAFETY: The table is static; the engine stays until it is unregistered.
        to_result(unsafe { raw::simrm_engine_register(const { &Table::<E>::OPS }, private) })?;
        // INVARIANT: Just registered.
        Ok(Self { _engine: engine })
    }

    /// Asks for a TSG, by a client's handle and its own there, and has `take` called with it.
    ///
    /// # Errors
    ///
    /// Those that the header names, and those of `take`.
    pub(crate) fn attach(&self, client: u32, object: u32, mut take: Take<'_>) -> Result {
        let cookie = core::ptr::from_mut(&mut take).cast();
        // SAFETY: Registered by the type invariant; `take` is there until this returns.
        to_result(unsafe { raw::simrm_engine_attach(client, object, cookie) })
    }

    /// Gives a TSG back.
    pub(crate) fn detach(&self, tsg: u64) {
        // SAFETY: Registered by the type invariant.
        unsafe { raw::simrm_engine_detach(tsg) };
    }
}

impl<E: Engine> Drop for Registration<E> {
    fn drop(&mut self) {
        // SAFETY: Registered by the type invariant. No function of the table is called when it
        // returns.
        unsafe { raw::simrm_engine_unregister() };
    }
}
