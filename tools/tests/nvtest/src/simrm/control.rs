// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tenant's own controls of its TSGs: what a class takes from it, and what the driver's own
//! checks still refuse.

use anyhow::{ensure, Context as _, Result};
use bytemuck::Zeroable;
use libzernel::{Level, Target};
use testkit::check_eq;
use testkit::child::in_child;
use testkit::harness::{case, Outcome, Suite};
use testkit::sys;

use crate::lab::{tune, wait_slice, Lab, DRIVER, LOADED, ORIGINAL_US};
use crate::rm::abi::control;
use crate::rm::{status_of, truth, ControlFile, Handle, Runtime, Status};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.control",
    &[
        case("denied_while_classed", denied_while_classed),
        case("denied_through_every_way", denied_through_every_way),
        case("reapplied_if_tuned", reapplied_if_tuned),
        case("allowed_if_tuned", allowed_if_tuned),
        case("unclassed_is_its_owner_s", unclassed_is_its_owner_s),
        case("other_controls_go_through", other_controls_go_through),
        case(
            "foreign_handles_are_refused_by_the_driver",
            foreign_with_zernel,
        ),
        case("bad_controls_get_the_driver_s_answer", bad_controls),
    ],
    LOADED,
);

/// The suite of what is the same without zernel.
pub const WITHOUT: Suite = Suite::new(
    "simrm.plain",
    &[
        case("foreign_handles_are_refused_by_the_driver", foreign_handles),
        case("bad_controls_get_the_driver_s_answer", bad_controls),
        case("own_controls_work", own_controls_work),
    ],
    DRIVER,
);

/// Attempts that were refused, and those that were put right.
fn counters(lab: &Lab) -> Result<(u64, u64)> {
    let stats = lab.stats()?;
    Ok((stats.controls_denied, stats.controls_reapplied))
}

/// A tenant without privilege, whose process is best effort.
fn as_tenant(run: impl FnOnce(&Lab, &Runtime, Handle) -> Result<()>) -> Outcome {
    in_child(|| {
        sys::become_user(1000, 1000, &[])?;
        let lab = Lab::open()?;
        let runtime = Runtime::open()?;
        let tsg = runtime.compute()?;
        lab.zernel
            .set_class(&Target::current_process(), Level::BE)?;
        lab.quiet()?;
        run(&lab, &runtime, tsg)
    })
}

fn denied_while_classed() -> Outcome {
    as_tenant(|lab, runtime, tsg| {
        let before = counters(lab)?;
        for slice in [100_000, 1, 0, u64::MAX, 200] {
            let status = status_of(runtime.set_timeslice(tsg, slice))?;
            check_eq!(status, Status::INSUFFICIENT_PERMISSIONS, "{slice} us");
        }
        let status = status_of(runtime.control(tsg, control::SET_INTERLEAVE, &mut 2u32))?;
        check_eq!(status, Status::INSUFFICIENT_PERMISSIONS, "interleave");
        check_eq!(
            counters(lab)?,
            (before.0 + 6, before.1),
            "denied and re-applied"
        );
        let held = truth::tsg(runtime.client, tsg);
        // Only root reads the truth.
        ensure!(held.is_err(), "the truth is open to everyone");
        check_eq!(runtime.timeslice(tsg)?, 200);
        check_eq!(lab.stats()?.errors, 0);
        Ok(())
    })
}

/// The same through another form of the call, an alias, another thread and another process.
fn denied_through_every_way() -> Outcome {
    as_tenant(|lab, runtime, tsg| {
        let before = counters(lab)?;
        let second = Runtime::open()?;
        let alias = second.file.dup(
            second.client,
            second.device,
            Handle::NONE,
            runtime.client,
            tsg,
        )?;
        let status = status_of(second.set_timeslice(alias, 100_000))?;
        check_eq!(status, Status::INSUFFICIENT_PERMISSIONS, "alias");
        let mut slice = 100_000u64;
        let serialized = runtime.file.control(
            runtime.client,
            tsg,
            control::SET_TIMESLICE,
            control::SERIALIZED,
            &mut slice,
        );
        ensure!(
            status_of(serialized)? != Status::OK,
            "the serialized form went through"
        );
        let status = std::thread::scope(|scope| {
            let thread = scope.spawn(|| status_of(runtime.set_timeslice(tsg, 100_000)));
            thread.join().expect("a thread that does not panic")
        })?;
        check_eq!(status, Status::INSUFFICIENT_PERMISSIONS, "thread");
        in_child(|| {
            let status = status_of(runtime.set_timeslice(tsg, 100_000))?;
            check_eq!(status, Status::INSUFFICIENT_PERMISSIONS, "forked process");
            Ok(())
        })?;
        // Through the GPU's file, which is bound to the control file, the driver takes none.
        let node = ControlFile::from_fd(runtime.node.try_clone()?);
        let mut slice = 100_000u64;
        let answer = node.control(runtime.client, tsg, control::SET_TIMESLICE, 0, &mut slice);
        ensure!(answer.is_err(), "the GPU's file");
        check_eq!(runtime.timeslice(tsg)?, 200);
        let now = counters(lab)?;
        ensure!(now.0 >= before.0 + 4, "{now:?} denied, before {before:?}");
        Ok(())
    })
}

fn reapplied_if_tuned() -> Outcome {
    tune("user_control", "reapply")?;
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    lab.class(&runtime, tsg, Level::BE)?;
    wait_slice(&runtime, tsg, 200)?;
    let before = counters(&lab)?;
    for _ in 0..5 {
        runtime.set_timeslice(tsg, 100_000)?;
        wait_slice(&runtime, tsg, 200)?;
    }
    check_eq!(counters(&lab)?, (before.0, before.1 + 5));
    // The tenant's own request meanwhile is not the setting that it had before.
    tune("user_control", "deny")?;
    let id = lab.tsg(&runtime, tsg)?.id;
    lab.zernel.clear_class(&Target::Tsg(id))?;
    wait_slice(&runtime, tsg, ORIGINAL_US)
}

fn allowed_if_tuned() -> Outcome {
    tune("user_control", "allow")?;
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    lab.class(&runtime, tsg, Level::BE)?;
    wait_slice(&runtime, tsg, 200)?;
    let before = counters(&lab)?;
    runtime.set_timeslice(tsg, 100_000)?;
    lab.quiet()?;
    check_eq!(truth::tsg(runtime.client, tsg)?.slice_us, 100_000);
    check_eq!(counters(&lab)?, before);
    // Until it is not allowed any more.
    tune("user_control", "deny")?;
    wait_slice(&runtime, tsg, 200)
}

fn unclassed_is_its_owner_s() -> Outcome {
    let lab = Lab::open()?;
    let before = counters(&lab)?;
    own_controls_work()?;
    check_eq!(counters(&lab)?, before);
    Ok(())
}

fn own_controls_work() -> Outcome {
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    for slice in [100_000, 1, 2_000_000, 1_024] {
        runtime.set_timeslice(tsg, slice)?;
        check_eq!(runtime.timeslice(tsg)?, slice);
        check_eq!(truth::tsg(runtime.client, tsg)?.slice_us, slice);
    }
    runtime.control(tsg, control::SET_INTERLEAVE, &mut 2u32)?;
    check_eq!(truth::tsg(runtime.client, tsg)?.interleave, 2);
    in_child(|| {
        sys::become_user(1000, 1000, &[])?;
        let runtime = Runtime::open()?;
        let tsg = runtime.compute()?;
        runtime.set_timeslice(tsg, 100_000)?;
        check_eq!(runtime.timeslice(tsg)?, 100_000);
        // Which needs privilege, with or without zernel.
        let status = status_of(runtime.control(tsg, control::SET_INTERLEAVE, &mut 2u32))?;
        check_eq!(status, Status::INSUFFICIENT_PERMISSIONS);
        Ok(())
    })
}

fn other_controls_go_through() -> Outcome {
    as_tenant(|lab, runtime, tsg| {
        let before = counters(lab)?;
        check_eq!(runtime.timeslice(tsg)?, 200);
        runtime.number(tsg)?;
        runtime.control(tsg, control::SCHEDULE, &mut [1u8, 0, 0])?;
        check_eq!(counters(lab)?, before);
        Ok(())
    })
}

fn foreign_with_zernel() -> Outcome {
    let lab = Lab::open()?;
    let before = counters(&lab)?;
    foreign_handles()?;
    check_eq!(counters(&lab)?, before, "the driver refuses, not zernel");
    // The same while the TSG has a class.
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    lab.class(&runtime, tsg, Level::BE)?;
    wait_slice(&runtime, tsg, 200)?;
    refused_to_strangers(&runtime, tsg)?;
    check_eq!(truth::tsg(runtime.client, tsg)?.slice_us, 200);
    check_eq!(counters(&lab)?, before, "of a classed TSG");
    Ok(())
}

fn foreign_handles() -> Outcome {
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    refused_to_strangers(&runtime, tsg)?;
    check_eq!(truth::tsg(runtime.client, tsg)?.slice_us, ORIGINAL_US);
    runtime.number(tsg).context("the owner's own")?;
    Ok(())
}

/// Another file, of root as of anybody else, reaches nothing of a client by its handles.
fn refused_to_strangers(runtime: &Runtime, tsg: Handle) -> Result<()> {
    let try_all = || -> Result<()> {
        let stranger = Runtime::open()?;
        let refused = Status::INVALID_CLIENT;
        let client = runtime.client;
        let mut slice = 100_000u64;
        for (cmd, what) in [
            (control::SET_TIMESLICE, "set the slice"),
            (control::GET_TIMESLICE, "get the slice"),
        ] {
            for flags in [0, control::SERIALIZED] {
                let answer = stranger.file.control(client, tsg, cmd, flags, &mut slice);
                let status = status_of(answer)?;
                let expected = if flags == 0 {
                    status == refused
                } else {
                    status != Status::OK
                };
                ensure!(expected, "{what}, flags {flags}: {status:?}");
            }
        }
        let answer = stranger
            .file
            .control(client, tsg, control::SET_INTERLEAVE, 0, &mut 2u32);
        check_eq!(status_of(answer)?, refused, "interleave");
        check_eq!(status_of(stranger.file.free(client, tsg))?, refused, "free");
        check_eq!(
            status_of(stranger.file.free(client, client))?,
            refused,
            "free client"
        );
        let tsg_of = |client, device| {
            crate::rm::runtime::tsg(
                &stranger.file,
                crate::rm::Form::USUAL,
                client,
                device,
                Handle::NONE,
                Handle::NONE,
                crate::rm::abi::engine::GR0,
            )
        };
        check_eq!(status_of(tsg_of(client, runtime.device))?, refused, "alloc");
        let mut info = crate::rm::abi::IdInfo::zeroed();
        let answer = stranger
            .file
            .control(client, client, control::ID_INFO, 0, &mut info);
        check_eq!(status_of(answer)?, refused, "a control of the client");
        Ok(())
    };
    in_child(try_all).context("root")?;
    in_child(|| {
        sys::become_user(1000, 1000, &[])?;
        try_all()
    })
    .context("another user")?;
    // Of another process, a TSG cannot be duplicated by one that does not own it either.
    in_child(|| {
        sys::become_user(1000, 1000, &[])?;
        let stranger = Runtime::open()?;
        let answer = stranger.file.dup(
            stranger.client,
            stranger.device,
            Handle::NONE,
            runtime.client,
            tsg,
        );
        check_eq!(status_of(answer)?, Status::INSUFFICIENT_PERMISSIONS);
        Ok(())
    })
    .context("duplicate")
}

fn bad_controls() -> Outcome {
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    let set = control::SET_TIMESLICE;
    let status = |answer| status_of::<()>(answer);
    let gone = runtime.compute()?;
    runtime.free(gone)?;
    check_eq!(
        status(runtime.set_timeslice(gone, 5))?,
        Status::OBJECT_NOT_FOUND,
        "freed TSG"
    );
    check_eq!(
        status(runtime.set_timeslice(runtime.device, 5))?,
        Status::NOT_SUPPORTED,
        "device"
    );
    check_eq!(
        status(runtime.control(tsg, set, &mut [0u32; 3]))?,
        Status::INVALID_ARGUMENT,
        "12 bytes"
    );
    check_eq!(
        status(runtime.control(tsg, set, &mut 7u32))?,
        Status::INVALID_ARGUMENT,
        "4 bytes"
    );
    let mut slice = 5u64;
    let answer = runtime
        .file
        .control(Handle(0x1234), tsg, set, 0, &mut slice);
    check_eq!(status(answer)?, Status::INVALID_CLIENT, "no such client");
    check_eq!(runtime.timeslice(tsg)?, ORIGINAL_US);
    Ok(())
}
