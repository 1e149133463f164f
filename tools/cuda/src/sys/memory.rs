// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the GPU, and memory of the host that is given to it.

use std::ffi::c_void;
use std::sync::Arc;

use super::context::{Context, Entered, Own};
use super::driver::Driver;
use super::stream::{OwnStream, Stream};
use super::Address;
use crate::{Error, Result, Status};

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

/// Memory of the GPU that was allocated here.
#[derive(Debug)]
pub struct Memory {
    driver: Arc<Driver>,
    context: Context,
    base: Address,
    length: usize,
    /// The stream in whose order it is freed.
    stream: Option<Arc<OwnStream>>,
    /// Its context, if it keeps that.
    own: Option<Arc<Own>>,
}

impl Memory {
    /// So many bytes, of a context that is kept until they are freed.
    pub fn within(own: &Arc<Own>, length: usize) -> Result<Self> {
        let mut memory = Self::new(own.driver(), own.context(), length)?;
        memory.own = Some(Arc::clone(own));
        Ok(memory)
    }

    /// So many bytes in the order of a stream, which they are used in. Other streams are not waited for,
    /// neither now nor when they are freed.
    pub fn behind(stream: &Arc<OwnStream>, length: usize) -> Result<Self> {
        let driver = stream.driver();
        let _entered = driver.enter(stream.context())?;
        let mut base = 0;
        // SAFETY: `base` is valid for writes; the stream is there.
        let status = unsafe {
            (driver.functions.memory_allocate_behind)(&mut base, length, stream.stream().raw())
        };
        driver.check("cuMemAllocAsync", status)?;
        Ok(Self {
            driver: driver.clone(),
            context: stream.context(),
            base,
            length,
            stream: Some(Arc::clone(stream)),
            own: None,
        })
    }

    /// So many bytes, of a context. They are freed when all streams of it have been waited for.
    pub fn new(driver: &Arc<Driver>, context: Context, length: usize) -> Result<Self> {
        let _entered = driver.enter(context)?;
        let mut base = 0;
        // SAFETY: `base` is valid for writes.
        let status = unsafe { (driver.functions.memory_allocate)(&mut base, length) };
        driver.check("cuMemAlloc", status)?;
        Ok(Self {
            driver: driver.clone(),
            context,
            base,
            length,
            stream: None,
            own: None,
        })
    }

    /// Its first byte, as the GPU sees it.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Its bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The address of bytes of it; an error if they are not all within it.
    fn place(&self, call: &'static str, at: usize, length: usize) -> Result<Address> {
        match at.checked_add(length) {
            Some(end) if end <= self.length => Ok(self.base + at as u64),
            _ => Err(Error::Call {
                call,
                status: Status::INVALID_VALUE,
                name: format!("{length} bytes at {at} of {}", self.length),
            }),
        }
    }

    /// Copies bytes to a place in it behind all before in a stream, and waits for that.
    pub fn write(
        &self,
        entered: &Entered<'_>,
        stream: Stream,
        at: usize,
        bytes: &[u8],
    ) -> Result<()> {
        let place = self.place("cuMemcpyHtoDAsync", at, bytes.len())?;
        entered.refuse_capture("cuMemcpyHtoDAsync", stream)?;
        // SAFETY: The stream is there; both have so many bytes, and stay until it has been waited for:
        // a context of which no call succeeds has ended its work.
        let status = unsafe {
            (entered.driver().functions.copy_in)(
                place,
                bytes.as_ptr().cast(),
                bytes.len(),
                stream.raw(),
            )
        };
        entered.driver().check("cuMemcpyHtoDAsync", status)?;
        entered.wait_idle(stream)
    }

    /// Copies bytes from a place in it behind all before in a stream, and waits for that.
    pub fn read(
        &self,
        entered: &Entered<'_>,
        stream: Stream,
        at: usize,
        bytes: &mut [u8],
    ) -> Result<()> {
        let place = self.place("cuMemcpyDtoHAsync", at, bytes.len())?;
        entered.refuse_capture("cuMemcpyDtoHAsync", stream)?;
        // SAFETY: As in [`Self::write`].
        let status = unsafe {
            (entered.driver().functions.copy_out)(
                bytes.as_mut_ptr().cast(),
                place,
                bytes.len(),
                stream.raw(),
            )
        };
        entered.driver().check("cuMemcpyDtoHAsync", status)?;
        entered.wait_idle(stream)
    }

    /// Copies bytes to a place in it behind all before in a stream. `then` is called behind the copy, as
    /// by [`Entered::when_idle`]; it is dropped if there is an error.
    ///
    /// # Safety
    ///
    /// The memory is not dropped before then.
    pub unsafe fn send(
        &self,
        entered: &Entered<'_>,
        stream: Stream,
        at: usize,
        bytes: Vec<u8>,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let place = self.place("cuMemcpyHtoDAsync", at, bytes.len())?;
        entered.refuse_capture("cuMemcpyHtoDAsync", stream)?;
        let bytes = Arc::new(bytes);
        let (address, length) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: The stream is there; both have so many bytes. These stay until the function behind the
        // copy has run or, where there is none, until the stream has been waited for.
        let status =
            unsafe { (entered.driver().functions.copy_in)(place, address, length, stream.raw()) };
        entered.driver().check("cuMemcpyHtoDAsync", status)?;
        let own = Arc::clone(&bytes);
        let begun = entered.when_idle(stream, move || {
            drop(own);
            then();
        });
        if begun.is_err() && entered.wait_idle(stream).is_err() {
            std::mem::forget(bytes);
        }
        begun
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A context that is gone has taken it along.
        if let Ok(_entered) = self.driver.enter(self.context) {
            let functions = &self.driver.functions;
            // SAFETY: It was allocated there, and is freed once; the stream is there.
            let _ = unsafe {
                match &self.stream {
                    Some(stream) => {
                        (functions.memory_free_behind)(self.base, stream.stream().raw())
                    }
                    None => (functions.memory_free)(self.base),
                }
            };
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
