// SPDX-License-Identifier: GPL-2.0
//! The header's numbers for changes by owners, and for their answers.

use crate::{
    glue::provider_abi as raw,
    policy::control::{
        Change,
        Verdict, //
    },
};

/// The change of this number in the header. One that the header has not is taken for a setting.
pub(crate) fn change_of(what: u32) -> Change {
    match what {
        raw::ZERNEL_USER_SCHEDULE => Change::Schedule,
        raw::ZERNEL_USER_START => Change::Start,
        _ => Change::Setting,
    }
}

/// The number of an answer in the header.
pub(crate) fn answer_number(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Allow => raw::ZERNEL_USER_ALLOW,
        Verdict::Deny => raw::ZERNEL_USER_DENY,
        Verdict::Watch | Verdict::Reapply => raw::ZERNEL_USER_REAPPLY,
    }
}
