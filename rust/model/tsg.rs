// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A TSG: channels that run side by side and take turns with other TSGs.

pub(crate) use super::index::TsgIx;
use super::{
    account::TsgAccount,
    arena::{
        Index,
        Node, //
    },
    index::{
        ChannelIx,
        TSGS, //
    },
    list::{
        Linked,
        Links, //
    },
    measures::{
        Ns,
        Us, //
    }, //
    preset::DEFAULT_TIMESLICE,
};

/// List of a runlist that a TSG can be in.
pub(crate) const RUNLIST: u8 = 0;
/// List of a GPU that a TSG can be in.
pub(crate) const STIRRED: u8 = 1;
/// List of the TSGs whose channels' registers may show something else.
#[cfg(any(test, zernel_simrm))]
pub(crate) const CHANGED: u8 = 2;

/// Name of a TSG that is never given to another one: serial number, GPU, place.
///
/// 12 bits place, 6 bits GPU, the rest serial: at one new TSG per microsecond the serial lasts for
/// two years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle(pub(crate) u64);

impl Handle {
    /// Most TSGs of a GPU.
    pub(crate) const TSGS: u32 = TSGS;
    /// Most GPUs.
    pub(crate) const GPUS: u32 = 1 << 6;
    /// Of no TSG.
    pub(crate) const NONE: Self = Self(0);

    /// Makes a handle. `serial` is at least 1 and used once.
    pub(crate) const fn new(serial: u64, gpu: u32, ix: TsgIx) -> Self {
        Self((serial << 18) | (((gpu % Self::GPUS) as u64) << 12) | (ix.place() as u64))
    }

    /// The GPU that it names.
    pub(crate) const fn gpu(self) -> u32 {
        ((self.0 >> 12) as u32) % Self::GPUS
    }

    /// The place that it names.
    pub(crate) fn ix(self) -> TsgIx {
        TsgIx::new((self.0 as u32) % Self::TSGS)
    }
}

/// The frequency of a TSG's turns: between two TSGs of a lower level, every one of each higher
/// level has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interleave {
    /// The default.
    Low,
    /// In between.
    Medium,
    /// Most often.
    High,
}

impl Interleave {
    /// From the number that the hardware uses, 0 to 2.
    pub(crate) const fn new(level: u32) -> Option<Self> {
        match level {
            0 => Some(Self::Low),
            1 => Some(Self::Medium),
            2 => Some(Self::High),
            _ => None,
        }
    }

    /// The number.
    pub(crate) const fn level(self) -> u32 {
        match self {
            Self::Low => 0,
            Self::Medium => 1,
            Self::High => 2,
        }
    }
}

/// Where a TSG stands with its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Not in the runlist: nothing to run, or disabled.
    Out,
    /// In the runlist.
    Queued,
    /// The engine switches to it.
    Next,
    /// It has the engine.
    On,
}

/// The owner of a TSG: the memory with its semaphore words.
pub(crate) trait Context {
    /// Reads a word; 0 if there is no such word.
    fn load(&self, word: u16) -> u32;
    /// Writes a word; nothing happens if there is no such word.
    fn store(&self, word: u16, value: u32);
}

/// A time slice group.
pub(crate) struct Tsg<C> {
    /// Its name.
    pub(crate) handle: Handle,
    /// Its owner's data; none while the place is free.
    pub(crate) context: Option<C>,
    /// Number of its engine.
    pub(crate) engine: u32,
    /// First of its channels.
    pub(crate) channels: ChannelIx,
    /// Channels that need the engine.
    pub(crate) ready: u32,
    /// True if it had something to run when it was last looked at outside its turns.
    pub(crate) demand: bool,
    /// Since when.
    pub(crate) demand_since: Ns,
    /// The next TSG, in a ring, that uses the same semaphore words.
    pub(crate) sharer: TsgIx,
    /// Time slice.
    pub(crate) timeslice: Us,
    /// Interleave level.
    pub(crate) interleave: Interleave,
    /// True if it may run.
    pub(crate) enabled: bool,
    /// Where it stands.
    pub(crate) place: Place,
    /// Pass of its level's round in which it last had its turn.
    pub(crate) served: u64,
    /// When it was made.
    pub(crate) created: Ns,
    /// Exact times.
    pub(crate) account: TsgAccount,
    /// Times that it was restored.
    pub(crate) switches: u64,
    /// Times that it lost the engine while it had something to run.
    pub(crate) preemptions: u64,
    /// When it did so last; zero if never.
    pub(crate) preempted_at: Ns,
    /// It got something to run and has not had the engine since.
    pub(crate) woken: bool,
    /// Items completed.
    pub(crate) completed: u64,
    /// Items that have not completed.
    pub(crate) queued: u32,
    /// Time slice changes.
    pub(crate) slice_changes: u64,
    /// When the last one was; zero if there was none.
    pub(crate) slice_changed: Ns,
    runlist: Links<TsgIx>,
    stirred: Links<TsgIx>,
    #[cfg(any(test, zernel_simrm))]
    changed: Links<TsgIx>,
    free: TsgIx,
}

impl<C> Node for Tsg<C> {
    type Ix = TsgIx;

    fn blank() -> Self {
        Self::new(Handle::NONE, None, 0, Ns::ZERO)
    }

    fn next_free(&mut self) -> &mut TsgIx {
        &mut self.free
    }
}

impl<C> Linked<RUNLIST> for Tsg<C> {
    fn links(&mut self) -> &mut Links<TsgIx> {
        &mut self.runlist
    }
}

impl<C> Linked<STIRRED> for Tsg<C> {
    fn links(&mut self) -> &mut Links<TsgIx> {
        &mut self.stirred
    }
}

#[cfg(any(test, zernel_simrm))]
impl<C> Linked<CHANGED> for Tsg<C> {
    fn links(&mut self) -> &mut Links<TsgIx> {
        &mut self.changed
    }
}

impl<C> Tsg<C> {
    /// A TSG without channels, with the driver's defaults.
    pub(crate) fn new(handle: Handle, context: Option<C>, engine: u32, now: Ns) -> Self {
        Self {
            handle,
            context,
            engine,
            channels: ChannelIx::NIL,
            ready: 0,
            demand: false,
            demand_since: now,
            sharer: TsgIx::NIL,
            timeslice: DEFAULT_TIMESLICE,
            interleave: Interleave::Low,
            enabled: true,
            place: Place::Out,
            served: 0,
            created: now,
            account: TsgAccount::new(now),
            switches: 0,
            preemptions: 0,
            preempted_at: Ns::ZERO,
            woken: false,
            completed: 0,
            queued: 0,
            slice_changes: 0,
            slice_changed: Ns::ZERO,
            #[cfg(any(test, zernel_simrm))]
            changed: Links::new(),
            runlist: Links::new(),
            stirred: Links::new(),
            free: TsgIx::NIL,
        }
    }

    /// True if it could run now, if it had the engine.
    pub(crate) fn eligible(&self) -> bool {
        self.enabled && self.ready > 0
    }

    /// True if a word of its context is as expected; false without a context.
    pub(crate) fn met(&self, expect: &super::work::Expect) -> bool
    where
        C: Context,
    {
        self.context
            .as_ref()
            .is_some_and(|context| expect.met(context.load(expect.word)))
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_model_tsg))]
mod tests {
    use super::*;

    #[test]
    fn a_handle_tells_gpu_and_place_and_differs_by_serial() {
        let handle = Handle::new(77, 63, TsgIx::new(4_095));
        assert_eq!(handle.gpu(), 63);
        assert_eq!(handle.ix(), TsgIx::new(4_095));
        assert!(handle > Handle::new(76, 63, TsgIx::new(4_095)));
        assert!(Handle::new(1, 0, TsgIx::new(0)) > Handle::NONE);
    }

    #[test]
    fn interleave_levels_are_zero_to_two() {
        for level in 0..3 {
            assert_eq!(Interleave::new(level).map(Interleave::level), Some(level));
        }
        assert_eq!(Interleave::new(3), None);
    }
}
