// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pace of a loader: how many batches it has to be ahead, as its consumer computes and as loads take
//! their time.
//!
//! A batch that takes as long to load as the consumer computes on one and a half has to be begun two
//! batches ahead, and one more is in the consumer's hands. Both times are the loader's own measures. As
//! long as zernel tells of the process ([`Signals`]), its computation counts in place of the own one, and
//! its lead where that is longer than the own load.

use std::fmt;
use std::time::Duration;

use libzernel::event::{EventStream, Kind, Wanted};
use libzernel::loader::Pace as Source;
use libzernel::{Target, Zernel};

/// A prefetch signal of the process that computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// The predicted time of a computation.
    pub compute: Duration,
    /// The predicted time that loading needs.
    pub lead: Duration,
}

/// Prefetch signals, as they come.
pub trait Signals: fmt::Debug + Send {
    /// Takes those since the last call, without waiting: their number, and the last one.
    fn take(&mut self) -> (u64, Option<Signal>);
}

/// Those of zernel for this process, which is to be tracked with its phases.
#[derive(Debug)]
pub struct OfZernel(EventStream);

impl OfZernel {
    /// From now on.
    ///
    /// # Errors
    ///
    /// Without the module, [`libzernel::Cause::NoDevice`]: the loader goes by its own measures then.
    pub fn new() -> Result<Self, libzernel::Error> {
        let me = Target::current_process();
        let wanted = Wanted::only(&[Kind::Signal]).of(&me).keep(16);
        EventStream::open_at(Zernel::PATH, &wanted).map(Self)
    }
}

impl Signals for OfZernel {
    fn take(&mut self) -> (u64, Option<Signal>) {
        let (mut count, mut last) = (0, None);
        // The stream keeps 16; one that is written to faster than it is read does not keep this here.
        while count < 64 {
            // A stream that fails tells nothing any more.
            let Ok(Some(event)) = self.0.next_within(Some(Duration::ZERO)) else {
                break;
            };
            count += 1;
            last = event.signal.or(last);
        }
        let signal = last.map(|signal| Signal {
            compute: Duration::from_nanos(signal.predicted_ns),
            lead: Duration::from_nanos(signal.lead_ns),
        });
        (count, signal)
    }
}

/// Batches without a signal after which the last one says nothing any more.
const SIGNAL_LASTS: u32 = 8;

/// The times of a loader.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    /// The consumer's time for a batch.
    compute: Option<Duration>,
    /// The time of a load.
    load: Option<Duration>,
    told: Option<Signal>,
    /// Batches since that.
    batches: u32,
}

impl Pace {
    /// Nothing is known.
    pub const fn new() -> Self {
        Self {
            compute: None,
            load: None,
            told: None,
            batches: 0,
        }
    }

    /// The consumer took so long for a batch, from its hand-over to asking for the next.
    pub fn computed(&mut self, took: Duration) {
        self.compute = Some(follow(self.compute, took, Shorter::AtOnce));
        self.batches = self.batches.saturating_add(1);
        if self.batches > SIGNAL_LASTS {
            self.told = None;
        }
    }

    /// A load took so long.
    pub fn loaded(&mut self, took: Duration) {
        self.load = Some(follow(self.load, took, Shorter::Slowly));
    }

    /// zernel tells of the process. A signal without a time says nothing.
    pub fn signalled(&mut self, signal: Signal) {
        if !signal.compute.is_zero() && !signal.lead.is_zero() {
            (self.told, self.batches) = (Some(signal), 0);
        }
    }

    /// The source of the depth.
    pub(crate) fn source(&self) -> Source {
        match self.told {
            Some(_) => Source::Zernel,
            None => Source::Own,
        }
    }

    /// Batches that are to be loaded ahead, 1 to `most`; `most` while nothing is known.
    pub fn depth(&self, most: usize) -> usize {
        let most = most.max(1);
        let told = self.told;
        // Loads of the process that are not this loader's may be shorter: its own stand against them.
        let load = told.map(|signal| signal.lead).max(self.load);
        let compute = told.map(|signal| signal.compute).or(self.compute);
        let Some((compute, load)) = compute.zip(load) else {
            return most;
        };
        let depth = match compute.as_nanos() {
            0 => return most,
            compute => load.as_nanos().div_ceil(compute).saturating_add(1),
        };
        usize::try_from(depth).unwrap_or(most).min(most)
    }
}

/// The way in which an estimate follows shorter times. To longer ones it goes the other way, so that the
/// depth is too large rather than too small.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shorter {
    AtOnce,
    Slowly,
}

/// An eighth of the way, or all of it.
fn follow(known: Option<Duration>, new: Duration, shorter: Shorter) -> Duration {
    match known {
        Some(known) if (new < known) == (shorter == Shorter::Slowly) => {
            let eighth = new.abs_diff(known) / 8;
            match new < known {
                true => known - eighth,
                false => known + eighth,
            }
        }
        _ => new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn pace(compute: u64, load: u64) -> Pace {
        let mut pace = Pace::new();
        pace.computed(ms(compute));
        pace.loaded(ms(load));
        pace
    }

    #[test]
    fn nothing_known_is_the_most() {
        let mut pace = Pace::new();
        assert_eq!(pace.depth(4), 4);
        pace.loaded(ms(1));
        assert_eq!((pace.depth(4), pace.depth(0)), (4, 1));
        assert_eq!(self::pace(0, 1).depth(4), 4);
    }

    #[test]
    fn it_is_ahead_by_the_time_of_a_load() {
        for (compute, load, depth) in [
            (10, 0, 1),
            (10, 1, 2),
            (10, 10, 2),
            (10, 11, 3),
            (10, 25, 4),
            (10, 1_000, 16),
            (10_000, 1, 2),
        ] {
            assert_eq!(pace(compute, load).depth(16), depth, "{compute} {load}");
        }
    }

    #[test]
    fn it_grows_at_once_and_shrinks_slowly() {
        let mut pace = pace(10, 10);
        pace.loaded(ms(80));
        assert_eq!(pace.depth(16), 9);
        pace.loaded(ms(10));
        assert_eq!(pace.depth(16), 9);
        for _ in 0..40 {
            pace.loaded(ms(10));
        }
        assert_eq!(pace.depth(16), 3);
        pace.computed(ms(2));
        assert!(pace.depth(16) >= 6);
        for _ in 0..40 {
            pace.computed(ms(20));
        }
        assert_eq!(pace.depth(16), 2);
    }

    #[test]
    fn a_signal_counts_until_it_is_old() {
        let mut pace = pace(10, 10);
        pace.signalled(Signal {
            compute: ms(10),
            lead: ms(35),
        });
        assert_eq!(pace.depth(16), 5);
        for _ in 0..SIGNAL_LASTS {
            pace.computed(ms(10));
            assert_eq!(pace.depth(16), 5);
        }
        pace.computed(ms(10));
        assert_eq!(pace.depth(16), 2);
        for (compute, lead) in [(0, 1), (1, 0)] {
            let (compute, lead) = (ms(compute), ms(lead));
            pace.signalled(Signal { compute, lead });
            assert_eq!(pace.depth(16), 2);
        }
    }

    #[test]
    fn a_lead_below_the_own_load_does_not_count() {
        let mut pace = pace(20, 40);
        pace.signalled(Signal {
            compute: ms(10),
            lead: ms(1),
        });
        assert_eq!(pace.depth(16), 5);
        // Without an own load there is nothing else.
        let mut pace = Pace::new();
        pace.signalled(Signal {
            compute: ms(10),
            lead: ms(1),
        });
        assert_eq!(pace.depth(16), 2);
    }

    #[test]
    fn no_times_overflow() {
        let longest = Duration::MAX;
        for (compute, load) in [
            (longest, longest),
            (Duration::from_nanos(1), longest),
            (longest, Duration::ZERO),
        ] {
            let mut pace = Pace::new();
            for _ in 0..3 {
                pace.computed(compute);
                pace.loaded(load);
                assert!((1..=4).contains(&pace.depth(4)));
                pace.signalled(Signal {
                    compute,
                    lead: load,
                });
                assert!((1..=4).contains(&pace.depth(4)));
            }
        }
    }

    #[test]
    fn without_the_module_there_are_no_signals() {
        if !std::path::Path::new(Zernel::PATH).exists() {
            let cause = OfZernel::new().err().map(|error| error.cause());
            assert_eq!(cause, Some(libzernel::Cause::NoDevice));
        }
    }
}
