// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a request when it begins, and zernel's answer.

use std::time::Duration;

use bytemuck::Zeroable;
use serde::Serialize;

use super::Number;
use crate::sys::abi;
use crate::time::saturating_ns;
use crate::{tsg, Error, Result, Timestamp};

/// Numbers that the preparation time of a request depends on: bytes, operations, a batch size.
///
/// The unit is the caller's; each number is always at the same place for a key. They count while the
/// tunable `predictor` is `features`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features {
    numbers: [i64; Self::MAX],
    count: usize,
}

impl Features {
    /// Their largest number.
    pub const MAX: usize = abi::ZERNEL_FEATURES_MAX as usize;

    /// These numbers; `None` if they are more than [`Self::MAX`].
    pub fn new(numbers: &[i64]) -> Option<Self> {
        let mut features = Self::default();
        features
            .numbers
            .get_mut(..numbers.len())?
            .copy_from_slice(numbers);
        features.count = numbers.len();
        Some(features)
    }
}

/// A request that is to begin; the same can be used for each of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    tsg: tsg::Id,
    key: u64,
    expected_ns: u64,
    slo_ns: u64,
    flags: u32,
    features: Option<Features>,
    /// Its burst, 0 if not known, where its deadline is to be promised.
    admit: Option<u64>,
}

impl Begin {
    /// A request that the TSG will run, of which nothing else is known.
    pub const fn new(tsg: tsg::Id) -> Self {
        Self {
            tsg,
            key: 0,
            expected_ns: 0,
            slo_ns: 0,
            flags: 0,
            features: None,
            admit: None,
        }
    }

    /// The key of its preparation time, such as the model and the batch size.
    #[must_use]
    pub const fn key(self, key: u64) -> Self {
        Self { key, ..self }
    }

    /// The expected time of its preparation. It is used while the key has no history, and with
    /// [`Self::exact`].
    #[must_use]
    pub const fn expected(self, expected: Duration) -> Self {
        Self {
            expected_ns: saturating_ns(expected),
            ..self
        }
    }

    /// Taking longer than this, from now to done, counts as a violation.
    #[must_use]
    pub const fn slo(self, slo: Duration) -> Self {
        Self {
            slo_ns: saturating_ns(slo),
            ..self
        }
    }

    /// The features of its preparation. A module without [`features`](crate::Capabilities::features)
    /// refuses them.
    #[must_use]
    pub const fn features(self, features: Features) -> Self {
        Self {
            features: Some(features),
            ..self
        }
    }

    /// It begins only if zernel promises that it is done within [`Self::slo`] ([`Error::Late`]). A module
    /// without [`admit`](crate::Capabilities::admit) refuses it.
    ///
    /// `burst`: its expected time on the GPU, from the end of the switch to done, used while the key has
    /// no history of that; zero: not known, which is `ENODATA` then.
    ///
    /// The tunable `order` is `edf`, the TSG has a class above best-effort, and *ready* and *done* are told by
    /// calls ([`Slot::ready_call`](super::Slot::ready_call)).
    #[must_use]
    pub const fn admit(self, burst: Duration) -> Self {
        Self {
            admit: Some(saturating_ns(burst)),
            ..self
        }
    }

    /// Its preparation takes exactly as long as expected: history is not asked.
    #[must_use]
    pub const fn exact(self) -> Self {
        self.with_flag(abi::ZERNEL_REQUEST_EXACT)
    }

    /// The stream has no holder: from the trigger to ready, which must be told by a call then, zernel
    /// keeps every TSG off the GPU that is less urgent.
    #[must_use]
    pub const fn without_holder(self) -> Self {
        self.with_flag(abi::ZERNEL_REQUEST_NO_HOLDER)
    }

    /// The gate of its slot counts ([`Gate`](super::Gate)), which is armed before the request begins. It
    /// takes a holder: `EINVAL` [without one](Self::without_holder), and by a module older than gates.
    #[must_use]
    pub const fn with_gate(self) -> Self {
        self.with_flag(abi::ZERNEL_REQUEST_GATE)
    }

    /// Without a gate.
    pub(super) const fn without_gate(self) -> Self {
        Self {
            flags: self.flags & !abi::ZERNEL_REQUEST_GATE,
            ..self
        }
    }

    const fn with_flag(self, flag: u32) -> Self {
        Self {
            flags: self.flags | flag,
            ..self
        }
    }

    /// All that is told beside the call, if anything is.
    pub(super) fn options(&self) -> Option<abi::zernel_request_options> {
        if self.features.is_none() && self.admit.is_none() {
            return None;
        }
        let features = self.features.unwrap_or_default();
        Some(abi::zernel_request_options {
            size: size_of::<abi::zernel_request_options>() as u32,
            flags: match self.admit {
                Some(_) => abi::ZERNEL_BEGIN_ADMIT,
                None => 0,
            },
            features: features.count as u32,
            feature: features.numbers,
            burst_ns: self.admit.unwrap_or(0),
            ..abi::zernel_request_options::zeroed()
        })
    }

    pub(super) fn encode(&self, slot: u32) -> abi::zernel_request_begin {
        abi::zernel_request_begin {
            tsg: self.tsg.as_u64(),
            key: self.key,
            expected_ns: self.expected_ns,
            slo_ns: self.slo_ns,
            slot,
            flags: self.flags,
            ..abi::zernel_request_begin::zeroed()
        }
    }
}

/// A request that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Begun {
    /// Its number in its slot.
    pub number: Number,
    /// The time that its preparation will take, as far as zernel can tell.
    pub predicted: Option<Duration>,
    /// When the trigger word is stored, unless the data is ready before.
    pub trigger_at: Timestamp,
}

impl TryFrom<&abi::zernel_request_begin> for Begun {
    type Error = Error;

    fn try_from(raw: &abi::zernel_request_begin) -> Result<Self> {
        let number = Number::new(raw.request).ok_or(Error::Malformed("a request of number 0"))?;
        let predicted = Duration::from_nanos(raw.predicted_ns);
        Ok(Self {
            number,
            predicted: (!predicted.is_zero()).then_some(predicted),
            trigger_at: Timestamp::from_ns(raw.trigger_at),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_is_zero() {
        let raw = Begin::new(tsg::Id::new(9)).encode(63);
        let told = abi::zernel_request_begin {
            tsg: 9,
            slot: 63,
            ..abi::zernel_request_begin::zeroed()
        };
        assert_eq!(bytemuck::bytes_of(&raw), bytemuck::bytes_of(&told));
    }

    #[test]
    fn all_that_is_told_arrives() {
        let raw = Begin::new(tsg::Id::new(9))
            .key(u64::MAX)
            .expected(Duration::from_micros(3))
            .slo(Duration::MAX)
            .exact()
            .without_holder()
            .with_gate()
            .encode(0);
        assert_eq!((raw.key, raw.expected_ns), (u64::MAX, 3_000));
        assert_eq!((raw.slo_ns, raw.flags), (u64::MAX, 7));
        assert_eq!((raw.request, raw.predicted_ns, raw.trigger_at), (0, 0, 0));
    }

    #[test]
    fn features_arrive_up_to_their_number() {
        let begin = Begin::new(tsg::Id::new(9));
        assert!(begin.options().is_none());
        let features = Features::new(&[i64::MIN, 7]).unwrap();
        let raw = begin.features(features).options().unwrap();
        assert_eq!((raw.size, raw.features, raw.burst_ns), (96, 2, 0));
        assert_eq!(raw.feature, [i64::MIN, 7, 0, 0, 0, 0, 0, 0]);
        assert_eq!((raw.flags, raw.reserved, raw.earliest_ns), (0, 0, 0));
        assert_eq!(Features::new(&[]), Some(Features::default()));
        assert!(Features::new(&[1; Features::MAX]).is_some());
        assert_eq!(Features::new(&[1; Features::MAX + 1]), None);
    }

    #[test]
    fn a_promise_can_be_asked_for() {
        let begin = Begin::new(tsg::Id::new(9)).slo(Duration::from_micros(9));
        let raw = begin.admit(Duration::from_micros(3)).options().unwrap();
        assert_eq!((raw.size, raw.flags, raw.features), (96, 1, 0));
        assert_eq!((raw.burst_ns, raw.earliest_ns), (3_000, 0));
        let unknown = begin.admit(Duration::ZERO).options().unwrap();
        assert_eq!((unknown.flags, unknown.burst_ns), (1, 0));
        // Nothing of it is in the call itself.
        assert_eq!(
            bytemuck::bytes_of(&begin.admit(Duration::ZERO).encode(1)),
            bytemuck::bytes_of(&begin.encode(1))
        );
    }

    #[test]
    fn a_gate_can_be_left_out() {
        let begin = Begin::new(tsg::Id::new(9)).exact();
        assert_eq!(begin.with_gate().without_gate(), begin);
        assert_eq!(begin.without_gate(), begin);
    }

    #[test]
    fn no_prediction_is_none_and_no_number_is_refused() {
        let mut raw = abi::zernel_request_begin::zeroed();
        assert!(matches!(Begun::try_from(&raw), Err(Error::Malformed(_))));
        (raw.request, raw.trigger_at) = (1, 50);
        let begun = Begun::try_from(&raw).unwrap();
        assert_eq!((begun.number.get(), begun.predicted), (1, None));
        assert_eq!(begun.trigger_at.as_ns(), 50);
        raw.predicted_ns = 7;
        let begun = Begun::try_from(&raw).unwrap();
        assert_eq!(begun.predicted, Some(Duration::from_nanos(7)));
    }
}
