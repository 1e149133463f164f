// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that wait for the whole context, holders included, and calls that do not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{ensure, Result};
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};
use testkit::wait_until;

use super::lab::{Program, LEGACY, LOADED, NON_BLOCKING};
use crate::sys::{count, Words};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "fakecuda.stall",
    &[
        case("calls_that_wait_for_the_context", calls_that_wait),
        case("the_end_of_a_context_waits", the_end_waits),
        case("calls_that_do_not_wait", calls_that_do_not_wait),
        case("copies_can_be_made_to_wait", copies_can_wait),
    ],
    LOADED,
);

/// A holder in a stream that does not block.
struct Held {
    words: Box<Words>,
    base: u64,
    stream: u64,
    number: u32,
}

impl Held {
    fn new(program: &Program) -> Result<Self> {
        let words = Words::new();
        let base = program.register(words.address(), 4_096)?;
        let stream = program.stream(NON_BLOCKING)?;
        let number = 0;
        Ok(Self {
            words,
            base,
            stream,
            number,
        })
    }

    fn hold(&mut self, program: &Program, bound: Duration) -> Result<()> {
        self.number += 1;
        program.hold(self.stream, self.base, self.base + 4, self.number, bound)
    }
}

/// A call waits for the holder: it is over after that was released, and not before.
fn waits(
    program: &Program,
    held: &mut Held,
    name: &str,
    call: impl FnOnce() -> Result<()> + Send,
) -> Result<()> {
    held.hold(program, LONG)?;
    let (words, number) = (&held.words, held.number);
    wait_until("the holder runs", || Ok(words.load(0) == number))?;
    let [is_begun, is_released] = [const { AtomicBool::new(false) }; 2];
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            program.cuda.context_set(program.context).ok()?;
            is_begun.store(true, Ordering::Release);
            call()?;
            ensure!(
                is_released.load(Ordering::Acquire),
                "{name} did not wait for the holder"
            );
            Ok(())
        });
        let begun = wait_until("the call begins", || Ok(is_begun.load(Ordering::Acquire)));
        // Other streams work meanwhile.
        let worked = (0..20).try_for_each(|_| {
            let stream = program.stream(NON_BLOCKING)?;
            program.cuda.host_function(stream, count, 1).ok()?;
            program.cuda.stream_synchronize(stream).ok()?;
            program.cuda.stream_destroy(stream).ok()
        });
        is_released.store(true, Ordering::Release);
        words.store(1, number);
        let outcome = caller.join();
        begun?;
        worked?;
        outcome.map_err(|_| anyhow::anyhow!("panicked"))?
    })?;
    ensure!(program.is_idle(held.stream)?, "{name}: the holder is left");
    Ok(())
}

const SHORT: Duration = Duration::from_millis(30);
const LONG: Duration = Duration::from_secs(50);

fn calls_that_wait() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let mut held = Held::new(&program)?;
    let (memory, pinned) = (program.alloc(64)?, program.alloc_host(64)?);
    let other = Words::new();
    program.register(other.address(), 4_096)?;
    let load = || {
        let mut module = 0;
        cuda.module_load(&mut module, super::lab::KERNELS.as_ptr())
            .ok()
    };
    let calls: [(&str, &(dyn Fn() -> Result<()> + Sync)); 6] = [
        ("module_load", &load),
        ("synchronize", &|| cuda.synchronize().ok()),
        ("free", &|| cuda.free(memory).ok()),
        ("free_host", &|| cuda.free_host(pinned).ok()),
        ("unregister", &|| cuda.unregister(other.address()).ok()),
        ("module_unload", &|| cuda.module_unload(program.module).ok()),
    ];
    for (name, call) in calls {
        waits(&program, &mut held, name, call)?;
    }
    Ok(())
}

fn the_end_waits() -> Outcome {
    let program = Program::new()?;
    let mut held = Held::new(&program)?;
    held.hold(&program, SHORT)?;
    let address = held.base + 8;
    program.cuda.write_32(held.stream, address, 5, 0).ok()?;
    program.cuda.context_destroy(program.context).ok()?;
    check_eq!((held.words.load(0), held.words.load(2)), (1, 5));
    Ok(())
}

fn calls_that_do_not_wait() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let mut held = Held::new(&program)?;
    held.hold(&program, LONG)?;
    let memory = program.alloc(64)?;
    program.alloc_host(64)?;
    let other = Words::new();
    program.register(other.address(), 4_096)?;
    program.put(memory, &[5])?;
    check_eq!(program.values(memory, 1)?, [5]);
    cuda.set_32(memory, 6, 1).ok()?;
    cuda.stream_synchronize(LEGACY).ok()?;
    let stream = program.stream(0)?;
    program.work(stream, Duration::from_micros(10))?;
    cuda.stream_synchronize(stream).ok()?;
    cuda.stream_destroy(stream).ok()?;
    ensure!(!program.is_idle(held.stream)?, "the holder is over");
    held.words.store(1, held.number);
    cuda.synchronize().ok()
}

fn copies_can_wait() -> Outcome {
    let program = Program::with("FAKECUDA_STALL_COPIES", "1")?;
    let mut held = Held::new(&program)?;
    let memory = program.alloc(64)?;
    waits(&program, &mut held, "the copy", || {
        program.put(memory, &[5])
    })?;
    // One of pinned memory does not.
    let pinned = program.alloc_host(64)?;
    held.hold(&program, LONG)?;
    program.cuda.copy_in(memory, pinned, 4).ok()?;
    ensure!(!program.is_idle(held.stream)?);
    held.words.store(1, held.number);
    program.cuda.synchronize().ok()
}
