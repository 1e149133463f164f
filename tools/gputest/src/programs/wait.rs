// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time from the store of a trigger word to the work behind the wait for it.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::gpu::{look, pause, us, Gpu};
use crate::neighbour::Neighbour;
use crate::report::Findings;
use crate::sys;
use crate::sys::memory::Words;

const TRIGGER: usize = 0;
const DONE: usize = 16;

/// Times in microseconds from a store to the one behind the wait.
fn measure(gpu: &Gpu, words: &Words, first: u32, rounds: usize) -> Result<Vec<f64>> {
    let entered = gpu.enter()?;
    let stream = gpu.driver.create_stream(gpu.context())?;
    let mut times = Vec::new();
    for number in (first..).take(rounds) {
        entered.wait_word(stream.stream(), words.address(TRIGGER), number)?;
        sys::write_word(&entered, stream.stream(), words.address(DONE), number)?;
        // The GPU finds the word not yet reached, and looks again by its own rules.
        pause(Duration::from_micros(50 + u64::from(number * 37 % 100)));
        let stored = Instant::now();
        words.store(TRIGGER, number);
        let came = look("the work behind a trigger", || words.load(DONE) == number)?;
        times.push(us(stored, came));
    }
    entered.wait_idle(stream.stream())?;
    Ok(times)
}

pub fn run(gpu: &Gpu) -> Result<Findings> {
    let mut findings = Findings::default();
    let words = gpu.words()?;
    let entered = gpu.enter()?;
    let stream = gpu.api.stream()?;
    words.store(TRIGGER, 1);
    let status = gpu
        .api
        .wait_in_first_form(stream.stream(), words.address(TRIGGER), 1);
    findings.value("status of a wait of the first form", status);
    entered.wait_idle(stream.stream())?;
    drop(entered);

    let rounds = gpu.options.rounds(2000);
    let alone = measure(gpu, &words, 2, rounds)?;
    let alone = findings.figure("store to work, alone, us", alone);
    let busy = Neighbour::start(&gpu.options, true, None)?;
    let first = 2 + rounds as u32;
    let beside = measure(gpu, &words, first, gpu.options.rounds(200))?;
    let beside = findings.figure("store to work, beside a busy process, us", beside);
    busy.stop()?;
    let holds = alone.is_some_and(|alone| alone.p50 <= 20.0 && alone.p99 <= 100.0);
    findings.expect_on_hardware("alone: p50 up to 20 us, p99 up to 100 us", holds);
    let holds = beside.is_some_and(|beside| beside.p50 <= 10_000.0);
    findings.expect_on_hardware("beside a busy process: p50 up to 10 ms", holds);
    Ok(findings)
}
