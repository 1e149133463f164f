// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of devices and of the host, and questions about addresses.

use std::ffi::{c_int, c_uint, c_void};

use crate::call::{self, Call};
use crate::capture;
use crate::context::Context;
use crate::driver::{self, driver};
use crate::knobs::knobs;
use crate::space::{Kind, Owner, Range};
use crate::status::{Result, Status};
use crate::sys::args::{functions, In, Out, StreamOf};

/// Flags of `cuMemHostAlloc`.
const ALLOC_FLAGS: c_uint = 7;
/// Flags of `cuMemHostRegister`.
const REGISTER_FLAGS: c_uint = 15;
/// `CU_MEMHOSTREGISTER_IOMEMORY`, `CU_MEMHOSTREGISTER_READ_ONLY`: not here.
const NOT_HERE: c_uint = 4 | 8;

fn owner(context: &Context) -> Owner {
    Owner {
        context: context.handle,
        device: context.device,
    }
}

fn allocate_host(address: Out<u64>, length: usize, flags: c_uint) -> Result<()> {
    let context = driver::current()?;
    address.check()?;
    capture::refuse_unsafe()?;
    if flags & !ALLOC_FLAGS != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let range = driver::space().allocate_host(owner(&context), length as u64, flags)?;
    address.set(range.base)
}

/// Waits for all work of the context of a range, holders included, before the range ends.
fn stall(range: &Range) -> Result<()> {
    let context = driver()?.context(range.context)?;
    context.status()?;
    capture::refuse_all(&context)?;
    context.synchronize()
}

/// Ends a range that begins at an address.
fn free(base: u64, kind: Kind) -> Result<()> {
    driver::current()?;
    let range = driver::space().find(base, 1)?;
    if range.base != base || range.kind != kind {
        return Err(Status::INVALID_VALUE);
    }
    stall(&range)?;
    driver::space().remove(base, kind)?;
    driver()?.take_back(range.id);
    Ok(())
}

fn register(host: u64, length: usize, flags: c_uint) -> Result<()> {
    let context = driver::current()?;
    if flags & !REGISTER_FLAGS != 0 {
        return Err(Status::INVALID_VALUE);
    }
    if flags & NOT_HERE != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    let range = driver::space().register(owner(&context), host, length as u64, flags)?;
    let offered = context.gpu.offer(&range);
    if offered.is_err() {
        driver::space().remove(range.base, Kind::Registered)?;
    }
    offered
}

fn unregister(host: u64) -> Result<()> {
    driver::current()?;
    let range = driver::space().find_host(host);
    let is_it = |range: &Range| range.host == host && range.kind == Kind::Registered;
    let range = range.ok().filter(is_it).ok_or(Status::NOT_REGISTERED)?;
    stall(&range)?;
    driver::space().remove(range.base, Kind::Registered)?;
    driver()?.take_back(range.id);
    Ok(())
}

/// The range of an address of either side.
fn range_of(address: u64) -> Result<(Range, u64)> {
    let space = driver::space();
    let seen = space
        .find(address, 1)
        .map(|range| (range, address - range.base));
    seen.or_else(|_| {
        space
            .find_host(address)
            .map(|range| (range, address - range.host))
    })
}

/// Stores an attribute of an address at `place`; which type that is follows from the attribute.
fn attribute(place: Out<c_void>, attribute: c_int, address: u64) -> Result<()> {
    let (range, offset) = range_of(address)?;
    let is_device = range.kind == Kind::Device;
    match attribute {
        1 => place.cast::<u64>().set(range.context),
        2 => place.cast::<c_uint>().set(if is_device { 2 } else { 1 }),
        3 => place.cast::<u64>().set(range.base + offset),
        4 if is_device => Err(Status::INVALID_VALUE),
        4 => place.cast::<u64>().set(range.host + offset),
        6 => place.cast::<c_int>().set(1),
        7 => place.cast::<u64>().set(range.id),
        8 => place.cast::<c_uint>().set(0),
        9 => place.cast::<c_int>().set(range.device as c_int),
        11 => place.cast::<u64>().set(range.base),
        12 => place.cast::<usize>().set(range.length as usize),
        13 => place.cast::<c_uint>().set(1),
        10 | 14 | 15 | 17 => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// The value of an attribute of an address that is none of CUDA's.
fn no_attribute(place: Out<c_void>, attribute: c_int) -> Result<()> {
    match attribute {
        2 | 8 | 13 => place.cast::<c_uint>().set(0),
        9 => place.cast::<c_int>().set(-2),
        1 | 3 | 4 | 7 | 11 => place.cast::<u64>().set(0),
        12 => place.cast::<usize>().set(0),
        _ => Err(Status::INVALID_VALUE),
    }
}

functions! {
    cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let context = driver::current()?;
        total.check()?;
        let used = driver::space().used(context.device);
        free.set(knobs().memory.saturating_sub(used) as usize)?;
        total.set(knobs().memory as usize)
    }

    cuMemAlloc_v2(address: Out<u64>, length: usize) {
        let context = driver::current()?;
        address.check()?;
        capture::refuse_unsafe()?;
        let length = length as u64;
        let range = driver::space().allocate(owner(&context), length, knobs().memory)?;
        address.set(range.base)
    }

    cuMemAllocPitch_v2(
        address: Out<u64>, pitch: Out<usize>, width: usize, height: usize, unit: c_uint
    ) {
        let context = driver::current()?;
        address.check()?;
        pitch.check()?;
        capture::refuse_unsafe()?;
        if ![4, 8, 16].contains(&unit) {
            return Err(Status::INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(512).ok_or(Status::OUT_OF_MEMORY)?;
        let length = row.checked_mul(height).ok_or(Status::OUT_OF_MEMORY)? as u64;
        let range = driver::space().allocate(owner(&context), length, knobs().memory)?;
        pitch.set(row)?;
        address.set(range.base)
    }

    cuMemFree_v2(address: u64) {
        match address {
            0 => driver::current().map(|_| ()),
            base => free(base, Kind::Device),
        }
    }

    [cuMemAllocAsync cuMemAllocAsync_ptsz](address: Out<u64>, length: usize, stream: StreamOf) {
        let target = stream.target()?;
        address.check()?;
        capture::refuse(&target)?;
        let length = length as u64;
        let range = driver::space().allocate(owner(&target.context), length, knobs().memory)?;
        address.set(range.base)
    }

    [cuMemFreeAsync cuMemFreeAsync_ptsz](address: u64, stream: StreamOf) {
        let target = stream.target()?;
        let range = driver::space().find(address, 1)?;
        if range.base != address || range.kind != Kind::Device {
            return Err(Status::INVALID_VALUE);
        }
        call::run(&target, Call::Free(address))
    }

    cuMemAllocHost_v2(address: Out<u64>, length: usize) {
        allocate_host(address, length, 0)
    }

    cuMemHostAlloc(address: Out<u64>, length: usize, flags: c_uint) {
        allocate_host(address, length, flags)
    }

    cuMemFreeHost(host: u64) {
        match host {
            0 => driver::current().map(|_| ()),
            base => free(base, Kind::Pinned),
        }
    }

    cuMemHostRegister_v2(host: u64, length: usize, flags: c_uint) {
        register(host, length, flags)
    }

    cuMemHostRegister(host: u64, length: usize, flags: c_uint) {
        register(host, length, flags)
    }

    cuMemHostUnregister(host: u64) {
        unregister(host)
    }

    cuMemHostGetDevicePointer_v2(address: Out<u64>, host: u64, flags: c_uint) {
        driver::current()?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let range = driver::space().find_host(host)?;
        address.set(range.base + (host - range.host))
    }

    cuMemHostGetFlags(flags: Out<c_uint>, host: u64) {
        driver::current()?;
        flags.set(driver::space().find_host(host)?.flags)
    }

    cuMemGetAddressRange_v2(base: Out<u64>, length: Out<usize>, address: u64) {
        driver::current()?;
        let range = driver::space().find(address, 1);
        let range = range.map_err(|_| Status::NOT_FOUND)?;
        base.set_if_wanted(range.base);
        length.set_if_wanted(range.length as usize);
        Ok(())
    }

    cuPointerGetAttribute(place: Out<c_void>, attribute: c_int, address: u64) {
        driver::current()?;
        place.check()?;
        self::attribute(place, attribute, address)
    }

    cuPointerGetAttributes(
        count: c_uint, attributes: In<c_int>, places: In<Out<c_void>>, address: u64
    ) {
        driver::current()?;
        let attributes = attributes.list(count as usize)?;
        for (attribute, place) in attributes.into_iter().zip(places.list(count as usize)?) {
            place.check()?;
            match range_of(address) {
                Ok(_) => self::attribute(place, attribute, address)?,
                Err(_) => no_attribute(place, attribute)?,
            }
        }
        Ok(())
    }

    cuPointerSetAttribute(value: In<c_void>, attribute: c_int, address: u64) {
        let _ = value;
        driver::current()?;
        range_of(address)?;
        // Synchronous memory operations always are.
        match attribute {
            6 => Ok(()),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}
