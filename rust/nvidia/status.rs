// SPDX-License-Identifier: GPL-2.0
//! The meaning of an `NV_STATUS` of NVIDIA's driver to zernel.
//!
//! The numbers are those of the driver's public `nvstatuscodes.h`. Those that are named here mean
//! the same in 550 and 595.

/// An answer of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) u32);

/// The meaning of an answer to a call about a TSG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It is done.
    Done,
    /// The TSG is gone; asking again would only fill the log.
    Gone,
    /// Nothing was done for the GPU, and later it may be.
    NotNow,
    /// Nothing was done for this TSG, and later it may be.
    Busy,
    /// Nothing was done, and the same will never be.
    Refused,
    /// The GPU did not answer in time; it may be done or not.
    TimedOut,
    /// The GPU or the driver failed; it may be done or not.
    Failed,
}

impl Status {
    /// Success.
    pub(crate) const OK: Self = Self(0x00);
    /// System is busy.
    pub(crate) const BUSY_RETRY: Self = Self(0x03);
    /// The GPU is being reset.
    pub(crate) const GPU_IN_FULLCHIP_RESET: Self = Self(0x10);
    /// The GPU is in a state of low power.
    pub(crate) const GPU_NOT_FULL_POWER: Self = Self(0x11);
    /// The caller may not; a kernel caller may everything that the driver supports at all.
    pub(crate) const INSUFFICIENT_PERMISSIONS: Self = Self(0x1b);
    /// Malformed or refused parameters; also the wrong size of them.
    pub(crate) const INVALID_ARGUMENT: Self = Self(0x1f);
    /// No such client.
    pub(crate) const INVALID_CLIENT: Self = Self(0x23);
    /// No such control.
    pub(crate) const INVALID_COMMAND: Self = Self(0x24);
    /// No such device of the client.
    pub(crate) const INVALID_DEVICE: Self = Self(0x26);
    /// A number out of range.
    pub(crate) const INVALID_LIMIT: Self = Self(0x2e);
    /// The object has lost its resource.
    pub(crate) const INVALID_OBJECT: Self = Self(0x31);
    /// No such handle.
    pub(crate) const INVALID_OBJECT_HANDLE: Self = Self(0x33);
    /// Nothing of this kind above the object.
    pub(crate) const INVALID_OBJECT_PARENT: Self = Self(0x36);
    /// Malformed parameters.
    pub(crate) const INVALID_PARAM_STRUCT: Self = Self(0x3a);
    /// A refused parameter.
    pub(crate) const INVALID_PARAMETER: Self = Self(0x3b);
    /// This GPU, or an object of this class, has no such control.
    pub(crate) const NOT_SUPPORTED: Self = Self(0x56);
    /// No such object.
    pub(crate) const OBJECT_NOT_FOUND: Self = Self(0x57);
    /// A value out of range.
    pub(crate) const OUT_OF_RANGE: Self = Self(0x5b);
    /// The GPU did not answer in time.
    pub(crate) const TIMEOUT: Self = Self(0x65);
    /// The GPU did not answer in time, but is expected to be all right.
    pub(crate) const TIMEOUT_RETRY: Self = Self(0x66);
    /// A feature that is off.
    pub(crate) const FEATURE_NOT_ENABLED: Self = Self(0x6d);
    /// The resource behind the object was destroyed.
    pub(crate) const RESOURCE_LOST: Self = Self(0x6e);
    /// Keys of a confidential GPU are being exchanged.
    pub(crate) const KEY_ROTATION_IN_PROGRESS: Self = Self(0x7d);
    /// No answer: the value of a status before the driver has written it.
    pub(crate) const NONE: Self = Self(0xffff);
    /// Nothing had to be done.
    pub(crate) const NOTHING_TO_DO: Self = Self(0x1_0006);

    /// True if the driver does not have the control, or not for the kernel, of any object.
    pub(crate) fn lacks_control(self) -> bool {
        matches!(
            self,
            Self::INSUFFICIENT_PERMISSIONS
                | Self::INVALID_COMMAND
                | Self::INVALID_PARAM_STRUCT
                | Self::NOT_SUPPORTED
                | Self::FEATURE_NOT_ENABLED
        )
    }

    /// Its meaning.
    ///
    /// Any other one (a lost GPU, 0x0f, one that must be reset, 0x62, a wrong state, 0x40) may have
    /// happened half-way, so it is a failure: the driver's settings are unknown then. Want of
    /// memory in the driver, 0x51 and 0x1a, is one too: asking again and again would keep the other
    /// TSGs of the GPU waiting. So are 0x17, 0x55 and 0x63, which say that an object is in use or
    /// not ready: that may never change. Repeated errors concern the whole GPU, and pass.
    pub(crate) fn meaning(self) -> Meaning {
        match self {
            Self::OK | Self::NOTHING_TO_DO => Meaning::Done,
            Self::INVALID_CLIENT
            | Self::INVALID_DEVICE
            | Self::INVALID_OBJECT
            | Self::INVALID_OBJECT_HANDLE
            | Self::INVALID_OBJECT_PARENT
            | Self::OBJECT_NOT_FOUND
            | Self::RESOURCE_LOST => Meaning::Gone,
            Self::BUSY_RETRY => Meaning::Busy,
            Self::GPU_IN_FULLCHIP_RESET
            | Self::GPU_NOT_FULL_POWER
            | Self::KEY_ROTATION_IN_PROGRESS => Meaning::NotNow,
            Self::INSUFFICIENT_PERMISSIONS
            | Self::INVALID_ARGUMENT
            | Self::INVALID_COMMAND
            | Self::INVALID_LIMIT
            | Self::INVALID_PARAM_STRUCT
            | Self::INVALID_PARAMETER
            | Self::NOT_SUPPORTED
            | Self::OUT_OF_RANGE
            | Self::FEATURE_NOT_ENABLED => Meaning::Refused,
            Self::TIMEOUT | Self::TIMEOUT_RETRY => Meaning::TimedOut,
            _ => Meaning::Failed,
        }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_nvidia_status))]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_told_apart() {
        let expected = [
            (0x00, Meaning::Done),
            (0x23, Meaning::Gone),
            (0x33, Meaning::Gone),
            (0x57, Meaning::Gone),
            (0x03, Meaning::Busy),
            (0x10, Meaning::NotNow),
            (0x11, Meaning::NotNow),
            (0x7d, Meaning::NotNow),
            (0x1f, Meaning::Refused),
            (0x56, Meaning::Refused),
            (0x5b, Meaning::Refused),
            (0x65, Meaning::TimedOut),
            (0x66, Meaning::TimedOut),
            (0x0f, Meaning::Failed),
            (0x17, Meaning::Failed),
            (0x40, Meaning::Failed),
            (0x51, Meaning::Failed),
            (0x55, Meaning::Failed),
            (0x62, Meaning::Failed),
            (0x63, Meaning::Failed),
            (0xffff, Meaning::Failed),
        ];
        for (number, meaning) in expected {
            assert_eq!(Status(number).meaning(), meaning);
        }
        // Two that any object would get.
        for (number, is_lacking) in [(0x56, true), (0x1b, true), (0x00, false), (0x57, false)] {
            assert_eq!(Status(number).lacks_control(), is_lacking);
        }
    }

    #[test]
    fn only_success_is_success() {
        let mut done = 0;
        for number in 0..0x2_0000 {
            if Status(number).meaning() == Meaning::Done {
                assert!(number == 0 || number == 0x1_0006);
                done += 1;
            }
        }
        assert_eq!(done, 2);
        assert_eq!(Status(u32::MAX).meaning(), Meaning::Failed);
    }

    #[test]
    fn no_answer_is_none() {
        assert_eq!(Status::NONE.meaning(), Meaning::Failed);
    }
}
