// SPDX-License-Identifier: GPL-2.0
//! The tunables of turns.

use super::{
    number,
    read,
    show_number,
    tune, //
    NONE,
};
use crate::{
    glue::sysfs::Attribute,
    policy::{
        rotation::Discipline,
        units::Us, //
    },
};
use kernel::{
    fmt::Write as _,
    prelude::*,
    str::Formatter, //
};

/// The order of turns.
pub(super) struct Rotation;

impl Attribute for Rotation {
    const NAME: &'static CStr = c"rotation";

    fn show(out: &mut Formatter<'_>) -> Result {
        let discipline = read(|t| t.turns().discipline())?;
        out.write_str(discipline.map_or(NONE, Discipline::name))?;
        Ok(())
    }

    fn store(text: &str) -> Result {
        let discipline = match text {
            NONE => None,
            name => Some(Discipline::named(name).ok_or(EINVAL)?),
        };
        tune(|t| {
            t.turns_mut().set_discipline(discipline);
            Ok(())
        })
    }
}

/// The length of a turn.
pub(super) struct Quantum;

impl Attribute for Quantum {
    const NAME: &'static CStr = c"rotation_quantum_us";

    fn show(out: &mut Formatter<'_>) -> Result {
        let quantum = read(|t| t.turns().quantum().length())?.0 / 1000;
        show_number(out, u32::try_from(quantum).unwrap_or(u32::MAX))
    }

    fn store(text: &str) -> Result {
        let quantum = Us(number(text)?);
        tune(|t| t.turns_mut().set_quantum(quantum))
    }
}

/// The slice of a TSG that takes turns.
pub(super) struct Timeslice;

impl Attribute for Timeslice {
    const NAME: &'static CStr = c"rotation_timeslice_us";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.turns().timeslice())?.0)
    }

    fn store(text: &str) -> Result {
        let slice = Us(number(text)?);
        tune(|t| t.turns_mut().set_timeslice(slice))
    }
}

/// The interval of looks at TSGs whose driver does not tell of their activity.
pub(super) struct Poll;

impl Attribute for Poll {
    const NAME: &'static CStr = c"activity_poll_us";

    fn show(out: &mut Formatter<'_>) -> Result {
        show_number(out, read(|t| t.turns().poll())?.0)
    }

    fn store(text: &str) -> Result {
        let interval = Us(number(text)?);
        tune(|t| t.turns_mut().set_poll(interval))
    }
}
