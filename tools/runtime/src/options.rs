// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wishes of a program, and those of its user in the environment.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use libzernel::tsg;
use libzernel::tunable::Tunables;

use crate::{Error, Result, TsgsBefore};

/// The answer to a machine on which there are no requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// The runtime is inert, and says so once.
    #[default]
    Auto,
    /// It is inert anyway.
    Off,
    /// That is an error.
    Require,
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" | "" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            "require" => Ok(Self::Require),
            other => Err(Error::Mode(other.to_owned())),
        }
    }
}

/// The memory of the words that holders wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReleaseWord {
    /// That which is the faster one, as far as it was measured: that of the host.
    #[default]
    Auto,
    /// Pinned memory of the host: the words of zernel's slots, which zernel stores to as well.
    Host,
    /// Memory of the GPU, which the CPU stores to through BAR1, by GDRCopy. zernel does not reach it:
    /// a holder whose lease is over ends by its own bound, which is the lease at most.
    Gpu,
}

impl FromStr for ReleaseWord {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "host" => Ok(Self::Host),
            "gpu" => Ok(Self::Gpu),
            other => Err(Error::Word(other.to_owned())),
        }
    }
}

/// Options of a runtime.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) mode: Mode,
    pub(crate) lanes: u32,
    pub(crate) bound: Option<Duration>,
    pub(crate) linger: Duration,
    pub(crate) word: ReleaseWord,
    pub(crate) tsg: Option<tsg::Id>,
    pub(crate) before: Option<TsgsBefore>,
    pub(crate) library: PathBuf,
    pub(crate) gdrcopy: PathBuf,
    pub(crate) device: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            lanes: 4,
            bound: None,
            linger: Duration::ZERO,
            word: ReleaseWord::Auto,
            tsg: None,
            before: None,
            library: PathBuf::from(cuda::LIBRARY),
            gdrcopy: PathBuf::from(cuda::GDRCOPY),
            device: PathBuf::from(libzernel::Zernel::PATH),
        }
    }
}

impl Options {
    /// Name of the variable that has the mode.
    pub const VARIABLE: &'static str = "ZERNEL";

    const LANES: std::ops::RangeInclusive<u32> = 1..=64;
    const BOUNDS: std::ops::RangeInclusive<Duration> =
        Duration::from_micros(1)..=Duration::from_secs(10);

    /// The usual ones, with the mode of the environment.
    ///
    /// # Errors
    ///
    /// [`Error::Mode`].
    pub fn from_environment() -> Result<Self> {
        let mode = std::env::var_os(Self::VARIABLE).unwrap_or_default();
        Ok(Self::default().mode(mode.to_string_lossy().parse()?))
    }

    /// The answer to a machine without requests.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Requests that can be under way at once, 1 to 64; 4 otherwise.
    #[must_use]
    pub fn lanes(self, lanes: u32) -> Self {
        Self { lanes, ..self }
    }

    /// Longest time that a holder keeps the GPU if nobody ends it, 1 µs to 10 s of the GPU's time;
    /// otherwise half as much again as the lease (`lease_us`) when the runtime is attached. zernel ends
    /// a holder when the lease is over; this is for when it cannot. With [`ReleaseWord::Gpu`] it never
    /// can, and a bound beyond the lease is the lease.
    #[must_use]
    pub fn bound(self, bound: Duration) -> Self {
        Self {
            bound: Some(bound),
            ..self
        }
    }

    /// Time for which a holder stays behind a request for the next one of its lane, up to 10 s; zero,
    /// the usual, for none.
    #[must_use]
    pub fn linger(self, linger: Duration) -> Self {
        Self { linger, ..self }
    }

    /// The memory of the words that holders wait for.
    #[must_use]
    pub fn release_word(self, word: ReleaseWord) -> Self {
        Self { word, ..self }
    }

    /// The TSG of the context, where a process has several.
    #[must_use]
    pub fn tsg(self, tsg: tsg::Id) -> Self {
        Self {
            tsg: Some(tsg),
            ..self
        }
    }

    /// The TSGs that there were before the context.
    #[must_use]
    pub fn before(self, before: TsgsBefore) -> Self {
        Self {
            before: Some(before),
            ..self
        }
    }

    /// Another library than `libcuda.so.1`.
    #[must_use]
    pub fn library(self, library: impl Into<PathBuf>) -> Self {
        Self {
            library: library.into(),
            ..self
        }
    }

    /// Another library than `libgdrapi.so.2`, for [`ReleaseWord::Gpu`].
    #[must_use]
    pub fn gdrcopy(self, gdrcopy: impl Into<PathBuf>) -> Self {
        Self {
            gdrcopy: gdrcopy.into(),
            ..self
        }
    }

    /// Another device node than `/dev/zernel`.
    #[must_use]
    pub fn device(self, device: impl Into<PathBuf>) -> Self {
        Self {
            device: device.into(),
            ..self
        }
    }

    /// Bounds of holders, and of those that linger.
    pub(crate) fn bounds(&self) -> (Duration, Duration) {
        self.bounds_of(lease())
    }

    /// `lease`: that of zernel, if it can be read.
    fn bounds_of(&self, lease: Option<Duration>) -> (Duration, Duration) {
        /// zernel takes no shorter one.
        const LEAST: Duration = Duration::from_micros(100);
        const LONG: Duration = Duration::from_millis(100);
        let long = lease.unwrap_or(LONG);
        let usual = (long + long / 2).clamp(*Self::BOUNDS.start(), *Self::BOUNDS.end());
        let bound = self.bound.unwrap_or(usual);
        match self.word {
            // zernel cannot end such a holder.
            ReleaseWord::Gpu => {
                let lease = lease.unwrap_or(LEAST);
                (bound.min(lease), self.linger.min(lease))
            }
            ReleaseWord::Auto | ReleaseWord::Host => (bound, self.linger),
        }
    }

    /// # Errors
    ///
    /// [`Error::Lanes`], [`Error::Bound`].
    pub(crate) fn check(&self) -> Result<()> {
        if !Self::LANES.contains(&self.lanes) {
            return Err(Error::Lanes(self.lanes));
        }
        let least = *Self::BOUNDS.start();
        for bound in [self.bound.unwrap_or(least), self.linger.max(least)] {
            if !Self::BOUNDS.contains(&bound) {
                return Err(Error::Bound(bound.as_nanos()));
            }
        }
        Ok(())
    }
}

/// The lease of requests now, if its file can be read.
fn lease() -> Option<Duration> {
    let lease = Tunables::open().ok()?.get("lease_us").ok()?;
    lease.value.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_words() {
        assert_eq!("auto".parse(), Ok(Mode::Auto));
        assert_eq!("".parse(), Ok(Mode::Auto));
        assert_eq!("off".parse(), Ok(Mode::Off));
        assert_eq!("require".parse(), Ok(Mode::Require));
        let wrong = "Off".parse::<Mode>();
        assert_eq!(wrong, Err(Error::Mode("Off".to_owned())));
    }

    #[test]
    fn memory_of_the_word_is_a_word() {
        for (text, word) in [
            ("auto", ReleaseWord::Auto),
            ("host", ReleaseWord::Host),
            ("gpu", ReleaseWord::Gpu),
        ] {
            assert_eq!(text.parse(), Ok(word));
        }
        for text in ["", "GPU", "bar1"] {
            let wrong = text.parse::<ReleaseWord>();
            assert_eq!(wrong, Err(Error::Word(text.to_owned())));
        }
    }

    #[test]
    fn holders_that_zernel_cannot_end_keep_to_the_lease() {
        let ms = Duration::from_millis;
        let (short, long) = (ms(1), ms(9_000));
        for (word, usual, most) in [
            (ReleaseWord::Auto, ms(15), long),
            (ReleaseWord::Host, ms(15), long),
            (ReleaseWord::Gpu, ms(10), ms(10)),
        ] {
            let options = Options::default().release_word(word);
            assert_eq!(options.bounds_of(Some(ms(10))), (usual, Duration::ZERO));
            let options = options.linger(long).bound(long);
            assert_eq!(options.bounds_of(Some(ms(10))), (most, most));
            let options = options.linger(short).bound(short);
            assert_eq!(options.bounds_of(Some(ms(10))), (short, short));
        }
        // A lease that cannot be read is the shortest that there may be.
        let us = Duration::from_micros;
        for (word, bound) in [(ReleaseWord::Host, ms(150)), (ReleaseWord::Gpu, us(100))] {
            let options = Options::default().release_word(word);
            assert_eq!(options.bounds_of(None), (bound, Duration::ZERO));
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let usual = Options::default();
        assert_eq!(usual.check(), Ok(()));
        for lanes in [1, 64] {
            assert_eq!(usual.clone().lanes(lanes).check(), Ok(()));
        }
        for lanes in [0, 65, u32::MAX] {
            assert_eq!(usual.clone().lanes(lanes).check(), Err(Error::Lanes(lanes)));
        }
        let long = Duration::from_nanos(10_000_000_001);
        for bound in [Duration::from_nanos(999), long] {
            let refused = Err(Error::Bound(bound.as_nanos()));
            assert_eq!(usual.clone().bound(bound).check(), refused);
        }
        assert_eq!(usual.clone().linger(Duration::ZERO).check(), Ok(()));
        let refused = Err(Error::Bound(long.as_nanos()));
        assert_eq!(usual.linger(long).check(), refused);
    }
}
