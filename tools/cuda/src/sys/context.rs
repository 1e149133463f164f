// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts: those of the program, and those that are made here.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use super::driver::{Device, Driver};
use super::Raw;
use crate::Result;

/// A context of the driver, as its handle. The driver refuses the handle of one that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Context(pub(super) usize);

impl Context {
    pub(super) fn raw(self) -> Raw {
        self.0 as Raw
    }

    /// Of a handle (`CUcontext`) of the program. `None`: it is none.
    ///
    /// # Safety
    ///
    /// The driver has made it. It may be destroyed at any time.
    pub unsafe fn from_raw(handle: *mut std::ffi::c_void) -> Option<Self> {
        (!handle.is_null()).then_some(Self(handle as usize))
    }
}

/// A time in which a context is that of this thread's calls.
#[derive(Debug)]
pub struct Entered<'a> {
    driver: &'a Driver,
    /// There was another one before.
    pushed: bool,
    /// It belongs to this thread.
    _thread: PhantomData<*const ()>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.pushed {
            let mut old = ptr::null_mut();
            // SAFETY: `old` is valid for writes. Failing leaves nothing to do.
            let _ = unsafe { (self.driver.functions.context_pop)(&mut old) };
        }
    }
}

/// A context that was made or retained here.
#[derive(Debug)]
pub struct Own {
    driver: Arc<Driver>,
    context: Context,
    /// The device whose primary context it is.
    primary: Option<Device>,
}

impl Own {
    /// Its handle.
    pub fn context(&self) -> Context {
        self.context
    }

    pub(super) fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: It was made or retained, and this was not taken back. What fails ends with the
        // process.
        let _ = unsafe {
            match self.primary {
                Some(device) => (self.driver.functions.primary_release)(device.0),
                None => (self.driver.functions.context_destroy)(self.context.raw()),
            }
        };
    }
}

impl Driver {
    /// The context of this thread's calls.
    pub fn current(&self) -> Result<Option<Context>> {
        let mut context = ptr::null_mut();
        // SAFETY: `context` is valid for writes.
        let status = unsafe { (self.functions.context_current)(&mut context) };
        self.check("cuCtxGetCurrent", status)?;
        // SAFETY: The driver says so.
        Ok(unsafe { Context::from_raw(context) })
    }

    /// Makes a context that of this thread's calls, or none.
    pub fn set_current(&self, context: Option<Context>) -> Result<()> {
        let raw = context.map_or(ptr::null_mut(), Context::raw);
        // SAFETY: The driver made it, and refuses one that is gone.
        let status = unsafe { (self.functions.context_set)(raw) };
        self.check("cuCtxSetCurrent", status)
    }

    /// Makes a context that of this thread's calls for a while.
    pub fn enter(&self, context: Context) -> Result<Entered<'_>> {
        let pushed = self.current()? != Some(context);
        if pushed {
            // SAFETY: The driver made it, and refuses one that is gone.
            let status = unsafe { (self.functions.context_push)(context.raw()) };
            self.check("cuCtxPushCurrent", status)?;
        }
        Ok(Entered {
            driver: self,
            pushed,
            _thread: PhantomData,
        })
    }

    /// A new context on a device, that of this thread's calls from now on.
    pub fn create_context(self: &Arc<Self>, device: Device) -> Result<Own> {
        let mut context = ptr::null_mut();
        // SAFETY: `context` is valid for writes.
        let status = unsafe { (self.functions.context_create)(&mut context, 0, device.0) };
        self.check("cuCtxCreate", status)?;
        Ok(Own {
            driver: self.clone(),
            context: Context(context as usize),
            primary: None,
        })
    }

    /// The primary context of a device, which programs of the CUDA runtime share.
    pub fn primary_context(self: &Arc<Self>, device: Device) -> Result<Own> {
        let mut context = ptr::null_mut();
        // SAFETY: `context` is valid for writes.
        let status = unsafe { (self.functions.primary_retain)(&mut context, device.0) };
        self.check("cuDevicePrimaryCtxRetain", status)?;
        Ok(Own {
            driver: self.clone(),
            context: Context(context as usize),
            primary: Some(device),
        })
    }
}

impl Entered<'_> {
    /// The device of the context.
    pub fn device(&self) -> Result<Device> {
        let mut device = 0;
        // SAFETY: `device` is valid for writes.
        let status = unsafe { (self.driver.functions.context_device)(&mut device) };
        self.driver.check("cuCtxGetDevice", status)?;
        Ok(Device(device))
    }

    /// Waits until all work of the context is over.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: It takes no address.
        let status = unsafe { (self.driver.functions.context_synchronize)() };
        self.driver.check("cuCtxSynchronize", status)
    }

    /// The priority of the most urgent stream that the context can have.
    pub fn highest_priority(&self) -> Result<i32> {
        let (mut least, mut greatest): (c_int, c_int) = (0, 0);
        // SAFETY: Both are valid for writes.
        let status =
            unsafe { (self.driver.functions.context_priorities)(&mut least, &mut greatest) };
        self.driver.check("cuCtxGetStreamPriorityRange", status)?;
        Ok(greatest)
    }

    /// Free memory and all memory of the device, in bytes.
    pub fn memory(&self) -> Result<(usize, usize)> {
        let (mut free, mut all) = (0, 0);
        // SAFETY: Both are valid for writes.
        let status = unsafe { (self.driver.functions.memory_info)(&mut free, &mut all) };
        self.driver.check("cuMemGetInfo", status)?;
        Ok((free, all))
    }

    pub(super) fn driver(&self) -> &Driver {
        self.driver
    }
}
