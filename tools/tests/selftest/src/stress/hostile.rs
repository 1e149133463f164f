// SPDX-License-Identifier: GPL-2.0
//! A hostile client: short-lived processes that do whatever comes to mind, and are killed.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use libzernel::class::Attributes;
use libzernel::sim::{Condition, Context, ContextSpec, EngineChoice, Item, Sim};
use libzernel::sys::abi;
use libzernel::{EventStream, Level, Target, Timestamp, Weight, Zernel};

use super::raw::{self, Arena, ARENA};
use super::throw;
use crate::child::Child;
use testkit::passing;
use testkit::random::Random;

/// Processes of a client at a time.
const WORKERS: usize = 3;

/// A hostile client.
pub(super) struct Client {
    random: Random,
    group: PathBuf,
    sockets: [OwnedFd; 2],
}

impl Client {
    pub(super) fn new(seed: u64, group: PathBuf, sockets: [OwnedFd; 2]) -> Result<Self> {
        Ok(Self {
            random: Random::new(seed),
            group,
            sockets,
        })
    }

    /// Starts processes and kills them at any moment, for ever.
    pub(super) fn go_on(mut self) -> Result<()> {
        let mut workers: Vec<Child> = Vec::new();
        loop {
            if workers.len() >= WORKERS {
                let victim = self.random.below(workers.len() as u64) as usize;
                // Killed and reaped.
                drop_one(workers.swap_remove(victim))?;
            }
            let seed = self.random.draw();
            let (group, sockets) = (self.group.clone(), &self.sockets);
            workers.push(Child::spawn(|| {
                Worker::new(seed, group, sockets)?.misbehave()
            })?);
            std::thread::sleep(Duration::from_micros(1_000 + self.random.below(150_000)));
        }
    }
}

/// Ends one process, but not its group, which is that of the client.
fn drop_one(worker: Child) -> Result<()> {
    worker.kill()?;
    worker.end()?;
    Ok(())
}

/// One of its processes.
struct Worker<'a> {
    random: Random,
    group: PathBuf,
    sockets: &'a [OwnedFd; 2],
    arena: Arc<Arena>,
    zernel: Vec<Zernel>,
    sims: Vec<Sim>,
    streams: Vec<EventStream>,
    contexts: Vec<Context>,
    strange: Vec<OwnedFd>,
}

impl<'a> Worker<'a> {
    fn new(seed: u64, group: PathBuf, sockets: &'a [OwnedFd; 2]) -> Result<Self> {
        Ok(Self {
            random: Random::new(seed),
            group,
            sockets,
            arena: Arena::flickering()?,
            zernel: vec![Zernel::open()?],
            sims: vec![Sim::open()?],
            streams: Vec::new(),
            contexts: Vec::new(),
            strange: Vec::new(),
        })
    }

    fn misbehave(mut self) -> Result<()> {
        loop {
            // Every error is as good as any success.
            let _ = match self.random.below(16) {
                0..=3 => self.call_anything(),
                4 | 5 => self.change_a_class(),
                6 => self.change_a_cgroup(),
                7 | 8 => self.make_a_context(),
                9 | 10 => self.submit_tiny_work(),
                11 => self.submit_waits(),
                12 => self.open_a_stream(),
                13 => self.pass_a_file(),
                14 => self.fork_a_little(),
                _ => self.let_something_go(),
            };
        }
    }

    /// Any number, any size, any bytes, on either device or what came out of the socket.
    fn call_anything(&mut self) -> Result<()> {
        let known: [(u32, u32, usize); 24] = [
            (abi::ZERNEL_IOC_MAGIC, 0x20, 72),
            (abi::ZERNEL_IOC_MAGIC, 0x21, 80),
            (abi::ZERNEL_IOC_MAGIC, 0x22, 88),
            (abi::ZERNEL_IOC_MAGIC, 0x23, 32),
            (abi::ZERNEL_IOC_MAGIC, 0x24, 8),
            (abi::ZERNEL_IOC_MAGIC, 0x30, 48),
            (abi::ZERNEL_IOC_MAGIC, 0x31, 184),
            (abi::ZERNEL_IOC_MAGIC, 0x40, 72),
            (abi::ZERNEL_IOC_MAGIC, 0x41, 16),
            (abi::ZERNEL_IOC_MAGIC, 0x50, 32),
            (abi::ZERNEL_IOC_MAGIC, 0x51, 40),
            (abi::ZERNEL_IOC_MAGIC, 0x52, 72),
            (abi::ZERNEL_IOC_MAGIC, 0x53, 24),
            (abi::ZERNEL_SIM_IOC_TYPE, 1, 128),
            (abi::ZERNEL_SIM_IOC_TYPE, 2, 64),
            (abi::ZERNEL_SIM_IOC_TYPE, 3, 8),
            (abi::ZERNEL_SIM_IOC_TYPE, 4, 40),
            (abi::ZERNEL_SIM_IOC_TYPE, 6, 16),
            (abi::ZERNEL_SIM_IOC_TYPE, 7, 8),
            (abi::ZERNEL_SIM_IOC_TYPE, 8, 24),
            (abi::ZERNEL_SIM_IOC_TYPE, 9, 160),
            (abi::ZERNEL_SIM_IOC_TYPE, 10, 80),
            (abi::ZERNEL_SIM_IOC_TYPE, 12, 32),
            (abi::ZERNEL_SIM_IOC_TYPE, 13, 48),
        ];
        let (group, mut nr, mut size) = known[self.random.below(known.len() as u64) as usize];
        if self.random.one_in(4) {
            size = self.random.below(1 << 14) as usize;
        }
        if self.random.one_in(8) {
            nr = self.random.below(256) as u32;
        }
        let mut bytes = Vec::new();
        while bytes.len() < size.min(512) {
            let word = match self.random.below(6) {
                // An address that is fine, at times.
                0 => self.arena.address(self.random.below(ARENA as u64) as usize) as u64,
                1 | 2 => 0,
                _ => self.random.edge(),
            };
            match self.random.below(2) {
                0 => bytes.extend(word.to_ne_bytes()),
                _ => bytes.extend((word as u32).to_ne_bytes()),
            }
        }
        let offset = self.random.below(ARENA as u64) as usize & !7;
        self.arena.put(offset, &bytes);
        let address = match self.random.below(16) {
            0 => self.random.edge() as usize,
            _ => self.arena.address(offset),
        };
        let number = 3 << 30 | (size as u32) << 16 | group << 8 | nr;
        let fd = match self.random.below(8) {
            0 if !self.strange.is_empty() => self.strange[0].as_fd(),
            1 if group == abi::ZERNEL_IOC_MAGIC => self.sims[0].as_fd(),
            _ if group == abi::ZERNEL_IOC_MAGIC => self.zernel[0].as_fd(),
            _ => self.sims[0].as_fd(),
        };
        raw::call(fd, number, address);
        Ok(())
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
            _ => match self.zernel[0].tsgs().next().transpose()? {
                Some(tsg) => Target::Tsg(tsg.id),
                None => Target::Tsg(libzernel::tsg::Id::new(self.random.edge())),
            },
        };
        match self.random.below(4) {
            0 => self.zernel[0].clear_class(&target)?,
            1 => drop(self.zernel[0].class(&target)?),
            _ => {
                let level = Level::new(self.random.below(8) as u8).unwrap_or(Level::BE);
                let weight = Weight::new(self.random.below(1_500) as u32);
                let mut class = Attributes::from(level);
                class.weight = weight;
                if self.random.below(3) == 0 {
                    class.timeslice_us = Some(self.random.below(12_000) as u32);
                }
                self.zernel[0].set_class(&target, class)?
            }
        };
        Ok(())
    }

    fn change_a_cgroup(&mut self) -> Result<()> {
        let path = self.group.join(format!("g{}", self.random.below(4)));
        match self.random.below(5) {
            0 => fs::create_dir(&path)?,
            1 => fs::remove_dir(&path)?,
            2 => fs::write(path.join("cgroup.procs"), "0")?,
            3 => fs::write(self.group.join("cgroup.procs"), "0")?,
            _ => {
                let target = Target::cgroup(&path)?;
                self.zernel[0].set_class(&target, Level::BE)?;
            }
        }
        Ok(())
    }

    fn make_a_context(&mut self) -> Result<()> {
        let spec = ContextSpec {
            gpu: self.random.below(3) as u32,
            engine: match self.random.below(3) {
                0 => EngineChoice::AnyCopy,
                1 => EngineChoice::Copy(self.random.below(4) as u32),
                _ => EngineChoice::Compute,
            },
            channels: self.random.below(18) as u32,
            label: "hostile",
            share_words: None,
        };
        let context = self.sims[0].create_context(&spec)?;
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
            self.sims[0].completions(1 + count / 2)?;
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
                let deadline = Timestamp::now() + bound / 4;
                context.wait(0, submitted.last_seq, deadline)?;
            }
        }
        Ok(())
    }

    /// Streams that nobody reads, up to the quota and beyond.
    fn open_a_stream(&mut self) -> Result<()> {
        self.streams.push(EventStream::open()?);
        if self.random.one_in(3) {
            if let Some(stream) = self.streams.first_mut() {
                stream.next_within(Some(Duration::ZERO))?;
            }
        }
        Ok(())
    }

    fn pass_a_file(&mut self) -> Result<()> {
        let end = self.random.below(2) as usize;
        match self.random.below(4) {
            0 => throw(&self.sockets[end], &self.sims[0]),
            1 => throw(&self.sockets[end], &self.zernel[0]),
            _ => {
                if let Some(fd) = passing::receive_now(&self.sockets[1 - end])? {
                    self.strange.insert(0, fd);
                    self.strange.truncate(4);
                }
            }
        }
        Ok(())
    }

    /// A few children with all files open, that end at once or are killed.
    fn fork_a_little(&mut self) -> Result<()> {
        let count = self.random.below(4);
        for _ in 0..count {
            let end = Instant::now() + Duration::from_micros(self.random.below(3_000));
            let sim = self.sims[0].clone();
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

    fn let_something_go(&mut self) -> Result<()> {
        match self.random.below(6) {
            0 => self.contexts.clear(),
            1 => self.streams.truncate(8),
            2 => self.strange.clear(),
            3 => self.zernel = vec![Zernel::open()?],
            4 => {
                self.contexts.clear();
                self.sims = vec![Sim::open()?];
            }
            _ => drop(self.contexts.pop()),
        }
        Ok(())
    }
}
