// SPDX-License-Identifier: MIT OR Apache-2.0
//! A runtime with a TSG on the engine, and its work.

use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::sim::{Attachment, Context, Item, Sim};
use libzernel::Timestamp;
use rustix::io::Errno;
use testkit::{wait_until, SOON};

use crate::rm::abi::{control, engine, DisableChannels, Policy};
use crate::rm::{Handle, Runtime, Spec};

/// Work that is soon done.
pub const TICK: Duration = Duration::from_millis(1);
/// Work that no case waits for.
pub const LONG: Duration = Duration::from_secs(60);
/// A time slice that no case waits for, in microseconds.
pub const LONG_SLICE: u64 = 60_000_000;
/// Longer than it takes if it happens.
const PAUSE: Duration = Duration::from_millis(30);

/// A TSG on the engine.
pub struct Plan {
    pub context: Context,
    pub runtime: Runtime,
    pub tsg: Handle,
    pub channels: Vec<Handle>,
}

/// The error number of a call of the engine.
pub fn errno_of<T>(result: libzernel::Result<T>) -> Option<Errno> {
    result.err().and_then(|error| error.errno())
}

/// The time by which all has to have happened.
pub fn soon() -> Timestamp {
    Timestamp::now() + SOON
}

impl Plan {
    /// On the compute engine.
    pub fn new(sim: &Sim, spec: Spec, channels: usize) -> Result<Self> {
        Self::on(sim, spec, engine::GR0, channels)
    }

    /// On an engine; scheduled.
    pub fn on(sim: &Sim, spec: Spec, engine: u32, channels: usize) -> Result<Self> {
        let runtime = Runtime::with(spec)?;
        let tsg = runtime.tsg(engine)?;
        let channels = (0..channels).map(|_| Ok(runtime.channel(tsg)?));
        let channels = channels.collect::<Result<_>>()?;
        let context = sim.attach(&Attachment {
            client: runtime.client.0,
            object: tsg.0,
            share_words: None,
        })?;
        let plan = Self {
            context,
            runtime,
            tsg,
            channels,
        };
        plan.schedule(true)?;
        Ok(plan)
    }

    /// Lets the driver schedule it, or not.
    pub fn schedule(&self, on: bool) -> Result<()> {
        let mut params = [u8::from(on), 0, 0];
        Ok(self
            .runtime
            .control(self.tsg, control::SCHEDULE, &mut params)?)
    }

    /// Queues items; the number of the last one.
    pub fn submit(&self, channel: u32, items: &[Item]) -> Result<u64> {
        Ok(self.context.submit(channel, items)?.last_seq)
    }

    /// Waits for an item.
    pub fn wait(&self, channel: u32, item: u64) -> Result<()> {
        let waited = self.context.wait(channel, item, soon());
        waited.with_context(|| format!("item {item} of channel {channel}"))?;
        Ok(())
    }

    /// The error of a wait for an item that does not complete.
    pub fn misses(&self, channel: u32, item: u64) -> Option<Errno> {
        errno_of(self.context.wait(channel, item, Timestamp::now() + PAUSE))
    }

    /// Disables channels of it, or enables them.
    pub fn disable(&self, channels: &[Handle], disable: bool) -> Result<()> {
        let mut params = DisableChannels {
            disable: disable.into(),
            count: channels.len() as u32,
            ..DisableChannels::default()
        };
        for (at, channel) in channels.iter().enumerate() {
            params.clients[at] = self.runtime.client.0;
            params.channels[at] = channel.0;
        }
        let subdevice = self.runtime.subdevice.context("a subdevice")?;
        Ok(self
            .runtime
            .control(subdevice, control::DISABLE_CHANNELS, &mut params)?)
    }

    /// Sets the policy of the GPU's run lists.
    pub fn policy(&self, policy: u32) -> Result<()> {
        let mut params = Policy { flags: 0, policy };
        let subdevice = self.runtime.subdevice.context("a subdevice")?;
        Ok(self
            .runtime
            .control(subdevice, control::RUNLIST_POLICY, &mut params)?)
    }

    /// Starts the run list anew, and waits until the engine was given away.
    pub fn restart(&self, force: bool) -> Result<()> {
        let mut params = [u8::from(force), 0];
        Ok(self
            .runtime
            .control(self.channels[0], control::RESTART_RUNLIST, &mut params)?)
    }

    /// True if it has the engine.
    pub fn has_engine(&self) -> Result<bool> {
        let stats = self.context.stats()?;
        Ok(stats.on_engine && stats.busy_ns > 0)
    }
}

/// Waits until a TSG has the engine.
pub fn until_it_runs(plan: &Plan) -> Result<()> {
    wait_until("it has the engine", || plan.has_engine())
}

/// One that has the engine for a long slice, and one without work.
pub fn holder_and_next(sim: &Sim) -> Result<(Plan, Plan)> {
    let holder = Plan::new(sim, Spec::USUAL, 2)?;
    let next = Plan::new(sim, Spec::USUAL, 1)?;
    holder.runtime.set_timeslice(holder.tsg, LONG_SLICE)?;
    holder.submit(0, &[Item::work(LONG)])?;
    until_it_runs(&holder)?;
    Ok((holder, next))
}
