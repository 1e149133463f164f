// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams.

use std::ffi::{c_int, c_uint};

use crate::call::{self, Call};
use crate::capture;
use crate::driver::{self, driver, PER_THREAD_HANDLE};
use crate::status::{Result, Status};
use crate::sys::args::{functions, Handle, Out, StreamOf};

fn create(stream: Out<Handle>, flags: c_uint, priority: c_int) -> Result<()> {
    let context = driver::current()?;
    stream.check()?;
    stream.set(driver()?.create_stream(&context, flags, priority)?)
}

fn destroy(stream: Handle) -> Result<()> {
    let driver = driver()?;
    if stream > PER_THREAD_HANDLE {
        capture::refuse(&driver.target(stream)?)?;
    }
    driver.destroy_stream(stream)
}

/// Flags and priority; those of default streams are 0.
fn form(stream: StreamOf) -> Result<(c_uint, c_int)> {
    stream.target()?;
    match stream.0 {
        0..=PER_THREAD_HANDLE => Ok((0, 0)),
        handle => driver()?
            .stream(handle)
            .map(|stream| (stream.flags, stream.priority)),
    }
}

functions! {
    cuStreamCreate(stream: Out<Handle>, flags: c_uint) {
        create(stream, flags, 0)
    }

    cuStreamCreateWithPriority(stream: Out<Handle>, flags: c_uint, priority: c_int) {
        create(stream, flags, priority)
    }

    cuStreamDestroy(stream: Handle) {
        destroy(stream)
    }

    cuStreamDestroy_v2(stream: Handle) {
        destroy(stream)
    }

    [cuStreamSynchronize cuStreamSynchronize_ptsz](stream: StreamOf) {
        let target = stream.target()?;
        capture::refuse(&target)?;
        target.context.wait(&target.context.point(target.number)?)
    }

    [cuStreamQuery cuStreamQuery_ptsz](stream: StreamOf) {
        let target = stream.target()?;
        capture::refuse(&target)?;
        match target.context.has_passed(&target.context.point(target.number)?)? {
            true => Ok(()),
            false => Err(Status::NOT_READY),
        }
    }

    [cuStreamWaitEvent cuStreamWaitEvent_ptsz](stream: StreamOf, event: Handle, flags: c_uint) {
        let target = stream.target()?;
        let event = driver()?.event(event)?;
        if flags > 1 {
            return Err(Status::INVALID_VALUE);
        }
        let is_external = flags == 1 && capture::info(&target).is_some();
        if is_external || !capture::wait(&target, &event)? {
            call::run(&target, Call::Await(event))?;
        }
        Ok(())
    }

    [cuStreamGetCtx cuStreamGetCtx_ptsz](stream: StreamOf, context: Out<Handle>) {
        context.set(stream.target()?.context.handle)
    }

    [cuStreamGetCtx_v2 cuStreamGetCtx_v2_ptsz](
        stream: StreamOf, context: Out<Handle>, green: Out<Handle>
    ) {
        green.set_if_wanted(0);
        context.set(stream.target()?.context.handle)
    }

    [cuStreamGetFlags cuStreamGetFlags_ptsz](stream: StreamOf, flags: Out<c_uint>) {
        flags.set(form(stream)?.0)
    }

    [cuStreamGetPriority cuStreamGetPriority_ptsz](stream: StreamOf, priority: Out<c_int>) {
        priority.set(form(stream)?.1)
    }

    [cuStreamGetId cuStreamGetId_ptsz](stream: StreamOf, id: Out<u64>) {
        id.set(stream.target()?.number)
    }

    [cuStreamGetDevice cuStreamGetDevice_ptsz](stream: StreamOf, device: Out<c_int>) {
        device.set(stream.target()?.context.device as c_int)
    }
}
