// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tenants that try to get a TSG out of sight, or a control past zernel.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use bytemuck::{bytes_of_mut, cast_slice_mut};
use libzernel::{Level, Target};
use testkit::child::in_child;
use testkit::harness::{case, Outcome, Suite};
use testkit::sys::{self, Area};
use testkit::{check_eq, wait_until, Repeat, SOON};

use crate::lab::{agree, faults, set_faults, tune, wait_slice, Lab, LOADED};
use crate::rm::abi::{class, control, engine, escape, Control};
use crate::rm::file::number;
use crate::rm::{runtime, status_of, truth};
use crate::rm::{ControlFile, Error, Form, Handle, Runtime, Status};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.evade",
    &[
        case("freed_as_memory_is_forgotten", freed_as_memory),
        case("client_handle_goes_to_another_file", handle_goes_on),
        case("client_handle_in_a_race", handle_in_a_race),
        case("read_only_parameters", read_only_parameters),
        case("unreadable_parameters_claim_nothing", unreadable_parameters),
        case("handle_moves_during_its_control", moving_handle),
    ],
    LOADED,
);

/// The call for heaps of memory, of which these functions free any object.
const HEAP_CONTROL: u32 = 0x4a;
const HEAP_FREE: u32 = 3;
const HEAP_HW_FREE: u32 = 20;
/// The parameters could not be read, or not be written back.
const INVALID_ADDRESS: Status = Status(0x1e);

/// Frees an object as if it was memory.
fn free_as_memory(
    file: &ControlFile,
    function: u32,
    client: Handle,
    object: Handle,
) -> Result<Status> {
    let mut call = [0u32; 46];
    call[0] = client.0;
    call[2] = function;
    if function == HEAP_HW_FREE {
        call[10] = object.0;
    } else {
        call[11] = object.0;
        // The handle is given.
        call[12] = 1;
    }
    let number = number(HEAP_CONTROL, size_of_val(&call));
    sys::ioctl_bytes(file.as_fd(), number, cast_slice_mut(&mut call)).map_err(Error::Call)?;
    Ok(Status(call[5]))
}

fn freed_as_memory() -> Outcome {
    let lab = Lab::open()?;
    for function in [HEAP_FREE, HEAP_HW_FREE] {
        let runtime = Runtime::open()?;
        let free = |object: Handle| -> Result<()> {
            let status = free_as_memory(&runtime.file, function, runtime.client, object)?;
            check_eq!(status, Status::OK, "{object:?} with function {function}");
            agree()
        };
        let tsg = runtime.compute()?;
        let channel = runtime.channel(tsg)?;
        let other = runtime.compute()?;
        check_eq!(lab.tsg(&runtime, tsg)?.channels, 1);
        free(channel).context("channel")?;
        check_eq!(lab.tsg(&runtime, tsg)?.channels, 0);
        free(tsg).context("TSG")?;
        check_eq!(lab.tsgs()?.len(), 1);
        // An object that is not to be freed stays.
        let refused = free_as_memory(&runtime.file, 99, runtime.client, other)?;
        check_eq!(refused, Status::INVALID_ARGUMENT);
        let stranger = ControlFile::open()?;
        let refused = free_as_memory(&stranger, function, runtime.client, other)?;
        check_eq!(refused, Status::INVALID_CLIENT);
        lab.tsg(&runtime, other).context("the other TSG")?;
        free(runtime.device).context("device")?;
        check_eq!(lab.tsgs()?.len(), 0);
        free(runtime.client).context("client")?;
    }
    Ok(())
}

/// A client with a TSG, whose handle is chosen; or the answer to the choice.
fn client_with_tsg(file: &ControlFile, wish: Handle) -> Result<Option<Handle>> {
    let none = Handle::NONE;
    match file.alloc(Form::USUAL, wish, none, none, class::ROOT, &mut []) {
        Ok(client) => {
            check_eq!(client, wish);
        }
        Err(Error::Status(Status::INSERT_DUPLICATE_NAME)) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let device = runtime::device(file, Form::USUAL, wish, none, 0)?;
    let tsg = runtime::tsg(file, Form::USUAL, wish, device, none, none, engine::GR0)?;
    Ok(Some(tsg))
}

/// The TSG of that client is the only one, can be classed, and then its slice is zernel's.
fn is_under_control(lab: &Lab, file: &ControlFile, client: Handle, tsg: Handle) -> Result<()> {
    let listed = lab.tsgs()?;
    ensure!(listed.len() == 1, "not one TSG: {listed:?}");
    lab.zernel
        .set_class(&Target::Tsg(listed[0].id), Level::BE)?;
    wait_until("the slice of the class", || {
        Ok(truth::tsg(client, tsg)?.slice_us == 200)
    })?;
    in_child(|| {
        sys::become_user(1000, 1000, &[])?;
        let answer = file.control(client, tsg, control::SET_TIMESLICE, 0, &mut 100_000u64);
        check_eq!(status_of(answer)?, Status::INSUFFICIENT_PERMISSIONS);
        Ok(())
    })?;
    check_eq!(truth::tsg(client, tsg)?.slice_us, 200);
    Ok(())
}

/// A client that is freed as memory leaves its handle to others, who must not be hidden by it.
fn handle_goes_on() -> Outcome {
    let lab = Lab::open()?;
    let _started = Runtime::open()?;
    for function in [HEAP_FREE, HEAP_HW_FREE] {
        let first = Runtime::open()?;
        first.compute()?;
        let client = first.client;
        let status = free_as_memory(&first.file, function, client, client)?;
        check_eq!(status, Status::OK);
        let second = ControlFile::open()?;
        let tsg = client_with_tsg(&second, client)?.context("the handle is not free")?;
        agree()?;
        is_under_control(&lab, &second, client, tsg)?;
        // The first file has nothing to say any more.
        let refused = free_as_memory(&first.file, function, client, tsg)?;
        check_eq!(refused, Status::INVALID_CLIENT);
        drop(first);
        agree()?;
        check_eq!(lab.tsgs()?.len(), 1, "after the first file was closed");
        check_eq!(truth::tsg(client, tsg)?.slice_us, 200);
    }
    Ok(())
}

/// As [`client_with_tsg`], as soon as the handle is free.
fn take(file: &ControlFile, wish: Handle) -> Result<Handle> {
    let begin = Instant::now();
    while begin.elapsed() < SOON {
        if let Some(tsg) = client_with_tsg(file, wish)? {
            return Ok(tsg);
        }
    }
    bail!("{wish:?} is not free after {SOON:?}")
}

/// A file takes the handle of a client at the very moment at which another one frees it.
fn handle_in_a_race() -> Outcome {
    const ROUNDS: u64 = 300;
    let lab = Lab::open()?;
    let _started = Runtime::open()?;
    let files = [ControlFile::open()?, ControlFile::open()?];
    let client = files[0].client()?;
    for round in Repeat::new(ROUNDS, "rounds") {
        let (from, to) = if round % 2 == 0 {
            (&files[0], &files[1])
        } else {
            (&files[1], &files[0])
        };
        let function = if round % 4 < 2 {
            HEAP_FREE
        } else {
            HEAP_HW_FREE
        };
        let tsg = std::thread::scope(|scope| -> Result<Handle> {
            let taker = scope.spawn(|| take(to, client));
            let status = free_as_memory(from, function, client, client);
            let tsg = taker.join().expect("a thread that does not panic")?;
            check_eq!(status?, Status::OK);
            Ok(tsg)
        })
        .with_context(|| format!("round {round}"))?;
        agree().with_context(|| format!("round {round}"))?;
        if round % 10 == 9 {
            is_under_control(&lab, to, client, tsg)?;
        }
    }
    Ok(())
}

/// A control whose parameters cannot be written back has its effect, and reports an error.
fn read_only_parameters() -> Outcome {
    tune("user_control", "reapply")?;
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let mut params = Area::new()?;
    params.put(0, &100_000u64.to_ne_bytes());
    params.freeze()?;
    let attempt = |tsg: Handle| -> Result<()> {
        let mut call = Control {
            client: runtime.client.0,
            object: tsg.0,
            cmd: control::SET_TIMESLICE,
            flags: 0,
            params: params.address(0),
            size: 8,
            status: 0,
        };
        let number = number(escape::CONTROL, size_of::<Control>());
        let bytes = bytes_of_mut(&mut call);
        sys::ioctl_bytes(runtime.file.as_fd(), number, bytes).map_err(Error::Call)?;
        check_eq!(Status(call.status), INVALID_ADDRESS);
        Ok(())
    };
    let free = runtime.compute()?;
    attempt(free)?;
    check_eq!(
        truth::tsg(runtime.client, free)?.slice_us,
        100_000,
        "it has its effect"
    );
    let classed = runtime.compute()?;
    lab.class(&runtime, classed, Level::BE)?;
    wait_slice(&runtime, classed, 200)?;
    for _ in 0..5 {
        attempt(classed)?;
        wait_slice(&runtime, classed, 200)?;
    }
    Ok(())
}

/// Calls whose parameters cannot be read, and which name as their own what others have made, the
/// kernel among them.
fn unreadable_parameters() -> Outcome {
    const UNREADABLE: u64 = 8;
    const NEAR: u32 = 32;
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    // From the first level that is set on there is a client of the hook's own.
    lab.class(&runtime, tsg, Level::BE)?;
    lab.quiet()?;
    let file = ControlFile::open()?;
    let claim = |client: Handle, parent: Handle, object: Handle, class: u32| -> Result<()> {
        let form = Form::USUAL;
        let answer = file.alloc_at(form, client, parent, object, class, UNREADABLE, 24);
        check_eq!(status_of(answer)?, INVALID_ADDRESS, "{object:?}");
        Ok(())
    };
    let none = Handle::NONE;
    for handle in runtime.client.0 - NEAR..runtime.client.0 + NEAR {
        claim(none, none, Handle(handle), class::ROOT)?;
    }
    claim(runtime.client, runtime.device, tsg, class::TSG)?;
    agree()?;
    check_eq!(truth::Counts::of_table()?.get("forgotten")?, 0);
    wait_slice(&runtime, tsg, 200)
}

/// A handle is that of a TSG without a class when zernel is asked and when it is told, and that
/// of one with a class in between, while the driver reads and writes the parameters.
fn moving_handle() -> Outcome {
    const STALL: Duration = Duration::from_secs(10);
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let classed = runtime.compute()?;
    lab.class(&runtime, classed, Level::BE)?;
    wait_slice(&runtime, classed, 200)?;
    let moving = runtime.compute()?;
    let us = STALL.as_micros();
    set_faults(&format!("copy:0xa06c0103 us={us} times=2 users"))?;
    std::thread::scope(|scope| -> Result<()> {
        let attempt = scope.spawn(|| runtime.set_timeslice(moving, 100_000));
        let moved = move_it(&runtime, moving, classed);
        let answer = attempt.join().expect("a thread that does not panic");
        moved?;
        check_eq!(status_of(answer)?, Status::OK);
        Ok(())
    })?;
    lab.quiet()?;
    wait_slice(&runtime, classed, 200)?;
    // Nor does it come later.
    std::thread::sleep(Duration::from_millis(200));
    check_eq!(truth::tsg(runtime.client, classed)?.slice_us, 200);
    agree()
}

/// Has the handle name another TSG while its parameters are read, and none when they are written.
fn move_it(runtime: &Runtime, moving: Handle, to: Handle) -> Result<()> {
    let client = runtime.client;
    wait_until("the parameters are read", || {
        Ok(!faults()?.contains("times=2"))
    })?;
    runtime.free(moving)?;
    runtime
        .file
        .dup(client, runtime.device, moving, client, to)?;
    wait_until("the parameters are written", || Ok(faults()?.is_empty()))?;
    runtime.free(moving)?;
    Ok(())
}
