// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams that wait for a trigger, and the streams of a program beside them. A driver gives streams
//! to few channels: a stream may be behind another one's wait.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use cuda::{OwnStream, Stream};

use crate::gpu::{look, Gpu, ONE, WARP};
use crate::report::Findings;
use crate::slot::{DONE, HELD, RELEASE, SLOT, TRIGGER};
use crate::sys;
use crate::sys::memory::Words;

/// Streams of the program.
const STREAMS: usize = 32;
/// A stream that has not done a kernel by then is blocked.
const PATIENCE: Duration = Duration::from_millis(200);
/// All launches return within this.
const LAUNCHES: Duration = Duration::from_secs(5);
const BOUND: Duration = Duration::from_secs(5);

/// Lanes: slots with streams that wait.
struct Lanes<'a> {
    gpu: &'a Gpu,
    words: &'a Words,
    streams: Vec<OwnStream>,
    holder: cuda::Function,
}

impl<'a> Lanes<'a> {
    fn new(gpu: &'a Gpu, words: &'a Words, count: usize) -> Result<Self> {
        let stream = |_| Ok(gpu.driver.create_stream(gpu.context())?);
        Ok(Self {
            gpu,
            words,
            streams: (0..count).map(stream).collect::<Result<_>>()?,
            holder: gpu.holder()?,
        })
    }

    fn address(&self, lane: usize, word: usize) -> u64 {
        self.words.address(lane * SLOT + word)
    }

    /// Puts waits and holders into all.
    fn begin(&self, number: u32) -> Result<()> {
        let entered = self.gpu.enter()?;
        for (lane, stream) in self.streams.iter().map(OwnStream::stream).enumerate() {
            entered.wait_word(stream, self.address(lane, TRIGGER), number)?;
            let (held, release) = (self.address(lane, HELD), self.address(lane, RELEASE));
            let bound = BOUND.as_nanos() as u64;
            sys::launch(
                &self.holder,
                WARP,
                stream,
                [held, release, number.into(), bound],
            )?;
            sys::write_word(&entered, stream, self.address(lane, DONE), number)?;
        }
        Ok(())
    }

    fn store(&self, lane: usize, word: usize, number: u32) {
        self.words.store(lane * SLOT + word, number);
    }

    fn is(&self, lane: usize, word: usize, number: u32) -> bool {
        self.words.load(lane * SLOT + word) == number
    }
}

/// Streams of a program that do not come to their work while so many lanes wait. `None`: a launch
/// itself did not return.
fn blocked(gpu: &Gpu, words: &Words, count: usize, number: u32) -> Result<Option<usize>> {
    let entered = gpu.enter()?;
    let lanes = Lanes::new(gpu, words, count)?;
    let own: Vec<_> = (0..STREAMS)
        .map(|_| gpu.api.stream())
        .collect::<Result<_>>()?;
    let mut streams: Vec<Stream> = own.iter().map(sys::OwnStream::stream).collect();
    streams.extend([Stream::LEGACY, Stream::PER_THREAD]);
    let mark = gpu.mark()?;
    // The last slot of the page is no lane's.
    let word = words.address(63 * SLOT + 4);
    let let_go = || {
        for lane in 0..count {
            words.store(lane * SLOT + RELEASE, number);
            words.store(lane * SLOT + TRIGGER, number);
        }
    };
    let (launched, is_launched) = mpsc::channel();
    let blocked = thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let is_late = is_launched.recv_timeout(LAUNCHES).is_err();
            if is_late {
                let_go();
            }
            is_late
        });
        lanes.begin(number)?;
        for &stream in &streams {
            sys::launch(&mark, ONE, stream, [word, number.into()])?;
        }
        // Nobody listens if it was late.
        let _ = launched.send(());
        thread::sleep(PATIENCE);
        let mut blocked = 0;
        for &stream in &streams {
            blocked += usize::from(!entered.is_idle(stream)?);
        }
        let_go();
        let is_late = watch.join().unwrap_or(true);
        anyhow::Ok((!is_late).then_some(blocked))
    });
    let_go();
    for lane in 0..count {
        look("a lane's end", || lanes.is(lane, DONE, number))?;
    }
    entered.synchronize()?;
    blocked
}

/// Lanes that hold at once, the last to come released first. The number of those that were held at
/// the same time.
fn together(gpu: &Gpu, words: &Words, count: usize, number: u32) -> Result<usize> {
    let lanes = Lanes::new(gpu, words, count)?;
    lanes.begin(number)?;
    for lane in (0..count).rev() {
        lanes.store(lane, TRIGGER, number);
    }
    thread::sleep(PATIENCE);
    let held = (0..count)
        .filter(|&lane| lanes.is(lane, HELD, number))
        .count();
    for lane in 0..count {
        lanes.store(lane, RELEASE, number);
        if lanes.is(lane, HELD, number) {
            look("the end of a lane that was released", || {
                lanes.is(lane, DONE, number)
            })?;
        }
    }
    for lane in 0..count {
        look("a lane's end", || lanes.is(lane, DONE, number))?;
    }
    gpu.enter()?.synchronize()?;
    Ok(held)
}

pub fn run(gpu: &Gpu) -> Result<Findings> {
    let mut findings = Findings::default();
    let words = gpu.words()?;
    let connections = std::env::var("CUDA_DEVICE_MAX_CONNECTIONS");
    findings.value(
        "CUDA_DEVICE_MAX_CONNECTIONS",
        connections.unwrap_or_else(|_| "-".into()),
    );
    let mut number = 0;
    for count in [1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 63] {
        number += 1;
        let blocked = blocked(gpu, &words, count, number)?;
        number += 1;
        let held = together(gpu, &words, count, number)?;
        let told = match blocked {
            Some(blocked) => format!("block {blocked} of {} streams", STREAMS + 2),
            None => "block a launch".to_owned(),
        };
        findings.value(
            &format!("{count} lanes"),
            format!("{told}; {held} hold at once"),
        );
        if count <= 4 {
            let name = format!("{count} lanes block no stream of the program");
            findings.expect_on_hardware(name, blocked == Some(0));
            findings.expect(format!("{count} lanes hold at once"), held == count);
        }
    }
    Ok(findings)
}
