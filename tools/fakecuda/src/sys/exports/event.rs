// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events.

use std::ffi::c_uint;
use std::sync::Arc;

use crate::call::{self, Call};
use crate::capture;
use crate::driver::{self, driver, Object};
use crate::event::{Event, DISABLE_TIMING};
use crate::status::{Result, Status};
use crate::sys::args::{functions, Handle, Out, StreamOf};

/// `CU_EVENT_INTERPROCESS`.
const INTERPROCESS: c_uint = 4;
/// All flags.
const FLAGS: c_uint = 7;

fn record(event: Handle, stream: StreamOf, is_external: bool) -> Result<()> {
    let target = stream.target()?;
    let event = driver()?.event(event)?;
    if is_external && capture::info(&target).is_some() {
        return call::run(&target, Call::Record(event));
    }
    match capture::record(&target, &event)? {
        true => Ok(()),
        false => event.record(&target),
    }
}

fn destroy(handle: Handle) -> Result<()> {
    let driver = driver()?;
    driver.event(handle)?;
    driver.remove(handle);
    Ok(())
}

fn elapsed(time: Out<f32>, start: Handle, end: Handle) -> Result<()> {
    let driver = driver()?;
    let (start, end) = (driver.event(start)?, driver.event(end)?);
    time.check()?;
    time.set(start.elapsed(&end)?)
}

functions! {
    cuEventCreate(event: Out<Handle>, flags: c_uint) {
        let context = driver::current()?;
        event.check()?;
        match flags & (INTERPROCESS | DISABLE_TIMING) {
            _ if flags & !FLAGS != 0 => return Err(Status::INVALID_VALUE),
            INTERPROCESS => return Err(Status::INVALID_VALUE),
            _ if flags & INTERPROCESS != 0 => return Err(Status::NOT_SUPPORTED),
            _ => {}
        }
        let driver = driver()?;
        let handle = driver.new_handle();
        driver.insert(handle, Object::Event(Arc::new(Event::new(context, flags))));
        event.set(handle)
    }

    cuEventDestroy(event: Handle) {
        destroy(event)
    }

    cuEventDestroy_v2(event: Handle) {
        destroy(event)
    }

    [cuEventRecord cuEventRecord_ptsz](event: Handle, stream: StreamOf) {
        record(event, stream, false)
    }

    [cuEventRecordWithFlags cuEventRecordWithFlags_ptsz](
        event: Handle, stream: StreamOf, flags: c_uint
    ) {
        match flags {
            0 | 1 => record(event, stream, flags == 1),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    cuEventQuery(event: Handle) {
        match driver()?.event(event)?.has_passed()? {
            true => Ok(()),
            false => Err(Status::NOT_READY),
        }
    }

    cuEventSynchronize(event: Handle) {
        driver()?.event(event)?.wait()
    }

    cuEventElapsedTime(time: Out<f32>, start: Handle, end: Handle) {
        elapsed(time, start, end)
    }

    cuEventElapsedTime_v2(time: Out<f32>, start: Handle, end: Handle) {
        elapsed(time, start, end)
    }
}
