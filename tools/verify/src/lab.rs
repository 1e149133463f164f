// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab of a check: zernel, one GPU, work for it, tunables, and the time that is left.

use std::cell::Cell;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use libzernel::class::Attributes;
use libzernel::request::{Begin, Slots};
use libzernel::{gpu, tsg, Gpu, Target, Tsg, Zernel};

use crate::settings::Settings;
use crate::work::{Context, Ran, Ticket, Work};

/// The lab of a check.
pub struct Lab<'a> {
    /// zernel.
    pub zernel: Zernel,
    /// Work on the GPU.
    pub work: &'a dyn Work,
    gpu: gpu::Id,
    device: &'a Path,
    settings: &'a Settings,
    deadline: Cell<Instant>,
    key: Cell<u64>,
}

impl<'a> Lab<'a> {
    /// Of a GPU; `device` is zernel's node.
    ///
    /// Errors: those of opening that.
    pub fn new(
        device: &'a Path,
        gpu: gpu::Id,
        work: &'a dyn Work,
        settings: &'a Settings,
    ) -> Result<Self> {
        Ok(Self {
            zernel: Zernel::open_at(device)?,
            work,
            gpu,
            device,
            settings,
            deadline: Cell::new(Instant::now()),
            key: Cell::new(libzernel::Timestamp::now().as_ns()),
        })
    }

    /// The next check has so much time.
    pub fn give_time(&self, time: Duration) {
        self.deadline.set(Instant::now() + time);
    }

    /// One number for hardware, another one for a software GPU, which may be slow.
    pub fn count(&self, hardware: usize, software: usize) -> usize {
        if self.work.is_hardware() {
            hardware
        } else {
            software
        }
    }

    /// The GPU as zernel sees it now.
    pub fn gpu(&self) -> Result<Gpu> {
        let mut gpus = self.zernel.gpus();
        let found = gpus.find(|gpu| gpu.as_ref().map_or(true, |gpu| gpu.id == self.gpu));
        Ok(found.context("the GPU is gone")??)
    }

    /// A TSG as zernel sees it now.
    pub fn tsg(&self, id: tsg::Id) -> Result<Tsg> {
        let found = self.zernel.tsgs_of(&Target::Tsg(id)).next();
        Ok(found.context("the TSG is gone")??)
    }

    /// Sets a tunable until the end of the check.
    pub fn set(&self, name: &str, value: impl std::fmt::Display) -> Result<()> {
        self.settings.set(name, &value.to_string())
    }

    /// The value of a tunable.
    pub fn tunable(&self, name: &str) -> Result<String> {
        self.settings.get(name)
    }

    /// A new context of a class, with the settings of that in force.
    pub fn context(&self, class: impl Into<Attributes>) -> Result<Box<dyn Context>> {
        let class = class.into();
        let label = class.level.map_or_else(String::new, |l| l.to_string());
        let context = self.work.context(&label)?;
        for &id in context.tsgs() {
            self.zernel.set_class(&Target::Tsg(id), class)?;
        }
        self.settle(&*context)?;
        Ok(context)
    }

    /// Waits until zernel has set all that it wants of a context.
    pub fn settle(&self, context: &dyn Context) -> Result<()> {
        self.wait("zernel has set time slice and level", || {
            for &id in context.tsgs() {
                let tsg = self.tsg(id)?;
                if tsg.failed {
                    let error = std::io::Error::from_raw_os_error(-tsg.error);
                    bail!("the driver takes no settings of TSG {id}: {error}");
                }
                if tsg.pending {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
    }

    /// Waits until zernel has given a context a time slice.
    pub fn wait_slice(&self, context: &dyn Context, us: u32) -> Result<()> {
        self.wait(&format!("a time slice of {us} us"), || {
            let tsg = self.tsg(context.tsg())?;
            Ok((tsg.timeslice_us == us && !tsg.pending).then_some(()))
        })
    }

    /// Waits until a context's spinning work has had the GPU.
    pub fn wait_runs(&self, context: &dyn Context) -> Result<()> {
        let before = context.progress()?;
        self.wait("the spinning work has the GPU", || {
            Ok((context.progress()? > before).then_some(()))
        })
    }

    /// Waits for the end of an item or a holder.
    pub fn wait_ran(&self, context: &dyn Context, ticket: Ticket) -> Result<Ran> {
        self.wait("the end of an item", || context.ran(ticket))
    }

    /// Asks until there is an answer.
    ///
    /// Errors: the check has no time left.
    pub fn wait<T>(&self, what: &str, ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let answer = self.within(Duration::MAX, ask)?;
        answer.with_context(|| format!("not in the time of the check: {what}"))
    }

    /// Asks until there is an answer, for so long and no longer than the check has time.
    pub fn within<T>(
        &self,
        patience: Duration,
        mut ask: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let begin = Instant::now();
        let mut pause = Duration::from_micros(50);
        loop {
            if let Some(answer) = ask()? {
                return Ok(Some(answer));
            }
            if begin.elapsed() > patience || Instant::now() > self.deadline.get() {
                return Ok(None);
            }
            sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(2));
        }
    }

    /// Lets time pass.
    ///
    /// Errors: the check has no time left.
    pub fn pause(&self, time: Duration) -> Result<()> {
        if Instant::now() + time > self.deadline.get() {
            bail!("the time of the check is over");
        }
        sleep(time);
        Ok(())
    }

    /// A request of a context that is triggered at once, with a key that has no history.
    pub fn request(&self, context: &dyn Context) -> Begin {
        self.key.set(self.key.get() + 1);
        Begin::new(context.tsg()).key(self.key.get())
    }

    /// Slots of a file of their own, which ends all their requests with them.
    pub fn slots(&self) -> Result<Slots> {
        Ok(Slots::map(&Zernel::open_at(self.device)?, 0..1)?)
    }

    /// Fails with the reason unless the GPU has an ability.
    pub fn needs(&self, is_able: impl Fn(&Gpu) -> bool, why: &str) -> Result<()> {
        if is_able(&self.gpu()?) {
            return Ok(());
        }
        crate::work::not_here(why)
    }
}
