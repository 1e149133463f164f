// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library, and the devices that it tells of.

use std::ffi::{c_char, c_int, CStr, CString};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use libloading::Library;

use super::table::Functions;
use super::Raw;
use crate::{Error, Result, Status};

/// The library, by the name that its interface has.
pub const LIBRARY: &str = "libcuda.so.1";

/// The oldest interface that has all of it: that of CUDA 12.0.
const OLDEST: c_int = 12_000;

/// Attributes of a device (`CUdevice_attribute`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attribute {
    /// Its streaming multiprocessors.
    Multiprocessors = 16,
    /// Memory of the host can be given to it.
    MapsHostMemory = 19,
    /// The generation: 7 is Volta or Turing.
    Major = 75,
    /// The member of the generation.
    Minor = 76,
    /// It can give the engine away between two instructions of a kernel.
    Preemption = 90,
    /// Memory that is registered has one address for CPU and GPU.
    SameHostAddress = 91,
    /// Stream memory operations of the first form work; current drivers have them off.
    MemoryOperations1 = 92,
    /// Kernels whose blocks are all on the GPU at once.
    Cooperative = 95,
    /// 64-bit stream memory operations work.
    MemoryOperations64 = 122,
    /// Contexts are shared with other processes by MPS.
    Mps = 133,
}

/// A device of the driver (`CUdevice`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device(pub(super) c_int);

type GetProcAddress = unsafe extern "C" fn(*const c_char, *mut Raw, c_int, u64) -> c_int;
type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;

/// The driver library, initialised.
///
/// # Invariants
///
/// `functions` are those of `_library`, which is loaded as long as this is.
#[derive(Debug)]
pub struct Driver {
    pub(super) functions: Functions,
    version: c_int,
    _library: Library,
}

impl Driver {
    /// Loads the library, and initialises it.
    ///
    /// # Errors
    ///
    /// [`Error::NotHere`] without one, or with one that is too old or lacks a function, which is
    /// named; [`Error::Call`].
    pub fn open(library: &Path) -> Result<Arc<Self>> {
        let shown = library.display().to_string();
        let absent = |name: &str| Err(Error::NotHere(format!("{shown} lacks {name}")));
        // SAFETY: The library is NVIDIA's, or one that stands for it; its initialisers are as safe as
        // those of any program that uses CUDA.
        let library = unsafe { Library::new(library) }.map_err(|error| {
            Error::NotHere(format!("no CUDA: {shown} cannot be loaded: {error}"))
        })?;
        // SAFETY: The type is that of cuda.h for this name, which has had one form alone.
        let Ok(version) = (unsafe { library.get::<GetVersion>(b"cuDriverGetVersion\0") }) else {
            return absent("cuDriverGetVersion");
        };
        let mut found = 0;
        // SAFETY: `found` is valid for writes.
        let status = unsafe { version(&mut found) };
        if status != 0 {
            return Err(unnamed("cuDriverGetVersion", status));
        }
        if found < OLDEST {
            let (major, minor) = (found / 1000, found % 1000 / 10);
            return Err(Error::NotHere(format!(
                "{shown} is of CUDA {major}.{minor}; it takes 12.0"
            )));
        }
        // SAFETY: As above: the form with four arguments has this name.
        let Ok(by_name) = (unsafe { library.get::<GetProcAddress>(b"cuGetProcAddress\0") }) else {
            return absent("cuGetProcAddress");
        };
        let functions = Functions::find(|name, version| {
            let mut address = ptr::null_mut();
            let Ok(name) = CString::new(name) else {
                return address;
            };
            // SAFETY: The name ends with a zero, `address` is valid for writes.
            match unsafe { by_name(name.as_ptr(), &mut address, version, 0) } {
                0 => address,
                _ => ptr::null_mut(),
            }
        });
        let functions = match functions {
            Ok(functions) => functions,
            Err(names) => return absent(&names.join(", ")),
        };
        // INVARIANT: The functions were found in the library.
        let driver = Self {
            functions,
            version: found,
            _library: library,
        };
        // SAFETY: It takes no address.
        driver.check("cuInit", unsafe { (driver.functions.init)(0) })?;
        Ok(Arc::new(driver))
    }

    /// The version of its interface: 1000 times the major number and 10 times the minor one.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// An error for a status that is none of success.
    pub(super) fn check(&self, call: &'static str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        Err(self.error(call, status))
    }

    #[cold]
    fn error(&self, call: &'static str, status: c_int) -> Error {
        let mut name = ptr::null();
        // SAFETY: `name` is valid for writes.
        let told = unsafe { (self.functions.error_name)(status, &mut name) };
        if told != 0 || name.is_null() {
            return unnamed(call, status);
        }
        // SAFETY: The driver's names are static and end with a zero.
        let name = unsafe { CStr::from_ptr(name) };
        Error::Call {
            call,
            status: Status(status),
            name: name.to_string_lossy().into_owned(),
        }
    }

    /// The devices that this process sees.
    pub fn devices(&self) -> Result<impl Iterator<Item = Device>> {
        let mut count = 0;
        // SAFETY: `count` is valid for writes.
        let status = unsafe { (self.functions.device_count)(&mut count) };
        self.check("cuDeviceGetCount", status)?;
        Ok((0..count).map(Device))
    }

    /// The device at a PCI address.
    pub fn device(&self, bus: &str) -> Result<Device> {
        let mut device = 0;
        let name = CString::new(bus).map_err(|_| Error::Zero(bus.to_owned()))?;
        // SAFETY: The name ends with a zero, `device` is valid for writes.
        let status = unsafe { (self.functions.device_by_bus)(&mut device, name.as_ptr()) };
        self.check("cuDeviceGetByPCIBusId", status)?;
        Ok(Device(device))
    }

    /// The PCI address of a device.
    pub fn bus(&self, device: Device) -> Result<String> {
        let mut text = [0; 64];
        // SAFETY: `text` has room for so many bytes.
        let status = unsafe { (self.functions.device_bus)(text.as_mut_ptr(), 64, device.0) };
        self.check("cuDeviceGetPCIBusId", status)?;
        Ok(text_of(&text))
    }

    /// The name of a device.
    pub fn name(&self, device: Device) -> Result<String> {
        let mut text = [0; 128];
        // SAFETY: `text` has room for so many bytes.
        let status = unsafe { (self.functions.device_name)(text.as_mut_ptr(), 128, device.0) };
        self.check("cuDeviceGetName", status)?;
        Ok(text_of(&text))
    }

    /// The UUID of a device, or of its MIG instance, the most significant byte first.
    pub fn uuid(&self, device: Device) -> Result<[u8; 16]> {
        let mut uuid = [0; 16];
        // SAFETY: `uuid` is valid for writes.
        let status = unsafe { (self.functions.device_uuid)(&mut uuid, device.0) };
        self.check("cuDeviceGetUuid", status)?;
        Ok(uuid)
    }

    /// An attribute of a device.
    pub fn attribute(&self, device: Device, attribute: Attribute) -> Result<i32> {
        let mut value = 0;
        // SAFETY: `value` is valid for writes.
        let status =
            unsafe { (self.functions.device_attribute)(&mut value, attribute as c_int, device.0) };
        self.check("cuDeviceGetAttribute", status)?;
        Ok(value)
    }
}

fn unnamed(call: &'static str, status: c_int) -> Error {
    Error::Call {
        call,
        status: Status(status),
        name: "CUDA error".to_owned(),
    }
}

/// Text of the driver, up to its zero.
fn text_of(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).collect();
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
pub(super) mod tests;
