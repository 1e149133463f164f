// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random work in many streams, with no more order than its results need, gives the results that it
//! has one after the other.

use anyhow::Result;
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};
use testkit::random::Random;

use super::lab::{Program, LEGACY, LOADED, NON_BLOCKING, PER_THREAD};
use crate::sys::{self, count, counted, Words};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "fakecuda.orders",
    &[
        case("random_work_of_many_streams", random_work),
        case("random_work_in_a_graph", random_work_in_a_graph),
    ],
    LOADED,
);

/// Words of memory that the work changes: so many that most steps depend on few others.
const CELLS: usize = 64;
/// Steps of a burst, and bursts.
const STEPS: u32 = 80;
const BURSTS: u32 = 25;

/// A stream, and if it waits for the legacy default stream.
#[derive(Clone, Copy, PartialEq)]
struct Line {
    stream: u64,
    blocks: bool,
}

/// The GPU's memory, and what it has to hold in the end.
struct Work<'a> {
    program: &'a Program,
    memory: u64,
    /// The content of the cells so far.
    expected: [u32; CELLS],
    /// The stream that used each cell last.
    last: [Option<Line>; CELLS],
    kernels: [u64; 2],
    called: u32,
}

impl<'a> Work<'a> {
    fn new(program: &'a Program) -> Result<Self> {
        let memory = program.alloc(4 * CELLS)?;
        program.put(memory, &[0; CELLS])?;
        Ok(Self {
            program,
            memory,
            expected: [0; CELLS],
            last: [None; CELLS],
            kernels: [program.kernel("zernel_mac")?, program.kernel("saxpy")?],
            called: 0,
        })
    }

    fn cell(&self, at: usize) -> u64 {
        self.memory + 4 * at as u64
    }

    /// Has a stream come after the last use of a cell.
    fn order(&mut self, line: Line, at: usize, flags: u32) -> Result<()> {
        let cuda = &self.program.cuda;
        let before = self.last[at].replace(line).unwrap_or(line);
        // These wait for each other anyway.
        let is_implied = |one: Line, other: Line| one.stream == LEGACY && other.blocks;
        if before == line || is_implied(before, line) || is_implied(line, before) {
            return Ok(());
        }
        let mut event = 0;
        cuda.event_create(&mut event, flags).ok()?;
        cuda.event_record(event, before.stream).ok()?;
        cuda.stream_wait(line.stream, event, 0).ok()?;
        cuda.event_destroy(event).ok()
    }

    /// One step of random work in a stream.
    fn step(&mut self, line: Line, random: &mut Random) -> Result<()> {
        let (to, from) = (
            random.below(CELLS as u64) as usize,
            random.below(CELLS as u64) as usize,
        );
        let flags = if random.one_in(4) { 0 } else { 2 };
        self.order(line, to, flags)?;
        self.order(line, from, flags)?;
        let (cuda, stream) = (&self.program.cuda, line.stream);
        let (there, here) = (self.cell(to), self.cell(from));
        let value = random.below(1 << 16) as u32;
        match random.below(5) {
            0 => {
                cuda.set_32_async(there, value, 1, stream).ok()?;
                self.expected[to] = value;
            }
            1 if to != from => {
                cuda.copy_within_async(there, here, 4, stream).ok()?;
                self.expected[to] = self.expected[from];
            }
            2 => {
                cuda.launch(self.kernels[0], 1, 32, stream, &[there, 1, value.into(), 2])
                    .ok()?;
                let step = |x: u32| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                self.expected[to] = step(step(value));
            }
            3 => {
                let factor = 0.5_f32.to_bits();
                cuda.launch(
                    self.kernels[1],
                    1,
                    32,
                    stream,
                    &[1, factor.into(), here, there],
                )
                .ok()?;
                let [x, y] = [from, to].map(|at| f32::from_bits(self.expected[at]));
                self.expected[to] = (y + 0.5 * x).to_bits();
            }
            _ => {
                cuda.host_function(stream, count, 1).ok()?;
                self.called += 1;
            }
        }
        Ok(())
    }

    fn check(&self) -> Outcome {
        self.program.cuda.synchronize().ok()?;
        let seen = self.program.values(self.memory, CELLS)?;
        // Of what is no number, nothing but that is told.
        let plain = |word: u32| (!f32::from_bits(word).is_nan()).then_some(word);
        for (at, (seen, expected)) in seen.into_iter().zip(self.expected).enumerate() {
            check_eq!(plain(seen), plain(expected), "cell {at}");
        }
        Ok(())
    }
}

fn random_work() -> Outcome {
    let program = Program::new()?;
    let mut lines = vec![
        Line {
            stream: LEGACY,
            blocks: false,
        },
        Line {
            stream: PER_THREAD,
            blocks: true,
        },
    ];
    for at in 0..20 {
        let blocks = at % 3 == 0;
        let stream = program.stream(if blocks { 0 } else { NON_BLOCKING })?;
        lines.push(Line { stream, blocks });
    }
    let words = Words::new();
    let gate = program.register(words.address(), 4_096)?;
    let (mut work, mut random) = (Work::new(&program)?, Random::new(1));
    let before = counted();
    for burst in 1..=BURSTS {
        // All of it is queued before any of it can run.
        for (line, word) in lines.iter().zip((gate..).step_by(4)) {
            program.cuda.wait_32(line.stream, word, burst, 0).ok()?;
        }
        for _ in 0..STEPS {
            let at = random.below(lines.len() as u64) as usize;
            let line = lines[if random.one_in(5) { 0 } else { at }];
            work.step(line, &mut random)?;
        }
        // Then each stream goes as far as it may alone, in any order of streams.
        let mut left: Vec<usize> = (0..lines.len()).collect();
        while !left.is_empty() {
            let at = left.swap_remove(random.below(left.len() as u64) as usize);
            words.store(at, burst);
            for line in &lines {
                program.is_idle(line.stream)?;
            }
        }
        work.check()?;
        check_eq!(counted() - before, work.called, "burst {burst}");
    }
    Ok(())
}

fn random_work_in_a_graph() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let lines = (0..4).map(|at| {
        let stream = program.stream(if at % 2 == 0 { NON_BLOCKING } else { 0 })?;
        let blocks = false;
        Ok(Line { stream, blocks })
    });
    let lines: Vec<Line> = lines.collect::<Result<_>>()?;
    let (first, others) = (lines[0].stream, &lines[1..]);
    let (mut work, mut random) = (Work::new(&program)?, Random::new(3));
    let (mut graph, mut exec, mut event, before) = (0, 0, 0, counted());
    cuda.event_create(&mut event, 2).ok()?;
    cuda.capture_begin(first, 2).ok()?;
    // All streams are a part of the capture, and come together in the end.
    cuda.event_record(event, first).ok()?;
    for line in others {
        cuda.stream_wait(line.stream, event, 0).ok()?;
    }
    for _ in 0..5 * STEPS {
        let line = lines[random.below(lines.len() as u64) as usize];
        work.step(line, &mut random)?;
    }
    for line in others {
        cuda.event_record(event, line.stream).ok()?;
        cuda.stream_wait(first, event, 0).ok()?;
    }
    cuda.capture_end(first, &mut graph).ok()?;
    cuda.graph_instantiate(&mut exec, graph, 0).ok()?;
    let result = program.alloc_host(4)?;
    cuda.graph_launch(exec, first).ok()?;
    cuda.copy_out_async(result, work.cell(0), 4, first).ok()?;
    cuda.stream_synchronize(first).ok()?;
    check_eq!(sys::load(result), work.expected[0]);
    check_eq!(counted() - before, work.called);
    work.check()
}
