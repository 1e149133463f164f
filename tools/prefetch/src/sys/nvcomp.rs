// SPDX-License-Identifier: MIT OR Apache-2.0
//! nvCOMP 5 and 6: unpacks a batch of pieces on the GPU. Functions of other versions have the same names
//! and take other arguments: they are refused.

use std::ffi::{c_int, c_void};
use std::path::Path;

use cuda::{Entered, Library, Memory, Stream};

use crate::gpu::{Part, Room};
use crate::layout::Method;

/// The library, by the names that its interfaces have, the latest first.
pub const LIBRARIES: [&str; 2] = ["libnvcomp.so.6", "libnvcomp.so.5"];

/// `nvcompProperties_t`.
#[repr(C)]
#[derive(Default)]
struct Properties {
    version: u32,
    _cuda: u32,
}

/// The options of a format (`nvcompBatchedZstdDecompressOpts_t` and others): 64 bytes, of which zeroes
/// stand for the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
struct Options {
    backend: c_int,
    reserved: [u8; 60],
}

const DEFAULTS: Options = Options {
    backend: 0,
    reserved: [0; 60],
};

/// Packed pieces, their bytes, room for each, the bytes that came out, pieces, temporary memory and its
/// bytes, places, options, statuses, stream.
type Unpack = unsafe extern "C" fn(
    u64,
    u64,
    u64,
    u64,
    usize,
    u64,
    usize,
    u64,
    Options,
    u64,
    *mut c_void,
) -> c_int;

cuda::functions! {
    struct Functions;
    properties = "nvcompGetProperties" (*mut Properties) -> c_int;
    zstd = "nvcompBatchedZstdDecompressAsync" (
        u64, u64, u64, u64, usize, u64, usize, u64, Options, u64, *mut c_void
    ) -> c_int;
    gzip = "nvcompBatchedGzipDecompressAsync" (
        u64, u64, u64, u64, usize, u64, usize, u64, Options, u64, *mut c_void
    ) -> c_int;
    lz4 = "nvcompBatchedLZ4DecompressAsync" (
        u64, u64, u64, u64, usize, u64, usize, u64, Options, u64, *mut c_void
    ) -> c_int;
}

/// Temporary memory, by nvCOMP 5: pieces, the bytes of the largest, options, a place for the result, the
/// bytes of all pieces.
mod five {
    use super::{c_int, Options};

    cuda::functions! {
        pub(super) struct Functions;
        zstd = "nvcompBatchedZstdDecompressGetTempSizeAsync" (
            usize, usize, Options, *mut usize, usize
        ) -> c_int;
        gzip = "nvcompBatchedGzipDecompressGetTempSizeAsync" (
            usize, usize, Options, *mut usize, usize
        ) -> c_int;
        lz4 = "nvcompBatchedLZ4DecompressGetTempSizeAsync" (
            usize, usize, Options, *mut usize, usize
        ) -> c_int;
    }
}

/// The same by nvCOMP 6, and a stream.
mod six {
    use super::{c_int, c_void, Options};

    cuda::functions! {
        pub(super) struct Functions;
        zstd = "nvcompBatchedZstdDecompressGetTempSize" (
            usize, usize, Options, *mut usize, usize, *mut c_void
        ) -> c_int;
        gzip = "nvcompBatchedGzipDecompressGetTempSize" (
            usize, usize, Options, *mut usize, usize, *mut c_void
        ) -> c_int;
        lz4 = "nvcompBatchedLZ4DecompressGetTempSize" (
            usize, usize, Options, *mut usize, usize, *mut c_void
        ) -> c_int;
    }
}

/// The functions that are not the same in all versions.
#[derive(Debug)]
enum Version {
    Five(five::Functions),
    Six(six::Functions),
}

/// The library, loaded.
#[derive(Debug)]
pub(crate) struct Nvcomp {
    functions: Functions,
    version: Version,
}

/// A call that failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failed {
    #[error("{0}: nvcompStatus_t {1}")]
    Nvcomp(&'static str, c_int),
    #[error(transparent)]
    Cuda(#[from] cuda::Error),
}

fn check(call: &'static str, status: c_int) -> Result<(), Failed> {
    match status {
        0 => Ok(()),
        status => Err(Failed::Nvcomp(call, status)),
    }
}

fn load(library: &Path) -> Result<Library, String> {
    // SAFETY: The library is NVIDIA's, or one that stands for it; its initialisers are as safe as those
    // of any program that uses it.
    let loaded = unsafe { Library::new(library) };
    loaded.map_err(|error| format!("{} cannot be loaded: {error}", library.display()))
}

impl Nvcomp {
    /// Loads a library. A sentence for people if there is none, or one of another version, or one that
    /// lacks functions.
    pub(crate) fn open(library: &Path) -> Result<Self, String> {
        let shown = library.display();
        let lacking = |absent: Vec<_>| format!("{shown} lacks {}", absent.join(", "));
        let functions = Functions::find(load(library)?).map_err(lacking)?;
        let mut properties = Properties::default();
        // SAFETY: `properties` is valid for writes.
        let status = unsafe { (functions.properties)(&mut properties) };
        check("nvcompGetProperties", status).map_err(|error| error.to_string())?;
        let told = properties.version;
        let version = match told / 1_000 {
            5 => Version::Five(five::Functions::find(load(library)?).map_err(lacking)?),
            6 => Version::Six(six::Functions::find(load(library)?).map_err(lacking)?),
            major => {
                let minor = told % 1_000 / 100;
                return Err(format!(
                    "{shown} is nvCOMP {major}.{minor}; it takes 5 or 6"
                ));
            }
        };
        Ok(Self { functions, version })
    }

    fn unpacker(&self, method: Method) -> Unpack {
        match method {
            Method::Zstd => self.functions.zstd,
            Method::Gzip => self.functions.gzip,
            Method::Lz4 => self.functions.lz4,
        }
    }

    /// Bytes of temporary memory for so many pieces, in a stream. `longest`: bytes of the largest,
    /// unpacked; `all`: of all of them.
    pub(crate) fn temporary(
        &self,
        method: Method,
        count: usize,
        (longest, all): (usize, usize),
        stream: Stream,
    ) -> Result<usize, Failed> {
        let mut found = 0;
        let status = match &self.version {
            Version::Five(functions) => {
                let sized = match method {
                    Method::Zstd => functions.zstd,
                    Method::Gzip => functions.gzip,
                    Method::Lz4 => functions.lz4,
                };
                // SAFETY: `found` is valid for writes; no other address is used.
                unsafe { sized(count, longest, DEFAULTS, &mut found, all) }
            }
            Version::Six(functions) => {
                let sized = match method {
                    Method::Zstd => functions.zstd,
                    Method::Gzip => functions.gzip,
                    Method::Lz4 => functions.lz4,
                };
                // SAFETY: As above; the stream is there.
                unsafe { sized(count, longest, DEFAULTS, &mut found, all, stream.as_raw()) }
            }
        };
        check("DecompressGetTempSize", status).map(|()| found)
    }

    /// Copies pieces to memory, and has a stream unpack them there, as their room says.
    pub(crate) fn unpack(
        &self,
        method: Method,
        (room, parts): (&Room, &[Part<'_>]),
        memory: &Memory,
        entered: &Entered<'_>,
        stream: Stream,
    ) -> Result<(), Failed> {
        assert!(room.bytes() <= memory.length(), "a wave without its room");
        memory.write(entered, stream, 0, &room.image(memory.base(), parts))?;
        let at = |offset: usize| memory.base() + offset as u64;
        let unpack = self.unpacker(method);
        let arrays = room.arrays();
        let (temporary, length) = room.temporary();
        // SAFETY: All arrays, the temporary memory, and each piece are within the memory, and apart from
        // each other, by the invariants of `Room`; the arrays were just written. Pieces that are none of
        // the format's are for the library to tell.
        let status = unsafe {
            unpack(
                at(arrays.from),
                at(arrays.from_bytes),
                at(arrays.room),
                at(arrays.found),
                room.count(),
                at(temporary),
                length,
                at(arrays.to),
                DEFAULTS,
                at(arrays.status),
                stream.as_raw(),
            )
        };
        check("DecompressAsync", status)
    }
}
