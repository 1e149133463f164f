// SPDX-License-Identifier: MIT OR Apache-2.0
//! Controls that fail: what the user is told, and what is tried again.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::event::{Event, Kind};
use libzernel::{EventStream, Level, Target};
use rustix::io::Errno;
use testkit::harness::{case, Outcome, Suite};
use testkit::log::Mark;
use testkit::{check_eq, wait_until, Repeat};

use crate::lab::{faults, set_faults, wait_slice, Lab, LOADED, ORIGINAL_US};
use crate::rm::abi::control;
use crate::rm::{truth, Runtime, Status};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.failure",
    &[
        case("each_status_has_its_errno", each_status_has_its_errno),
        case("not_now_is_tried_again", not_now_is_tried_again),
        case("slow_controls_delay_nobody", slow_controls_delay_nobody),
        case("gone_is_dropped_at_once", gone_is_dropped_at_once),
        case("dead_handles_make_no_noise", dead_handles_make_no_noise),
        case("stopped_gpu_makes_no_noise", stopped_gpu_makes_no_noise),
        case("failed_once_works_again", failed_once_works_again),
    ],
    LOADED,
);

/// Statuses of which nothing becomes, and the error that the user sees.
const FINAL: [(Status, Errno); 17] = [
    (Status::TIMEOUT, Errno::TIMEDOUT),
    (Status(0x66), Errno::TIMEDOUT),
    (Status::INVALID_ARGUMENT, Errno::INVAL),
    (Status::OUT_OF_RANGE, Errno::INVAL),
    (Status::NOT_SUPPORTED, Errno::INVAL),
    (Status::INVALID_COMMAND, Errno::INVAL),
    (Status::INSUFFICIENT_PERMISSIONS, Errno::INVAL),
    (Status::GPU_IS_LOST, Errno::IO),
    (Status::RESET_REQUIRED, Errno::IO),
    (Status::INVALID_STATE, Errno::IO),
    (Status::IN_USE, Errno::IO),
    (Status::NOT_READY, Errno::IO),
    (Status::STATE_IN_USE, Errno::IO),
    (Status::NO_MEMORY, Errno::IO),
    (Status::INSUFFICIENT_RESOURCES, Errno::IO),
    (Status::GENERIC, Errno::IO),
    (Status(0xdead_beef), Errno::IO),
];

/// Statuses that pass.
const PASSING: [Status; 4] = [Status::BUSY_RETRY, Status(0x10), Status(0x11), Status(0x7d)];

/// Statuses of what is not there any more.
const GONE: [Status; 5] = [
    Status::INVALID_CLIENT,
    Status::INVALID_OBJECT_HANDLE,
    Status::INVALID_OBJECT_PARENT,
    Status::OBJECT_NOT_FOUND,
    Status::RESOURCE_LOST,
];

const SET_SLICE: &str = "control:0xa06c0103";

/// A value of the provider's file of counters.
fn counter(name: &str) -> Result<u64> {
    let text = fs::read_to_string("/sys/kernel/debug/zernel_nvidia/counts")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line
        .with_context(|| format!("no counter {name}"))?
        .parse()?)
}

/// The next event of that kind.
fn next(events: &mut EventStream, kind: Kind) -> Result<Event> {
    let end = Instant::now() + testkit::SOON;
    while Instant::now() < end {
        if let Some(event) = events.next_within(Some(Duration::from_secs(1)))? {
            if event.kind == kind {
                return Ok(event);
            }
        }
    }
    bail!("no event {kind:?}")
}

fn each_status_has_its_errno() -> Outcome {
    let lab = Lab::open()?;
    let mut events = lab.zernel.events()?;
    for (status, errno) in FINAL {
        let what = format!("{status:?}");
        let runtime = Runtime::open()?;
        let tsg = runtime.compute()?;
        let before = lab.stats()?;
        set_faults(&format!("{SET_SLICE} status={:#x} kernel", status.0))?;
        let listed = lab.class(&runtime, tsg, Level::BE)?;
        let event = next(&mut events, Kind::TsgError).context(what.clone())?;
        check_eq!(event.error, -errno.raw_os_error(), "{what}");
        check_eq!(event.tsg, listed.id, "{what}");
        check_eq!(faults()?, "", "faults left after {what}");
        lab.quiet()?;
        let now = lab.tsg(&runtime, tsg)?;
        ensure!(now.failed && !now.pending, "{what}: {now:?}");
        check_eq!((now.level, now.errors), (Some(Level::BE), 1), "{what}");
        let after = lab.stats()?;
        check_eq!(after.errors - before.errors, 1, "{what}");
        check_eq!(after.retries - before.retries, 0, "{what}");
        check_eq!(
            truth::tsg(runtime.client, tsg)?.slice_us,
            ORIGINAL_US,
            "{what}"
        );
        // Everybody is asked again when something else is wanted, and then it works.
        lab.zernel.set_class(&Target::Tsg(now.id), Level::LC)?;
        wait_slice(&runtime, tsg, 5_000_000).with_context(|| what.clone())?;
        lab.quiet()?;
        ensure!(!lab.tsg(&runtime, tsg)?.failed, "{what}: still failed");
        lab.zernel.clear_class(&Target::Tsg(now.id))?;
        wait_slice(&runtime, tsg, ORIGINAL_US).with_context(|| what.clone())?;
    }
    Ok(())
}

fn not_now_is_tried_again() -> Outcome {
    const TIMES: u64 = 3;
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    for (status, level) in PASSING
        .into_iter()
        .zip([Level::BE, Level::LC].iter().cycle())
    {
        let before = lab.stats()?;
        set_faults(&format!(
            "{SET_SLICE} status={:#x} kernel times={TIMES}",
            status.0
        ))?;
        lab.class(&runtime, tsg, *level)?;
        let slice = if *level == Level::BE { 200 } else { 5_000_000 };
        wait_slice(&runtime, tsg, slice).with_context(|| format!("{status:?}"))?;
        lab.quiet()?;
        let after = lab.stats()?;
        check_eq!(after.retries - before.retries, TIMES, "{status:?}");
        check_eq!(after.errors - before.errors, 0, "{status:?}");
        ensure!(
            !lab.gpu(&runtime.bus())?.retrying,
            "{status:?}: still suspended"
        );
    }
    // For as long as it takes, with pauses that grow: never a storm. One says nothing of the GPU.
    let id = lab.tsg(&runtime, tsg)?.id;
    for (status, suspends) in [(Status(0x10), true), (Status::BUSY_RETRY, false)] {
        lab.zernel.clear_class(&Target::Tsg(id))?;
        wait_slice(&runtime, tsg, ORIGINAL_US)?;
        let before = lab.stats()?;
        let retries = || Ok::<_, anyhow::Error>(lab.stats()?.retries - before.retries);
        set_faults(&format!(
            "{SET_SLICE} status={:#x} kernel forever",
            status.0
        ))?;
        lab.class(&runtime, tsg, Level::BE)?;
        wait_until("it is tried again", || Ok(retries()? >= 2))?;
        std::thread::sleep(Duration::from_secs(2));
        let retrying = lab.gpu(&runtime.bus())?.retrying;
        check_eq!(
            retrying,
            suspends,
            "{status:?}: the GPU counts as suspended"
        );
        let tried = retries()?;
        ensure!((2..200).contains(&tried), "{tried} attempts in 2 s");
        ensure!(lab.tsg(&runtime, tsg)?.pending, "nothing is pending");
        set_faults("none")?;
        wait_slice(&runtime, tsg, 200)?;
    }
    Ok(())
}

/// A control that takes its time keeps neither this call nor another GPU waiting.
fn slow_controls_delay_nobody() -> Outcome {
    const SLOW: Duration = Duration::from_secs(10);
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    let id = lab.tsg(&runtime, tsg)?.id;
    set_faults(&format!("{SET_SLICE} us={} kernel", SLOW.as_micros()))?;
    let begin = Instant::now();
    lab.zernel.set_class(&Target::Tsg(id), Level::BE)?;
    lab.zernel.stats()?;
    let listed = lab.tsgs()?.len();
    let took = begin.elapsed();
    check_eq!(listed, 1);
    ensure!(
        took < testkit::at_once(SLOW),
        "CLASS_SET and listing took {took:?}"
    );
    wait_slice(&runtime, tsg, 200)?;
    let took = begin.elapsed();
    ensure!(took >= SLOW, "the control took {took:?} only");
    Ok(())
}

/// A TSG that the driver calls gone is dropped, although the driver told of no end.
fn gone_is_dropped_at_once() -> Outcome {
    let lab = Lab::open()?;
    for status in GONE {
        let runtime = Runtime::open()?;
        let tsg = runtime.compute()?;
        let set = control::SET_TIMESLICE;
        let (before, gone) = (lab.stats()?, counter("controls_gone")?);
        let asked = truth::kernel_calls(set)?;
        set_faults(&format!(
            "{SET_SLICE} status={:#x} kernel forever",
            status.0
        ))?;
        lab.class(&runtime, tsg, Level::BE)?;
        wait_until("zernel drops the TSG", || Ok(lab.tsgs()?.is_empty()))
            .with_context(|| format!("{status:?}"))?;
        // Nobody asks for it any more.
        lab.zernel
            .set_class(&Target::current_process(), Level::LC)?;
        lab.quiet()?;
        lab.zernel.clear_class(&Target::current_process())?;
        lab.quiet()?;
        let after = lab.stats()?;
        check_eq!(after.tsgs_dead - before.tsgs_dead, 1, "{status:?}");
        check_eq!(after.errors - before.errors, 0, "{status:?}");
        check_eq!(after.retries - before.retries, 0, "{status:?}");
        check_eq!(
            counter("controls_gone")? - gone,
            1,
            "{status:?}: asked again"
        );
        check_eq!(
            truth::kernel_calls(set)? - asked,
            1,
            "{status:?}: asked again"
        );
        set_faults("none")?;
        drop(runtime);
    }
    Ok(())
}

/// Hundreds of TSGs end while their classes change: no control of theirs fills the log.
fn dead_handles_make_no_noise() -> Outcome {
    const ROUNDS: u64 = 40;
    const TSGS: usize = 20;
    let lab = Lab::open()?;
    let log = Mark::new()?;
    let (before, (dead, _)) = (lab.stats()?, truth::dead_calls()?);
    // A GPU whose last file is closed stops, and takes what is on it along.
    let keeper = Runtime::open()?;
    let mut rounds = Repeat::new(ROUNDS, "rounds");
    for round in &mut rounds {
        let runtime = Runtime::open()?;
        let tsgs: Vec<_> = (0..TSGS)
            .map(|_| runtime.compute())
            .collect::<Result<_, _>>()?;
        let level = if round % 2 == 0 { Level::BE } else { Level::LC };
        lab.zernel.set_class(&Target::current_process(), level)?;
        match round % 4 {
            0 => drop(runtime),
            1 => runtime.free(runtime.client)?,
            2 => runtime.free(runtime.device)?,
            _ => tsgs.iter().try_for_each(|tsg| runtime.free(*tsg))?,
        }
    }
    drop(keeper);
    lab.zernel.clear_class(&Target::current_process())?;
    wait_until("all TSGs are gone", || Ok(lab.tsgs()?.is_empty()))?;
    let after = lab.stats()?;
    check_eq!(after.errors - before.errors, 0, "errors");
    check_eq!(
        after.tsgs_added - before.tsgs_added,
        rounds.done() * TSGS as u64
    );
    // The hook keeps handles alive while they are used: none was dead.
    let (calls, last) = truth::dead_calls()?;
    check_eq!(calls - dead, 0, "controls of dead TSGs; {last}");
    let said = log.lines()?;
    ensure!(said.len() < 20, "the kernel's log: {said:?}");
    Ok(())
}

/// A GPU that stops takes its TSGs along and waits for no control: one that is under way then finds
/// its TSG gone, and asks once more whether it is. It is no error.
fn stopped_gpu_makes_no_noise() -> Outcome {
    const ROUNDS: u64 = 40;
    const TSGS: usize = 20;
    let lab = Lab::open()?;
    let log = Mark::new()?;
    let (before, (dead, _)) = (lab.stats()?, truth::dead_calls()?);
    let mut rounds = Repeat::new(ROUNDS, "rounds");
    for round in &mut rounds {
        let runtime = Runtime::open()?;
        for _ in 0..TSGS {
            runtime.compute()?;
        }
        let level = if round % 2 == 0 { Level::BE } else { Level::LC };
        lab.zernel.set_class(&Target::current_process(), level)?;
        // Its only file.
        drop(runtime);
    }
    lab.zernel.clear_class(&Target::current_process())?;
    wait_until("all TSGs are gone", || Ok(lab.tsgs()?.is_empty()))?;
    check_eq!(lab.stats()?.errors - before.errors, 0, "errors");
    let (calls, last) = truth::dead_calls()?;
    let most = 2 * rounds.done();
    let calls = calls - dead;
    ensure!(
        calls <= most,
        "{calls} controls of dead TSGs, at most {most}; {last}"
    );
    let said = log.lines()?;
    ensure!(said.len() < 20, "the kernel's log: {said:?}");
    Ok(())
}

fn failed_once_works_again() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    // A setting that cannot be read cannot be given back: it is asked for again with the next
    // class.
    set_faults("control:0xa06c0104 timeout kernel")?;
    lab.class(&runtime, tsg, Level::BE)?;
    lab.quiet()?;
    let first = lab.tsg(&runtime, tsg)?;
    lab.zernel.set_class(&Target::Tsg(first.id), Level::LC)?;
    lab.quiet()?;
    wait_slice(&runtime, tsg, 5_000_000)?;
    lab.zernel.clear_class(&Target::Tsg(first.id))?;
    wait_slice(&runtime, tsg, ORIGINAL_US)
}
