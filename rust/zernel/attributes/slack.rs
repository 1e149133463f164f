// SPDX-License-Identifier: GPL-2.0
//! The tunables of slices that follow the slack of a TSG.

use super::{
    number,
    read,
    show_number,
    tune, //
};
use crate::{
    glue::sysfs::Attribute,
    policy::slices::slack::Terms, //
};
use kernel::{
    prelude::*,
    str::Formatter, //
};

/// A number of them: slices from 0 on, thresholds from 3 on, 5 the credit, 6 the quantum.
pub(super) struct Of<const WHICH: usize>;

impl<const WHICH: usize> Of<WHICH> {
    /// Gives it a value, if there is a new one. Returns it.
    fn number(terms: &mut Terms, new: Option<u32>) -> u32 {
        let number = match WHICH {
            0 => &mut terms.late.0,
            1 => &mut terms.soon.0,
            2 => &mut terms.early.0,
            3 => &mut terms.late_below.0,
            4 => &mut terms.soon_below.0,
            5 => &mut terms.credit.0,
            _ => &mut terms.quantum.0,
        };
        *number = new.unwrap_or(*number);
        *number
    }
}

impl<const WHICH: usize> Attribute for Of<WHICH> {
    const NAME: &'static CStr = [
        c"slack_late_us",
        c"slack_soon_us",
        c"slack_early_us",
        c"slack_late_permille",
        c"slack_soon_permille",
        c"slack_credit_us",
        c"slack_quantum_us",
    ][WHICH];

    fn show(out: &mut Formatter<'_>) -> Result {
        let mut terms = read(|t| t.slices().slack().terms())?;
        show_number(out, Self::number(&mut terms, None))
    }

    fn store(text: &str) -> Result {
        let number = number(text)?;
        tune(|t| {
            let mut terms = t.slices().slack().terms();
            Self::number(&mut terms, Some(number));
            t.slices_mut().slack_mut().set_terms(terms)
        })
    }
}
