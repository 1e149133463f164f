// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts: those that programs make, and the primary one of each device.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use crate::capture;
use crate::driver::{self, driver, Primary};
use crate::status::{Result, Status};
use crate::stream;
use crate::sys::args::{functions, Handle, In, Out};

/// All flags of a context.
const FLAGS: c_uint = 0xff;
/// Of those that say how to wait, one at a time.
const SCHEDULING: c_uint = 7;
/// The version of the interface that contexts have.
const FORM: c_uint = 3_020;

fn check_flags(flags: c_uint) -> Result<()> {
    match flags & !FLAGS == 0 && (flags & SCHEDULING).count_ones() <= 1 {
        true => Ok(()),
        false => Err(Status::INVALID_VALUE),
    }
}

fn create(context: Out<Handle>, flags: c_uint, device: c_int) -> Result<()> {
    let driver = driver()?;
    context.check()?;
    check_flags(flags)?;
    let device = driver.device(device)?;
    let new = driver.create_context(device.number, flags)?;
    context.set(new.handle)?;
    driver::push(new);
    Ok(())
}

fn destroy(context: Handle) -> Result<()> {
    let driver = driver()?;
    let context = driver.context(context)?;
    let is_it = |primary: &Primary| {
        let own = primary.context.as_ref();
        own.is_some_and(|primary| primary.handle == context.handle)
    };
    if driver.primaries().values().any(is_it) {
        return Err(Status::INVALID_CONTEXT);
    }
    driver.destroy_context(&context);
    Ok(())
}

fn pop(context: Out<Handle>) -> Result<()> {
    driver()?;
    let popped = driver::pop().ok_or(Status::INVALID_CONTEXT)?;
    context.set_if_wanted(popped.handle);
    Ok(())
}

fn push(context: Handle) -> Result<()> {
    driver::push(driver()?.context(context)?);
    Ok(())
}

/// Gives a primary context back once, and ends it the last time. `is_reset`: ends it at once, and
/// gives nothing back.
fn release(device: c_int, is_reset: bool) -> Result<()> {
    let driver = driver()?;
    let device = driver.device(device)?.number;
    let mut primaries = driver.primaries();
    let primary = primaries.entry(device).or_default();
    match primary.count {
        _ if is_reset => {}
        0 => return Err(Status::INVALID_CONTEXT),
        _ => primary.count -= 1,
    }
    let is_over = is_reset || primary.count == 0;
    let last = is_over.then(|| primary.context.take()).flatten();
    drop(primaries);
    if let Some(context) = last {
        driver.destroy_context(&context);
    }
    Ok(())
}

fn set_primary_flags(device: c_int, flags: c_uint) -> Result<()> {
    let driver = driver()?;
    let device = driver.device(device)?.number;
    check_flags(flags)?;
    let mut primaries = driver.primaries();
    let primary = primaries.entry(device).or_default();
    primary.flags = flags;
    if let Some(context) = &primary.context {
        context.flags.store(flags, Ordering::Relaxed);
    }
    Ok(())
}

functions! {
    cuCtxCreate_v2(context: Out<Handle>, flags: c_uint, device: c_int) {
        create(context, flags, device)
    }

    cuCtxCreate_v3(
        context: Out<Handle>, affinity: In<c_void>, count: c_int, flags: c_uint, device: c_int
    ) {
        let _ = affinity;
        match count {
            0 => create(context, flags, device),
            _ => Err(Status::NOT_SUPPORTED),
        }
    }

    cuCtxCreate_v4(context: Out<Handle>, parameters: In<[u64; 3]>, flags: c_uint, device: c_int) {
        // Null, or a list of affinities with its length, and an address: none of them is there.
        match parameters.get() {
            Ok([0, counts, 0]) if counts as u32 == 0 => create(context, flags, device),
            Err(_) => create(context, flags, device),
            Ok(_) => Err(Status::NOT_SUPPORTED),
        }
    }

    cuCtxDestroy(context: Handle) {
        destroy(context)
    }

    cuCtxDestroy_v2(context: Handle) {
        destroy(context)
    }

    cuCtxPushCurrent(context: Handle) {
        push(context)
    }

    cuCtxPushCurrent_v2(context: Handle) {
        push(context)
    }

    cuCtxPopCurrent(context: Out<Handle>) {
        pop(context)
    }

    cuCtxPopCurrent_v2(context: Out<Handle>) {
        pop(context)
    }

    cuCtxSetCurrent(context: Handle) {
        let driver = driver()?;
        let new = match context {
            0 => None,
            handle => Some(driver.context(handle)?),
        };
        driver::pop();
        if let Some(new) = new {
            driver::push(new);
        }
        Ok(())
    }

    cuCtxGetCurrent(context: Out<Handle>) {
        driver()?;
        context.set(driver::top().map_or(0, |top| top.handle))
    }

    cuCtxGetDevice(device: Out<c_int>) {
        device.set(driver::current()?.device as c_int)
    }

    cuCtxSynchronize() {
        let context = driver::current()?;
        capture::refuse_all(&context)?;
        context.synchronize()
    }

    cuCtxGetFlags(flags: Out<c_uint>) {
        flags.set(driver::current()?.flags.load(Ordering::Relaxed))
    }

    cuCtxSetFlags(flags: c_uint) {
        let context = driver::current()?;
        check_flags(flags)?;
        context.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    cuCtxGetId(context: Handle, id: Out<u64>) {
        let context = match context {
            0 => driver::current()?,
            handle => driver()?.context(handle)?,
        };
        id.set(context.handle)
    }

    cuCtxGetApiVersion(context: Handle, version: Out<c_uint>) {
        match context {
            0 => driver::current()?,
            handle => driver()?.context(handle)?,
        };
        version.set(FORM)
    }

    cuCtxGetLimit(value: Out<usize>, limit: c_uint) {
        let context = driver::current()?;
        let default: u64 = match limit {
            0 => 1 << 10,
            1 => 1 << 20,
            2 => 8 << 20,
            3 => 2,
            4 => 2_048,
            5 => 64,
            6 => 0,
            _ => return Err(Status::UNSUPPORTED_LIMIT),
        };
        let limits = driver::lock(&context.limits);
        value.set(limits.get(&limit).copied().unwrap_or(default) as usize)
    }

    cuCtxSetLimit(limit: c_uint, value: usize) {
        let context = driver::current()?;
        if limit > 6 {
            return Err(Status::UNSUPPORTED_LIMIT);
        }
        let mut limits = driver::lock(&context.limits);
        limits.insert(limit, value as u64);
        Ok(())
    }

    cuCtxGetCacheConfig(config: Out<c_int>) {
        driver::current()?;
        config.set(0)
    }

    cuCtxSetCacheConfig(config: c_int) {
        driver::current()?;
        match config {
            0..=3 => Ok(()),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) {
        driver::current()?;
        least.set_if_wanted(0);
        greatest.set_if_wanted(stream::GREATEST);
        Ok(())
    }

    cuDevicePrimaryCtxRetain(context: Out<Handle>, device: c_int) {
        let driver = driver()?;
        context.check()?;
        let device = driver.device(device)?.number;
        let mut primaries = driver.primaries();
        let primary = primaries.entry(device).or_default();
        let own = match &primary.context {
            Some(own) => own.clone(),
            None => driver.create_context(device, primary.flags)?,
        };
        primary.count += 1;
        context.set(own.handle)?;
        primary.context = Some(own);
        Ok(())
    }

    cuDevicePrimaryCtxRelease(device: c_int) {
        release(device, false)
    }

    cuDevicePrimaryCtxRelease_v2(device: c_int) {
        release(device, false)
    }

    cuDevicePrimaryCtxReset(device: c_int) {
        release(device, true)
    }

    cuDevicePrimaryCtxReset_v2(device: c_int) {
        release(device, true)
    }

    cuDevicePrimaryCtxSetFlags(device: c_int, flags: c_uint) {
        set_primary_flags(device, flags)
    }

    cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint) {
        set_primary_flags(device, flags)
    }

    cuDevicePrimaryCtxGetState(device: c_int, flags: Out<c_uint>, active: Out<c_int>) {
        let driver = driver()?;
        let device = driver.device(device)?.number;
        let primaries = driver.primaries();
        let primary = primaries.get(&device);
        flags.set(primary.map_or(0, |primary| primary.flags))?;
        active.set(primary.is_some_and(|primary| primary.context.is_some()).into())
    }
}
