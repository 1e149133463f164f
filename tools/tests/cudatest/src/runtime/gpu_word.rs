// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holders that wait for words in memory of the GPU, by the stand-in for GDRCopy: cases of the suite of
//! the runtime once more, and those of such words alone.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _};
use testkit::check_eq;
use testkit::child::{Child, End};
use testkit::harness::{case, Outcome, Suite};
use testkit::wait_until;
use zernel_runtime::{Error, Idle, Mode, Options, ReleaseWord, Request, Runtime};

use super::{attach, bad_input, later, now, stats, TICK};
use crate::lab::{lease, Program, LOADED, STANDIN};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "gpu_word",
    &[
        case("a_request_goes_through", || {
            again(super::a_request_goes_through)
        }),
        case("threads_share_lanes", || again(super::threads_share_lanes)),
        case("without_a_lane_work_goes_on", || {
            again(super::without_a_lane_work_goes_on)
        }),
        case("done_in_a_stream", || again(super::done_in_a_stream)),
        case("inline_in_a_stream", || again(super::inline_in_a_stream)),
        case("a_dropped_request_is_over", || {
            again(super::a_dropped_request_is_over)
        }),
        case("a_holder_may_linger", || again(super::a_holder_may_linger)),
        case("the_end_of_a_runtime_ends_requests", || {
            again(super::the_end_ends_requests)
        }),
        case("a_lost_context_gives_the_gpu_back", || {
            again(super::a_lost_context)
        }),
        case("a_destroyed_context_gives_the_gpu_back", || {
            again(super::a_destroyed_context)
        }),
        case("a_child_does_nothing", || {
            again(super::a_child_does_nothing)
        }),
        case("hostile_words", || again(bad_input::hostile_words)),
        case("two_runtimes", || again(bad_input::two_runtimes)),
        case("each_end_ends_the_holder", each_end_ends_the_holder),
        case("the_lease_is_the_bound", the_lease_is_the_bound),
        case("a_failure_leaves_nothing", a_failure_leaves_nothing),
        case("machines_without_it", machines_without_it),
        case("late_stores_harm_nobody", late_stores_harm_nobody),
        case("a_killed_process", a_killed_process),
    ],
    LOADED,
);

/// Runtimes of this process have such words. A case has a process of its own.
static IS_WISHED: AtomicBool = AtomicBool::new(false);

fn again(run: fn() -> Outcome) -> Outcome {
    IS_WISHED.store(true, Relaxed);
    run()
}

/// Options with such words, if they are wished.
pub(super) fn by_this(options: Options) -> Options {
    match IS_WISHED.load(Relaxed) {
        true => with_word(options),
        false => options,
    }
}

/// The stand-in for CUDA is one for GDRCopy.
fn with_word(options: Options) -> Options {
    options.release_word(ReleaseWord::Gpu).gdrcopy(STANDIN)
}

fn required() -> Options {
    with_word(Options::default()).mode(Mode::Require)
}

/// The longest lease: a test that waits for it fails.
const LONG: Duration = Duration::from_secs(10);

/// With it all words are stored in time, and no holder goes on for its bound.
fn each_end_ends_the_holder() -> Outcome {
    let program = Program::new()?;
    lease("10000000")?;
    let idle = || -> Outcome {
        let begin = Instant::now();
        program.driver.enter(program.context())?.synchronize()?;
        ensure!(begin.elapsed() < LONG / 2, "{:?}", begin.elapsed());
        Ok(())
    };
    let runtime = Runtime::attach(&required().linger(LONG))?;
    for end in [Request::cancel, drop, |mut request: Request| {
        request.ready();
        // It is not done, and nothing lingers.
        std::mem::forget(request);
    }] {
        for is_held in [true, false] {
            let spec = if is_held { now() } else { later() };
            let request = runtime.begin(&spec)?;
            check_eq!(request.idle(), None);
            if is_held {
                wait_until("it holds", || Ok(request.is_held()))?;
            }
            end(request);
            idle()?;
        }
    }
    // One that lingers ends with the runtime, whose kernel cannot be unloaded before.
    let runtime = Runtime::attach(&required().linger(LONG))?;
    runtime.begin(&now())?.done();
    drop(runtime);
    idle()
}

/// zernel does not reach the word; the holder ends by itself.
fn the_lease_is_the_bound() -> Outcome {
    let program = Program::new()?;
    lease("200000")?;
    let runtime = Runtime::attach(&required().bound(LONG))?;
    let mut request = runtime.begin(&now())?;
    wait_until("it holds", || Ok(request.is_held()))?;
    wait_until("its lease is over", || Ok(request.is_expired()))?;
    let begin = Instant::now();
    program.driver.enter(program.context())?.synchronize()?;
    ensure!(begin.elapsed() < LONG / 2, "{:?}", begin.elapsed());
    request.ready();
    request.done();
    let told = stats(&runtime)?;
    check_eq!((told.begun, told.expired), (1, 1));
    // The next one is released as ever.
    let mut next = runtime.begin(&later())?;
    next.ready();
    program.work(cuda::Stream::LEGACY, TICK)?;
    program.driver.enter(program.context())?.synchronize()?;
    next.done();
    Ok(())
}

fn a_failure_leaves_nothing() -> Outcome {
    const FAILS: &str = "FAKECUDA_GDRCOPY_FAILS";
    const FLEETING: &str = "FAKECUDA_GDRCOPY_FLEETING";
    let program = Program::new()?;
    let free =
        || -> cuda::Result<usize> { Ok(program.driver.enter(program.context())?.memory()?.0) };
    let before = free()?;
    for call in [
        "gdr_open",
        "gdr_get_attribute",
        "gdr_pin_buffer",
        "gdr_get_info_v2",
        "gdr_map",
    ] {
        std::env::set_var(FAILS, call);
        let error = Runtime::attach(&required()).err().context("an error")?;
        check_eq!(error.name(), "ZERNEL_NO_GPU_WORD");
        ensure!(error.to_string().contains(call), "{error}");
        let inert = Runtime::attach(&required().mode(Mode::Auto))?;
        check_eq!(inert.inert(), Some(error));
        check_eq!(inert.begin(&now())?.idle(), Some(Idle::Inert));
        check_eq!(free()?, before, "{call}");
    }
    std::env::set_var(FAILS, "");
    std::env::set_var(FLEETING, "1");
    let error = Runtime::attach(&required()).err().context("an error")?;
    let text = error.to_string();
    ensure!(text.contains("use_persistent_mapping=1"), "{text}");
    std::env::set_var(FLEETING, "0");
    // Ends that fail are followed by the others.
    for call in ["gdr_unmap", "gdr_unpin_buffer", "gdr_close"] {
        let runtime = Runtime::attach(&required())?;
        ensure!(free()? < before);
        std::env::set_var(FAILS, call);
        drop(runtime);
        check_eq!(free()?, before, "{call}");
        std::env::set_var(FAILS, "");
    }
    let runtime = Runtime::attach(&required())?;
    runtime.begin(&now())?.done();
    Ok(())
}

fn machines_without_it() -> Outcome {
    let _program = Program::new()?;
    let word = Options::default().release_word(ReleaseWord::Gpu);
    let error = Runtime::attach(&word.clone().mode(Mode::Require)).err();
    let error = error.context("an error")?;
    check_eq!(error.name(), "ZERNEL_NO_GPU_WORD");
    let text = error.to_string();
    let start = "no word in memory of the GPU: libgdrapi.so.2 cannot be loaded: ";
    ensure!(text.starts_with(start), "{text}");
    check_eq!(Runtime::attach(&word)?.inert(), Some(error));
    // Those who wish nothing are not asked.
    for word in [ReleaseWord::Auto, ReleaseWord::Host] {
        let options = Options::default().release_word(word).mode(Mode::Require);
        check_eq!(Runtime::attach(&options)?.inert(), None);
    }
    Ok(())
}

/// Memory whose context is gone stays mapped, and takes stores.
fn late_stores_harm_nobody() -> Outcome {
    for is_lost in [false, true] {
        let program = Program::new()?;
        // The end of a context waits for its holders.
        lease("50000")?;
        let runtime = Runtime::attach(&required())?;
        let (mut one, two) = (runtime.begin(&now())?, runtime.begin(&now())?);
        if is_lost {
            program.fail()?;
        }
        drop(program);
        one.ready();
        one.done();
        two.cancel();
        ensure!(runtime.begin(&now())?.idle().is_some());
        drop(runtime);
        // The next context has its own.
        let _program = Program::new()?;
        let runtime = Runtime::attach(&required())?;
        let mut request = runtime.begin(&now())?;
        request.ready();
        request.done();
        ensure!(!matches!(runtime.inert(), Some(Error::Lost(_))));
    }
    Ok(())
}

fn a_killed_process() -> Outcome {
    let child = Child::spawn(|| {
        let _program = Program::new()?;
        IS_WISHED.store(true, Relaxed);
        let runtime = attach(Options::default())?;
        let request = runtime.begin(&now())?;
        wait_until("it holds", || Ok(request.is_held()))?;
        let own = rustix::process::getpid();
        Ok(rustix::process::kill_process(
            own,
            rustix::process::Signal::KILL,
        )?)
    })?;
    check_eq!(child.end()?, End::Signal(9));
    Ok(())
}
