// SPDX-License-Identifier: GPL-2.0
//! Registers of run lists, as they tell the work of channels and engines.
//!
//! Registers and bits are those of NVIDIA's `dev_runlist.h` (`NV_CHRAM_CHANNEL`, from Ampere on),
//! of `tu104/dev_fifo` in `open-gpu-doc` (`NV_PCCSR_CHANNEL`), and of `ga100/dev_runlist` there
//! (`NV_RUNLIST_ENGINE_STATUS0`). None was tried on a GPU.

/// A channel, or a TSG as the sum of its channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// It has nothing to run, or waits for a semaphore.
    #[default]
    Idle,
    /// The registers do not tell.
    Unknown,
    /// It has something to run.
    Ready,
    /// It runs.
    Runs,
}

/// Bits of `NV_CHRAM_CHANNEL`.
mod chram {
    pub(super) const ON_PBDMA: u32 = 1 << 6;
    pub(super) const ON_ENG: u32 = 1 << 7;
    pub(super) const PENDING: u32 = 1 << 8;
    pub(super) const CTX_RELOAD: u32 = 1 << 9;
    pub(super) const PBDMA_BUSY: u32 = 1 << 10;
    pub(super) const ENG_BUSY: u32 = 1 << 11;
    pub(super) const ACQUIRE_FAIL: u32 = 1 << 12;
    /// The bits above those that mean something.
    pub(super) const FOREIGN: u32 = u32::MAX << 13;
    /// Without any of them, there is nothing to run.
    pub(super) const TELLING: u32 =
        FOREIGN | ON_PBDMA | ON_ENG | PENDING | CTX_RELOAD | ACQUIRE_FAIL;
}

/// True if some channels have nothing to run, by a look at all of them together that costs little. It
/// may be false for some that have nothing, either. `is_pccsr`: the words are those of Turing.
#[inline]
pub(crate) fn are_idle(words: &[u32], is_pccsr: bool) -> bool {
    let any = words.iter().fold(0, |any, word| any | word);
    !is_pccsr && any & chram::TELLING == 0
}

/// Channels of a TSG, from their words: their state together, and how many do not tell theirs.
/// `is_pccsr`: the words are those of Turing.
pub(crate) fn of_channels(words: &[u32], is_pccsr: bool) -> (State, u32) {
    let (mut state, mut unknown) = (State::Idle, 0);
    for &word in words {
        if are_idle(&[word], is_pccsr) {
            continue;
        }
        let channel = match is_pccsr {
            true => of_pccsr(word),
            false => of_chram(word),
        };
        state = state.max(channel);
        unknown += u32::from(channel == State::Unknown);
    }
    (state, unknown)
}

/// The state of a channel, from `NV_CHRAM_CHANNEL`.
fn of_chram(word: u32) -> State {
    let has = |bits: u32| word & bits == bits;
    match word {
        // No register, one that may not be read, or a chip with other bits.
        _ if word & chram::FOREIGN != 0 => State::Unknown,
        _ if has(chram::ON_ENG | chram::ENG_BUSY) => State::Runs,
        // Its methods are being fetched: the run list is its own, with the engine or without.
        _ if has(chram::ON_PBDMA | chram::PBDMA_BUSY) => State::Runs,
        _ if has(chram::ACQUIRE_FAIL) => State::Idle,
        _ if has(chram::PENDING) || has(chram::CTX_RELOAD) => State::Ready,
        _ => State::Idle,
    }
}

/// The state of a channel, from `NV_PCCSR_CHANNEL`.
fn of_pccsr(word: u32) -> State {
    const BUSY: u32 = 1 << 28;
    match (word >> 24) & 0xf {
        _ if is_error(word) => State::Unknown,
        // Nothing; or the semaphore is still to come, with the context to be loaded or not.
        0 | 3 | 4 | 8 | 14 => State::Idle,
        // On the engine, perhaps to be fetched for.
        6 | 7 | 9 | 11 | 12 | 13 if word & BUSY != 0 => State::Runs,
        // On the engine with nothing to do.
        6 | 7 | 11 | 12 => State::Idle,
        // Pending, or being fetched for.
        1 | 2 | 5 | 9 | 10 | 13 => State::Ready,
        _ => State::Unknown,
    }
}

/// True if the engine works, from `NV_RUNLIST_ENGINE_STATUS0`; `None`: the register does not tell.
pub(crate) fn is_busy(word: u32) -> Option<bool> {
    (!is_error(word)).then_some(word >> 31 != 0)
}

/// The value of a register that is not there or may not be read.
fn is_error(word: u32) -> bool {
    word == u32::MAX || word >> 20 == 0xbad
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_nvidia_registers))]
mod tests {
    use super::*;

    #[test]
    fn channels_of_ampere() {
        let enabled = 1 << 1;
        for (word, state) in [
            (0, State::Idle),
            (enabled, State::Idle),
            (enabled | chram::PENDING, State::Ready),
            (chram::PENDING, State::Ready),
            (enabled | chram::CTX_RELOAD, State::Ready),
            (enabled | chram::PENDING | chram::ACQUIRE_FAIL, State::Idle),
            (
                enabled | chram::CTX_RELOAD | chram::ACQUIRE_FAIL,
                State::Idle,
            ),
            (enabled | chram::ON_PBDMA, State::Idle),
            (enabled | chram::ON_PBDMA | chram::PBDMA_BUSY, State::Runs),
            (enabled | chram::ON_ENG, State::Idle),
            (enabled | chram::ON_ENG | chram::ENG_BUSY, State::Runs),
            (
                chram::ON_ENG | chram::ENG_BUSY | chram::ACQUIRE_FAIL,
                State::Runs,
            ),
            (u32::MAX, State::Unknown),
            (0xbadf_1100, State::Unknown),
            (1 << 13, State::Unknown),
            (1 << 31, State::Unknown),
        ] {
            assert_eq!(of_chram(word), state);
        }
    }

    #[test]
    fn channels_of_turing() {
        let busy = 1 << 28;
        for (word, state) in [
            (0, State::Idle),
            (1, State::Idle),
            (1 << 24, State::Ready),
            (2 << 24, State::Ready),
            (3 << 24, State::Idle),
            (4 << 24, State::Idle),
            (5 << 24, State::Ready),
            (6 << 24, State::Idle),
            (6 << 24 | busy, State::Runs),
            (7 << 24 | busy, State::Runs),
            (8 << 24 | busy, State::Idle),
            (9 << 24, State::Ready),
            (9 << 24 | busy, State::Runs),
            (10 << 24, State::Ready),
            (14 << 24, State::Idle),
            (15 << 24, State::Unknown),
            (u32::MAX, State::Unknown),
            (0xbad0_0100, State::Unknown),
        ] {
            assert_eq!(of_pccsr(word), state);
        }
    }

    #[test]
    fn channels_together() {
        let (ready, runs) = (chram::PENDING, chram::ON_ENG | chram::ENG_BUSY);
        for (words, state, unknown) in [
            (&[][..], State::Idle, 0),
            (&[0, 1 << 1, chram::ENG_BUSY][..], State::Idle, 0),
            (&[0, ready, 0][..], State::Ready, 0),
            (&[ready, runs, u32::MAX][..], State::Runs, 1),
            (&[0, 0xbadf_1100, 1 << 13][..], State::Unknown, 2),
        ] {
            assert_eq!(of_channels(words, false), (state, unknown));
        }
        for (words, state, unknown) in [
            (&[0, 3 << 24][..], State::Idle, 0),
            (&[6 << 24, 1 << 24][..], State::Ready, 0),
            (&[15 << 24, 6 << 24 | 1 << 28, u32::MAX][..], State::Runs, 2),
        ] {
            assert_eq!(of_channels(words, true), (state, unknown));
        }
    }

    #[test]
    fn engines() {
        assert_eq!(is_busy(0), Some(false));
        assert_eq!(is_busy(1 << 31 | 1 << 13 | 7), Some(true));
        assert_eq!(is_busy(1 << 13 | 7), Some(false));
        assert_eq!(is_busy(u32::MAX), None);
        assert_eq!(is_busy(0xbadf_5040), None);
    }
}
