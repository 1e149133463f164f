// SPDX-License-Identifier: MIT OR Apache-2.0
//! CUDA's driver API: the functions that are needed, found in libcuda.so.1 when the program runs, and
//! safe calls of them. The only unsafe code of the crate.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void, CStr, CString};
use std::mem::{transmute, MaybeUninit};
use std::path::Path;
use std::ptr;
use std::rc::Rc;

use anyhow::{bail, Context as _, Result};
use libloading::Library;

use crate::work::not_here;

/// The library, by the name that its interface has.
pub const LIBRARY: &str = "libcuda.so.1";

/// The oldest interface that has all of it: that of CUDA 12.0.
const OLDEST: c_int = 12_000;

const NOT_READY: c_int = 600;

/// Attributes of a device (`CUdevice_attribute`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribute {
    /// Its streaming multiprocessors.
    Multiprocessors = 16,
    /// The generation: 7 is Volta or Turing.
    Major = 75,
}

/// An opaque handle of the driver.
type Raw = *mut c_void;
/// An address as the GPU sees it.
type Address = u64;

/// Declares the table of functions. Each has the number of the interface that has it in this form:
/// the driver keeps all forms.
macro_rules! functions {
    ($($name:ident = $symbol:literal of $version:literal ($($argument:ty),*);)*) => {
        /// The functions.
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            /// Finds all of them. Those that are absent are named.
            fn find(find: impl Fn(&str, c_int) -> Raw) -> Result<Self, Vec<&'static str>> {
                let mut absent = Vec::new();
                $(
                    let $name = find($symbol, $version);
                    if $name.is_null() {
                        absent.push($symbol);
                    }
                )*
                if !absent.is_empty() {
                    return Err(absent);
                }
                Ok(Self {
                    $(
                        // SAFETY: Not null; the driver says that it is the function of this name in
                        // the form of this version, whose arguments these are.
                        $name: unsafe {
                            transmute::<Raw, unsafe extern "C" fn($($argument),*) -> c_int>($name)
                        },
                    )*
                })
            }
        }
    };
}

functions! {
    init = "cuInit" of 2000 (c_uint);
    device_by_bus = "cuDeviceGetByPCIBusId" of 4010 (*mut c_int, *const c_char);
    device_attribute = "cuDeviceGetAttribute" of 2000 (*mut c_int, c_int, c_int);
    context_create = "cuCtxCreate" of 3020 (*mut Raw, c_uint, c_int);
    context_destroy = "cuCtxDestroy" of 4000 (Raw);
    context_set = "cuCtxSetCurrent" of 4000 (Raw);
    module_load = "cuModuleLoadData" of 2000 (*mut Raw, *const c_void);
    module_function = "cuModuleGetFunction" of 2000 (*mut Raw, Raw, *const c_char);
    stream_create = "cuStreamCreate" of 2000 (*mut Raw, c_uint);
    stream_query = "cuStreamQuery" of 2000 (Raw);
    stream_wait = "cuStreamWaitValue32" of 11070 (Raw, Address, u32, c_uint);
    register = "cuMemHostRegister" of 6050 (*mut c_void, usize, c_uint);
    device_address = "cuMemHostGetDevicePointer" of 3020 (*mut Address, *mut c_void, c_uint);
    memory_info = "cuMemGetInfo" of 3020 (*mut usize, *mut usize);
    launch = "cuLaunchKernel" of 4000 (
        Raw, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Raw, *mut *mut c_void,
        *mut *mut c_void
    );
    error_name = "cuGetErrorName" of 6000 (c_int, *mut *const c_char);
}

type GetProcAddress = unsafe extern "C" fn(*const c_char, *mut Raw, c_int, u64) -> c_int;
type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;

/// The driver library, initialised.
///
/// # Invariants
///
/// `functions` are those of `_library`, which is loaded as long as this is.
pub struct Driver {
    functions: Functions,
    _library: Library,
}

impl Driver {
    /// Loads the library.
    ///
    /// Errors: [`NotHere`](crate::work::NotHere) without one, or with one that is too old or lacks a
    /// function, which is named; the driver's own.
    pub fn open(library: &Path) -> Result<Rc<Self>> {
        let shown = library.display().to_string();
        // SAFETY: The library is NVIDIA's, or one that stands for it; its initialisers are as safe as
        // those of any program that uses CUDA.
        let library = match unsafe { Library::new(library) } {
            Ok(library) => library,
            Err(error) => return not_here(format!("no CUDA: {shown} cannot be loaded: {error}")),
        };
        let absent = |name: &str| not_here(format!("{shown} lacks {name}"));
        // SAFETY: The type is that of cuda.h for this name, which has had one form alone.
        let Ok(version) = (unsafe { library.get::<GetVersion>(b"cuDriverGetVersion\0") }) else {
            return absent("cuDriverGetVersion");
        };
        let mut found = 0;
        // SAFETY: `found` is valid for writes.
        let status = unsafe { version(&mut found) };
        if status != 0 {
            bail!("cuDriverGetVersion: CUDA error {status}");
        }
        if found < OLDEST {
            let (major, minor) = (found / 1000, found % 1000 / 10);
            return not_here(format!("{shown} is of CUDA {major}.{minor}; it takes 12.0"));
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
            _library: library,
        };
        // SAFETY: It takes no address.
        driver.check("cuInit", unsafe { (driver.functions.init)(0) })?;
        Ok(Rc::new(driver))
    }

    /// An error for a status that is none of success.
    fn check(&self, call: &str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let mut name = ptr::null();
        // SAFETY: `name` is valid for writes.
        let told = unsafe { (self.functions.error_name)(status, &mut name) };
        if told != 0 || name.is_null() {
            bail!("{call}: CUDA error {status}");
        }
        // SAFETY: The driver's names are static and end with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        bail!("{call}: {name} ({status})")
    }

    /// The number of the device at a PCI address.
    pub fn device(&self, bus: &str) -> Result<i32> {
        let mut device = 0;
        let name = CString::new(bus).context("a PCI address")?;
        // SAFETY: The name ends with a zero, `device` is valid for writes.
        let status = unsafe { (self.functions.device_by_bus)(&mut device, name.as_ptr()) };
        self.check("cuDeviceGetByPCIBusId", status)?;
        Ok(device)
    }

    /// An attribute of a device.
    pub fn attribute(&self, device: i32, attribute: Attribute) -> Result<i32> {
        let mut value = 0;
        // SAFETY: `value` is valid for writes.
        let status =
            unsafe { (self.functions.device_attribute)(&mut value, attribute as c_int, device) };
        self.check("cuDeviceGetAttribute", status)?;
        Ok(value)
    }
}

/// A stream of a context, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Of spinning work.
    Spin,
    /// Of items and holders.
    Items,
}

/// Functions of the module, in the order of [`Gpu::KERNELS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Spins.
    Spin,
    /// Runs for a time.
    Item,
    /// Holds.
    Holder,
}

/// A context on a GPU, with the kernels.
///
/// # Invariants
///
/// The handles are of the context, which only dropping this destroys.
pub struct Gpu {
    driver: Rc<Driver>,
    context: Raw,
    streams: [Raw; 2],
    kernels: [Raw; 3],
}

impl Gpu {
    const KERNELS: [&'static CStr; 3] = [c"spin", c"item", c"holder"];

    /// A new context on a device; `module` is the text of the kernels.
    pub fn new(driver: Rc<Driver>, device: i32, module: &CStr) -> Result<Self> {
        let mut context = ptr::null_mut();
        // SAFETY: `context` is valid for writes.
        let status = unsafe { (driver.functions.context_create)(&mut context, 0, device) };
        driver.check("cuCtxCreate", status)?;
        // INVARIANT: The context was just made; without handles until they are.
        let mut gpu = Self {
            driver,
            context,
            streams: [ptr::null_mut(); 2],
            kernels: [ptr::null_mut(); 3],
        };
        let (driver, functions) = (gpu.driver.clone(), &gpu.driver.functions);
        for stream in &mut gpu.streams {
            const NON_BLOCKING: c_uint = 1;
            // SAFETY: `stream` is valid for writes.
            let status = unsafe { (functions.stream_create)(stream, NON_BLOCKING) };
            driver.check("cuStreamCreate", status)?;
        }
        let mut loaded = ptr::null_mut();
        // SAFETY: The text ends with a zero, `loaded` is valid for writes.
        let status = unsafe { (functions.module_load)(&mut loaded, module.as_ptr().cast()) };
        driver.check("cuModuleLoadData", status)?;
        for (kernel, name) in gpu.kernels.iter_mut().zip(Self::KERNELS) {
            // SAFETY: The name ends with a zero, `kernel` is valid for writes, the module was loaded.
            let status = unsafe { (functions.module_function)(kernel, loaded, name.as_ptr()) };
            driver.check("cuModuleGetFunction", status)?;
        }
        Ok(gpu)
    }

    /// Makes it the context of the calls of this thread.
    fn enter(&self) -> Result<&Functions> {
        let functions = &self.driver.functions;
        // SAFETY: The context is there, by the invariants.
        let status = unsafe { (functions.context_set)(self.context) };
        self.driver.check("cuCtxSetCurrent", status)?;
        Ok(functions)
    }

    /// Gives it memory of this process; returns the address as the GPU sees it. The memory is pinned,
    /// so its mapping may end before the context, but not be made anew for something else there that
    /// is registered as well.
    pub fn register(&self, address: u64, length: u64) -> Result<Address> {
        const PORTABLE: c_uint = 1;
        const DEVICE_MAP: c_uint = 2;
        let functions = self.enter()?;
        let place = address as usize as *mut c_void;
        let length = usize::try_from(length).context("the length of memory")?;
        // SAFETY: The driver pins pages that are mapped there, and fails if there are none.
        let status = unsafe { (functions.register)(place, length, PORTABLE | DEVICE_MAP) };
        self.driver.check("cuMemHostRegister", status)?;
        let mut seen = MaybeUninit::new(0);
        // SAFETY: `seen` is valid for writes; the memory was just registered.
        let status = unsafe { (functions.device_address)(seen.as_mut_ptr(), place, 0) };
        self.driver.check("cuMemHostGetDevicePointer", status)?;
        // SAFETY: It was written from the start.
        Ok(unsafe { seen.assume_init() })
    }

    /// Launches a kernel; the arguments are its 64-bit parameters, in order.
    pub fn launch(
        &self,
        kernel: Kernel,
        stream: Stream,
        blocks: u32,
        threads: u32,
        arguments: &mut [u64],
    ) -> Result<()> {
        let functions = self.enter()?;
        let mut places: Vec<*mut c_void> = arguments
            .iter_mut()
            .map(|argument| ptr::from_mut(argument).cast())
            .collect();
        // SAFETY: Function and stream are of this context. Each place is valid for a read of 64 bits,
        // which the driver does before it returns. A kernel stores to addresses that were registered
        // alone; another one is an error of the GPU's, and of this process alone.
        let status = unsafe {
            (functions.launch)(
                self.kernels[kernel as usize],
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                self.streams[stream as usize],
                places.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.driver.check("cuLaunchKernel", status)
    }

    /// Has a stream wait until a word has reached a value, cyclic.
    pub fn wait_word(&self, stream: Stream, address: Address, value: u32) -> Result<()> {
        const AT_LEAST: c_uint = 0;
        let functions = self.enter()?;
        // SAFETY: The stream is of this context; an address that is not registered is refused.
        let status = unsafe {
            (functions.stream_wait)(self.streams[stream as usize], address, value, AT_LEAST)
        };
        self.driver.check("cuStreamWaitValue32", status)
    }

    /// True if a stream has nothing left to do.
    pub fn is_idle(&self, stream: Stream) -> Result<bool> {
        let functions = self.enter()?;
        // SAFETY: The stream is of this context.
        match unsafe { (functions.stream_query)(self.streams[stream as usize]) } {
            NOT_READY => Ok(false),
            status => self.driver.check("cuStreamQuery", status).map(|()| true),
        }
    }

    /// Asks how much memory is free, which goes to the resource manager.
    pub fn ask_memory(&self) -> Result<()> {
        let functions = self.enter()?;
        let (mut free, mut all) = (0, 0);
        // SAFETY: Both are valid for writes.
        let status = unsafe { (functions.memory_info)(&mut free, &mut all) };
        self.driver.check("cuMemGetInfo", status)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: The context is there, by the invariants, and nobody uses it afterwards. What fails
        // ends with the process.
        let _ = unsafe { (self.driver.functions.context_destroy)(self.context) };
    }
}

#[cfg(test)]
mod tests;
