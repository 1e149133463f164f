// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts of the software GPU: a TSG, its channels and its semaphore words.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use bytemuck::Zeroable;
use rustix::io::Errno;

use super::{Item, TsgStats};
use crate::sys::memory::SharedMemory;
use crate::sys::{abi, sim as calls};
use crate::{text, Call, Error, Result, Timestamp};

/// Which engine a context runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// The compute engine.
    Compute,
    /// The copy engine with the fewest TSGs.
    AnyCopy,
    /// The copy engine of this number, from 1.
    Copy(u32),
}

/// The context to create.
#[derive(Debug, Clone, Copy)]
pub struct ContextSpec<'a> {
    /// GPU, from 0.
    pub gpu: u32,
    /// Engine.
    pub engine: EngineChoice,
    /// Channels, from 1.
    pub channels: u32,
    /// Label for people, cut after 16 bytes.
    pub label: &'a str,
    /// Use the semaphore words of this context, of the same file.
    pub share_words: Option<&'a Context>,
}

impl<'a> ContextSpec<'a> {
    /// One channel on the compute engine of GPU 0.
    pub fn compute(label: &'a str) -> Self {
        Self {
            gpu: 0,
            engine: EngineChoice::Compute,
            channels: 1,
            label,
            share_words: None,
        }
    }

    /// One channel on a copy engine of GPU 0.
    pub fn copy(label: &'a str) -> Self {
        Self {
            engine: EngineChoice::AnyCopy,
            ..Self::compute(label)
        }
    }
}

/// A TSG that NVIDIA's driver has.
#[derive(Debug, Clone, Copy)]
pub struct Attachment<'a> {
    /// The client's handle, made by this process.
    pub client: u32,
    /// The client's handle of the TSG.
    pub object: u32,
    /// Use the semaphore words of this context, of the same file.
    pub share_words: Option<&'a Context>,
}

/// A context. Dropping it ends it; queued items are then dropped without a completion.
#[derive(Debug)]
pub struct Context {
    fd: Arc<OwnedFd>,
    id: u32,
    engine: u32,
    tsg: u64,
    mmap_offset: u64,
}

/// The description of a TSG for zernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// On a compute engine.
    pub compute: bool,
    /// Carries the work of several processes.
    pub shared: bool,
    /// Channels now.
    pub channels: u32,
}

/// The outcome of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    /// Sequence number of its last item.
    pub last_seq: u64,
    /// When the engine saw it.
    pub at: Timestamp,
}

/// The outcome of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    /// Highest completed item of the channel.
    pub completed_seq: u64,
    /// When that one completed.
    pub at: Timestamp,
}

impl Context {
    pub(super) fn create(fd: Arc<OwnedFd>, spec: &ContextSpec<'_>) -> Result<Self> {
        let mut raw = encode(spec);
        calls::context_create(fd.as_fd(), &mut raw).map_err(Error::call(Call::SimContextCreate))?;
        Ok(Self {
            fd,
            id: raw.context,
            engine: raw.engine,
            tsg: raw.tsg,
            mmap_offset: raw.mmap_offset,
        })
    }

    pub(super) fn attach(fd: Arc<OwnedFd>, to: &Attachment<'_>) -> Result<Self> {
        let mut raw = abi::zernel_sim_context_attach {
            client: to.client,
            object: to.object,
            flags: match to.share_words {
                Some(_) => abi::ZERNEL_SIM_CONTEXT_SHARE_WORDS,
                None => 0,
            },
            share_context: to.share_words.map_or(0, Context::id),
            ..abi::zernel_sim_context_attach::zeroed()
        };
        calls::context_attach(fd.as_fd(), &mut raw).map_err(Error::call(Call::SimContextAttach))?;
        Ok(Self {
            fd,
            id: raw.context,
            engine: raw.engine,
            tsg: raw.tsg,
            mmap_offset: raw.mmap_offset,
        })
    }

    /// Shows `channel` as pending from now on, with work or without, until its GPU's registers
    /// tell the truth again.
    ///
    /// Errors: [`Error::Call`] with `EPERM`, `EOPNOTSUPP` or `ENOENT`.
    pub fn lie_pending(&self, channel: u32) -> Result<()> {
        self.registers(abi::ZERNEL_SIM_REGISTERS_PENDING, channel)
    }

    /// Loses the next doorbell of `channel`, if it is idle and its TSG disabled by then.
    ///
    /// Errors: as [`Self::lie_pending`].
    pub fn lose_doorbell(&self, channel: u32) -> Result<()> {
        self.registers(abi::ZERNEL_SIM_REGISTERS_DOORBELL, channel)
    }

    fn registers(&self, fault: u32, channel: u32) -> Result<()> {
        let mut raw = abi::zernel_sim_registers {
            fault,
            context: self.id,
            channel,
            ..abi::zernel_sim_registers::zeroed()
        };
        calls::registers(self.fd(), &mut raw).map_err(Error::call(Call::SimRegisters))
    }

    /// Its id, unique within its file.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The handle of its TSG, as zernel reports it.
    pub fn tsg(&self) -> u64 {
        self.tsg
    }

    /// The engine that it runs on.
    pub fn engine(&self) -> u32 {
        self.engine
    }

    /// Queues `items` in `channel`: all of them or none.
    ///
    /// Errors: [`Error::Call`] with `EAGAIN` when the channel is full, `EDQUOT`, `EINVAL` or
    /// `ENOENT`.
    pub fn submit(&self, channel: u32, items: &[Item]) -> Result<Submission> {
        let (last_seq, at) = calls::submit(self.fd(), self.id, channel, Item::raw_slice(items))
            .map_err(Error::call(Call::SimSubmit))?;
        Ok(Submission {
            last_seq,
            at: Timestamp::from_ns(at),
        })
    }

    /// Waits until item `seq` of `channel` has completed.
    ///
    /// Errors: [`Error::Call`] with `ETIME` at the deadline, `EINTR`, `EINVAL` or `ENOENT`.
    pub fn wait(&self, channel: u32, seq: u64, deadline: Timestamp) -> Result<Waited> {
        let mut raw = abi::zernel_sim_wait {
            context: self.id,
            channel,
            seq,
            deadline_ns: deadline.as_ns(),
            ..abi::zernel_sim_wait::zeroed()
        };
        calls::wait(self.fd(), &mut raw).map_err(Error::call(Call::SimWait))?;
        Ok(Waited {
            completed_seq: raw.completed_seq,
            at: Timestamp::from_ns(raw.completed_ns),
        })
    }

    /// Signals `eventfd` for every completed item of `channel` with NOTIFY; `None` stops that.
    ///
    /// Errors: [`Error::Call`] with `EBADF`, `EINVAL` or `ENOENT`.
    pub fn set_eventfd(&self, channel: u32, eventfd: Option<BorrowedFd<'_>>) -> Result<()> {
        let mut raw = abi::zernel_sim_eventfd {
            context: self.id,
            channel,
            fd: eventfd.map_or(-1, |fd| fd.as_raw_fd()),
            reserved: 0,
        };
        calls::eventfd(self.fd(), &mut raw).map_err(Error::call(Call::SimEventfd))
    }

    /// Makes the engine look at the semaphore words now.
    pub fn doorbell(&self) -> Result<()> {
        let mut raw = abi::zernel_sim_doorbell {
            context: self.id,
            reserved: 0,
        };
        calls::doorbell(self.fd(), &mut raw).map_err(Error::call(Call::SimDoorbell))
    }

    /// Gives it memory with words that its items can name, too: see [`Slot::word`]. It is pinned
    /// until the context is gone, also after the end of the mapping.
    ///
    /// Errors: [`Error::Call`] with `EBUSY` when it has memory, `EINVAL`, `EFAULT`, `ENOMEM` or
    /// `ENOENT`.
    ///
    /// [`Slot::word`]: crate::request::Slot::word
    pub fn add_memory(&self, memory: &SharedMemory) -> Result<()> {
        let mut raw = abi::zernel_sim_memory {
            context: self.id,
            reserved: 0,
            address: memory.address(),
            length: memory.length(),
        };
        calls::memory(self.fd(), &mut raw).map_err(Error::call(Call::SimMemory))
    }

    /// Maps the semaphore words; `count` of them can be used.
    pub fn words(&self, count: u32) -> Result<Words> {
        let page = SharedMemory::of_file(self.fd(), self.mmap_offset, 1)
            .map_err(Error::call(Call::SimWords))?;
        let count = count as usize;
        if count > page.words().len() {
            return Err(Error::call(Call::SimWords)(Errno::INVAL));
        }
        Ok(Words { page, count })
    }

    /// Changes its time slice in microseconds, as a program does through a driver.
    ///
    /// Errors: [`Error::Call`] with `EPERM` when zernel does not let it, `EAGAIN` while the GPU is
    /// suspended, `EINVAL` or `ENOENT`.
    pub fn set_timeslice(&self, us: u32) -> Result<()> {
        self.control(abi::ZERNEL_SIM_SETTING_TIMESLICE, us)
    }

    /// Changes its interleave level, 0 to 2, as a program does through a driver.
    ///
    /// Errors: as [`Self::set_timeslice`].
    pub fn set_interleave(&self, level: u32) -> Result<()> {
        self.control(abi::ZERNEL_SIM_SETTING_INTERLEAVE, level)
    }

    /// Has it scheduled or not, as a program can through a driver.
    ///
    /// Errors: as [`Self::set_timeslice`].
    pub fn set_enabled(&self, enabled: bool) -> Result<()> {
        self.control(abi::ZERNEL_SIM_SETTING_ENABLED, enabled.into())
    }

    /// Has it scheduled, as every program does through a driver before its first work.
    ///
    /// Errors: as [`Self::set_timeslice`], but never `EPERM`.
    pub fn start(&self) -> Result<()> {
        self.control(abi::ZERNEL_SIM_SETTING_START, 1)
    }

    fn control(&self, setting: u32, value: u32) -> Result<()> {
        control(self.fd(), self.id, setting, value)
    }

    /// Tells zernel that its TSG has become another one.
    ///
    /// Errors: [`Error::Call`] with `EPERM`, or `ENOENT` when zernel does not know it.
    pub fn describe(&self, description: &Description) -> Result<()> {
        let flag = |on, flag| if on { flag } else { 0 };
        let mut raw = abi::zernel_sim_tsg_describe {
            context: self.id,
            flags: flag(description.compute, abi::ZERNEL_SIM_TSG_COMPUTE)
                | flag(description.shared, abi::ZERNEL_SIM_TSG_SHARED),
            channels: description.channels,
            reserved: 0,
        };
        calls::tsg_describe(self.fd(), &mut raw).map_err(Error::call(Call::SimTsgDescribe))
    }

    /// Statistics of its TSG.
    pub fn stats(&self) -> Result<TsgStats> {
        TsgStats::read(self.fd(), self.id, 0)
    }

    /// Ends it now, and tells if that failed.
    pub fn destroy(self) -> Result<()> {
        self.end().map_err(Error::call(Call::SimContextDestroy))
    }

    fn end(&self) -> std::result::Result<(), Errno> {
        let mut raw = abi::zernel_sim_context_destroy {
            context: self.id,
            reserved: 0,
        };
        calls::context_destroy(self.fd(), &mut raw)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // After destroy() there is none of this id any more, and ids are never used again.
        let _ = self.end();
    }
}

fn control(fd: BorrowedFd<'_>, context: u32, setting: u32, value: u32) -> Result<()> {
    let mut raw = abi::zernel_sim_tsg_control {
        context,
        setting,
        value,
        reserved: 0,
    };
    calls::tsg_control(fd, &mut raw).map_err(Error::call(Call::SimTsgControl))
}

/// Changes the time slice of a context of a file that somebody else has opened, in microseconds.
///
/// Errors: as [`Context::set_timeslice`].
pub fn set_timeslice(file: impl AsFd, context: u32, us: u32) -> Result<()> {
    control(file.as_fd(), context, abi::ZERNEL_SIM_SETTING_TIMESLICE, us)
}

/// The semaphore words of a context, shared with the engine.
#[derive(Debug)]
pub struct Words {
    page: SharedMemory,
    count: usize,
}

impl Words {
    /// Stores `value` in `word`; a reader that sees it sees all earlier writes.
    ///
    /// # Panics
    ///
    /// When there is no such word.
    pub fn store(&self, word: u32, value: u32) {
        self.word(word).store(value, Ordering::Release);
    }

    /// Loads `word`.
    ///
    /// # Panics
    ///
    /// When there is no such word.
    pub fn load(&self, word: u32) -> u32 {
        self.word(word).load(Ordering::Acquire)
    }

    /// Their number.
    pub fn count(&self) -> usize {
        self.count
    }

    fn word(&self, word: u32) -> &AtomicU32 {
        &self.page.words()[..self.count][word as usize]
    }
}

fn encode(spec: &ContextSpec<'_>) -> abi::zernel_sim_context_create {
    let (engine_type, engine) = match spec.engine {
        EngineChoice::Compute => (abi::ZERNEL_SIM_ENGINE_COMPUTE, abi::ZERNEL_SIM_ENGINE_ANY),
        EngineChoice::AnyCopy => (abi::ZERNEL_SIM_ENGINE_COPY, abi::ZERNEL_SIM_ENGINE_ANY),
        EngineChoice::Copy(engine) => (abi::ZERNEL_SIM_ENGINE_COPY, engine),
    };
    abi::zernel_sim_context_create {
        gpu: spec.gpu,
        engine_type,
        engine,
        nr_channels: spec.channels,
        flags: match spec.share_words {
            Some(_) => abi::ZERNEL_SIM_CONTEXT_SHARE_WORDS,
            None => 0,
        },
        share_context: spec.share_words.map_or(0, Context::id),
        label: text::to_bytes(spec.label),
        ..abi::zernel_sim_context_create::zeroed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_encode_engine_and_label() {
        let raw = encode(&ContextSpec::compute("vgg"));
        assert_eq!((raw.engine_type, raw.engine), (0, u32::MAX));
        assert_eq!((raw.nr_channels, raw.flags, raw.share_context), (1, 0, 0));
        assert_eq!(&raw.label[..4], b"vgg\0");

        let raw = encode(&ContextSpec {
            engine: EngineChoice::Copy(2),
            ..ContextSpec::copy("a label that is far too long")
        });
        assert_eq!((raw.engine_type, raw.engine), (1, 2));
        assert_eq!(&raw.label, b"a label that is ");
    }

    #[test]
    fn output_fields_start_as_zero() {
        let raw = encode(&ContextSpec::copy(""));
        assert_eq!((raw.context, raw.reserved), (0, 0));
        assert_eq!((raw.tsg, raw.mmap_offset), (0, 0));
    }
}
