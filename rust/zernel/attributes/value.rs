// SPDX-License-Identifier: GPL-2.0
//! Values of tunables as text.

use crate::{
    error::refused,
    policy::{
        nice::Delta,
        tunables::{
            Refused,
            Tunables, //
        },
    },
    registry,
};
use kernel::{
    fmt::Write as _,
    prelude::*,
    str::Formatter, //
};

/// Level, time slice and count are shown as plain numbers, an absent one as this word.
pub(super) const NONE: &str = "none";

pub(super) fn read<T>(get: impl FnOnce(&Tunables) -> T) -> Result<T> {
    registry::with(|r| get(r.tunables()))
}

pub(super) fn tune(change: impl FnOnce(&mut Tunables) -> Result<(), Refused>) -> Result {
    // Waits until now count for the classes that there were.
    registry::requests::count_all_starts()?;
    registry::with(|r| r.tune(change))?.map_err(refused)
}

pub(super) fn number(text: &str) -> Result<u32> {
    match text.parse::<u32>() {
        Ok(n) => Ok(n),
        Err(e) => Err(match e.kind() {
            core::num::IntErrorKind::PosOverflow => ERANGE,
            _ => EINVAL,
        }),
    }
}

pub(super) fn switch(text: &str) -> Result<bool> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(EINVAL),
    }
}

pub(super) fn show_number(out: &mut Formatter<'_>, n: u32) -> Result {
    out.write_fmt(fmt!("{}", n))?;
    Ok(())
}

pub(super) fn show_option(out: &mut Formatter<'_>, n: Option<u32>) -> Result {
    match n {
        Some(n) => show_number(out, n),
        None => {
            out.write_str(NONE)?;
            Ok(())
        }
    }
}

pub(super) fn signed(text: &str) -> Result<i32> {
    text.parse::<i32>().map_err(|e| match e.kind() {
        core::num::IntErrorKind::PosOverflow | core::num::IntErrorKind::NegOverflow => ERANGE,
        _ => EINVAL,
    })
}

pub(super) fn delta(text: &str) -> Result<Delta> {
    Delta::new(signed(text)?).ok_or(ERANGE)
}

pub(super) fn show_delta(out: &mut Formatter<'_>, delta: Delta) -> Result {
    out.write_fmt(fmt!("{}", delta.number()))?;
    Ok(())
}
