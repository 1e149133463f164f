// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies, and memory that is filled.

use std::ffi::c_uint;

use crate::call::{self, Call};
use crate::status::{Result, Status};
use crate::sys::args::{functions, In, StreamOf};
use crate::transfer::{End, Filling, Transfer};

fn copy(to: End, from: End, length: usize, stream: StreamOf, is_synchronous: bool) -> Result<()> {
    let target = stream.target()?;
    call::copy(
        &target,
        Transfer::plain(to, from, length as u64),
        is_synchronous,
    )
}

/// `CUDA_MEMCPY2D`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Copy2d {
    from_x: usize,
    from_y: usize,
    from_kind: c_uint,
    from_host: u64,
    from_device: u64,
    from_array: u64,
    from_pitch: usize,
    to_x: usize,
    to_y: usize,
    to_kind: c_uint,
    to_host: u64,
    to_device: u64,
    to_array: u64,
    to_pitch: usize,
    width: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Copy3d {
    from: [usize; 4],
    from_kind: c_uint,
    from_host: u64,
    from_device: u64,
    from_array: u64,
    from_reserved: u64,
    from_pitch: usize,
    from_height: usize,
    to: [usize; 4],
    to_kind: c_uint,
    to_host: u64,
    to_device: u64,
    to_array: u64,
    to_reserved: u64,
    to_pitch: usize,
    to_height: usize,
    width: usize,
    height: usize,
    depth: usize,
}

/// An end of a copy by its kind, `skip` bytes behind its address.
fn end(kind: c_uint, host: u64, device: u64, skip: u64) -> Result<End> {
    match kind {
        1 => Ok(End::Host(host.wrapping_add(skip))),
        2 => Ok(End::Device(device.wrapping_add(skip))),
        4 => Ok(End::Unified(device.wrapping_add(skip))),
        // Arrays.
        3 => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Bytes before the first one of a copy.
fn skip(x: usize, y: usize, pitch: usize) -> Result<u64> {
    let skip = y.checked_mul(pitch).and_then(|rows| rows.checked_add(x));
    skip.map(|skip| skip as u64).ok_or(Status::INVALID_VALUE)
}

/// The bytes from row to row: those of a row, unless it is said.
fn pitch(pitch: usize, width: usize) -> u64 {
    match pitch {
        0 => width as u64,
        pitch => pitch as u64,
    }
}

impl Copy2d {
    fn transfer(&self) -> Result<Transfer> {
        let to = skip(self.to_x, self.to_y, self.to_pitch)?;
        let from = skip(self.from_x, self.from_y, self.from_pitch)?;
        Ok(Transfer {
            to: end(self.to_kind, self.to_host, self.to_device, to)?,
            from: end(self.from_kind, self.from_host, self.from_device, from)?,
            to_pitch: pitch(self.to_pitch, self.width),
            from_pitch: pitch(self.from_pitch, self.width),
            width: self.width as u64,
            height: self.height as u64,
        })
    }
}

impl Copy3d {
    /// Of one layer; more are not supported.
    pub(super) fn transfer(&self) -> Result<Transfer> {
        if self.depth > 1 || self.to[2] > 0 || self.from[2] > 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        let height = if self.depth == 0 { 0 } else { self.height };
        let flat = Copy2d {
            from_x: self.from[0],
            from_y: self.from[1],
            from_kind: self.from_kind,
            from_host: self.from_host,
            from_device: self.from_device,
            from_array: self.from_array,
            from_pitch: self.from_pitch,
            to_x: self.to[0],
            to_y: self.to[1],
            to_kind: self.to_kind,
            to_host: self.to_host,
            to_device: self.to_device,
            to_array: self.to_array,
            to_pitch: self.to_pitch,
            width: self.width,
            height,
        };
        flat.transfer()
    }
}

fn copy_2d(parameters: In<Copy2d>, stream: StreamOf, is_synchronous: bool) -> Result<()> {
    let target = stream.target()?;
    call::copy(&target, parameters.get()?.transfer()?, is_synchronous)
}

/// Fills `width` values of `unit` bytes.
fn fill(to: u64, value: u32, unit: u64, width: usize, stream: StreamOf) -> Result<()> {
    fill_rows(
        to,
        (width as u64).saturating_mul(unit),
        value,
        unit,
        [width, 1],
        stream,
    )
}

fn fill_rows(
    to: u64,
    pitch: u64,
    value: u32,
    unit: u64,
    [width, height]: [usize; 2],
    stream: StreamOf,
) -> Result<()> {
    let filling = Filling {
        to,
        value,
        unit,
        pitch,
        width: width as u64,
        height: height as u64,
    };
    call::run(&stream.target()?, Call::Fill(filling))
}

/// Declares the synchronous functions with a legacy default stream, those with one per thread, and
/// the asynchronous ones.
macro_rules! copies {
    ($([$name:ident $per_thread:ident $later:ident $later_per_thread:ident] ($to:ident $from:ident);)*
        rest { $($rest:tt)* }) => {
        functions! {
            $(
                $name(to: u64, from: u64, length: usize) {
                    copy(End::$to(to), End::$from(from), length, StreamOf::LEGACY, true)
                }

                $per_thread(to: u64, from: u64, length: usize) {
                    copy(End::$to(to), End::$from(from), length, StreamOf::PER_THREAD, true)
                }

                [$later $later_per_thread](to: u64, from: u64, length: usize, stream: StreamOf) {
                    copy(End::$to(to), End::$from(from), length, stream, false)
                }
            )*
            $($rest)*
        }
    };
}

copies! {
    [cuMemcpy cuMemcpy_ptds cuMemcpyAsync cuMemcpyAsync_ptsz] (Unified Unified);
    [cuMemcpyHtoD_v2 cuMemcpyHtoD_v2_ptds cuMemcpyHtoDAsync_v2 cuMemcpyHtoDAsync_v2_ptsz]
        (Device Host);
    [cuMemcpyDtoH_v2 cuMemcpyDtoH_v2_ptds cuMemcpyDtoHAsync_v2 cuMemcpyDtoHAsync_v2_ptsz]
        (Host Device);
    [cuMemcpyDtoD_v2 cuMemcpyDtoD_v2_ptds cuMemcpyDtoDAsync_v2 cuMemcpyDtoDAsync_v2_ptsz]
        (Device Device);
    rest {
        cuMemcpy2D_v2(parameters: In<Copy2d>) {
            copy_2d(parameters, StreamOf::LEGACY, true)
        }

        cuMemcpy2D_v2_ptds(parameters: In<Copy2d>) {
            copy_2d(parameters, StreamOf::PER_THREAD, true)
        }

        cuMemcpy2DUnaligned_v2(parameters: In<Copy2d>) {
            copy_2d(parameters, StreamOf::LEGACY, true)
        }

        cuMemcpy2DUnaligned_v2_ptds(parameters: In<Copy2d>) {
            copy_2d(parameters, StreamOf::PER_THREAD, true)
        }

        [cuMemcpy2DAsync_v2 cuMemcpy2DAsync_v2_ptsz](parameters: In<Copy2d>, stream: StreamOf) {
            copy_2d(parameters, stream, false)
        }

        cuMemsetD8_v2(to: u64, value: u8, count: usize) {
            fill(to, value.into(), 1, count, StreamOf::LEGACY)
        }

        cuMemsetD8_v2_ptds(to: u64, value: u8, count: usize) {
            fill(to, value.into(), 1, count, StreamOf::PER_THREAD)
        }

        [cuMemsetD8Async cuMemsetD8Async_ptsz](to: u64, value: u8, count: usize, stream: StreamOf) {
            fill(to, value.into(), 1, count, stream)
        }

        cuMemsetD16_v2(to: u64, value: u16, count: usize) {
            fill(to, value.into(), 2, count, StreamOf::LEGACY)
        }

        cuMemsetD16_v2_ptds(to: u64, value: u16, count: usize) {
            fill(to, value.into(), 2, count, StreamOf::PER_THREAD)
        }

        [cuMemsetD16Async cuMemsetD16Async_ptsz](
            to: u64, value: u16, count: usize, stream: StreamOf
        ) {
            fill(to, value.into(), 2, count, stream)
        }

        cuMemsetD32_v2(to: u64, value: c_uint, count: usize) {
            fill(to, value, 4, count, StreamOf::LEGACY)
        }

        cuMemsetD32_v2_ptds(to: u64, value: c_uint, count: usize) {
            fill(to, value, 4, count, StreamOf::PER_THREAD)
        }

        [cuMemsetD32Async cuMemsetD32Async_ptsz](
            to: u64, value: c_uint, count: usize, stream: StreamOf
        ) {
            fill(to, value, 4, count, stream)
        }

        [cuMemsetD2D8Async cuMemsetD2D8Async_ptsz](
            to: u64, pitch: usize, value: u8, width: usize, height: usize, stream: StreamOf
        ) {
            fill_rows(to, pitch as u64, value.into(), 1, [width, height], stream)
        }

        [cuMemsetD2D32Async cuMemsetD2D32Async_ptsz](
            to: u64, pitch: usize, value: c_uint, width: usize, height: usize, stream: StreamOf
        ) {
            fill_rows(to, pitch as u64, value, 4, [width, height], stream)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// Places of fields.
    macro_rules! offsets {
        ($type:ty: $($field:ident)*) => { [$(offset_of!($type, $field)),*] };
    }

    #[test]
    fn structures_are_those_of_the_header() {
        assert_eq!((size_of::<Copy2d>(), size_of::<Copy3d>()), (128, 200));
        assert_eq!(
            offsets!(Copy2d: from_x from_y from_kind from_host from_device from_array from_pitch),
            [0, 8, 16, 24, 32, 40, 48]
        );
        assert_eq!(
            offsets!(Copy2d: to_x to_y to_kind to_host to_device to_array to_pitch width height),
            [56, 64, 72, 80, 88, 96, 104, 112, 120]
        );
        assert_eq!(
            offsets!(Copy3d: from from_kind from_host from_device from_array from_reserved
                from_pitch from_height),
            [0, 32, 40, 48, 56, 64, 72, 80]
        );
        assert_eq!(
            offsets!(Copy3d: to to_kind to_host to_device to_array to_reserved to_pitch to_height
                width height depth),
            [88, 120, 128, 136, 144, 152, 160, 168, 176, 184, 192]
        );
    }

    #[test]
    fn ends_are_told_by_kind() {
        assert_eq!(end(1, 10, 20, 3), Ok(End::Host(13)));
        assert_eq!(end(2, 10, 20, 3), Ok(End::Device(23)));
        assert_eq!(end(4, 10, 20, 3), Ok(End::Unified(23)));
        assert_eq!(end(3, 10, 20, 3), Err(Status::NOT_SUPPORTED));
        assert_eq!(end(0, 10, 20, 3), Err(Status::INVALID_VALUE));
        assert_eq!(skip(5, 2, 10), Ok(25));
        assert_eq!(skip(5, usize::MAX, 2), Err(Status::INVALID_VALUE));
    }
}
