// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stand-in does as CUDA's driver does.

use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use cuda::{Attribute, Stream};
use libzernel::request::{Slots, Word};
use libzernel::Zernel;
use testkit::check_eq;
use testkit::child::in_child;
use testkit::harness::{case, Outcome, Suite};

use crate::lab::{device, driver, tsgs, Program, LOADED};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "fakecuda",
    &[
        case("devices_are_those_of_zernel", devices_are_those_of_zernel),
        case("a_context_is_a_tsg", a_context_is_a_tsg),
        case("primary_contexts_are_counted", primary_contexts_are_counted),
        case("streams_run_in_order", streams_run_in_order),
        case(
            "the_legacy_stream_waits_for_others",
            the_legacy_stream_waits,
        ),
        case("words_are_waited_for_and_stored", words_are_waited_for),
        case("memory_is_registered_once", memory_is_registered_once),
        case("an_error_stays_with_its_context", an_error_stays),
        case("a_child_has_no_driver", a_child_has_no_driver),
    ],
    LOADED,
);

const TICK: Duration = Duration::from_millis(2);

/// The status of a call that failed.
fn status<T>(result: cuda::Result<T>) -> Option<cuda::Status> {
    result.err().and_then(|error| error.status())
}

fn devices_are_those_of_zernel() -> Outcome {
    let driver = driver()?;
    let zernel = Zernel::open()?;
    let mut count = 0;
    for device in driver.devices()? {
        let (bus, uuid) = (driver.bus(device)?, driver.uuid(device)?);
        check_eq!(driver.device(&bus)?, device);
        let gpus: Vec<_> = zernel.gpus().collect::<libzernel::Result<_>>()?;
        let gpu = gpus.iter().find(|gpu| gpu.bus == bus);
        let gpu = gpu.with_context(|| format!("zernel has no GPU at {bus}"))?;
        check_eq!(gpu.uuid.map(|uuid| *uuid.as_bytes()), Some(uuid));
        ensure!(driver.attribute(device, Attribute::Multiprocessors)? > 0);
        check_eq!(driver.attribute(device, Attribute::MemoryOperations1)?, 0);
        ensure!(driver.name(device)?.starts_with("software GPU "));
        count += 1;
    }
    check_eq!(count, 2);
    ensure!(driver.device("0000:99:00.0").is_err());
    Ok(())
}

fn a_context_is_a_tsg() -> Outcome {
    check_eq!(tsgs()?, []);
    let first = Program::new()?;
    let one = tsgs()?;
    check_eq!(one.len(), 1);
    let second = Program::on(driver()?, device(&first.driver, 1)?)?;
    check_eq!(tsgs()?.len(), 2);
    check_eq!(second.driver.current()?, Some(second.context()));
    drop(second);
    check_eq!(tsgs()?, one);
    Ok(())
}

fn primary_contexts_are_counted() -> Outcome {
    let driver = driver()?;
    let device = device(&driver, 0)?;
    let (one, two) = (
        driver.primary_context(device)?,
        driver.primary_context(device)?,
    );
    check_eq!(one.context(), two.context());
    check_eq!(driver.current()?, None, "retained, not current");
    drop(one);
    check_eq!(tsgs()?.len(), 1);
    drop(two);
    check_eq!(tsgs()?, []);
    Ok(())
}

fn streams_run_in_order() -> Outcome {
    let program = Program::new()?;
    let (driver, context) = (&program.driver, program.context());
    let (one, two) = (
        driver.create_stream(context)?,
        driver.create_stream(context)?,
    );
    let (one, two) = (one.stream(), two.stream());
    let entered = driver.enter(context)?;
    let event = driver.create_event(context)?;
    ensure!(entered.has_passed(&event)?, "never recorded");
    program.work(one, 100 * TICK)?;
    entered.record(&event, one)?;
    entered.wait_event(two, &event)?;
    program.work(two, TICK)?;
    let begin = Instant::now();
    ensure!(!entered.has_passed(&event)? && !entered.is_idle(two)?);
    entered.wait_passed(&event)?;
    entered.wait_idle(two)?;
    ensure!(begin.elapsed() > 50 * TICK, "{:?}", begin.elapsed());
    ensure!(entered.is_idle(one)? && entered.is_idle(two)?);
    check_eq!(entered.context_of(one)?, Some(context));
    Ok(())
}

fn the_legacy_stream_waits() -> Outcome {
    let program = Program::new()?;
    let entered = program.driver.enter(program.context())?;
    let own = program.driver.create_stream(program.context())?;
    // This one does not block; the default stream of threads does.
    let slots = Shared::new(&program)?;
    entered.wait_word(own.stream(), slots.address(Word::Trigger), 1)?;
    program.work(own.stream(), TICK)?;
    program.work(Stream::LEGACY, TICK)?;
    entered.wait_idle(Stream::LEGACY)?;
    ensure!(!entered.is_idle(own.stream())?, "it waits for a word");
    entered.wait_word(Stream::PER_THREAD, slots.address(Word::Release), 1)?;
    program.work(Stream::LEGACY, TICK)?;
    ensure!(!entered.is_idle(Stream::LEGACY)?);
    slots.store(Word::Trigger, 1)?;
    entered.wait_idle(own.stream())?;
    ensure!(!entered.is_idle(Stream::LEGACY)?, "before the other one");
    slots.store(Word::Release, 1)?;
    Ok(entered.wait_idle(Stream::LEGACY)?)
}

/// A page of slots that a context has.
struct Shared {
    memory: cuda::Registered,
    slots: Slots,
}

impl Shared {
    fn new(program: &Program) -> Result<Self> {
        let slots = Slots::map(&Zernel::open()?, 0..64)?;
        let (address, length) = (slots.memory().address(), slots.memory().length());
        let memory = program
            .driver
            .register(program.context(), address, length)?;
        Ok(Self { memory, slots })
    }

    fn address(&self, word: Word) -> u64 {
        let offset = match word {
            Word::Trigger => 0,
            Word::Release => 4,
            Word::Done => 8,
            _ => 12,
        };
        self.memory.base() + offset
    }

    fn store(&self, word: Word, value: u32) -> Result<()> {
        self.slots.slot(0).context("slot 0")?.store(word, value);
        Ok(())
    }

    fn load(&self, word: Word) -> Result<u32> {
        Ok(self.slots.slot(0).context("slot 0")?.load(word))
    }
}

#[allow(unsafe_code)]
fn words_are_waited_for() -> Outcome {
    let program = Program::new()?;
    let shared = Shared::new(&program)?;
    let entered = program.driver.enter(program.context())?;
    let own = program.driver.create_stream(program.context())?;
    let stream = own.stream();
    entered.wait_word(stream, shared.address(Word::Trigger), 7)?;
    // SAFETY: The word is shared memory.
    unsafe { entered.write_word(stream, shared.address(Word::Done), 9)? };
    ensure!(!entered.is_idle(stream)?);
    check_eq!(shared.load(Word::Done)?, 0);
    shared.store(Word::Trigger, 8)?;
    entered.wait_idle(stream)?;
    check_eq!(shared.load(Word::Done)?, 9);
    for address in [
        0,
        shared.memory.base() + 1,
        shared.memory.base() + (1 << 20),
    ] {
        let refused = status(entered.wait_word(stream, address, 1));
        check_eq!(refused, Some(cuda::Status::INVALID_VALUE), "{address:#x}");
    }
    Ok(())
}

fn memory_is_registered_once() -> Outcome {
    let program = Program::new()?;
    let shared = Shared::new(&program)?;
    let memory = shared.slots.memory();
    let again = program
        .driver
        .register(program.context(), memory.address(), memory.length());
    check_eq!(status(again), Some(cuda::Status::ALREADY_REGISTERED));
    let entered = program.driver.enter(program.context())?;
    ensure!(entered.is_registered(memory.address() + 64));
    let address = memory.address();
    drop(shared.memory);
    ensure!(!entered.is_registered(address));
    Ok(())
}

fn an_error_stays() -> Outcome {
    let program = Program::new()?;
    let other = Program::new()?;
    program.work(Stream::LEGACY, TICK)?;
    program.fail()?;
    for failed in [
        program.work(Stream::LEGACY, TICK),
        program.wait(Stream::LEGACY),
    ] {
        check_eq!(status(failed), Some(cuda::Status(700)));
    }
    other.work(Stream::LEGACY, TICK)?;
    Ok(other.wait(Stream::LEGACY)?)
}

fn a_child_has_no_driver() -> Outcome {
    let program = Program::new()?;
    in_child(|| {
        let refused = status(program.driver.current());
        check_eq!(refused, Some(cuda::Status::NOT_INITIALIZED));
        Ok(())
    })?;
    program.work(Stream::LEGACY, TICK)?;
    Ok(program.wait(Stream::LEGACY)?)
}
