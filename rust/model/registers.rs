// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The registers in which an NVIDIA GPU shows the work of an engine and of a channel.
//!
//! Fields are those of `NV_RUNLIST_ENGINE_STATUS0` and `NV_CHRAM_CHANNEL` in NVIDIA's
//! `open-gpu-doc`, `manuals/ampere/ga100/dev_runlist.ref.txt`. Simpler than on a GPU: a channel is
//! on the engine only while it has work there, and a switch is a save, then a load.

use super::{
    arena::Index,
    channel::{
        Channel,
        Head, //
    },
    engine::{
        EngineIx,
        Phase, //
    },
    error::Error,
    gpu::{
        Gpu,
        Store, //
    },
    measures::Ns,
    tsg::{
        Context,
        Handle,
        Place,
        TsgIx, //
    }, //
};

/// Bits of `NV_RUNLIST_ENGINE_STATUS0`, and numbers of its state of the context, at bit 13.
mod status {
    /// A TSG's number on its run list, at bit 0, and that of the next one, at bit 16.
    pub(super) const ID: u32 = 0xfff;
    /// The first bit of the next TSG.
    pub(super) const NEXT: u32 = 16;
    /// The context of the TSG is there.
    pub(super) const VALID: u32 = 1 << 13;
    /// It is being saved.
    pub(super) const SAVE: u32 = 5 << 13;
    /// That of the next one is being loaded.
    pub(super) const LOAD: u32 = 6 << 13;
    /// The engine works.
    pub(super) const BUSY: u32 = 1 << 31;
}

/// Bits of `NV_CHRAM_CHANNEL`.
pub(crate) mod chram {
    /// It may run.
    pub(crate) const ENABLE: u32 = 1 << 1;
    /// Its TSG is the next one.
    pub(crate) const NEXT: u32 = 1 << 2;
    /// Any of the bits below.
    pub(crate) const BUSY: u32 = 1 << 3;
    /// Its work is being fetched.
    pub(crate) const ON_PBDMA: u32 = 1 << 6;
    /// Its work is on the engine.
    pub(crate) const ON_ENG: u32 = 1 << 7;
    /// A doorbell was rung, and it has not been looked at since.
    pub(crate) const PENDING: u32 = 1 << 8;
    /// It lost the engine with work under way.
    pub(crate) const CTX_RELOAD: u32 = 1 << 9;
    /// As [`ON_PBDMA`], and something is fetched.
    pub(crate) const PBDMA_BUSY: u32 = 1 << 10;
    /// As [`ON_ENG`], and it works.
    pub(crate) const ENG_BUSY: u32 = 1 << 11;
    /// It waits for a semaphore.
    pub(crate) const ACQUIRE_FAIL: u32 = 1 << 12;
}

impl<C: Context, S: Store<C>> Gpu<C, S> {
    /// `NV_RUNLIST_ENGINE_STATUS0` of an engine, if there is such an engine; `id` tells the number
    /// of a TSG on its run list.
    pub(crate) fn engine_status(
        &self,
        number: u32,
        id: impl Fn(Handle) -> u32,
    ) -> Result<u32, Error> {
        let engine = self.engines.get(self.find_engine(number)?);
        let id = |ix: TsgIx| match ix.is_nil() {
            true => 0,
            false => id(self.tsgs.get(ix).handle) & status::ID,
        };
        let (loaded, next) = (id(engine.loaded), id(engine.next) << status::NEXT);
        Ok(match engine.phase() {
            Phase::Idle if engine.loaded.is_nil() => 0,
            Phase::Idle => status::VALID | loaded,
            Phase::Running => status::BUSY | status::VALID | loaded,
            Phase::Saving => status::BUSY | status::SAVE | next | loaded,
            Phase::Restoring => status::BUSY | status::LOAD | next,
        })
    }

    /// Calls `f` with the number of each channel of a TSG, and its `NV_CHRAM_CHANNEL`.
    pub(crate) fn channel_words(
        &self,
        handle: Handle,
        mut f: impl FnMut(u32, u32),
    ) -> Result<(), Error> {
        let ix = self.find(handle)?;
        let mut at = self.tsgs.get(ix).channels;
        while !at.is_nil() {
            let channel = self.channels.get(at);
            f(channel.number, self.channel_word(ix, channel));
            at = channel.next;
        }
        Ok(())
    }

    fn channel_word(&self, ix: TsgIx, channel: &Channel) -> u32 {
        let tsg = self.tsgs.get(ix);
        let enable = if tsg.enabled { chram::ENABLE } else { 0 };
        let next = if tsg.place == Place::Next {
            chram::NEXT
        } else {
            0
        };
        let work = match channel.first() {
            None => 0,
            Some(_) if channel.unseen => 0,
            Some(_) if channel.head == Head::Blocked => chram::PENDING | chram::ACQUIRE_FAIL,
            Some(_) if channel.active => {
                chram::ON_PBDMA | chram::PBDMA_BUSY | chram::ON_ENG | chram::ENG_BUSY
            }
            Some(first) if self.items.get(first).started != Ns::NEVER => chram::CTX_RELOAD,
            Some(_) => chram::PENDING,
        };
        let busy = if next | work != 0 { chram::BUSY } else { 0 };
        enable | next | busy | work
    }

    /// True while the engine of a TSG is to be given away, and blocks that have begun keep it.
    #[cfg_attr(
        not(zernel_simrm),
        allow(dead_code, reason = "of GPUs that belong to NVIDIA's driver")
    )]
    pub(crate) fn leaving(&self, handle: Handle) -> Result<bool, Error> {
        let ix = self.find(handle)?;
        Ok(self
            .engines
            .get(EngineIx::new(self.tsgs.get(ix).engine))
            .draining)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_model_registers))]
mod tests {
    use super::chram::*;
    use crate::model::{
        error::Error,
        fixture::{
            gpu,
            order,
            run,
            tsg,
            Log,
            TestGpu,
            Words, //
        },
        measures::Ns,
        tsg::Handle,
        work::{
            Condition,
            Expect,
            Work, //
        }, //
    };

    const BUDGET: u32 = 10_000;
    const ON: u32 = BUSY | ON_PBDMA | PBDMA_BUSY | ON_ENG | ENG_BUSY;

    /// The words of both channels.
    fn words_of(gpu: &TestGpu<'_>, tsg: Handle) -> Result<[u32; 2], Error> {
        let mut words = [0; 2];
        gpu.channel_words(tsg, |number, word| {
            if let Some(slot) = words.get_mut(number as usize) {
                *slot = word;
            }
        })?;
        Ok(words)
    }

    #[test]
    fn an_engine_shows_its_switches() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(1_000))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        let id = |tsg| if tsg == a { 0x123 } else { 0x1456 };
        assert_eq!(gpu.engine_status(0, id), Ok(0));
        assert_eq!(gpu.engine_status(2, id), Err(Error::NoEngine));
        gpu.submit(Ns(0), a, 0, &[run(1, 500, 1_000)], &mut log)?;
        assert_eq!(gpu.engine_status(0, id), Ok(0x8123_c000));
        assert!(gpu.advance(Ns(1_100), BUDGET, &mut log));
        assert_eq!(gpu.engine_status(0, id), Ok(0x8000_2123));
        assert!(gpu.advance(Ns(2_000), BUDGET, &mut log));
        assert_eq!(gpu.engine_status(0, id), Ok(0x0000_2123));
        gpu.submit(Ns(2_000), b, 0, &[run(1, 500, 1_000)], &mut log)?;
        assert_eq!(gpu.engine_status(0, id), Ok(0x8456_a123));
        assert!(gpu.advance(Ns(3_500), BUDGET, &mut log));
        assert_eq!(gpu.engine_status(0, id), Ok(0x8456_c000));
        Ok(())
    }

    #[test]
    fn a_channel_shows_its_work() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(1_000))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        assert_eq!(words_of(&gpu, a)?, [ENABLE, ENABLE]);
        let wait = Work::Wait(Expect {
            word: 0,
            value: 1,
            condition: Condition::AtLeast,
            rung: false,
        });
        gpu.submit(Ns(0), a, 0, &[run(1, 100_000, 1_000)], &mut log)?;
        gpu.submit(Ns(0), a, 1, &[order(2, wait)], &mut log)?;
        let blocked = ENABLE | BUSY | PENDING | ACQUIRE_FAIL;
        assert_eq!(
            words_of(&gpu, a)?,
            [ENABLE | NEXT | BUSY | PENDING, blocked | NEXT]
        );
        assert!(gpu.advance(Ns(2_000), BUDGET, &mut log));
        assert_eq!(words_of(&gpu, a)?, [ENABLE | ON, blocked]);
        gpu.submit(Ns(3_000), b, 1, &[run(3, 1_000, 1_000)], &mut log)?;
        assert_eq!(words_of(&gpu, b)?, [ENABLE, ENABLE | BUSY | PENDING]);
        gpu.set_enabled(Ns(3_000), a, false, &mut log)?;
        let lost = [BUSY | CTX_RELOAD, BUSY | PENDING | ACQUIRE_FAIL];
        assert_eq!(words_of(&gpu, a)?, lost);
        assert!(gpu.advance(Ns(10_000), BUDGET, &mut log));
        assert_eq!(words_of(&gpu, b)?, [ENABLE, ENABLE]);
        gpu.destroy(Ns(10_000), a, &mut log)?;
        assert_eq!(words_of(&gpu, a), Err(Error::NoTsg));
        Ok(())
    }

    #[test]
    fn a_lost_doorbell_is_heard_when_it_is_enabled_or_rung_again() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        gpu.lose_doorbell(Ns(0), a, 0, &mut log)?;
        assert_eq!(
            gpu.lose_doorbell(Ns(0), a, 2, &mut log),
            Err(Error::NoChannel)
        );
        // Only one that is disabled loses it.
        gpu.submit(Ns(0), a, 0, &[run(1, 1_000, 1_000)], &mut log)?;
        assert!(gpu.advance(Ns(2_000), BUDGET, &mut log));
        assert_eq!(log.end(1), Some(Ns(1_000)));
        gpu.set_enabled(Ns(2_000), a, false, &mut log)?;
        gpu.submit(Ns(2_000), a, 0, &[run(2, 1_000, 1_000)], &mut log)?;
        assert_eq!(words_of(&gpu, a)?, [0, 0]);
        assert!(!gpu.tsg_stats(a)?.demand);
        assert_eq!(gpu.tsg_stats(a)?.queued, 1);
        gpu.set_enabled(Ns(3_000), a, true, &mut log)?;
        assert!(gpu.advance(Ns(5_000), BUDGET, &mut log));
        assert_eq!(log.end(2), Some(Ns(4_000)));
        // Once: the next one is heard.
        gpu.set_enabled(Ns(5_000), a, false, &mut log)?;
        gpu.submit(Ns(5_000), a, 0, &[run(3, 1_000, 1_000)], &mut log)?;
        assert!(gpu.tsg_stats(a)?.demand);
        gpu.set_enabled(Ns(5_000), a, true, &mut log)?;
        assert!(gpu.advance(Ns(7_000), BUDGET, &mut log));
        gpu.set_enabled(Ns(7_000), a, false, &mut log)?;
        gpu.lose_doorbell(Ns(7_000), a, 0, &mut log)?;
        gpu.submit(Ns(7_000), a, 0, &[run(4, 1_000, 1_000)], &mut log)?;
        assert!(!gpu.tsg_stats(a)?.demand);
        gpu.submit(Ns(7_000), a, 0, &[run(5, 1_000, 1_000)], &mut log)?;
        assert!(gpu.tsg_stats(a)?.demand);
        gpu.destroy(Ns(8_000), a, &mut log)?;
        Ok(())
    }
}
