// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the host that is given to the GPU.

use std::ffi::c_void;
use std::sync::Arc;

use super::context::{Context, Entered};
use super::driver::Driver;
use super::Address;
use crate::Result;

const PORTABLE: u32 = 1;
const DEVICE_MAP: u32 = 2;

/// Memory of this process that the GPU has. It is pinned: the end of its mapping ends nothing, but
/// the address must not be registered for other memory meanwhile.
#[derive(Debug)]
pub struct Registered {
    driver: Arc<Driver>,
    context: Context,
    place: usize,
    base: Address,
}

impl Registered {
    /// The address of its first byte as the GPU sees it.
    pub fn base(&self) -> u64 {
        self.base
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A context that is gone has taken it along.
        if let Ok(_entered) = self.driver.enter(self.context) {
            // SAFETY: It was registered there; the driver refuses what is not.
            let _ = unsafe { (self.driver.functions.unregister)(self.place as *mut c_void) };
        }
    }
}

impl Driver {
    /// Gives memory of this process to all contexts: from an address on, whole pages.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Call`]: among others, the memory has been registered before, or cannot be
    /// pinned. Nothing is registered then.
    pub fn register(
        self: &Arc<Self>,
        context: Context,
        address: u64,
        length: u64,
    ) -> Result<Registered> {
        let entered = self.enter(context)?;
        let place = address as usize as *mut c_void;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // SAFETY: The driver pins pages that are mapped there, and fails if there are none.
        let status = unsafe { (self.functions.register)(place, length, PORTABLE | DEVICE_MAP) };
        self.check("cuMemHostRegister", status)?;
        let mut registered = Registered {
            driver: self.clone(),
            context,
            place: address as usize,
            base: 0,
        };
        // SAFETY: `base` is valid for writes; the memory was just registered.
        let status = unsafe { (self.functions.device_address)(&mut registered.base, place, 0) };
        self.check("cuMemHostGetDevicePointer", status)?;
        drop(entered);
        Ok(registered)
    }
}

impl Entered<'_> {
    /// True if memory at this address is the GPU's now.
    pub fn is_registered(&self, address: u64) -> bool {
        let mut base: Address = 0;
        // SAFETY: `base` is valid for writes; the driver refuses memory that it does not have.
        let status = unsafe {
            (self.driver().functions.device_address)(&mut base, address as usize as *mut c_void, 0)
        };
        status == 0
    }
}
