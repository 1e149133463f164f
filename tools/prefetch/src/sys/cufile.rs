// SPDX-License-Identifier: MIT OR Apache-2.0
//! cuFile (`libcufile.so.0`), the library of GPUDirect Storage: reads files into memory of the GPU, in
//! the order of a stream.

use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use cuda::{Library, Stream};

/// The library, by the name that its interface has.
pub const LIBRARY: &str = "libcufile.so.0";

/// A descriptor of Linux (`CU_FILE_HANDLE_TYPE_OPAQUE_FD`).
const DESCRIPTOR: c_int = 1;

/// Size and places of a read are what they are when it is given to the stream.
const FIXED: c_uint = 1 | 2 | 4;

/// `CUfileError_t`.
#[repr(C)]
struct Status {
    error: c_int,
    cuda: c_int,
}

/// `CUfileDescr_t`.
#[repr(C)]
struct Description {
    kind: c_int,
    place: Place,
    functions: *const c_void,
}

#[repr(C)]
union Place {
    file: c_int,
    _handle: *mut c_void,
}

cuda::functions! {
    struct Functions;
    open = "cuFileDriverOpen" () -> Status;
    file_register = "cuFileHandleRegister" (*mut *mut c_void, *mut Description) -> Status;
    file_deregister = "cuFileHandleDeregister" (*mut c_void) -> ();
    stream_register = "cuFileStreamRegister" (*mut c_void, c_uint) -> Status;
    stream_deregister = "cuFileStreamDeregister" (*mut c_void) -> Status;
    read = "cuFileReadAsync" (
        *mut c_void, *mut c_void, *mut usize, *mut i64, *mut i64, *mut isize, *mut c_void,
    ) -> Status;
}

/// The library, open. It stays so until the process ends: it has threads of its own.
#[derive(Debug)]
pub(crate) struct CuFile {
    functions: Functions,
}

fn check(call: &str, status: &Status) -> Result<(), String> {
    match status.error {
        0 => Ok(()),
        error => Err(format!(
            "{call}: CUfileOpError {error} (CUresult {})",
            status.cuda
        )),
    }
}

/// A file that is registered.
#[derive(Debug)]
pub(crate) struct Handle {
    cufile: Arc<CuFile>,
    handle: usize,
    /// It is closed behind its registration.
    _file: File,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: It was registered, and this is done once.
        unsafe { (self.cufile.functions.file_deregister)(self.handle as *mut c_void) };
    }
}

/// A read: what cuFile looks at, and its answer, until it is over.
#[derive(Debug)]
struct Ask {
    size: usize,
    from: i64,
    at: i64,
    found: isize,
}

/// An [`Ask`] in a place of its own, which is freed when nobody has it.
#[derive(Debug)]
pub(crate) struct Asked(*mut Ask);

// SAFETY: Its place is looked at by cuFile until the read is over, and by the one who waits for it behind
// that alone.
unsafe impl Send for Asked {}
// SAFETY: As above.
unsafe impl Sync for Asked {}

impl Asked {
    /// A read of so many bytes of a file, to a place in memory.
    pub(crate) fn new(size: usize, from: i64, at: i64) -> Arc<Self> {
        let ask = Ask {
            size,
            from,
            at,
            found: 0,
        };
        Arc::new(Self(Box::into_raw(Box::new(ask))))
    }

    /// The bytes that came; an error is less than 0.
    ///
    /// # Safety
    ///
    /// The read is over.
    pub(crate) unsafe fn found(&self) -> isize {
        // SAFETY: It is over, so that cuFile has no part in it.
        unsafe { (*self.0).found }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // SAFETY: It was made of a box, and this is done once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl CuFile {
    /// Loads a library, and opens its driver. A sentence for people if there is none, or it lacks
    /// functions, or does not open.
    pub(crate) fn open(library: &Path) -> Result<Arc<Self>, String> {
        let shown = library.display();
        // SAFETY: The library is NVIDIA's, or one that stands for it; its initialisers are as safe as
        // those of any program that uses it.
        let loaded = unsafe { Library::new(library) };
        let loaded = loaded.map_err(|error| format!("{shown} cannot be loaded: {error}"))?;
        let functions = Functions::find(loaded).map_err(|absent| {
            let names = absent.join(", ");
            format!("{shown} lacks {names}; that of CUDA 12.2 has all")
        })?;
        let cufile = Arc::new(Self { functions });
        // It is never unloaded, for its threads run its code.
        std::mem::forget(Arc::clone(&cufile));
        // SAFETY: It takes nothing.
        let status = unsafe { (cufile.functions.open)() };
        check("cuFileDriverOpen", &status)?;
        Ok(cufile)
    }

    /// Registers a file.
    pub(crate) fn register(self: &Arc<Self>, file: File) -> Result<Handle, String> {
        let mut handle = ptr::null_mut();
        let mut description = Description {
            kind: DESCRIPTOR,
            place: Place {
                file: file.as_raw_fd(),
            },
            functions: ptr::null(),
        };
        // SAFETY: Both are valid for reads and writes; the file is open until it is deregistered.
        let status = unsafe { (self.functions.file_register)(&mut handle, &mut description) };
        check("cuFileHandleRegister", &status)?;
        Ok(Handle {
            cufile: Arc::clone(self),
            handle: handle as usize,
            _file: file,
        })
    }

    /// Registers a stream.
    pub(crate) fn register_stream(&self, stream: Stream) -> Result<(), String> {
        // SAFETY: The stream is there.
        let status = unsafe { (self.functions.stream_register)(stream.as_raw(), FIXED) };
        check("cuFileStreamRegister", &status)
    }

    /// Ends the registration of a stream. No read is left in it.
    pub(crate) fn deregister_stream(&self, stream: Stream) {
        // SAFETY: The stream is there. Failing leaves nothing to do.
        let _ = unsafe { (self.functions.stream_deregister)(stream.as_raw()) };
    }

    /// Has a stream read a file to memory of the GPU at an address.
    ///
    /// # Safety
    ///
    /// The stream is registered. File, memory and `asked` are there until the read is over, or the error
    /// is told; the memory has so many bytes at that place.
    pub(crate) unsafe fn read(
        &self,
        stream: Stream,
        file: &Handle,
        base: u64,
        asked: &Asked,
    ) -> Result<(), String> {
        let ask = asked.0;
        // SAFETY: The places are those of a box; the rest is the caller's.
        let status = unsafe {
            (self.functions.read)(
                file.handle as *mut c_void,
                base as usize as *mut c_void,
                &raw mut (*ask).size,
                &raw mut (*ask).from,
                &raw mut (*ask).at,
                &raw mut (*ask).found,
                stream.as_raw(),
            )
        };
        check("cuFileReadAsync", &status)
    }
}
