// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes that parts of a program want for a TSG, and the use of the GPU.

use std::time::Duration;

use anyhow::{ensure, Context as _};
use cuda::Stream;
use libzernel::{Level, Target, Zernel};
use testkit::check_eq;
use testkit::child::in_child;
use testkit::harness::Outcome;
use testkit::sys::become_user;
use testkit::wait_until;
use zernel_runtime::{Error, Mode, Options, Runtime};

use super::attach;
use crate::lab::Program;

/// The level and the time slice that the TSG of a runtime has of its own.
fn own(runtime: &Runtime) -> anyhow::Result<(Option<u8>, Option<u32>)> {
    let tsg = runtime.tsg().context("a TSG")?;
    let own = Zernel::open()?.class(&Target::Tsg(tsg))?.own;
    Ok((own.level.map(Level::number), own.timeslice_us))
}

fn level(number: u8) -> anyhow::Result<Level> {
    Level::new(number).context("a level")
}

/// The most urgent holds, and the last one gives back what was there before.
pub(super) fn wanted() -> Outcome {
    let _program = Program::new()?;
    let runtime = attach(Options::default())?;
    check_eq!(own(&runtime)?, (Some(0), None));
    runtime.set_level(level(4)?)?;
    let other = Runtime::attach(&Options::default().mode(Mode::Require))?;
    let mut one = runtime.want_class(Level::BE, None)?;
    check_eq!(own(&runtime)?, (Some(7), None));
    let two = other.want_class(level(2)?, Some(300))?;
    check_eq!(own(&runtime)?, (Some(2), Some(300)));
    one.change(level(1)?, Some(700))?;
    check_eq!(own(&runtime)?, (Some(1), Some(700)));
    one.change(level(6)?, None)?;
    check_eq!(own(&runtime)?, (Some(2), Some(300)));
    // It keeps its runtime.
    drop(other);
    check_eq!(own(&runtime)?, (Some(2), Some(300)));
    two.end()?;
    check_eq!(own(&runtime)?, (Some(6), None));
    drop(one);
    check_eq!(own(&runtime)?, (Some(4), None));
    // A class that somebody else gives meanwhile stays.
    let want = runtime.want_class(Level::LC, None)?;
    runtime.set_level(level(5)?)?;
    want.end()?;
    check_eq!(own(&runtime)?, (Some(5), None));
    // One that ends with its TSG is over.
    let want = runtime.want_class(Level::LC, None)?;
    drop(_program);
    ensure!(matches!(want.end(), Err(Error::Zernel(_))));
    Ok(())
}

pub(super) fn cleared() -> Outcome {
    let _program = Program::new()?;
    let runtime = attach(Options::default())?;
    check_eq!(own(&runtime)?, (Some(0), None));
    runtime.clear_level()?;
    check_eq!(own(&runtime)?, (None, None));
    runtime.clear_level()?;
    let want = runtime.want_class(level(3)?, Some(500))?;
    check_eq!(own(&runtime)?, (Some(3), Some(500)));
    want.end()?;
    check_eq!(own(&runtime)?, (None, None));
    in_child(|| {
        check_eq!(runtime.clear_level(), Err(Error::Forked));
        check_eq!(
            runtime.want_class(Level::LC, None).err(),
            Some(Error::Forked)
        );
        Ok(())
    })
}

/// A want that takes privilege changes nothing without it, and one that lowers the TSG stays.
pub(super) fn unprivileged() -> Outcome {
    in_child(|| {
        become_user(1000, 1000, &[])?;
        let _program = Program::new()?;
        let runtime = Runtime::attach(&Options::default().mode(Mode::Require))?;
        let refused = runtime.want_class(Level::LC, None).err();
        check_eq!(
            refused.map(|error| error.name()),
            Some("ZERNEL_CALL_FAILED")
        );
        check_eq!(own(&runtime)?, (None, None));
        let mut want = runtime.want_class(Level::BE, None)?;
        check_eq!(own(&runtime)?, (Some(7), None));
        ensure!(want.change(Level::LC, None).is_err());
        check_eq!(own(&runtime)?, (Some(7), None));
        let other = runtime.want_class(Level::LC, None);
        ensure!(other.is_err());
        check_eq!(own(&runtime)?, (Some(7), None));
        // Lowering is a one-way street: the class that comes back would be the higher one.
        let kept = want.end().err();
        check_eq!(kept.map(|error| error.name()), Some("ZERNEL_CALL_FAILED"));
        check_eq!(own(&runtime)?, (Some(7), None));
        Ok(())
    })
}

pub(super) fn usage() -> Outcome {
    let program = Program::new()?;
    let runtime = attach(Options::default())?;
    let before = runtime.usage()?.context("a GPU")?;
    program.work(Stream::LEGACY, Duration::from_millis(50))?;
    program.wait(Stream::LEGACY)?;
    wait_until("the GPU has worked", || {
        let now = runtime.usage()?.context("a GPU")?;
        let busy = Duration::from_nanos(now.busy_ns - before.busy_ns);
        ensure!(now.at_ns >= before.at_ns, "{now:?}");
        Ok(busy >= Duration::from_millis(50))
    })?;
    in_child(|| {
        check_eq!(runtime.usage(), Err(Error::Forked));
        Ok(())
    })
}
