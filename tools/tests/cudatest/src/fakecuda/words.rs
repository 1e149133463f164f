// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stream memory operations, and the holder: on the GPU itself, and by the helper thread.

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Begin, Of, Slots, Word};
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};
use testkit::wait_until;

use super::lab::{slots, tsg, Program, LEGACY, LOADED, NON_BLOCKING};
use crate::sys::{self, Words};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "fakecuda.words",
    &[
        case("a_request_takes_the_gpu", a_request_takes_the_gpu),
        case(
            "a_request_takes_the_gpu_by_the_helper",
            a_request_by_the_helper,
        ),
        case("a_holder_ends_by_its_bound", a_holder_ends_by_its_bound),
        case("conditions_are_met", conditions_are_met),
        case("words_of_eight_bytes_are_met", wide_words),
        case("words_of_the_device_are_met", words_of_the_device),
        case("operations_come_in_batches", batches),
        case("results_are_there_before_a_word", results_before_a_word),
        case("results_are_there_before_a_holder", results_before_a_holder),
        case("a_region_ends_with_its_memory", a_region_ends),
        case("other_memory_leaves_a_region", other_memory_leaves_a_region),
        case("a_late_release_opens_nothing_else", a_late_release),
        case("bad_operations_are_refused", bad_operations),
        case("there_may_be_no_operations", no_operations),
    ],
    LOADED,
);

const LONG: Duration = Duration::from_secs(50);

/// Slots in a context: their first address as the GPU sees it.
fn register(program: &Program, slots: &Slots) -> Result<u64> {
    let memory = slots.memory();
    program.register(memory.address(), memory.length() as usize)
}

fn request(program: &Program) -> Outcome {
    let (zernel, slots) = slots()?;
    let base = register(program, &slots)?;
    let (stream, tsg) = (program.stream(NON_BLOCKING)?, tsg()?);
    for place in [0, 63, 0] {
        let slot = slots.slot(place).context("no slot")?;
        let address = base + 64 * u64::from(place);
        let begin = Begin::new(tsg.id).key(1);
        let number = slot.begin(&begin)?.number;
        let n = number.get();
        program.cuda.wait_32(stream, address, n, 0).ok()?;
        program.hold(stream, address + 12, address + 4, n, LONG)?;
        wait_until("the holder runs", || Ok(slot.load(Word::Held) == n))?;
        ensure!(!program.is_idle(stream)?);
        program.work(stream, Duration::from_micros(20))?;
        slot.ready(number);
        program.cuda.write_32(stream, address + 8, n, 0).ok()?;
        program.cuda.stream_synchronize(stream).ok()?;
        check_eq!(slot.load(Word::Done), n);
    }
    wait_until("zernel has seen all", || {
        Ok(zernel.request_stats(Of::All)?.in_flight == 0)
    })?;
    let stats = zernel.request_stats(Of::Tsg(tsg.id))?;
    check_eq!((stats.begun, stats.done), (3, 3));
    Ok(())
}

fn a_request_takes_the_gpu() -> Outcome {
    request(&Program::new()?)
}

fn a_request_by_the_helper() -> Outcome {
    request(&Program::with("FAKECUDA_RELAY", "1")?)
}

fn a_holder_ends_by_its_bound() -> Outcome {
    for relay in ["0", "1"] {
        let program = match relay {
            "0" => Program::new()?,
            _ => second_region()?,
        };
        let (stream, words) = (program.stream(NON_BLOCKING)?, Words::new());
        let base = program.register(words.address(), 4_096)?;
        for number in [1, 2] {
            program.hold(stream, base, base + 4, number, Duration::from_millis(2))?;
            program.cuda.stream_synchronize(stream).ok()?;
            check_eq!((words.load(0), words.load(1)), (number, 0));
        }
        // Gates of holders that ended by their bounds do not close later ones.
        words.store(1, 2);
        for number in [3, 4] {
            program.hold(stream, base, base + 4, number, LONG)?;
            words.store(1, number);
            program.cuda.stream_synchronize(stream).ok()?;
        }
        program.cuda.context_destroy(program.context).ok()?;
    }
    Ok(())
}

/// A program whose GPU has got other memory already: the helper thread looks at what comes.
fn second_region() -> Result<Program> {
    let program = Program::new()?;
    let first = Box::leak(Words::new());
    program.register(first.address(), 4_096)?;
    Ok(program)
}

fn conditions_are_met() -> Outcome {
    for program in [Program::new()?, second_region()?] {
        program.cuda.context_set(program.context).ok()?;
        let (stream, words) = (program.stream(NON_BLOCKING)?, Words::new());
        let base = program.register(words.address(), 4_096)?;
        // Condition, value, a word that does not meet it, one that does.
        for (flags, value, before, after) in [
            (0, 5, 4, 6),
            (0, 2, u32::MAX, 2),
            (1, 5, 6, 5),
            (2, 6, 9, 2),
            (3, 0xf0, 0xffff_ff0f, 0xffff_ff0e),
            (1 << 30, 5, 4, 5),
        ] {
            words.store(0, before);
            program.cuda.wait_32(stream, base, value, flags).ok()?;
            program.cuda.write_32(stream, base + 4, value, 1).ok()?;
            ensure!(!program.is_idle(stream)?, "flags {flags}");
            words.store(0, after);
            program.cuda.stream_synchronize(stream).ok()?;
            check_eq!(words.load(1), value);
        }
    }
    Ok(())
}

fn wide_words() -> Outcome {
    let program = Program::new()?;
    let stream = program.stream(NON_BLOCKING)?;
    let word = program.alloc_host(16)?;
    let value = 1_u64 << 32;
    program.cuda.wait_64(stream, word, value, 0).ok()?;
    program.cuda.write_64(stream, word + 8, value + 5, 0).ok()?;
    sys::store(word, 7);
    ensure!(!program.is_idle(stream)?, "that is the lower half");
    sys::store(word + 4, 1);
    program.cuda.stream_synchronize(stream).ok()?;
    check_eq!(sys::load_long(word + 8), value + 5);
    program.cuda.wait_64(stream, word + 4, 0, 0).is(1)
}

fn words_of_the_device() -> Outcome {
    let program = Program::new()?;
    let (one, two) = (program.stream(NON_BLOCKING)?, program.stream(NON_BLOCKING)?);
    let memory = program.alloc(16)?;
    program.put(memory, &[0; 4])?;
    program.cuda.wait_32(one, memory, 3, 1).ok()?;
    program.cuda.write_32(one, memory + 4, 4, 0).ok()?;
    ensure!(!program.is_idle(one)?);
    program.cuda.write_32(two, memory, 3, 0).ok()?;
    program.cuda.stream_synchronize(one).ok()?;
    check_eq!(program.values(memory, 2)?, [3, 4]);
    Ok(())
}

fn batches() -> Outcome {
    let program = Program::new()?;
    let (stream, words) = (program.stream(NON_BLOCKING)?, Words::new());
    let base = program.register(words.address(), 4_096)?;
    let list = [
        [1, base, 1, 0, 0, 0],
        [2, base + 4, 2, 0, 0, 0],
        [3, 0, 0, 0, 0, 0],
        [5, base + 8, 3 << 32 | 4, 0, 0, 0],
    ];
    program.cuda.batch(stream, 4, list.as_ptr(), 0).ok()?;
    ensure!(!program.is_idle(stream)?);
    words.store(0, 1);
    program.cuda.stream_synchronize(stream).ok()?;
    check_eq!((words.load(1), words.load(2), words.load(3)), (2, 4, 3));
    // One that is bad: nothing of it is done.
    let list = [[2, base + 4, 9, 0, 0, 0], [2, base + 2, 9, 0, 0, 0]];
    program.cuda.batch(stream, 2, list.as_ptr(), 0).is(1)?;
    program.cuda.batch(stream, 1, list.as_ptr(), 1).is(1)?;
    program.cuda.batch(stream, 257, list.as_ptr(), 0).is(1)?;
    program.cuda.stream_synchronize(stream).ok()?;
    check_eq!(words.load(1), 2);
    Ok(())
}

fn results_before_a_word() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (stream, words) = (program.stream(NON_BLOCKING)?, Words::new());
    let base = program.register(words.address(), 4_096)?;
    let (memory, mac) = (program.alloc(4_096)?, program.kernel("zernel_mac")?);
    let result = program.alloc_host(4_096)?;
    for round in 1..=200_u32 {
        cuda.launch(mac, 8, 128, stream, &[memory, 1_024, round.into(), 0])
            .ok()?;
        cuda.copy_out_async(result, memory, 4_096, stream).ok()?;
        cuda.write_32(stream, base, round, 0).ok()?;
        wait_until("the word is stored", || Ok(words.load(0) == round))?;
        check_eq!(sys::load(result + 4_092), round + 1_023);
    }
    Ok(())
}

fn results_before_a_holder() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (stream, words) = (program.stream(NON_BLOCKING)?, Words::new());
    let base = program.register(words.address(), 4_096)?;
    let (memory, mac) = (program.alloc(4_096)?, program.kernel("zernel_mac")?);
    let result = program.alloc_host(4_096)?;
    for round in 1..=100_u32 {
        cuda.launch(mac, 8, 128, stream, &[memory, 1_024, round.into(), 0])
            .ok()?;
        cuda.copy_out_async(result, memory, 4_096, stream).ok()?;
        program.hold(stream, base, base + 4, round, LONG)?;
        wait_until("the holder runs", || Ok(words.load(0) == round))?;
        check_eq!(sys::load(result + 4_092), round + 1_023);
        words.store(1, round);
    }
    Ok(())
}

/// The threads of this process.
fn threads() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

fn a_region_ends() -> Outcome {
    let program = Program::new()?;
    let (cuda, stream) = (&program.cuda, program.stream(NON_BLOCKING)?);
    let first = program.alloc_host(4_096)?;
    cuda.write_32(stream, first, 5, 0).ok()?;
    cuda.stream_synchronize(stream).ok()?;
    check_eq!(sys::load(first), 5);
    cuda.free_host(first).ok()?;
    // Other memory comes in its place, sooner or later.
    let mut again = 0;
    wait_until("memory is in the same place", || {
        again = program.alloc_host(4_096)?;
        Ok(again == first)
    })?;
    cuda.write_32(stream, again, 6, 0).ok()?;
    cuda.wait_32(stream, again + 4, 7, 0).ok()?;
    cuda.write_32(stream, again + 8, 8, 0).ok()?;
    wait_until("the word is stored", || Ok(sys::load(again) == 6))?;
    sys::store(again + 4, 7);
    cuda.stream_synchronize(stream).ok()?;
    check_eq!(sys::load(again + 8), 8);
    Ok(())
}

fn other_memory_leaves_a_region() -> Outcome {
    let program = Program::new()?;
    let (cuda, words) = (&program.cuda, Words::new());
    let stream = program.stream(NON_BLOCKING)?;
    let base = program.register(words.address(), 64)?;
    cuda.register(words.address() + 128, 64, 3).ok()?;
    cuda.unregister(words.address() + 128).ok()?;
    let before = threads()?;
    cuda.wait_32(stream, base, 1, 0).ok()?;
    ensure!(!program.is_idle(stream)?);
    words.store(0, 1);
    cuda.stream_synchronize(stream).ok()?;
    check_eq!(threads()?, before, "no helper thread looks at the word");
    Ok(())
}

fn a_late_release() -> Outcome {
    let program = Program::with("FAKECUDA_RELAY", "1")?;
    let (cuda, words) = (&program.cuda, Words::new());
    let base = program.register(words.address(), 4_096)?;
    let first = program.stream(NON_BLOCKING)?;
    program.hold(first, base, base + 4, 1, Duration::from_millis(1))?;
    cuda.stream_synchronize(first).ok()?;
    cuda.stream_destroy(first).ok()?;
    // The next stream has its words.
    let (next, last) = (program.stream(NON_BLOCKING)?, program.stream(NON_BLOCKING)?);
    cuda.wait_32(next, base + 8, 1, 0).ok()?;
    words.store(1, 1);
    // The helper thread has seen that word when it has seen two more, one after the other.
    for at in [3, 4] {
        cuda.wait_32(last, base + 4 * at, 1, 0).ok()?;
        words.store(at as usize, 1);
        cuda.stream_synchronize(last).ok()?;
    }
    ensure!(!program.is_idle(next)?, "the late release let it on");
    words.store(2, 1);
    cuda.stream_synchronize(next).ok()
}

fn bad_operations() -> Outcome {
    let program = Program::new()?;
    let (cuda, words) = (&program.cuda, Words::new());
    let base = program.register(words.address(), 4_096)?;
    for address in [0, base + 2, base + 4_096, words.address(), u64::MAX - 3] {
        cuda.wait_32(LEGACY, address, 1, 0).is(1)?;
        cuda.write_32(LEGACY, address, 1, 0).is(1)?;
    }
    cuda.wait_32(LEGACY, base, 1, 4).is(1)?;
    cuda.write_32(LEGACY, base, 1, 2).is(1)?;
    cuda.wait_32(3, base, 1, 0).is(400)?;
    // The first form is off, as in current drivers.
    cuda.wait_32_old(LEGACY, base, 1, 0).is(801)?;
    cuda.synchronize().ok()?;
    check_eq!(words.load(0), 0);
    Ok(())
}

fn no_operations() -> Outcome {
    let program = Program::with("FAKECUDA_NO_MEMOPS", "1")?;
    let (cuda, words) = (&program.cuda, Words::new());
    let base = program.register(words.address(), 4_096)?;
    cuda.wait_32(LEGACY, base, 0, 0).is(801)?;
    cuda.write_32(LEGACY, base, 0, 0).is(801)?;
    cuda.batch(LEGACY, 0, std::ptr::null(), 0).is(801)?;
    let mut value = -1;
    cuda.device_attribute(&mut value, 122, 0).ok()?;
    check_eq!(value, 0);
    Ok(())
}
