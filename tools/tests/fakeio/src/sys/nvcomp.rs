// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of nvCOMP 5 and 6, as their headers declare them.

use std::ffi::c_int;
use std::io::Read as _;

use super::memory::{bytes, bytes_mut};
use crate::{knobs, stream};

const INVALID_VALUE: c_int = 10;
const CANNOT_DECOMPRESS: c_int = 12;
const BATCH_TOO_LARGE: c_int = 21;
const CUDA_ERROR: c_int = 1_000;

#[repr(C)]
struct Properties {
    version: u32,
    cuda: u32,
}

/// Options of any format.
#[repr(C)]
#[derive(Clone, Copy)]
struct Options {
    backend: c_int,
    reserved: [u8; 60],
}

impl Options {
    fn is_default(&self) -> bool {
        self.backend == 0 && self.reserved == [0; 60]
    }
}

#[no_mangle]
unsafe extern "C" fn nvcompGetProperties(properties: *mut Properties) -> c_int {
    if knobs::fails("nvcompGetProperties") {
        return INVALID_VALUE;
    }
    let version = knobs::number("FAKEIO_NVCOMP").unwrap_or(5_300) as u32;
    // SAFETY: Callers have room for it.
    unsafe {
        properties.write(Properties {
            version,
            cuda: 12_080,
        })
    };
    0
}

/// Unpacks a piece; the number of bytes.
type Unpack = fn(&[u8], &mut [u8]) -> Option<usize>;

fn zstd(from: &[u8], to: &mut [u8]) -> Option<usize> {
    zstd::bulk::decompress_to_buffer(from, to).ok()
}

fn gzip(from: &[u8], to: &mut [u8]) -> Option<usize> {
    let mut all = Vec::new();
    flate2::read::GzDecoder::new(from)
        .read_to_end(&mut all)
        .ok()?;
    to.get_mut(..all.len())?.copy_from_slice(&all);
    Some(all.len())
}

fn lz4(from: &[u8], to: &mut [u8]) -> Option<usize> {
    let (packed, room) = (from.len().try_into().ok()?, to.len().try_into().ok()?);
    // SAFETY: Both have so many bytes.
    let found = unsafe {
        lz4_sys::LZ4_decompress_safe(from.as_ptr().cast(), to.as_mut_ptr().cast(), packed, room)
    };
    usize::try_from(found).ok()
}

/// The arrays of a batch, in memory of the GPU.
#[derive(Clone, Copy)]
struct Arrays {
    from: u64,
    from_bytes: u64,
    room: u64,
    found: u64,
    count: usize,
    to: u64,
    status: u64,
}

/// A number of an array in memory of the GPU.
fn at(array: u64, place: usize) -> Option<u64> {
    // SAFETY: The stream does one thing after another.
    let bytes = unsafe { bytes(array + 8 * place as u64, 8) }?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

fn store(array: u64, place: usize, value: &[u8]) -> Option<()> {
    let address = array + (value.len() * place) as u64;
    // SAFETY: The stream does one thing after another.
    unsafe { bytes_mut(address, value.len()) }?.copy_from_slice(value);
    Some(())
}

impl Arrays {
    /// Unpacks a piece. `None`: an address is not the GPU's.
    fn unpack(&self, place: usize, unpack: Unpack) -> Option<()> {
        let length = |array| usize::try_from(at(array, place)?).ok();
        // SAFETY: The stream does one thing after another.
        let from = unsafe { bytes(at(self.from, place)?, length(self.from_bytes)?) }?;
        // SAFETY: As above.
        let to = unsafe { bytes_mut(at(self.to, place)?, length(self.room)?) }?;
        let (status, found) = match unpack(from, to) {
            Some(found) => (0, found as u64),
            None => (CANNOT_DECOMPRESS, 0),
        };
        store(self.found, place, &found.to_le_bytes())?;
        store(self.status, place, &status.to_le_bytes())
    }
}

fn sized(name: &str, count: usize, longest: usize, options: &Options, room: *mut usize) -> c_int {
    if knobs::fails(name) {
        return CUDA_ERROR;
    }
    if count > 65_535 {
        return BATCH_TOO_LARGE;
    }
    if !options.is_default() || room.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: Callers have room for it.
    unsafe { room.write(64 * count + longest) };
    0
}

/// Declares the functions of a format.
macro_rules! packing {
    ($sized:ident, $sized_of_six:ident, $unpack:ident, $by:ident) => {
        #[no_mangle]
        unsafe extern "C" fn $sized(
            count: usize,
            longest: usize,
            options: Options,
            room: *mut usize,
            total: usize,
        ) -> c_int {
            if total < longest {
                return INVALID_VALUE;
            }
            sized(stringify!($sized), count, longest, &options, room)
        }

        #[no_mangle]
        unsafe extern "C" fn $sized_of_six(
            count: usize,
            longest: usize,
            options: Options,
            room: *mut usize,
            total: usize,
            stream: usize,
        ) -> c_int {
            if total < longest || stream::find(stream).is_none() {
                return INVALID_VALUE;
            }
            sized(stringify!($sized_of_six), count, longest, &options, room)
        }

        #[no_mangle]
        #[allow(clippy::too_many_arguments)]
        unsafe extern "C" fn $unpack(
            from: u64,
            from_bytes: u64,
            room: u64,
            found: u64,
            count: usize,
            temporary: u64,
            temporary_bytes: usize,
            to: u64,
            options: Options,
            status: u64,
            stream: usize,
        ) -> c_int {
            let is_there = super::memory::has(temporary, temporary_bytes) && temporary % 8 == 0;
            if !is_there || !options.is_default() || temporary_bytes < 64 * count {
                return INVALID_VALUE;
            }
            let arrays = Arrays {
                from,
                from_bytes,
                room,
                found,
                count,
                to,
                status,
            };
            run(stringify!($unpack), stream, arrays, $by)
        }
    };
}

fn run(name: &str, stream: usize, arrays: Arrays, unpack: Unpack) -> c_int {
    if knobs::fails(name) {
        return CUDA_ERROR;
    }
    let Some(stream) = stream::find(stream) else {
        return CUDA_ERROR;
    };
    stream.give(move || {
        for place in 0..arrays.count {
            // A piece without a place has no status.
            let _ = arrays.unpack(place, unpack);
        }
    });
    0
}

packing!(
    nvcompBatchedZstdDecompressGetTempSizeAsync,
    nvcompBatchedZstdDecompressGetTempSize,
    nvcompBatchedZstdDecompressAsync,
    zstd
);
packing!(
    nvcompBatchedGzipDecompressGetTempSizeAsync,
    nvcompBatchedGzipDecompressGetTempSize,
    nvcompBatchedGzipDecompressAsync,
    gzip
);
packing!(
    nvcompBatchedLZ4DecompressGetTempSizeAsync,
    nvcompBatchedLZ4DecompressGetTempSize,
    nvcompBatchedLZ4DecompressAsync,
    lz4
);
