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

/// Options of a runtime.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) mode: Mode,
    pub(crate) lanes: u32,
    pub(crate) bound: Option<Duration>,
    pub(crate) linger: Duration,
    pub(crate) tsg: Option<tsg::Id>,
    pub(crate) before: Option<TsgsBefore>,
    pub(crate) library: PathBuf,
    pub(crate) device: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            lanes: 4,
            bound: None,
            linger: Duration::ZERO,
            tsg: None,
            before: None,
            library: PathBuf::from(cuda::LIBRARY),
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
    /// a holder when the lease is over; this is for when it cannot.
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

    /// Another device node than `/dev/zernel`.
    #[must_use]
    pub fn device(self, device: impl Into<PathBuf>) -> Self {
        Self {
            device: device.into(),
            ..self
        }
    }

    /// The bound of holders.
    pub(crate) fn bound_of_holders(&self) -> Duration {
        self.bound.unwrap_or_else(|| {
            let lease = lease().unwrap_or(Duration::from_millis(100));
            (lease + lease / 2).clamp(*Self::BOUNDS.start(), *Self::BOUNDS.end())
        })
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
