// SPDX-License-Identifier: GPL-2.0
//! Shows a GPU's work in its registers.
//!
//! They are written under the lock of the GPU whenever something may have happened, those alone
//! whose value is another one. So they are as the model is, at the time that it has come to.

use crate::{
    glue::simrm::{
        engine::{
            self,
            Tsg, //
        },
        raw::*,
        registers::Registers, //
    },
    model::{
        event::{
            self,
            Activity, //
        },
        gpu::{
            Gpu,
            Store, //
        },
        registers::chram,
        tsg::{
            Context,
            Handle, //
        }, //
    },
};
use kernel::prelude::*;

/// Run lists that have registers.
const RUNLISTS: usize = SIMRM_ENGINE_LAST as usize + 1;
/// `NV_RUNLIST_CHANNEL_CONFIG`: where the channels' registers are, and the logarithm of their number.
const CHANNEL_CONFIG: u32 = 0x004;
/// `NV_RUNLIST_ENGINE_STATUS0(0)`: a run list has one engine.
const ENGINE_STATUS0: u32 = 0x200;

/// The run list of an engine of the model.
fn runlist_of(engine: u32) -> u32 {
    match engine {
        0 => SIMRM_ENGINE_GR0,
        _ => engine.saturating_sub(1).saturating_add(SIMRM_ENGINE_COPY0),
    }
}

fn runlist_base(runlist: u32) -> u32 {
    SIMRM_RUNLIST_BASE.saturating_add(runlist.saturating_mul(SIMRM_RUNLIST_SIZE))
}

fn chram_base(runlist: u32) -> u32 {
    SIMRM_CHRAM_BASE.saturating_add(runlist.saturating_mul(SIMRM_CHRAM_SIZE))
}

/// A register and its value.
#[derive(Clone, Copy)]
struct Shown {
    offset: u32,
    value: u32,
}

/// A channel of a TSG.
#[derive(Clone, Copy)]
struct Channel {
    register: Shown,
    /// It is pending, with work or without.
    pending: bool,
}

/// A TSG that has work, and its registers.
struct Entry {
    tsg: Handle,
    /// Its number on its run list.
    id: u32,
    channels: [Channel; SIMRM_ENGINE_CHANNELS as usize],
    /// Those that there are.
    count: usize,
}

impl Entry {
    /// Shows its channels, if there is such a TSG.
    fn show<C: Context, S: Store<C>>(
        &mut self,
        gpu: &Gpu<C, S>,
        registers: Option<&Registers>,
        lie: Option<u32>,
    ) -> Result {
        let shown = gpu.channel_words(self.tsg, |number, word| {
            if let Some(channel) = self.channels.get_mut(number as usize) {
                let more = if channel.pending { chram::PENDING } else { 0 };
                let Shown { offset, value } = &mut channel.register;
                show(registers, *offset, value, lie.unwrap_or(word | more));
            }
        });
        Ok(shown?)
    }
}

/// Shows the work of a GPU.
pub(crate) struct Listener {
    /// Its number, while it is started.
    number: Option<u32>,
    /// Those of a GPU that is started.
    registers: Option<Registers>,
    /// Of each run list, the state of its engine.
    engines: [u32; RUNLISTS],
    /// There is room for all TSGs.
    tsgs: KVVec<Entry>,
    /// The value of all registers, if they lie.
    lie: Option<u32>,
    /// A TSG is new, or there are other lies: all channels are shown anew.
    anew: bool,
}

/// Writes a register, if it has another value.
fn show(registers: Option<&Registers>, offset: u32, shown: &mut u32, value: u32) {
    if core::mem::replace(shown, value) != value {
        if let Some(registers) = registers {
            registers.write(offset, value);
        }
    }
}

impl Listener {
    /// Of a GPU that is not started.
    pub(crate) fn new(max_tsgs: u32) -> Result<Self> {
        Ok(Self {
            number: None,
            registers: None,
            engines: [0; RUNLISTS],
            tsgs: KVVec::with_capacity(max_tsgs as usize, GFP_KERNEL)?,
            lie: None,
            anew: false,
        })
    }

    /// The GPU starts.
    pub(crate) fn map(&mut self, number: u32, registers: Registers) {
        for runlist in SIMRM_ENGINE_GR0..=SIMRM_ENGINE_LAST {
            let config = chram_base(runlist) | SIMRM_CHANNELS.trailing_zeros();
            registers.write(runlist_base(runlist).saturating_add(CHANNEL_CONFIG), config);
            registers.write(runlist_base(runlist).saturating_add(ENGINE_STATUS0), 0);
        }
        self.engines = [0; RUNLISTS];
        self.registers = Some(registers);
        self.number = Some(number);
    }

    /// The GPU stops; its TSGs have ended.
    pub(crate) fn unmap(&mut self) {
        self.registers = None;
        self.number = None;
    }

    /// Shows a TSG from now on, until it ends.
    pub(crate) fn show(&mut self, tsg: Handle, desc: &Tsg<'_>) -> Result {
        let none = Channel {
            register: Shown {
                offset: 0,
                value: 0,
            },
            pending: false,
        };
        let mut channels = [none; SIMRM_ENGINE_CHANNELS as usize];
        for (channel, id) in channels.iter_mut().zip(desc.channels) {
            channel.register.offset =
                chram_base(desc.runlist).saturating_add(id.saturating_mul(size_of::<u32>() as u32));
        }
        let entry = Entry {
            tsg,
            id: desc.id,
            channels,
            count: desc.channels.len(),
        };
        self.anew = true;
        self.tsgs.push_within_capacity(entry).map_err(|_| ENOSPC)
    }

    /// Has all registers read `value`; none: the truth, and no channel is pending that is not.
    pub(crate) fn lie(&mut self, value: Option<u32>) {
        self.lie = value;
        self.anew = true;
        if value.is_none() {
            let channels = self.tsgs.iter_mut().flat_map(|entry| &mut entry.channels);
            channels.for_each(|channel| channel.pending = false);
        }
    }

    /// Has a channel be pending.
    ///
    /// # Errors
    ///
    /// `ENOENT`
    pub(crate) fn lie_pending(&mut self, tsg: Handle, channel: u32) -> Result {
        let entry = self.tsgs.iter_mut().find(|entry| entry.tsg == tsg);
        let entry = entry.ok_or(ENOENT)?;
        let channels = entry.channels.get_mut(..entry.count).ok_or(ENOENT)?;
        let channel = channels.get_mut(channel as usize).ok_or(ENOENT)?;
        channel.pending = true;
        self.anew = true;
        Ok(())
    }

    /// A TSG has got its engine.
    pub(crate) fn started(&self, _start: &event::Start) {}

    /// An engine has done something. Switches of the first one, which computes, are recorded.
    pub(crate) fn recorded(&self, record: &event::Record) {
        let is_restore = match record.activity {
            Activity::Save => false,
            Activity::Restore => true,
            Activity::Run | Activity::Idle => return,
        };
        if let (Some(number), 0) = (self.number, record.engine) {
            let (tsg, start, end) = (record.tsg.0, record.start.0, record.end.0);
            engine::switched(number, tsg, is_restore, start, end);
        }
    }

    /// Something may have happened.
    pub(crate) fn moved<C: Context, S: Store<C>>(&mut self, gpu: &mut Gpu<C, S>) {
        // Nobody asks for them.
        while gpu.take_stirred().is_some() {}
        self.show_engines(gpu);
        if core::mem::take(&mut self.anew) | gpu.take_ended() {
            self.show_all(gpu);
        }
        while let Some(tsg) = gpu.take_changed() {
            let entry = self.tsgs.iter_mut().find(|entry| entry.tsg == tsg);
            if let Some(entry) = entry {
                // It is there: it has just been taken.
                let _ = entry.show(gpu, self.registers.as_ref(), self.lie);
            }
        }
    }

    fn show_engines<C: Context, S: Store<C>>(&mut self, gpu: &Gpu<C, S>) {
        let Self {
            registers,
            engines,
            tsgs,
            lie,
            ..
        } = self;
        let id_of = |tsg| {
            let entry = tsgs.iter().find(|entry| entry.tsg == tsg);
            entry.map_or(0, |entry| entry.id)
        };
        for number in 0..gpu.nr_engines() {
            let (runlist, status) = (runlist_of(number), gpu.engine_status(number, id_of));
            if let (Some(shown), Ok(status)) = (engines.get_mut(runlist as usize), status) {
                let offset = runlist_base(runlist).saturating_add(ENGINE_STATUS0);
                show(registers.as_ref(), offset, shown, lie.unwrap_or(status));
            }
        }
    }

    /// Shows all TSGs, and forgets those that have ended.
    fn show_all<C: Context, S: Store<C>>(&mut self, gpu: &Gpu<C, S>) {
        let mut at = 0;
        while let Some(entry) = self.tsgs.get_mut(at) {
            if entry.show(gpu, self.registers.as_ref(), self.lie).is_ok() {
                at = at.saturating_add(1);
                continue;
            }
            for channel in entry.channels.iter_mut().take(entry.count) {
                let Shown { offset, value } = &mut channel.register;
                show(self.registers.as_ref(), *offset, value, 0);
            }
            let last = self.tsgs.len().saturating_sub(1);
            self.tsgs.swap(at, last);
            self.tsgs.truncate(last);
        }
    }
}
