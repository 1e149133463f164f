// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hostile client: short-lived processes that do whatever comes to mind, and are killed.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use libzernel::class::Attributes;
use libzernel::sim::{Condition, Context, ContextSpec, EngineChoice, Item, Sim};
use libzernel::sys::abi;
use libzernel::{EventStream, Level, Target, Timestamp, Weight, Zernel};
use testkit::passing;
use testkit::random::Random;

use crate::child::Child;
use crate::sys::Arena;

/// Processes of a client at a time.
const WORKERS: usize = 3;

/// Numbers of calls of either device, and the sizes of their structures.
const ZERNEL: ([u32; 13], [u32; 13]) = (
    [32, 33, 34, 35, 36, 48, 49, 64, 65, 80, 81, 82, 83],
    [72, 80, 88, 32, 8, 48, 184, 72, 16, 32, 40, 72, 24],
);
const SIM: ([u32; 11], [u32; 11]) = (
    [1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13],
    [128, 64, 8, 40, 16, 8, 24, 160, 80, 32, 48],
);

/// Starts processes and kills them at any moment, for ever.
pub(super) fn client(seed: u64, group: &Path, sockets: &[OwnedFd; 2]) -> Result<()> {
    let mut random = Random::new(seed);
    let mut workers: Vec<Child> = Vec::new();
    loop {
        if workers.len() >= WORKERS {
            let victim = workers.swap_remove(random.below(WORKERS as u64) as usize);
            // Not its group, which is that of the client.
            victim.kill()?;
            victim.end()?;
        }
        let seed = random.draw();
        workers.push(Child::spawn(|| {
            let worker = Worker {
                random: Random::new(seed),
                group,
                sockets,
                arena: Arena::flickering()?,
                zernel: Zernel::open()?,
                sim: Sim::open()?,
                streams: Vec::new(),
                contexts: Vec::new(),
                strange: Vec::new(),
            };
            worker.misbehave()
        })?);
        std::thread::sleep(Duration::from_micros(1_000 + random.below(150_000)));
    }
}

/// One of its processes.
struct Worker<'a> {
    random: Random,
    group: &'a Path,
    sockets: &'a [OwnedFd; 2],
    arena: Arc<Arena>,
    zernel: Zernel,
    sim: Sim,
    streams: Vec<EventStream>,
    contexts: Vec<Context>,
    strange: Vec<OwnedFd>,
}

impl Worker<'_> {
    fn misbehave(mut self) -> Result<()> {
        loop {
            // Every error is as good as any success.
            let _ = self.act();
        }
    }

    fn act(&mut self) -> Result<()> {
        let end = self.random.below(2) as usize;
        let group = self.group.join(format!("g{}", self.random.below(4)));
        match self.random.below(64) {
            0..=15 => self.call_anything(),
            16..=23 => self.change_a_class()?,
            24..=31 => self.make_a_context()?,
            32..=39 => self.submit_tiny_work()?,
            40..=43 => self.submit_waits()?,
            44..=47 => self.fork_a_little()?,
            48 => fs::create_dir(group)?,
            49 => fs::remove_dir(group)?,
            50 => fs::write(group.join("cgroup.procs"), "0")?,
            51 => fs::write(self.group.join("cgroup.procs"), "0")?,
            52 => self.zernel.set_class(&Target::cgroup(group)?, Level::BE)?,
            // Streams that nobody reads, up to the quota and beyond.
            53..=55 => self.streams.push(EventStream::open()?),
            56 => {
                if let Some(stream) = self.streams.first_mut() {
                    stream.next_within(Some(Duration::ZERO))?;
                }
            }
            57 => passing::send_now(&self.sockets[end], self.sim.as_fd())?,
            58 => passing::send_now(&self.sockets[end], self.zernel.as_fd())?,
            59 => self
                .strange
                .extend(passing::receive_now(&self.sockets[end])?),
            60 => self.contexts.truncate(end),
            61 => self.streams.truncate(8),
            62 => self.zernel = Zernel::open()?,
            _ => {
                self.contexts.clear();
                self.strange.clear();
                self.sim = Sim::open()?;
            }
        }
        Ok(())
    }

    /// Any number, any size, any bytes, on either device or what came out of the socket.
    fn call_anything(&mut self) {
        let known = self.random.below(24) as usize;
        let of_zernel = known < 13;
        let (group, mut nr, mut size) = match of_zernel {
            true => (abi::ZERNEL_IOC_MAGIC, ZERNEL.0[known], ZERNEL.1[known]),
            false => (
                abi::ZERNEL_SIM_IOC_TYPE,
                SIM.0[known - 13],
                SIM.1[known - 13],
            ),
        };
        if self.random.one_in(4) {
            size = self.random.below(1 << 14) as u32;
        }
        if self.random.one_in(8) {
            nr = self.random.below(256) as u32;
        }
        let mut bytes = Vec::new();
        while bytes.len() < size.min(512) as usize {
            let word = match self.random.below(6) {
                // An address that is fine, at times.
                0 => self.arena.address(self.random.draw() as usize) as u64,
                1 | 2 => 0,
                _ => self.random.edge(),
            };
            let length = if self.random.one_in(2) { 8 } else { 4 };
            bytes.extend(&word.to_ne_bytes()[..length]);
        }
        let offset = self.random.below(Arena::SIZE as u64) as usize & !7;
        self.arena.put(offset, &bytes);
        let address = match self.random.below(16) {
            0 => self.random.edge() as usize,
            _ => self.arena.address(offset),
        };
        let fd = match (self.random.below(8), self.strange.last()) {
            (0, Some(strange)) => strange.as_fd(),
            (2.., _) if of_zernel => self.zernel.as_fd(),
            _ => self.sim.as_fd(),
        };
        Arena::call(fd, 3 << 30 | size << 16 | group << 8 | nr, address);
    }

    /// Of itself, of any process, of any TSG.
    fn change_a_class(&mut self) -> Result<()> {
        let pid = 1 + self.random.below(2_000) as u32;
        let target = match self.random.below(7) {
            0 | 1 => Target::current_process(),
            2 => Target::current_thread(),
            3 => Target::Process(pid),
            4 => Target::Thread(pid),
            5 => Target::pidfd(pid)?,
            _ => match self.zernel.tsgs().next().transpose()? {
                Some(tsg) => Target::Tsg(tsg.id),
                None => Target::Tsg(libzernel::tsg::Id::new(self.random.edge())),
            },
        };
        match self.random.below(4) {
            0 => self.zernel.clear_class(&target)?,
            1 => drop(self.zernel.class(&target)?),
            _ => {
                let level = Level::new(self.random.below(8) as u8).unwrap_or(Level::BE);
                let mut class = Attributes::from(level);
                class.weight = Weight::new(self.random.below(1_500) as u32);
                let slice = self.random.below(12_000) as u32;
                class.timeslice_us = self.random.one_in(3).then_some(slice);
                self.zernel.set_class(&target, class)?
            }
        };
        Ok(())
    }

    fn make_a_context(&mut self) -> Result<()> {
        let context = self.sim.create_context(&ContextSpec {
            gpu: self.random.below(3) as u32,
            engine: match self.random.below(3) {
                0 => EngineChoice::AnyCopy,
                1 => EngineChoice::Copy(self.random.below(4) as u32),
                _ => EngineChoice::Compute,
            },
            channels: self.random.below(18) as u32,
            label: "hostile",
            share_words: None,
        })?;
        if self.contexts.len() < 32 {
            self.contexts.push(context);
        }
        Ok(())
    }

    fn context(&mut self) -> Option<&Context> {
        let count = self.contexts.len() as u64;
        let number = self.random.below(count.max(1)) as usize;
        self.contexts.get(number)
    }

    fn submit_tiny_work(&mut self) -> Result<()> {
        let items = [Item::work(Duration::from_micros(1)).notify(); 256];
        let count = 1 + self.random.below(256) as usize;
        if let Some(context) = self.context() {
            context.submit(0, &items[..count])?;
        }
        if self.random.one_in(4) {
            self.sim.completions(1 + count / 2)?;
        }
        Ok(())
    }

    /// Waits and holds on words that may change, long work, and waiting for it.
    fn submit_waits(&mut self) -> Result<()> {
        let value = self.random.below(3) as u32;
        let bound = Duration::from_micros(1 + self.random.below(20_000));
        let wait = self.random.one_in(2);
        if let Some(context) = self.context() {
            let items = [
                Item::hold(0, Condition::NotEqual, value, bound),
                Item::wait(1, Condition::AtLeast, value),
                Item::work(bound),
                Item::release(1, value),
            ];
            let submitted = context.submit(0, &items)?;
            let words = context.words(2)?;
            words.store(0, value);
            words.store(1, value + 1);
            context.doorbell()?;
            if wait {
                context.wait(0, submitted.last_seq, Timestamp::now() + bound / 4)?;
            }
        }
        Ok(())
    }

    /// A few children with all files open, that end at once or are killed.
    fn fork_a_little(&mut self) -> Result<()> {
        for _ in 0..self.random.below(4) {
            let end = Instant::now() + Duration::from_micros(self.random.below(3_000));
            let sim = self.sim.clone();
            let child = Child::spawn(move || {
                let context = sim.create_context(&ContextSpec::compute("forked"))?;
                context.submit(0, &[Item::work(Duration::from_micros(500)); 16])?;
                std::mem::forget(context);
                while Instant::now() < end {
                    Zernel::open()?.set_class(&Target::current_process(), Level::BE)?;
                }
                Ok(())
            })?;
            if self.random.one_in(2) {
                child.kill()?;
            }
            child.end()?;
        }
        Ok(())
    }
}
